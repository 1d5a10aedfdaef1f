//! Pruning through a server.

use async_trait::async_trait;
use goldseam::admin::retention::PruneProgress;

use super::http::HttpRequest;
use super::{EXAMINATION_MAX, RemoteApi};
use crate::api::{ApiResult, OnPruned, RetentionApi};
use crate::caller::Caller;
use crate::doc::retention::{NewPrune, PRUNE_MAX, PrunePlanDoc, PruneQuery, PrunedDoc};

#[async_trait]
impl RetentionApi for RemoteApi {
    async fn plan_prune(&self, query: PruneQuery) -> ApiResult<PrunePlanDoc> {
        self.send(HttpRequest::get("/v1/prune", &query)?.waiting(EXAMINATION_MAX)).await
    }

    /// Prunes in batches into the archive of the server. After a lost response, the repeat prunes nothing twice, but its
    /// response does not list the runs of the first attempt.
    async fn prune(&self, caller: &Caller, new: NewPrune, progress: OnPruned<'_>) -> ApiResult<PrunedDoc> {
        let by = new.by.clone().or_else(|| caller.who.clone());
        let most = new.limit.unwrap_or(u64::MAX);
        let mut whole = PrunedDoc::default();
        loop {
            let left = most - whole.pruned.len() as u64;
            let batch = NewPrune { limit: Some(left.min(PRUNE_MAX)), by: by.clone(), ..new.clone() };
            let change = self.change(caller, "/v1/prune", &batch)?.waiting(EXAMINATION_MAX);
            let part: PrunedDoc = self.send(change).await?;
            // A batch that pruned nothing would be repeated forever.
            let has_pruned = !part.pruned.is_empty();
            whole.add(part);
            let done = whole.pruned.len() as u64;
            progress(PruneProgress { done, total: new.limit.unwrap_or(done) });
            if !whole.more || !has_pruned || done >= most {
                return Ok(whole);
            }
        }
    }
}
