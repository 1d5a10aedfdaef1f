//! A user's own tasks.

use std::time::Duration;

use goldseam::EngineError;
use goldseam::core::reserved::Named;
use goldseam::core::task::{NewTask as Submission, Task, TaskRefusal, TaskState};
use goldseam::core::{LaneName, Payload, QueueName, TaskId, argument};
use goldseam::engine::config::QUEUE_DEFAULT;
use goldseam::engine::queue::Want;

use super::{Local, limit};
use crate::api::Answer;
use crate::caller::Caller;
use crate::doc::task::{Claimed, Hold, NewClaim, NewFailure, NewReclaim, NewTask, Reclaimed, TasksQuery};
use crate::doc::{Items, Page};
use crate::problem::Problem;

/// Tasks of a page unless told otherwise.
const TASKS: u32 = 100;
/// A claim that waits looks again after so long at the latest: some tasks become due by time alone.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The fence of a hold; whoever has tokens turns them into one before.
pub(super) fn fence(fence: Option<u64>) -> Result<u64, Problem> {
    fence.ok_or_else(|| Problem::bad_request("name the fence or the token that the claim brought"))
}

/// Whether a task is what was asked for.
fn is_same(task: &Task, new: &Submission) -> bool {
    (&task.kind, &task.queue, &task.lane, &task.key, &task.payload)
        == (&new.kind, &new.queue, &new.lane, &new.key, &new.payload)
        && (task.priority, task.attempts_max, task.silence_max)
            == (new.priority, new.attempts_max, new.silence_max)
}

impl Local {
    pub(super) async fn submit_task(&self, caller: &Caller, new: NewTask) -> Answer<Task> {
        let payload = self.payload(&new.payload)?;
        argument::positive("attempts_max", new.attempts_max.into())?;
        for (what, text) in [("the kind", Some(&new.kind)), ("the key", new.key.as_ref())] {
            self.check_text(what, text.map_or("", String::as_str))?;
        }
        let made = caller.command_id("submit", "").filter(|_| new.id.is_none());
        let id = match (&new.id, &made) {
            (Some(id), _) => TaskId::new(id)?,
            (None, Some(made)) => TaskId::new(format!("task-{made}"))?,
            (None, None) => TaskId::new(self.client.new_id().as_str().replacen("run-", "task-", 1))?,
        };
        limit::open(Named::Task, id.as_str())?;
        limit::open(Named::Kind, &new.kind)?;
        limit::open(Named::Id, new.key.as_deref().unwrap_or_default())?;
        let queue = QueueName::new(new.queue.as_deref().unwrap_or(QUEUE_DEFAULT))?;
        limit::open_queue(&queue)?;
        let submission = Submission {
            id,
            kind: new.kind,
            queue,
            lane: new.lane.map(LaneName::new).transpose()?,
            priority: new.priority,
            key: new.key,
            run_at: self.client.store().now().await? + Duration::from_millis(new.delay_ms),
            payload,
            attempts_max: new.attempts_max,
            silence_max: new.silence_max_ms.map(Duration::from_millis),
        };
        let task = self.client.queue().submit(submission.clone()).await?;
        if task.id == submission.id && !is_same(&task, &submission) {
            let key = made.is_some();
            return Err(if key { Problem::key_reused(&task.id) } else { Problem::id_reused(&task.id) });
        }
        Ok(task)
    }

    pub(super) async fn list_tasks(&self, query: TasksQuery) -> Answer<Page<Task>> {
        let most = limit::page(query.limit, TASKS)?;
        let queue = query.queue.map(QueueName::new).transpose()?;
        let after = query.after.map(TaskId::new).transpose()?;
        let mut items = self.client.queue().list(queue.as_ref(), query.state, after, most + 1).await?;
        let wanted = usize::try_from(most).unwrap_or(usize::MAX);
        let more = items.len() > wanted;
        items.truncate(wanted);
        let next = items.last().map(|task| task.id.to_string()).filter(|_| more);
        Ok(Page::new(items, next))
    }

