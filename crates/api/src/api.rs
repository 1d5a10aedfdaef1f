//! The interface: every operation on a store, one trait per subject.
//!
//! [`LocalApi`](crate::LocalApi) implements the traits over a store in this process, `RemoteApi` over HTTP.
//! Code that needs all of them takes `dyn Api`.

use std::fmt::Debug;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use goldseam::admin::retention::PruneProgress;
use goldseam::unstable::core::lock::Lock;
use goldseam::unstable::core::task::Task;
use goldseam::unstable::core::{LockName, NodeId, TaskId};
use goldseam::unstable::engine::claims::StaleLock;
use goldseam::unstable::engine::remote::wire::{
    Append, Appended, Beaten, Claim, Claimed as ClaimedExecutions, Events, Heartbeat, News as ExecutionNews,
    Register, Registered,
};
use goldseam::{Path, RunId, Seq, Summary};

use crate::caller::Caller;
use crate::doc::activity::{ActivityDoc, ActivityQuery};
use crate::doc::change::{
    AnsweredDoc, BranchedDoc, DoneDoc, JumpedDoc, NewAnswer, NewJump, NewMigration, NewNote, NewRecovery,
    NewSignal, RecoveryDoc, ResumedDoc, SignalledDoc,
};
use crate::doc::dialogue::{NewRequest, PublishedDoc, ReplyQuery, RequestedDoc};
use crate::doc::diff::{DiffDoc, DiffQuery};
use crate::doc::ending::{CancelledDoc, NewRetry, NewWithdrawal, TerminatedDoc, WithdrawnDoc};
use crate::doc::event::{HistoryDoc, HistoryQuery, NewsDoc};
use crate::doc::heal::{
    CheckupDoc, HealingDoc, HealingStatsDoc, HealingStatsQuery, NewCheckup, NewSweep, RecoveriesQuery,
    SweepDoc,
};
use crate::doc::key::{CreatedKeyDoc, CurrentKeyDoc, KeyDoc, NewKey};
use crate::doc::lock::{LocksQuery, NewExtension, NewHold, NewRelease, ReleasedDoc};
use crate::doc::node::{NodeDoc, WorkflowDoc};
use crate::doc::operation::{
    BulkOperationDoc, FailuresDoc, FailuresQuery, NewOperation, OperationsQuery, PreviewDoc,
};
use crate::doc::overview::{StatusesDoc, SuggestionDoc, SuggestionsQuery};
use crate::doc::pass::{CreatedPassDoc, NewPass, RotatedPassesDoc};
use crate::doc::retention::{NewPrune, PrunePlanDoc, PruneQuery, PrunedDoc};
use crate::doc::run::{
    BranchDoc, ChangesQuery, DetailQuery, EndingDoc, ExplanationDoc, GroupsDoc, GroupsQuery, MarkDoc, NewRun,
    QuestionDoc, QuestionsQuery, RunDoc, RunsQuery, StartedDoc, WaitQuery,
};
use crate::doc::task::{
    ClaimedTaskDoc, Hold, NewClaim, NewFailure, NewHeartbeat, NewReclaim, NewResult, NewUserTask,
    QueueStatsDoc, ReclaimedDoc, TasksQuery,
};
use crate::doc::worker::LeftWorkerDoc;
use crate::doc::{ItemsDoc, PageDoc};
use crate::problem::Problem;

/// A stream of a run's log and of new events, until the run ends.
pub type Following = BoxStream<'static, Result<NewsDoc, Problem>>;

/// The result of an operation.
pub type ApiResult<T> = Result<T, Problem>;

/// Called during a prune.
pub type OnPruned<'a> = &'a mut (dyn FnMut(PruneProgress) + Send);

/// Called during an examination with the number of runs examined so far.
pub type OnProgress<'a> = &'a mut (dyn FnMut(u64) + Send);

/// Every operation on a store.
///
/// Credentials are checked before: a key or a pass selects the namespace and thereby the interface. The use of a pass is
/// a signal or an answer.
///
/// A caller who changes something passes its identity. The same change under the same idempotency key is carried out
/// once; a repeat gets the original response.
pub trait Api:
    RunsApi
    + CommandsApi
    + DialogueApi
    + HealingApi
    + TasksApi
    + LocksApi
    + RetentionApi
    + OperationsApi
    + NodesApi
    + KeysApi
    + PassesApi
    + WorkersApi
    + Debug
    + Send
    + Sync
{
}

