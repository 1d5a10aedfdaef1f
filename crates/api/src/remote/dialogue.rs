//! Published values and requests over HTTP.

use std::time::Duration;

use async_trait::async_trait;
use goldseam::RunId;

use super::RemoteApi;
use super::http::{HttpRequest, NO_QUERY, run_path, segment};
use crate::api::{ApiResult, DialogueApi};
use crate::caller::Caller;
use crate::doc::dialogue::{NewRequest, PublishedDoc, ReplyQuery, RequestedDoc};
use crate::doc::{ItemsDoc, WAIT_MS_MAX};

#[async_trait]
impl DialogueApi for RemoteApi {
    async fn published_all(&self, run: &RunId) -> ApiResult<ItemsDoc<PublishedDoc>> {
        self.get(run_path(run, "published"), NO_QUERY).await
    }

    async fn published(&self, run: &RunId, name: &str) -> ApiResult<PublishedDoc> {
        self.get(run_path(run, &format!("published/{}", segment(name))), NO_QUERY).await
    }

    async fn request(
        &self,
        caller: &Caller,
        run: &RunId,
        name: &str,
        new: NewRequest,
    ) -> ApiResult<RequestedDoc> {
        let wait = Duration::from_millis(new.wait_ms.unwrap_or(WAIT_MS_MAX));
        let path = run_path(run, &format!("requests/{}", segment(name)));
        self.send(self.change(caller, path, &new)?.waiting(wait)).await
    }

    async fn reply(&self, run: &RunId, name: &str, query: ReplyQuery) -> ApiResult<RequestedDoc> {
        let wait = Duration::from_millis(query.wait_ms.unwrap_or(0));
        let path = run_path(run, &format!("requests/{}", segment(name)));
        self.send(HttpRequest::get(path, &query)?.waiting(wait)).await
    }
}
