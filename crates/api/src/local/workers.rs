//! Remote workers, which this process acts for.

use async_trait::async_trait;
use goldseam::unstable::core::NodeId;
use goldseam::unstable::engine::remote::wire::{
    Append, Appended, Beaten, Claim, Claimed, Events, Heartbeat, News, Register, Registered,
};

use super::{LocalApi, open_queue};
use crate::api::{ApiResult, WorkersApi};
use crate::caller::Caller;
use crate::doc::worker::LeftWorkerDoc;

#[async_trait]
impl WorkersApi for LocalApi {
    async fn register_worker(&self, caller: &Caller, new: Register) -> ApiResult<Registered> {
        new.queues_taken().iter().try_for_each(open_queue)?;
        Ok(self.workers.register_for(&caller.holder(), new).await?)
    }

    async fn remove_worker(&self, caller: &Caller, worker: &NodeId) -> ApiResult<LeftWorkerDoc> {
        // Node ids are not secret, so a worker is checked against the key that registered it, here and below.
        self.workers.is_held_by(&caller.holder(), worker)?;
        self.workers.leave(worker).await?;
        Ok(LeftWorkerDoc { worker: worker.clone() })
    }

    async fn heartbeat_worker(&self, caller: &Caller, worker: &NodeId, beat: Heartbeat) -> ApiResult<Beaten> {
        self.workers.is_held_by(&caller.holder(), worker)?;
        Ok(self.workers.heartbeat(worker, beat).await?)
    }

    async fn claim_executions(&self, caller: &Caller, worker: &NodeId, claim: Claim) -> ApiResult<Claimed> {
        self.workers.is_held_by(&caller.holder(), worker)?;
        Ok(self.workers.claim(worker, claim).await?)
    }

    async fn append_to_execution(&self, caller: &Caller, append: Append) -> ApiResult<Appended> {
        Ok(self.workers.append_for(&caller.holder(), append).await?)
    }

    async fn read_execution(&self, caller: &Caller, events: Events) -> ApiResult<News> {
        Ok(self.workers.events_for(&caller.holder(), events).await?)
    }
}