impl<T> Api for T where
    T: RunsApi
        + CommandsApi
        + DialogueApi
        + HealingApi
        + TasksApi
        + LocksApi
        + RetentionApi
        + OperationsApi
        + NodesApi
        + KeysApi
        + PassesApi
        + WorkersApi
        + Debug
        + Send
        + Sync
{
}

/// Reading runs, logs and questions.
#[async_trait]
pub trait RunsApi: Send + Sync {
    /// Lists runs.
    async fn runs(&self, query: RunsQuery) -> ApiResult<PageDoc<Summary>>;
    /// Counts runs, and groups them.
    async fn groups(&self, query: GroupsQuery) -> ApiResult<GroupsDoc>;
    /// Counts all runs by status, without reading them.
    async fn statuses(&self) -> ApiResult<StatusesDoc>;
    /// Suggests values for a filter, from the latest runs.
    async fn suggestions(&self, query: SuggestionsQuery) -> ApiResult<ItemsDoc<SuggestionDoc>>;
    /// Returns everything about one run.
    async fn detail(&self, run: &RunId) -> ApiResult<RunDoc> {
        self.detail_at(run, DetailQuery::default()).await
    }
    /// Returns everything about one run at a position of its log, or about one of its branches.
    async fn detail_at(&self, run: &RunId, query: DetailQuery) -> ApiResult<RunDoc>;
    /// Counts starts, ends and recoveries for each interval of a recent time.
    async fn activity(&self, query: ActivityQuery) -> ApiResult<ActivityDoc>;
    /// Returns one page of a run's log.
    async fn history(&self, run: &RunId, query: HistoryQuery) -> ApiResult<HistoryDoc>;
    /// Returns how a run ended; waits for the end if the query asks for it.
    async fn result(&self, run: &RunId, query: WaitQuery) -> ApiResult<EndingDoc>;
    /// Streams a run's log after a position, then new events, until the run ends.
    async fn follow(&self, run: &RunId, after: Seq) -> ApiResult<Following>;
    /// Explains why a run is in its state and what would move it.
    async fn why(&self, run: &RunId) -> ApiResult<ExplanationDoc>;
    /// Lists the branches of a run.
    async fn branches(&self, run: &RunId) -> ApiResult<ItemsDoc<BranchDoc>>;
    /// Compares two branches of a run.
    async fn diff(&self, run: &RunId, query: DiffQuery) -> ApiResult<DiffDoc>;
    /// Lists open questions of all runs.
    async fn questions(&self, query: QuestionsQuery) -> ApiResult<PageDoc<QuestionDoc>>;
    /// Lists the open questions of one run.
    async fn questions_of(&self, run: &RunId) -> ApiResult<ItemsDoc<QuestionDoc>>;
    /// Returns one open question.
    async fn question(&self, run: &RunId, path: &Path) -> ApiResult<QuestionDoc> {
        let open = self.questions_of(run).await?.items;
        let missing = || {
            Problem::not_found(format!("run {run} has no open question {path}"))
                .code("GS0107")
                .hint(format!("goldseam show {run} lists its open questions"))
        };
        open.into_iter().find(|question| question.open.input.path == *path).ok_or_else(missing)
    }
}

