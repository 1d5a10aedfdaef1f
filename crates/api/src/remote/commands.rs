//! Starting runs and changing them over HTTP.

use async_trait::async_trait;
use goldseam::{Path, RunId};

use super::Remote;
use super::http::{run_path, segment};
use crate::api::{Answer, CommandsApi};
use crate::caller::Caller;
use crate::doc::change::{
    Answered, Branched, Done, Jumped, NewAnswer, NewJump, NewMigration, NewSignal, Reason, Resumed, Signalled,
};
use crate::doc::ending::{Cancelled, NewRetry, NewWithdrawal, Terminated, Withdrawn};
use crate::doc::run::{NewRun, Started};

#[async_trait]
impl CommandsApi for Remote {
    async fn start(&self, caller: &Caller, new: NewRun) -> Answer<Started> {
        self.post(caller, "/v1/runs", &new).await
    }

    async fn signal(&self, caller: &Caller, run: &RunId, new: NewSignal) -> Answer<Signalled> {
        self.post(caller, run_path(run, "signal"), &new).await
    }

    async fn answer(
        &self,
        caller: &Caller,
        run: &RunId,
        question: &Path,
        new: NewAnswer,
    ) -> Answer<Answered> {
        let new = NewAnswer { by: new.by.or_else(|| caller.who.clone()), ..new };
        let verb = format!("questions/{}/answer", segment(question.as_str()));
        self.post(caller, run_path(run, &verb), &new).await
    }

    async fn pause(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Done> {
        self.post_reason(caller, run, "pause", reason).await
    }

    async fn resume(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Resumed> {
        self.post_reason(caller, run, "resume", reason).await
    }

    async fn cancel(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Cancelled> {
        self.post_reason(caller, run, "cancel", reason).await
    }

    async fn terminate(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Terminated> {
        self.post_reason(caller, run, "terminate", reason).await
    }

    async fn withdraw(&self, caller: &Caller, run: &RunId, new: NewWithdrawal) -> Answer<Withdrawn> {
        let new = NewWithdrawal { by: new.by.or_else(|| caller.who.clone()), ..new };
        self.post(caller, run_path(run, "withdraw"), &new).await
    }

    async fn jump(&self, caller: &Caller, run: &RunId, new: NewJump) -> Answer<Jumped> {
        let new = NewJump { by: new.by.or_else(|| caller.who.clone()), ..new };
        self.post(caller, run_path(run, "jump"), &new).await
    }

    async fn retry(&self, caller: &Caller, run: &RunId, new: NewRetry) -> Answer<Done> {
        let new = NewRetry { by: new.by.or_else(|| caller.who.clone()), ..new };
        self.post(caller, run_path(run, "retry"), &new).await
    }

    async fn requeue(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Done> {
        self.post_reason(caller, run, "requeue", reason).await
    }

    async fn migrate(&self, caller: &Caller, run: &RunId, new: NewMigration) -> Answer<Done> {
        let new = NewMigration { by: new.by.or_else(|| caller.who.clone()), ..new };
        self.post(caller, run_path(run, "migrate"), &new).await
    }

    async fn reset(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Branched> {
        self.post_reason(caller, run, "reset", reason).await
    }

    async fn annotate(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Done> {
        self.post_reason(caller, run, "note", reason).await
    }
}
