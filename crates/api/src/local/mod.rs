//! The interface over a store in this process.

mod change;
mod ending;
mod follow;
mod heal;
mod limit;
mod locks;
mod nodes;
mod once;
mod read;
mod retention;
mod tasks;

use std::sync::Arc;

use async_trait::async_trait;
use goldseam::core::lock::Lock;
use goldseam::core::task::Task;
use goldseam::core::{Command, LockName, TaskId, argument};
use goldseam::engine::claims::StaleLock;
use goldseam::{Client, Limits, Path, Payload, RunId, Seq, Summary};

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
use crate::problem::Problem;

pub use limit::open_queue;

/// The interface over a store in this process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Local {
    client: Client,
    sweepers: Arc<heal::Sweepers>,
}

impl Local {
    /// The interface over the store of this client.
    pub fn new(client: Client) -> Self {
        Self { client, sweepers: Arc::default() }
    }

    /// The client beneath.
    pub fn client(&self) -> &Client {
        &self.client
    }

    fn limits(&self) -> &Limits {
        &self.client.ledger().limits
    }

    /// A payload as the log keeps it, once it is found to be within the limits.
    fn payload(&self, payload: &Payload) -> Result<Payload, Problem> {
        Ok(Payload::parse(payload.as_str(), self.limits())?)
    }

    fn check_text(&self, what: &str, text: &str) -> Result<(), Problem> {
        limit::text(what, text, self.limits())
    }

    /// Checks an id that repeats are recognised by.
    fn check_id(&self, id: Option<&str>) -> Result<(), Problem> {
        let id = id.unwrap_or_default();
        self.check_text("the id", id)?;
        Ok(argument::text("the id", id)?)
    }

    /// Who does something: whoever is known to ask, and in whose name he says so.
    fn who(&self, caller: &Caller, by: Option<String>) -> Result<Option<String>, Problem> {
        for name in [&caller.who, &by].into_iter().flatten() {
            self.check_text("the name", name)?;
            argument::text("the name", name)?;
        }
        Ok(match (&caller.who, by) {
            (Some(who), Some(by)) if *who != by => Some(format!("{by} via {who}")),
            (who, by) => who.clone().or(by),
        })
    }
}

#[async_trait]
impl Api for Local {
    async fn start(&self, caller: &Caller, new: NewRun) -> Answer<Started> {
        self.start_run(caller, new).await
    }

    async fn runs(&self, query: RunsQuery) -> Answer<Page<Summary>> {
        self.list_runs(query).await
    }

    async fn detail(&self, run: &RunId) -> Answer<Detail> {
        self.read_detail(run).await
    }

    async fn history(&self, run: &RunId, query: HistoryQuery) -> Answer<History> {
        self.read_history(run, query).await
    }

    async fn result(&self, run: &RunId, query: WaitQuery) -> Answer<Ending> {
        self.read_result(run, limit::wait(query.wait_ms)?).await
    }

    async fn follow(&self, run: &RunId, after: Seq) -> Answer<Following> {
        self.follow_run(run, after).await
    }

    async fn why(&self, run: &RunId) -> Answer<Explanation> {
        self.explain(run).await
    }

    async fn branches(&self, run: &RunId) -> Answer<Items<BranchItem>> {
        self.read_branches(run).await
    }

    async fn diff(&self, run: &RunId, query: DiffQuery) -> Answer<Diff> {
        self.compare(run, &query).await
    }

    async fn questions(&self, query: QuestionsQuery) -> Answer<Page<Question>> {
        self.list_questions(query).await
    }

    async fn questions_of(&self, run: &RunId) -> Answer<Items<Question>> {
        Ok(read::questions_in(&self.client.get(run).await?).into())
    }

    async fn signal(&self, caller: &Caller, run: &RunId, new: NewSignal) -> Answer<Signalled> {
        self.send(caller, run, new).await
    }

    async fn answer(
        &self,
        caller: &Caller,
        run: &RunId,
        question: &Path,
        new: NewAnswer,
    ) -> Answer<Answered> {
        self.give_answer(caller, run, question, new).await
    }

