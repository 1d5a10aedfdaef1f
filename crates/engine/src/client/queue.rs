//! Tasks of users and of remote steps: submitted once, claimed with a fence, completed once.

mod remote;

use goldseam_core::task::{NewTask, Task, TaskState};
use goldseam_core::{Failure, Payload, QueueName, TaskId, WorkState, argument};
use goldseam_store::{ClaimRequest, ClaimedTasks, Expect, StoreError, TaskFilter, Written};

use crate::client::stats::{self, Stats};
use crate::heal::claims::Claims;
use crate::ledger::clock::pause;
use crate::ledger::commit::Ledger;
use crate::ledger::error::EngineError;
use crate::ledger::liveness::Liveness;
use crate::ledger::retry::{self, ATTEMPTS_MAX, PAUSE, Retries};

/// Tasks of a run per read of the store.
const EARLIER: u32 = 200;

/// The queues of a store. Cheap to clone.
///
/// ```
/// use goldseam::queue::{NewTask, QueueName, TaskId, Want};
/// use goldseam::{Limits, Millis, Payload};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
/// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
/// let queue = goldseam::Client::new(goldseam::open_store(&url).await?).queue();
/// # let (id, kind, mail) = (TaskId::new("mail-7")?, "send".to_owned(), QueueName::new("mail")?);
/// let payload = Payload::of("to Ada", &Limits::default())?;
/// let new = NewTask {
///     id, kind, queue: mail.clone(), payload, attempts_max: 3, run_at: Millis(0),
///     lane: None, priority: 0, key: None, silence_max: None,
/// };
/// queue.submit(new).await?;
/// let want = Want { owner: "worker-1".to_owned(), queue: mail, kind: None, limit: 1 };
/// for task in queue.claim(want).await? {
///     queue.heartbeat(&task.id, task.fence).await?;
///     queue.complete(&task.id, task.fence, Payload::null()).await?;
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Queue {
    ledger: Ledger,
    claims: Claims,
}

/// A request to claim tasks.
#[derive(Debug, Clone)]
pub struct Want {
    /// The claimant's name.
    pub owner: String,
    /// The queue.
    pub queue: QueueName,
    /// Only tasks of this kind.
    pub kind: Option<String>,
    /// Maximum number of tasks.
    pub limit: u32,
}

impl Queue {
    pub(crate) fn new(ledger: Ledger, claims: Claims) -> Self {
        Self { ledger, claims }
    }

    /// Submits a task. Returns the live task with the same key, if one exists.
    pub async fn submit(&self, new: NewTask) -> Result<Task, EngineError> {
        self.ledger.submit_task(new).await
    }

    /// Claims due tasks: highest priority first, one at a time per lane. Reclaims stale tasks first.
    pub async fn claim(&self, want: Want) -> Result<Vec<Task>, EngineError> {
        argument::name("the owner", &want.owner)?;
        want.kind.as_ref().map_or(Ok(()), |kind| argument::name("the kind", kind))?;
        let claimed = retry::read(Retries::standard(), || self.claim_once(&want)).await?.tasks;
        claimed.iter().for_each(|task| self.ledger.meter.task_claimed(task));
        Ok(self.wanted(claimed).await)
    }

    async fn claim_once(&self, want: &Want) -> Result<ClaimedTasks, StoreError> {
        let now = self.ledger.store.now().await?;
        self.claims.before_claim(now).await;
        let Want { owner, queue, kind, limit } = want.clone();
        let pools = vec![Task::pool_of(&queue, None)];
        self.ledger.store.claim(ClaimRequest { owner, pools, kind, limit, now }).await
    }

    /// Reads a task.
    pub async fn get(&self, id: &TaskId) -> Result<Task, EngineError> {
        let filter = TaskFilter { id: Some(id.clone()), limit: 1, ..TaskFilter::default() };
        let found = self.ledger.store.tasks(filter).await?.into_iter().next();
        found.ok_or_else(|| EngineError::NoSuchTask(id.as_str().to_owned()))
    }

