//! The interface over HTTP.
//!
//! Invariant: a change carries an idempotency key, and a repeat of it carries the same one. So whatever was lost on the
//! way is asked for again, and done once.

mod follow;
mod http;
mod keys;
mod passes;
mod retention;
mod sse;

use std::time::Duration;

use async_trait::async_trait;
use goldseam::core::lock::Lock;
use goldseam::core::task::Task;
use goldseam::core::{LockName, TaskId};
use goldseam::engine::claims::StaleLock;
use goldseam::{Path, RunId, Seq, Summary};

use crate::api::{Answer, Api, Following, Tell};
use crate::caller::Caller;
use crate::doc::change::{
    Answered, Branched, Done, Jumped, NewAnswer, NewJump, NewMigration, NewRecovery, NewSignal, Reason,
    Recovery, Resumed, Signalled,
};
use crate::doc::ending::{Cancelled, NewRetry, NewWithdrawal, Terminated, Withdrawn};
use crate::doc::event::{History, HistoryQuery};
use crate::doc::heal::{
    Checkup, Healing, HealingStats, HealingStatsQuery, NewCheckup, NewSweep, RecoveriesQuery, Sweep,
};
use crate::doc::lock::{Extension, LocksQuery, NewHold, NewRelease, Released};
use crate::doc::node::{Node, Workflow};
use crate::doc::retention::{PrunePlan, PruneQuery};
use crate::doc::run::{
    BranchItem, ChangesQuery, Detail, Diff, DiffQuery, Ending, Explanation, Mark, NewRun, Question,
    QuestionsQuery, RunsQuery, Started, WaitQuery,
};
use crate::doc::task::{
    Claimed, Hold, NewClaim, NewFailure, NewHeartbeat, NewReclaim, NewResult, NewTask, QueueStats, Reclaimed,
    TasksQuery,
};
use crate::doc::{Items, Page};
use http::{Ask, NO_BODY, NO_QUERY, run_path, segment};

pub use http::Remote;

/// How long an examination of a whole store may take.
const EXAMINATION_MAX: Duration = Duration::from_secs(3_600);

impl Remote {
    /// A change of a run that only says who and why.
    async fn told<T: serde::de::DeserializeOwned>(
        &self,
        caller: &Caller,
        (run, verb): (&RunId, &str),
        reason: Reason,
    ) -> Answer<T> {
        let reason = Reason { by: reason.by.or_else(|| caller.who.clone()), ..reason };
        self.post(caller, run_path(run, verb), &reason).await
    }
}

/// The address of something about a task.
fn task_path(task: &TaskId, verb: &str) -> String {
    format!("/v1/tasks/{}/{verb}", segment(task.as_str()))
}

/// The address of something about a lock.
fn lock_path(lock: &LockName, verb: &str) -> String {
    format!("/v1/locks/{}/{verb}", segment(lock.as_str()))
}

#[async_trait]
impl Api for Remote {
    async fn start(&self, caller: &Caller, new: NewRun) -> Answer<Started> {
        self.post(caller, "/v1/runs", &new).await
    }

    async fn runs(&self, query: RunsQuery) -> Answer<Page<Summary>> {
        self.get("/v1/runs", &query).await
    }

    async fn detail(&self, run: &RunId) -> Answer<Detail> {
        self.get(format!("/v1/runs/{}", segment(run.as_str())), NO_QUERY).await
    }

    async fn history(&self, run: &RunId, query: HistoryQuery) -> Answer<History> {
        self.get(run_path(run, "history"), &query).await
    }

    async fn result(&self, run: &RunId, query: WaitQuery) -> Answer<Ending> {
        let wait = Duration::from_millis(query.wait_ms.unwrap_or(0));
        self.ask(Ask::get(run_path(run, "result"), &query)?.waiting(wait)).await
    }

    async fn follow(&self, run: &RunId, after: Seq) -> Answer<Following> {
        self.follow_run(run, after).await
    }

    async fn why(&self, run: &RunId) -> Answer<Explanation> {
        self.get(run_path(run, "why"), NO_QUERY).await
    }

    async fn branches(&self, run: &RunId) -> Answer<Items<BranchItem>> {
        self.get(run_path(run, "branches"), NO_QUERY).await
    }

    async fn diff(&self, run: &RunId, query: DiffQuery) -> Answer<Diff> {
        self.get(run_path(run, "diff"), &query).await
    }

    async fn questions(&self, query: QuestionsQuery) -> Answer<Page<Question>> {
        self.get("/v1/questions", &query).await
    }

    async fn questions_of(&self, run: &RunId) -> Answer<Items<Question>> {
        self.get(run_path(run, "questions"), NO_QUERY).await
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
        self.told(caller, (run, "pause"), reason).await
    }

