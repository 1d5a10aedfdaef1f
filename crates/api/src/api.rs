//! The trait: everything that can be done to a store.

use std::fmt::Debug;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use goldseam::core::lock::Lock;
use goldseam::core::task::Task;
use goldseam::core::{LockName, TaskId};
use goldseam::engine::claims::StaleLock;
use goldseam::{Path, RunId, Seq, Summary};

use crate::caller::Caller;
use crate::doc::change::{
    Answered, Branched, Done, Jumped, NewAnswer, NewJump, NewMigration, NewRecovery, NewSignal, Reason,
    Recovery, Resumed, Signalled,
};
use crate::doc::ending::{Cancelled, NewRetry, NewWithdrawal, Terminated, Withdrawn};
use crate::doc::event::{History, HistoryQuery, News};
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
use crate::problem::Problem;

/// What somebody who follows a run gets: its log, then what comes, until the run is over.
pub type Following = BoxStream<'static, Result<News, Problem>>;

/// The answer to everything.
pub type Answer<T> = Result<T, Problem>;

/// Told now and then how many runs an examination has looked at so far.
pub type Tell<'a> = &'a mut (dyn FnMut(u64) + Send);

/// Everything that can be done to a store. Whoever changes something says who he is; the same change under the same
/// idempotency key is done once, and answered the same way again.
#[async_trait]
pub trait Api: Debug + Send + Sync {
    /// Queues a run for whoever has its workflow.
    async fn start(&self, caller: &Caller, new: NewRun) -> Answer<Started>;
    /// Lists runs.
    async fn runs(&self, query: RunsQuery) -> Answer<Page<Summary>>;
    /// Everything about one run.
    async fn detail(&self, run: &RunId) -> Answer<Detail>;
    /// The log of a run, a page of it.
    async fn history(&self, run: &RunId, query: HistoryQuery) -> Answer<History>;
    /// How a run ended; waits for it if that is wanted.
    async fn result(&self, run: &RunId, query: WaitQuery) -> Answer<Ending>;
    /// The log of a run after a position, and everything that comes, until the run is over.
    async fn follow(&self, run: &RunId, after: Seq) -> Answer<Following>;
    /// Why a run is where it is.
    async fn why(&self, run: &RunId) -> Answer<Explanation>;
    /// The timelines of a run.
    async fn branches(&self, run: &RunId) -> Answer<Items<BranchItem>>;
    /// Two timelines of a run, compared.
    async fn diff(&self, run: &RunId, query: DiffQuery) -> Answer<Diff>;
    /// Open questions of all runs.
    async fn questions(&self, query: QuestionsQuery) -> Answer<Page<Question>>;
    /// Open questions of one run.
    async fn questions_of(&self, run: &RunId) -> Answer<Items<Question>>;
    /// One open question.
    async fn question(&self, run: &RunId, path: &Path) -> Answer<Question> {
        let open = self.questions_of(run).await?.items;
        let missing = || {
            Problem::not_found(format!("run {run} has no open question {path}"))
                .code("GS0107")
                .hint(format!("goldseam show {run} lists what it asks"))
        };
        open.into_iter().find(|question| question.open.input.path == *path).ok_or_else(missing)
    }

