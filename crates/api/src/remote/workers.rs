//! Remote workers over HTTP. The server takes the caller's rights from its key, not from the request.

use std::time::Duration;

use async_trait::async_trait;
use goldseam::unstable::core::NodeId;
use goldseam::unstable::engine::remote::wire::{
    Append, Appended, Beaten, Claim, Claimed, Events, Heartbeat, News, Register, Registered,
};

use super::RemoteApi;
use super::http::{HttpRequest, segment};
use crate::api::{ApiResult, WorkersApi};
use crate::caller::Caller;
use crate::doc::worker::LeftWorkerDoc;

fn worker_path(worker: &NodeId, verb: &str) -> String {
    format!("/v1/workers/{}/{verb}", segment(worker.as_str()))
}

#[async_trait]
impl WorkersApi for RemoteApi {
    async fn register_worker(&self, caller: &Caller, new: Register) -> ApiResult<Registered> {
        self.send(self.change(caller, "/v1/workers", &new)?.not_repeatable()).await
    }

    async fn remove_worker(&self, _: &Caller, worker: &NodeId) -> ApiResult<LeftWorkerDoc> {
        self.send(HttpRequest::delete(format!("/v1/workers/{}", segment(worker.as_str())))).await
    }

    async fn heartbeat_worker(&self, caller: &Caller, worker: &NodeId, beat: Heartbeat) -> ApiResult<Beaten> {
        let wait = Duration::from_millis(beat.wait_ms);
        self.send(self.change(caller, worker_path(worker, "heartbeat"), &beat)?.waiting(wait)).await
    }

    async fn claim_executions(&self, caller: &Caller, worker: &NodeId, claim: Claim) -> ApiResult<Claimed> {
        let wait = Duration::from_millis(claim.wait_ms);
        let request = self.change(caller, worker_path(worker, "claim"), &claim)?;
        // Not repeated if the response is lost: the worker's next claim gets the same executions.
        self.send(request.waiting(wait).not_repeatable()).await
    }

    async fn append_to_execution(&self, caller: &Caller, append: Append) -> ApiResult<Appended> {
        self.post(caller, "/v1/executions/append", &append).await
    }

    async fn read_execution(&self, caller: &Caller, events: Events) -> ApiResult<News> {
        self.post(caller, "/v1/executions/events", &events).await
    }
}
