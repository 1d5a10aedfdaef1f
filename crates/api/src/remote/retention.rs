//! Pruning through a server.

use async_trait::async_trait;

use super::http::HttpRequest;
use super::{EXAMINATION_MAX, RemoteApi};
use crate::api::{ApiResult, RetentionApi};
use crate::caller::Caller;
use crate::doc::retention::{NewPrune, PrunePlanDoc, PruneQuery, PrunedDoc};

#[async_trait]
impl RetentionApi for RemoteApi {
    async fn plan_prune(&self, query: PruneQuery) -> ApiResult<PrunePlanDoc> {
        self.send(HttpRequest::get("/v1/prune", &query)?.waiting(EXAMINATION_MAX)).await
    }
}

impl RemoteApi {
    /// Archives runs that ended long ago into the server's archive and replaces each log by a tombstone. A repeat after
    /// a lost response is harmless: pruned runs are not pruned again, but the response does not list them.
    pub async fn prune(&self, caller: &Caller, new: &NewPrune) -> ApiResult<PrunedDoc> {
        let new = NewPrune { by: new.by.clone().or_else(|| caller.who.clone()), ..new.clone() };
        self.send(self.change(caller, "/v1/prune", &new)?.waiting(EXAMINATION_MAX)).await
    }
}