/// Starting runs and changing them.
#[async_trait]
pub trait CommandsApi: Send + Sync {
    /// Queues a run; any engine that has its workflow claims it.
    async fn start(&self, caller: &Caller, new: NewRun) -> ApiResult<StartedDoc>;
    /// Sends a signal.
    async fn signal(&self, caller: &Caller, run: &RunId, new: NewSignal) -> ApiResult<SignalledDoc>;
    /// Answers a question.
    async fn answer(
        &self,
        caller: &Caller,
        run: &RunId,
        question: &Path,
        new: NewAnswer,
    ) -> ApiResult<AnsweredDoc>;
    /// Pauses a run between two effects.
    async fn pause(&self, caller: &Caller, run: &RunId, reason: NewNote) -> ApiResult<DoneDoc>;
    /// Resumes a paused or parked run, after recovering it if a rule applies.
    async fn resume(&self, caller: &Caller, run: &RunId, reason: NewNote) -> ApiResult<ResumedDoc>;
    /// Requests that a run cancels.
    async fn cancel(&self, caller: &Caller, run: &RunId, reason: NewNote) -> ApiResult<CancelledDoc>;
    /// Ends a run immediately, without its code and without compensation.
    async fn terminate(&self, caller: &Caller, run: &RunId, reason: NewNote) -> ApiResult<TerminatedDoc>;
    /// Withdraws a jump or a cancel request that no worker has acted on.
    async fn withdraw(&self, caller: &Caller, run: &RunId, new: NewWithdrawal) -> ApiResult<WithdrawnDoc>;
    /// Jumps back to a step, on a new branch.
    async fn jump(&self, caller: &Caller, run: &RunId, new: NewJump) -> ApiResult<JumpedDoc>;
    /// Retries a failed run from its failed step.
    async fn retry(&self, caller: &Caller, run: &RunId, new: NewRetry) -> ApiResult<DoneDoc>;
    /// Gives a run a new advance task, due now.
    async fn requeue(&self, caller: &Caller, run: &RunId, reason: NewNote) -> ApiResult<DoneDoc>;
    /// Moves a run to another version of its workflow, without a preflight.
    async fn migrate(&self, caller: &Caller, run: &RunId, new: NewMigration) -> ApiResult<DoneDoc>;
    /// Resets a run to its last stable event, on a new branch.
    async fn reset(&self, caller: &Caller, run: &RunId, reason: NewNote) -> ApiResult<BranchedDoc>;
    /// Adds a note to the log.
    async fn note_run(&self, caller: &Caller, run: &RunId, reason: NewNote) -> ApiResult<DoneDoc>;
}

/// Reading published values, and requests that a run answers.
#[async_trait]
pub trait DialogueApi: Send + Sync {
    /// Returns the latest value of every name under which a run published one.
    async fn published_all(&self, run: &RunId) -> ApiResult<ItemsDoc<PublishedDoc>>;
    /// Returns the latest value that a run published under a name.
    async fn published(&self, run: &RunId, name: &str) -> ApiResult<PublishedDoc>;
    /// Sends a request to a run and waits for its answer.
    async fn request(
        &self,
        caller: &Caller,
        run: &RunId,
        name: &str,
        new: NewRequest,
    ) -> ApiResult<RequestedDoc>;
    /// Returns to a request that was sent earlier.
    async fn reply(&self, run: &RunId, name: &str, query: ReplyQuery) -> ApiResult<RequestedDoc>;
}

/// Diagnosing and healing.
#[async_trait]
pub trait HealingApi: Send + Sync {
    /// Diagnoses one run and applies the remedy.
    async fn recover(&self, caller: &Caller, run: &RunId, new: NewRecovery) -> ApiResult<RecoveryDoc>;
    /// Returns what each rule that applies to a run would do, the most urgent first. Changes nothing.
    async fn remedies(&self, run: &RunId) -> ApiResult<ItemsDoc<RecoveryDoc>>;
    /// Returns to the other side of the latest seam, on a new branch.
    async fn undo_recovery(&self, caller: &Caller, run: &RunId, reason: NewNote) -> ApiResult<BranchedDoc>;
    /// Lists recoveries, newest first.
    async fn recoveries(&self, query: RecoveriesQuery) -> ApiResult<PageDoc<HealingDoc>>;
    /// Counts recoveries by rule.
    async fn recovery_stats(&self, query: HealingStatsQuery) -> ApiResult<ItemsDoc<HealingStatsDoc>>;
    /// Examines the next batch of active runs and heals the stalled ones. Sweeps with the same options continue where
    /// the previous one stopped and remember what it found.
    async fn sweep(&self, caller: &Caller, new: NewSweep) -> ApiResult<SweepDoc>;
    /// Examines the whole store with every rule.
    async fn doctor(
        &self,
        caller: &Caller,
        new: NewCheckup,
        progress: OnProgress<'_>,
    ) -> ApiResult<CheckupDoc>;
}