    /// Lists tasks of users, ordered by id.
    pub async fn list(
        &self,
        queue: Option<&QueueName>,
        state: Option<TaskState>,
        after: Option<TaskId>,
        limit: u32,
    ) -> Result<Vec<Task>, EngineError> {
        let queue = queue.map(|queue| queue.as_str().to_owned());
        let filter = TaskFilter { queue, state, advance: Some(false), after, limit, ..TaskFilter::default() };
        Ok(self.ledger.store.tasks(filter).await?)
    }

    /// Counts the tasks of each queue, including advance tasks, up to a limit.
    pub async fn stats(&self) -> Result<Stats, EngineError> {
        stats::count(&self.ledger, None).await
    }

    /// Like [`Queue::stats`], and reports what no live node serves.
    pub async fn stats_served(&self, liveness: &Liveness) -> Result<Stats, EngineError> {
        stats::count(&self.ledger, Some(liveness)).await
    }

    /// Reports that the claimant is alive.
    pub async fn heartbeat(&self, id: &TaskId, fence: u64) -> Result<Task, EngineError> {
        self.change(id, |task, now| task.beaten(fence, now)).await
    }

    /// Like [`Queue::heartbeat`], and reports progress. The next claimant of the task, or of the step's next attempt,
    /// reads the details by [`Queue::last_heartbeat`]. Secrets are redacted.
    pub async fn heartbeat_with(
        &self,
        id: &TaskId,
        fence: u64,
        details: Payload,
    ) -> Result<Task, EngineError> {
        let details = self.ledger.secrets.out_of_details(details, &self.ledger.limits);
        self.change(id, |task, now| task.beaten_with(fence, details.clone(), now)).await
    }

    /// Like [`Queue::heartbeat`], and names the state that the work is in, as in `testing`. Lists of tasks show it, and
    /// the task's audit keeps the changes. Every state is watched alike: a claimant that is silent for too long loses
    /// the task.
    ///
    /// ```
    /// use goldseam::prelude::*;
    /// use goldseam::queue::{QueueName, Want};
    ///
    /// async fn merge(ctx: Context, branch: String) -> goldseam::Result<()> { ctx.remote("merge", &branch).await }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("merge", merge).start().await?;
    /// let run = engine.start(merge, "m-1", &"main".to_owned()).await?;
    /// run.wait_until(|run| run.status == goldseam::Status::Waiting).await?;
    /// let queue = goldseam::connect(&url).await?.queue();
    /// let want = Want { owner: "ci-1".to_owned(), queue: QueueName::new("default")?, kind: None, limit: 1 };
    /// let task = queue.claim(want).await?.remove(0);
    /// let task = queue.heartbeat_in(&task.id, task.fence, "testing", None).await?;
    /// assert_eq!(task.work_state().unwrap().as_str(), "testing");
    /// # Ok(()) }
    /// ```
    pub async fn heartbeat_in(
        &self,
        id: &TaskId,
        fence: u64,
        state: &str,
        details: Option<Payload>,
    ) -> Result<Task, EngineError> {
        let state = WorkState::new(state)?;
        let details = details.map(|details| self.ledger.secrets.out_of_details(details, &self.ledger.limits));
        self.change(id, |task, now| {
            let beaten = task.beaten_in(fence, &state, now)?;
            Ok(match details.clone() {
                Some(details) => beaten.with_details(details, now),
                None => beaten,
            })
        })
        .await
    }

    /// The details of the last heartbeat of an earlier claim of this task, or of an earlier attempt at its remote
    /// step.
    pub async fn last_heartbeat(&self, task: &Task) -> Result<Option<Payload>, EngineError> {
        if let Some(details) = task.last_heartbeat() {
            return Ok(Some(details.clone()));
        }
        let (Some(run), Some(step)) = (&task.run, task.step.as_ref().filter(|step| step.attempt > 1)) else {
            return Ok(None);
        };
        let mut found: Option<(u32, Payload)> = None;
        let mut after = None;
        loop {
            let filter = TaskFilter {
                run: Some(run.clone()),
                advance: Some(false),
                after: after.take(),
                limit: EARLIER,
                ..TaskFilter::default()
            };
            let page = self.ledger.store.tasks(filter).await?;
            for earlier in &page {
                let same =
                    earlier.step.as_ref().filter(|one| one.key == step.key && one.attempt < step.attempt);
                let (Some(one), Some(details)) = (same, earlier.last_heartbeat()) else { continue };
                if found.as_ref().is_none_or(|(attempt, _)| *attempt <= one.attempt) {
                    found = Some((one.attempt, details.clone()));
                }
            }
            match page.last() {
                Some(last) if page.len() == EARLIER as usize => after = Some(last.id.clone()),
                _ => return Ok(found.map(|(_, details)| details)),
            }
        }
    }