    pub(super) async fn claim_tasks(&self, new: NewClaim) -> Answer<Items<Claimed>> {
        self.check_text("the owner", &new.owner)?;
        self.check_text("the kind", new.kind.as_deref().unwrap_or_default())?;
        limit::claimant(&new.owner)?;
        let queue = new.queue_name()?;
        limit::open_queue(&queue)?;
        let want = Want { queue, owner: new.owner, kind: new.kind, limit: limit::page(new.limit, 1)? };
        let clock = &self.client.ledger().clock;
        let until = clock.elapsed() + limit::wait(new.wait_ms)?;
        let mut mark = 0;
        loop {
            let tasks = self.client.queue().claim(want.clone()).await?;
            let now = clock.elapsed();
            if !tasks.is_empty() || now >= until {
                let mut claimed = Vec::with_capacity(tasks.len());
                for task in tasks {
                    let last_heartbeat = self.details_for(&task).await;
                    claimed.push(Claimed { task, token: None, last_heartbeat });
                }
                return Ok(claimed.into());
            }
            let look_at = until.min(now + LOOK_AGAIN);
            let seen = mark;
            while mark == seen && clock.elapsed() < look_at {
                mark = self.client.wait_for_change(seen).await?;
            }
        }
    }

    /// Details are a help: if they cannot be read, the task is handed out without them.
    async fn details_for(&self, task: &Task) -> Option<Payload> {
        match self.client.queue().last_heartbeat(task).await {
            Ok(details) => details,
            Err(error) => {
                tracing::warn!(task = %task.id, %error, "failed to read heartbeat details of earlier attempts");
                None
            }
        }
    }

    pub(super) async fn fail_task(&self, task: &TaskId, new: NewFailure) -> Answer<Task> {
        self.check_text("the failure", &new.failure.message)?;
        let fence = fence(new.fence)?;
        Ok(self.client.queue().fail(task, fence, new.failure).await?)
    }

    pub(super) async fn release_task(&self, caller: &Caller, task: &TaskId, hold: &Hold) -> Answer<Task> {
        let fence = fence(hold.fence)?;
        let released = self.client.queue().release(task, fence).await;
        self.unless_repeated(caller, released, |now| now.was_released_under(fence)).await
    }

    pub(super) async fn drop_task(&self, caller: &Caller, task: &TaskId) -> Answer<Task> {
        let cancelled = self.client.queue().cancel(task).await;
        self.unless_repeated(caller, cancelled, |now| now.state == TaskState::Cancelled).await
    }

    /// A change that came twice under one key is refused by the fence the second time, though it was made.
    async fn unless_repeated(
        &self,
        caller: &Caller,
        done: Result<Task, EngineError>,
        same: impl Fn(&Task) -> bool,
    ) -> Answer<Task> {
        let refused = match done {
            Err(EngineError::Task(refused)) if caller.key.is_some() => refused,
            done => return Ok(done?),
        };
        let (TaskRefusal::Fenced { task, .. }
        | TaskRefusal::Over { task, .. }
        | TaskRefusal::OtherResult { task, .. }) = &refused;
        let now = self.client.queue().get(task).await?;
        if same(&now) { Ok(now) } else { Err(EngineError::Task(refused).into()) }
    }

    pub(super) async fn take_back(&self, new: &NewReclaim) -> Answer<Reclaimed> {
        let (claims, dry_run) = (self.client.claims(), new.dry_run);
        if let Some(ms) = new.older_than_ms {
            let span = Duration::from_millis(ms);
            let entries_reclaimed = match dry_run {
                true => claims.count_stale(span).await?,
                false => claims.reclaim_stale(span).await?,
            };
            return Ok(Reclaimed {
                dry_run,
                entries_reclaimed,
                locks_cleaned: None,
                recovery_timestamp: None,
            });
        }
        let stats = match dry_run {
            true => claims.recovery_stats().await?,
            false => claims.detect_and_recover_stale().await?,
        };
        Ok(Reclaimed {
            dry_run,
            entries_reclaimed: stats.entries_reclaimed,
            locks_cleaned: Some(stats.locks_cleaned),
            recovery_timestamp: Some(stats.recovery_timestamp),
        })
    }
}