/// User tasks and queues.
#[async_trait]
pub trait TasksApi: Send + Sync {
    /// Submits a task.
    async fn submit(&self, caller: &Caller, new: NewUserTask) -> ApiResult<Task>;
    /// Lists tasks, ordered by id.
    async fn tasks(&self, query: TasksQuery) -> ApiResult<PageDoc<Task>>;
    /// Returns one task.
    async fn task(&self, task: &TaskId) -> ApiResult<Task>;
    /// Claims due tasks. A repeat is a new claim; tasks of a claim whose response was lost return to their queue once
    /// the claimant is silent for too long.
    async fn claim(&self, caller: &Caller, new: NewClaim) -> ApiResult<ItemsDoc<ClaimedTaskDoc>>;
    /// Records a sign of life of the claimant.
    async fn heartbeat(&self, caller: &Caller, task: &TaskId, new: NewHeartbeat) -> ApiResult<Task>;
    /// Completes a task with a result.
    async fn complete(&self, caller: &Caller, task: &TaskId, new: NewResult) -> ApiResult<Task>;
    /// Fails a task.
    async fn fail(&self, caller: &Caller, task: &TaskId, new: NewFailure) -> ApiResult<Task>;
    /// Returns a task to its queue without counting an attempt.
    async fn release(&self, caller: &Caller, task: &TaskId, hold: Hold) -> ApiResult<Task>;
    /// Cancels a task.
    async fn cancel_task(&self, caller: &Caller, task: &TaskId) -> ApiResult<Task>;
    /// Reclaims tasks from claimants that are gone or silent, and frees stale locks.
    async fn reclaim(&self, caller: &Caller, new: NewReclaim) -> ApiResult<ReclaimedDoc>;
    /// Counts the tasks of each queue.
    async fn queues(&self) -> ApiResult<QueueStatsDoc>;
}

/// Named locks.
#[async_trait]
pub trait LocksApi: Send + Sync {
    /// Lists locks, ordered by name.
    async fn locks(&self, query: LocksQuery) -> ApiResult<PageDoc<Lock>>;
    /// Returns one lock.
    async fn lock(&self, lock: &LockName) -> ApiResult<Lock>;
    /// Lists locks that are expired or whose node is gone.
    async fn stale_locks(&self) -> ApiResult<ItemsDoc<StaleLock>>;
    /// Acquires a lock that is free or expired.
    async fn acquire_lock(&self, caller: &Caller, lock: &LockName, new: NewHold) -> ApiResult<Lock>;
    /// Extends a held lock.
    async fn extend_lock(&self, caller: &Caller, lock: &LockName, new: NewExtension) -> ApiResult<Lock>;
    /// Releases a lock.
    async fn release_lock(&self, caller: &Caller, lock: &LockName, new: NewRelease)
    -> ApiResult<ReleasedDoc>;
}