    /// Completes a task. A repeat with the same result and fence changes nothing; another result or fence is refused.
    /// The result of a remote step is in its run's log once this returns.
    pub async fn complete(&self, id: &TaskId, fence: u64, result: Payload) -> Result<Task, EngineError> {
        let task = self.get(id).await?;
        if let Some(over) = self.end_step(&task, fence, Ok(result.clone())).await? {
            return Ok(over);
        }
        self.change_from(task, |task, now| task.completed(fence, result.clone(), now)).await
    }

    /// Fails a task, which is retried while attempts are left. A remote step is retried by its own policy, as another
    /// task.
    pub async fn fail(&self, id: &TaskId, fence: u64, failure: Failure) -> Result<Task, EngineError> {
        let failure = self.ledger.secrets.out_of(failure);
        let task = self.get(id).await?;
        if let Some(over) = self.end_step(&task, fence, Err(failure.clone())).await? {
            return Ok(over);
        }
        self.change_from(task, |task, now| task.failed(fence, failure.clone(), now)).await
    }

    /// Releases a task without counting an attempt.
    pub async fn release(&self, id: &TaskId, fence: u64) -> Result<Task, EngineError> {
        self.change(id, |task, now| task.released(fence, now)).await
    }

    /// Cancels a task. If it executes a remote step, the step fails and is not retried.
    pub async fn cancel(&self, id: &TaskId) -> Result<Task, EngineError> {
        let task = self.get(id).await?;
        if let Some(over) = self.cancel_step(&task).await? {
            return Ok(over);
        }
        self.change_from(task, Task::cancelled).await
    }

    /// Like [`Queue::cancel`], at the request of a person: the audit of the task records who it was.
    pub async fn cancel_by_hand(&self, id: &TaskId, who: Option<&str>) -> Result<Task, EngineError> {
        let task = self.get(id).await?;
        if let Some(over) = self.cancel_step(&task).await? {
            return Ok(over);
        }
        self.change_from(task, |task, now| task.cancelled_by(who, now)).await
    }

    async fn change<F>(&self, id: &TaskId, change: F) -> Result<Task, EngineError>
    where
        F: Fn(Task, goldseam_core::Millis) -> Result<Task, goldseam_core::task::TaskRefusal>,
    {
        self.change_from(self.get(id).await?, change).await
    }

    /// Like `change`, for a task that was just read.
    async fn change_from<F>(&self, mut task: Task, change: F) -> Result<Task, EngineError>
    where
        F: Fn(Task, goldseam_core::Millis) -> Result<Task, goldseam_core::task::TaskRefusal>,
    {
        let mut pause_for = PAUSE;
        for attempt in 1.. {
            let expect = Expect::Version(task.version);
            let now = self.ledger.store.now().await?;
            let next = change(task.clone(), now)?;
            if next == task {
                return Ok(task);
            }
            match self.ledger.put_task(next.clone(), expect).await {
                Ok(Written::Done) => return Ok(next),
                Ok(Written::Lost(_)) if attempt < ATTEMPTS_MAX => {}
                Ok(Written::Lost(_)) => {
                    return Err(EngineError::Contended { doing: "updating a task" });
                }
                Err(error) => return Err(error),
            }
            pause(pause_for).await;
            pause_for *= 2;
            task = self.get(&task.id).await?;
        }
        Err(EngineError::Contended { doing: "updating a task" })
    }
}