    async fn pause(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Done> {
        self.told(caller, ("pause", run), reason, Command::Pause).await
    }

    async fn resume(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Resumed> {
        self.let_go_on(caller, run, reason).await
    }

    async fn cancel(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Cancelled> {
        self.request_cancel(caller, run, reason).await
    }

    async fn terminate(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Terminated> {
        self.end_now(caller, run, reason).await
    }

    async fn withdraw(&self, caller: &Caller, run: &RunId, new: NewWithdrawal) -> Answer<Withdrawn> {
        self.withdraw_request(caller, run, new).await
    }

    async fn jump(&self, caller: &Caller, run: &RunId, new: NewJump) -> Answer<Jumped> {
        self.go_back(caller, run, new).await
    }

    async fn retry(&self, caller: &Caller, run: &RunId, new: NewRetry) -> Answer<Done> {
        self.try_again(caller, run, new).await
    }

    async fn requeue(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Done> {
        self.give_new_task(caller, run, reason).await
    }

    async fn migrate(&self, caller: &Caller, run: &RunId, new: NewMigration) -> Answer<Done> {
        self.move_to(caller, run, new).await
    }

    async fn reset(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Branched> {
        self.cut(caller, ("reset", run), reason, Command::Reset).await
    }

    async fn recover(&self, caller: &Caller, run: &RunId, new: NewRecovery) -> Answer<Recovery> {
        self.mend(caller, run, new).await
    }

    async fn undo_recovery(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Branched> {
        self.cut(caller, ("undo-recovery", run), reason, Command::UndoSeam).await
    }

    async fn annotate(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Done> {
        self.told(caller, ("note", run), reason, Command::Annotate).await
    }

    async fn submit(&self, caller: &Caller, new: NewTask) -> Answer<Task> {
        self.submit_task(caller, new).await
    }

    async fn tasks(&self, query: TasksQuery) -> Answer<Page<Task>> {
        self.list_tasks(query).await
    }

    async fn task(&self, task: &TaskId) -> Answer<Task> {
        Ok(self.client.queue().get(task).await?)
    }

    async fn claim(&self, _: &Caller, new: NewClaim) -> Answer<Items<Claimed>> {
        self.claim_tasks(new).await
    }

    async fn heartbeat(&self, _: &Caller, task: &TaskId, new: NewHeartbeat) -> Answer<Task> {
        let (queue, fence) = (self.client.queue(), tasks::fence(new.fence)?);
        Ok(match &new.details {
            Some(details) => queue.heartbeat_with(task, fence, self.payload(details)?).await?,
            None => queue.heartbeat(task, fence).await?,
        })
    }

    async fn complete(&self, _: &Caller, task: &TaskId, new: NewResult) -> Answer<Task> {
        let result = self.payload(&new.result)?;
        Ok(self.client.queue().complete(task, tasks::fence(new.fence)?, result).await?)
    }

    async fn fail(&self, _: &Caller, task: &TaskId, new: NewFailure) -> Answer<Task> {
        self.fail_task(task, new).await
    }

    async fn release(&self, caller: &Caller, task: &TaskId, hold: Hold) -> Answer<Task> {
        self.release_task(caller, task, &hold).await
    }

    async fn cancel_task(&self, caller: &Caller, task: &TaskId) -> Answer<Task> {
        self.drop_task(caller, task).await
    }

    async fn reclaim(&self, _: &Caller, new: NewReclaim) -> Answer<Reclaimed> {
        self.take_back(&new).await
    }

    async fn queues(&self) -> Answer<QueueStats> {
        Ok(self.client.queue().stats().await?)
    }

    async fn locks(&self, query: LocksQuery) -> Answer<Page<Lock>> {
        self.list_locks(query).await
    }

    async fn lock(&self, lock: &LockName) -> Answer<Lock> {
        self.read_lock(lock).await
    }

    async fn stale_locks(&self) -> Answer<Items<StaleLock>> {
        self.list_stale_locks().await
    }

    async fn acquire_lock(&self, caller: &Caller, lock: &LockName, new: NewHold) -> Answer<Lock> {
        self.take_lock(caller, lock, &new).await
    }

    async fn extend_lock(&self, _: &Caller, lock: &LockName, new: Extension) -> Answer<Lock> {
        self.keep_lock(lock, &new).await
    }

    async fn release_lock(&self, _: &Caller, lock: &LockName, new: NewRelease) -> Answer<Released> {
        self.free_lock(lock, &new).await
    }

    async fn recoveries(&self, query: RecoveriesQuery) -> Answer<Page<Healing>> {
        self.list_recoveries(query).await
    }

    async fn recovery_stats(&self, query: HealingStatsQuery) -> Answer<Items<HealingStats>> {
        self.count_recoveries(query).await
    }

    async fn sweep(&self, _: &Caller, new: NewSweep) -> Answer<Sweep> {
        self.sweep_on(new).await
    }

    async fn doctor(&self, _: &Caller, new: NewCheckup, tell: Tell<'_>) -> Answer<Checkup> {
        self.examine_all(&new, tell).await
    }

    async fn plan_prune(&self, query: PruneQuery) -> Answer<PrunePlan> {
        self.look_what_to_prune(query).await
    }

    async fn nodes(&self) -> Answer<Items<Node>> {
        self.list_nodes().await
    }

    async fn workflows(&self) -> Answer<Items<Workflow>> {
        self.list_workflows().await
    }

    async fn changed(&self, query: ChangesQuery) -> Answer<Mark> {
        self.wait_for_change(query.after.unwrap_or(0), limit::wait(query.wait_ms)?).await
    }
}