/// Pruning.
#[async_trait]
pub trait RetentionApi: Send + Sync {
    /// Lists the runs that a prune would archive and remove.
    async fn plan_prune(&self, query: PruneQuery) -> ApiResult<PrunePlanDoc>;
    /// Archives runs that ended long ago and replaces each log by a tombstone; reports progress.
    ///
    /// The archive belongs to the interface, never to the request: [`LocalApi::with_archive`] sets it, and a server has
    /// the archive of its configuration. So no caller of a server chooses where it writes. A repeat is harmless, because
    /// pruned runs are not pruned again.
    ///
    /// [`LocalApi::with_archive`]: crate::LocalApi::with_archive
    async fn prune(&self, caller: &Caller, new: NewPrune, progress: OnPruned<'_>) -> ApiResult<PrunedDoc>;
}

/// Bulk operations, and groups of failures.
#[async_trait]
pub trait OperationsApi: Send + Sync {
    /// Begins an operation. Any engine of this release executes it.
    async fn begin_operation(&self, caller: &Caller, new: NewOperation) -> ApiResult<BulkOperationDoc>;
    /// Returns what an operation would do now. Changes nothing.
    async fn preview_operation(&self, new: NewOperation) -> ApiResult<PreviewDoc>;
    /// Lists operations, the latest first.
    async fn operations(&self, query: OperationsQuery) -> ApiResult<PageDoc<BulkOperationDoc>>;
    /// Returns one operation.
    async fn operation(&self, id: &RunId) -> ApiResult<BulkOperationDoc>;
    /// Pauses an operation between two batches.
    async fn pause_operation(
        &self,
        caller: &Caller,
        id: &RunId,
        reason: NewNote,
    ) -> ApiResult<BulkOperationDoc>;
    /// Resumes a paused operation.
    async fn resume_operation(
        &self,
        caller: &Caller,
        id: &RunId,
        reason: NewNote,
    ) -> ApiResult<BulkOperationDoc>;
    /// Stops an operation. What it has done stays done.
    async fn stop_operation(
        &self,
        caller: &Caller,
        id: &RunId,
        reason: NewNote,
    ) -> ApiResult<BulkOperationDoc>;
    /// Groups failed and parked runs by the fingerprint of their cause.
    async fn failures(&self, query: FailuresQuery) -> ApiResult<FailuresDoc>;
}

/// Nodes, their workflows, and changes of the store.
#[async_trait]
pub trait NodesApi: Send + Sync {
    /// Lists the nodes of the store, including those that left.
    async fn nodes(&self) -> ApiResult<ItemsDoc<NodeDoc>>;
    /// Lists the workflows of live nodes.
    async fn workflows(&self) -> ApiResult<ItemsDoc<WorkflowDoc>>;
    /// Returns once something may have changed since a mark, or when the wait ends.
    async fn changed(&self, query: ChangesQuery) -> ApiResult<MarkDoc>;
}

/// Keys of a server.
#[async_trait]
pub trait KeysApi: Send + Sync {
    /// Returns what the caller may do.
    async fn current_key(&self) -> ApiResult<CurrentKeyDoc>;
    /// Lists keys, including revoked ones.
    async fn keys(&self) -> ApiResult<ItemsDoc<KeyDoc>>;
    /// Creates a key. Only this response contains its credential.
    async fn create_key(&self, caller: &Caller, new: NewKey) -> ApiResult<CreatedKeyDoc>;
    /// Revokes a key permanently.
    async fn revoke_key(&self, caller: &Caller, id: &str) -> ApiResult<KeyDoc>;
}

/// Passes of a server.
#[async_trait]
pub trait PassesApi: Send + Sync {
    /// Creates a pass for a run. Only this response contains it.
    async fn create_pass(&self, caller: &Caller, run: &RunId, new: NewPass) -> ApiResult<CreatedPassDoc>;
    /// Rotates the signing key of passes; passes from before the previous rotation become invalid.
    async fn rotate_passes(&self, caller: &Caller) -> ApiResult<RotatedPassesDoc>;
}

/// Remote workers and their executions (`docs/protocol.md`).
#[async_trait]
pub trait WorkersApi: Send + Sync {
    /// Registers a worker, which becomes a node of the store.
    async fn register_worker(&self, caller: &Caller, new: Register) -> ApiResult<Registered>;
    /// Removes a worker and releases its executions, which counts no attempt.
    async fn remove_worker(&self, caller: &Caller, worker: &NodeId) -> ApiResult<LeftWorkerDoc>;
    /// Records a sign of life of a worker, and returns the news in the logs of its executions.
    async fn heartbeat_worker(&self, caller: &Caller, worker: &NodeId, beat: Heartbeat) -> ApiResult<Beaten>;
    /// Claims runs for a worker, each with the history that its branch sees.
    async fn claim_executions(
        &self,
        caller: &Caller,
        worker: &NodeId,
        claim: Claim,
    ) -> ApiResult<ClaimedExecutions>;
    /// Appends a worker's actions to the log of its run: all or none, and once.
    async fn append_to_execution(&self, caller: &Caller, append: Append) -> ApiResult<Appended>;
    /// Returns the events of an execution's log after those that the worker has.
    async fn read_execution(&self, caller: &Caller, events: Events) -> ApiResult<ExecutionNews>;
}