    async fn resume(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Resumed> {
        self.told(caller, (run, "resume"), reason).await
    }

    async fn cancel(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Cancelled> {
        self.told(caller, (run, "cancel"), reason).await
    }

    async fn terminate(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Terminated> {
        self.told(caller, (run, "terminate"), reason).await
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
        self.told(caller, (run, "requeue"), reason).await
    }

    async fn migrate(&self, caller: &Caller, run: &RunId, new: NewMigration) -> Answer<Done> {
        let new = NewMigration { by: new.by.or_else(|| caller.who.clone()), ..new };
        self.post(caller, run_path(run, "migrate"), &new).await
    }

    async fn reset(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Branched> {
        self.told(caller, (run, "reset"), reason).await
    }

    async fn recover(&self, caller: &Caller, run: &RunId, new: NewRecovery) -> Answer<Recovery> {
        let new = NewRecovery { by: new.by.or_else(|| caller.who.clone()), ..new };
        self.post(caller, run_path(run, "recover"), &new).await
    }

    async fn undo_recovery(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Branched> {
        self.told(caller, (run, "undo-recovery"), reason).await
    }

    async fn annotate(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Done> {
        self.told(caller, (run, "note"), reason).await
    }

    async fn submit(&self, caller: &Caller, new: NewTask) -> Answer<Task> {
        self.post(caller, "/v1/tasks", &new).await
    }

    async fn tasks(&self, query: TasksQuery) -> Answer<Page<Task>> {
        self.get("/v1/tasks", &query).await
    }

    async fn task(&self, task: &TaskId) -> Answer<Task> {
        self.get(format!("/v1/tasks/{}", segment(task.as_str())), NO_QUERY).await
    }

    async fn claim(&self, caller: &Caller, new: NewClaim) -> Answer<Items<Claimed>> {
        let wait = Duration::from_millis(new.wait_ms.unwrap_or(0));
        self.ask(self.change(caller, "/v1/tasks/claim", &new)?.waiting(wait).once()).await
    }

    async fn heartbeat(&self, caller: &Caller, task: &TaskId, new: NewHeartbeat) -> Answer<Task> {
        self.post(caller, task_path(task, "heartbeat"), &new).await
    }

    async fn complete(&self, caller: &Caller, task: &TaskId, new: NewResult) -> Answer<Task> {
        self.post(caller, task_path(task, "complete"), &new).await
    }

    async fn fail(&self, caller: &Caller, task: &TaskId, new: NewFailure) -> Answer<Task> {
        self.post(caller, task_path(task, "fail"), &new).await
    }

    async fn release(&self, caller: &Caller, task: &TaskId, hold: Hold) -> Answer<Task> {
        self.post(caller, task_path(task, "release"), &hold).await
    }

    async fn cancel_task(&self, caller: &Caller, task: &TaskId) -> Answer<Task> {
        self.post(caller, task_path(task, "cancel"), NO_BODY).await
    }

    async fn reclaim(&self, caller: &Caller, new: NewReclaim) -> Answer<Reclaimed> {
        self.post(caller, "/v1/tasks/reclaim", &new).await
    }

    async fn queues(&self) -> Answer<QueueStats> {
        self.get("/v1/queues", NO_QUERY).await
    }

    async fn locks(&self, query: LocksQuery) -> Answer<Page<Lock>> {
        self.get("/v1/locks", &query).await
    }

    async fn lock(&self, lock: &LockName) -> Answer<Lock> {
        self.get(format!("/v1/locks/{}", segment(lock.as_str())), NO_QUERY).await
    }

    async fn stale_locks(&self) -> Answer<Items<StaleLock>> {
        self.get("/v1/locks/stale", NO_QUERY).await
    }

    async fn acquire_lock(&self, caller: &Caller, lock: &LockName, new: NewHold) -> Answer<Lock> {
        self.post(caller, lock_path(lock, "acquire"), &new).await
    }

    async fn extend_lock(&self, caller: &Caller, lock: &LockName, new: Extension) -> Answer<Lock> {
        self.post(caller, lock_path(lock, "extend"), &new).await
    }

    async fn release_lock(&self, caller: &Caller, lock: &LockName, new: NewRelease) -> Answer<Released> {
        self.post(caller, lock_path(lock, "release"), &new).await
    }

    async fn recoveries(&self, query: RecoveriesQuery) -> Answer<Page<Healing>> {
        self.get("/v1/recoveries", &query).await
    }

    async fn recovery_stats(&self, query: HealingStatsQuery) -> Answer<Items<HealingStats>> {
        self.get("/v1/recoveries/stats", &query).await
    }

    async fn sweep(&self, caller: &Caller, new: NewSweep) -> Answer<Sweep> {
        self.ask(self.change(caller, "/v1/sweep", &new)?.waiting(EXAMINATION_MAX)).await
    }

    async fn doctor(&self, caller: &Caller, new: NewCheckup, _: Tell<'_>) -> Answer<Checkup> {
        self.ask(self.change(caller, "/v1/doctor", &new)?.waiting(EXAMINATION_MAX)).await
    }

    async fn plan_prune(&self, query: PruneQuery) -> Answer<PrunePlan> {
        self.ask(Ask::get("/v1/prune", &query)?.waiting(EXAMINATION_MAX)).await
    }

    async fn nodes(&self) -> Answer<Items<Node>> {
        self.get("/v1/nodes", NO_QUERY).await
    }

    async fn workflows(&self) -> Answer<Items<Workflow>> {
        self.get("/v1/workflows", NO_QUERY).await
    }

    async fn changed(&self, query: ChangesQuery) -> Answer<Mark> {
        let wait = Duration::from_millis(query.wait_ms.unwrap_or(0));
        self.ask(Ask::get("/v1/changes", &query)?.waiting(wait)).await
    }
}
