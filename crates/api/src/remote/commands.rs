//! Starting runs and changing them over HTTP.

use async_trait::async_trait;
use goldseam::{Path, RunId};

use super::RemoteApi;
use super::http::{run_path, segment};
use crate::api::{ApiResult, CommandsApi};
use crate::caller::Caller;
use crate::doc::change::{
    AnsweredDoc, BranchedDoc, DoneDoc, JumpedDoc, NewAnswer, NewJump, NewMigration, NewNote, NewSignal,
    ResumedDoc, SignalledDoc,
};
use crate::doc::ending::{CancelledDoc, NewRetry, NewWithdrawal, TerminatedDoc, WithdrawnDoc};
use crate::doc::run::{NewRun, StartedDoc};

#[async_trait]
impl CommandsApi for RemoteApi {
    async fn start(&self, caller: &Caller, new: NewRun) -> ApiResult<StartedDoc> {
        self.post(caller, "/v1/runs", &new).await
    }

    async fn signal(&self, caller: &Caller, run: &RunId, new: NewSignal) -> ApiResult<SignalledDoc> {
        self.post(caller, run_path(run, "signal"), &new).await
    }

    async fn answer(
        &self,
        caller: &Caller,
        run: &RunId,
        question: &Path,
        new: NewAnswer,
    ) -> ApiResult<AnsweredDoc> {
        let new = NewAnswer { by: new.by.or_else(|| caller.who.clone()), ..new };
        let verb = format!("questions/{}/answer", segment(question.as_str()));
        self.post(caller, run_path(run, &verb), &new).await
    }

    async fn pause(&self, caller: &Caller, run: &RunId, reason: NewNote) -> ApiResult<DoneDoc> {
        self.post_reason(caller, run, "pause", reason).await
    }

    async fn resume(&self, caller: &Caller, run: &RunId, reason: NewNote) -> ApiResult<ResumedDoc> {
        self.post_reason(caller, run, "resume", reason).await
    }

    async fn cancel(&self, caller: &Caller, run: &RunId, reason: NewNote) -> ApiResult<CancelledDoc> {
        self.post_reason(caller, run, "cancel", reason).await
    }

    async fn terminate(&self, caller: &Caller, run: &RunId, reason: NewNote) -> ApiResult<TerminatedDoc> {
        self.post_reason(caller, run, "terminate", reason).await
    }

    async fn withdraw(&self, caller: &Caller, run: &RunId, new: NewWithdrawal) -> ApiResult<WithdrawnDoc> {
        let new = NewWithdrawal { by: new.by.or_else(|| caller.who.clone()), ..new };
        self.post(caller, run_path(run, "withdraw"), &new).await
    }

    async fn jump(&self, caller: &Caller, run: &RunId, new: NewJump) -> ApiResult<JumpedDoc> {
        let new = NewJump { by: new.by.or_else(|| caller.who.clone()), ..new };
        self.post(caller, run_path(run, "jump"), &new).await
    }

    async fn retry(&self, caller: &Caller, run: &RunId, new: NewRetry) -> ApiResult<DoneDoc> {
        let new = NewRetry { by: new.by.or_else(|| caller.who.clone()), ..new };
        self.post(caller, run_path(run, "retry"), &new).await
    }

    async fn requeue(&self, caller: &Caller, run: &RunId, reason: NewNote) -> ApiResult<DoneDoc> {
        self.post_reason(caller, run, "requeue", reason).await
    }

    async fn migrate(&self, caller: &Caller, run: &RunId, new: NewMigration) -> ApiResult<DoneDoc> {
        let new = NewMigration { by: new.by.or_else(|| caller.who.clone()), ..new };
        self.post(caller, run_path(run, "migrate"), &new).await
    }

    async fn reset(&self, caller: &Caller, run: &RunId, reason: NewNote) -> ApiResult<BranchedDoc> {
        self.post_reason(caller, run, "reset", reason).await
    }

    async fn note_run(&self, caller: &Caller, run: &RunId, reason: NewNote) -> ApiResult<DoneDoc> {
        self.post_reason(caller, run, "note", reason).await
    }
}
