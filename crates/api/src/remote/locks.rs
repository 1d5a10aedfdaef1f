//! Named locks over HTTP.

use async_trait::async_trait;
use goldseam::unstable::core::LockName;
use goldseam::unstable::core::lock::Lock;
use goldseam::unstable::engine::claims::StaleLock;

use super::RemoteApi;
use super::http::{NO_QUERY, segment};
use crate::api::{ApiResult, LocksApi};
use crate::caller::Caller;
use crate::doc::lock::{LocksQuery, NewExtension, NewHold, NewRelease, ReleasedDoc};
use crate::doc::{ItemsDoc, PageDoc};

fn lock_path(lock: &LockName, verb: &str) -> String {
    format!("/v1/locks/{}/{verb}", segment(lock.as_str()))
}

#[async_trait]
impl LocksApi for RemoteApi {
    async fn locks(&self, query: LocksQuery) -> ApiResult<PageDoc<Lock>> {
        self.get("/v1/locks", &query).await
    }

    async fn lock(&self, lock: &LockName) -> ApiResult<Lock> {
        self.get(format!("/v1/locks/{}", segment(lock.as_str())), NO_QUERY).await
    }

    async fn stale_locks(&self) -> ApiResult<ItemsDoc<StaleLock>> {
        self.get("/v1/locks/stale", NO_QUERY).await
    }

    async fn acquire_lock(&self, caller: &Caller, lock: &LockName, new: NewHold) -> ApiResult<Lock> {
        self.post(caller, lock_path(lock, "acquire"), &new).await
    }

    async fn extend_lock(&self, caller: &Caller, lock: &LockName, new: NewExtension) -> ApiResult<Lock> {
        self.post(caller, lock_path(lock, "extend"), &new).await
    }

    async fn release_lock(
        &self,
        caller: &Caller,
        lock: &LockName,
        new: NewRelease,
    ) -> ApiResult<ReleasedDoc> {
        self.post(caller, lock_path(lock, "release"), &new).await
    }
}