    /// Sends a signal.
    async fn signal(&self, caller: &Caller, run: &RunId, new: NewSignal) -> Answer<Signalled>;
    /// Answers a question.
    async fn answer(&self, caller: &Caller, run: &RunId, question: &Path, new: NewAnswer)
    -> Answer<Answered>;
    /// Stops a run between two effects.
    async fn pause(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Done>;
    /// Lets a paused or parked run go on; whatever else is wrong with it is recovered first.
    async fn resume(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Resumed>;
    /// Asks a run to stop.
    async fn cancel(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Cancelled>;
    /// Ends a run now, without its code and without compensation.
    async fn terminate(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Terminated>;
    /// Takes back a jump or a request to cancel that no worker has acted on.
    async fn withdraw(&self, caller: &Caller, run: &RunId, new: NewWithdrawal) -> Answer<Withdrawn>;
    /// Goes back to a step, on a new branch.
    async fn jump(&self, caller: &Caller, run: &RunId, new: NewJump) -> Answer<Jumped>;
    /// Tries a failed run again from its failed step.
    async fn retry(&self, caller: &Caller, run: &RunId, new: NewRetry) -> Answer<Done>;
    /// Gives a run a new task, due now.
    async fn requeue(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Done>;
    /// Moves a run to another version of its workflow, without a preflight.
    async fn migrate(&self, caller: &Caller, run: &RunId, new: NewMigration) -> Answer<Done>;
    /// Takes back what has not settled.
    async fn reset(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Branched>;
    /// Finds out what is wrong with a run, and heals it.
    async fn recover(&self, caller: &Caller, run: &RunId, new: NewRecovery) -> Answer<Recovery>;
    /// Goes back to the other side of the latest seam.
    async fn undo_recovery(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Branched>;
    /// Leaves a note in the log.
    async fn annotate(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Done>;

    /// Submits a task.
    async fn submit(&self, caller: &Caller, new: NewTask) -> Answer<Task>;
    /// Lists tasks, in order of id.
    async fn tasks(&self, query: TasksQuery) -> Answer<Page<Task>>;
    /// One task.
    async fn task(&self, task: &TaskId) -> Answer<Task>;
    /// Claims tasks that are due. A repeat is a claim of its own: what nobody hears of goes back by itself.
    async fn claim(&self, caller: &Caller, new: NewClaim) -> Answer<Items<Claimed>>;
    /// Says that the claimant is alive.
    async fn heartbeat(&self, caller: &Caller, task: &TaskId, new: NewHeartbeat) -> Answer<Task>;
    /// The work is done.
    async fn complete(&self, caller: &Caller, task: &TaskId, new: NewResult) -> Answer<Task>;
    /// The work failed.
    async fn fail(&self, caller: &Caller, task: &TaskId, new: NewFailure) -> Answer<Task>;
    /// Gives a task back unharmed.
    async fn release(&self, caller: &Caller, task: &TaskId, hold: Hold) -> Answer<Task>;
    /// Nobody wants the task any more.
    async fn cancel_task(&self, caller: &Caller, task: &TaskId) -> Answer<Task>;
    /// Takes tasks back from claimants who are gone or silent, and frees stale locks.
    async fn reclaim(&self, caller: &Caller, new: NewReclaim) -> Answer<Reclaimed>;
    /// What stands in each queue.
    async fn queues(&self) -> Answer<QueueStats>;

    /// Lists locks, in order of name.
    async fn locks(&self, query: LocksQuery) -> Answer<Page<Lock>>;
    /// One lock.
    async fn lock(&self, lock: &LockName) -> Answer<Lock>;
    /// Locks that nobody alive holds.
    async fn stale_locks(&self) -> Answer<Items<StaleLock>>;
    /// Takes a lock that is free or expired.
    async fn acquire_lock(&self, caller: &Caller, lock: &LockName, new: NewHold) -> Answer<Lock>;
    /// Holds on to a lock.
    async fn extend_lock(&self, caller: &Caller, lock: &LockName, new: Extension) -> Answer<Lock>;
    /// Lets a lock go.
    async fn release_lock(&self, caller: &Caller, lock: &LockName, new: NewRelease) -> Answer<Released>;

    /// What was healed, newest first.
    async fn recoveries(&self, query: RecoveriesQuery) -> Answer<Page<Healing>>;
    /// The same, counted by rule.
    async fn recovery_stats(&self, query: HealingStatsQuery) -> Answer<Items<HealingStats>>;
    /// Looks over the next batch of active runs and heals those that are stalled. Sweeps of the same sort go on where
    /// the one before ended, and remember what that saw.
    async fn sweep(&self, caller: &Caller, new: NewSweep) -> Answer<Sweep>;
    /// Examines the whole store by every rule.
    async fn doctor(&self, caller: &Caller, new: NewCheckup, tell: Tell<'_>) -> Answer<Checkup>;
    /// Which runs a prune would archive and remove.
    async fn plan_prune(&self, query: PruneQuery) -> Answer<PrunePlan>;

    /// Engines that work on the store, or did.
    async fn nodes(&self) -> Answer<Items<Node>>;
    /// Workflows that live nodes have.
    async fn workflows(&self) -> Answer<Items<Workflow>>;
    /// Returns once something may have changed since a mark, or after a while.
    async fn changed(&self, query: ChangesQuery) -> Answer<Mark>;
}
