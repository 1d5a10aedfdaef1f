//! User tasks and queues.

use std::time::Duration;

use async_trait::async_trait;
use goldseam::unstable::core::reserved::Named;
use goldseam::unstable::core::task::{NewTask as Submission, Task, TaskRefusal, TaskState};
use goldseam::unstable::core::{LaneName, Payload, QueueName, TaskId, argument};
use goldseam::unstable::engine::config::QUEUE_DEFAULT;
use goldseam::unstable::engine::queue::Want;
use goldseam::unstable::store::TaskFilter;
use goldseam::{EngineError, RunId};

use super::{LocalApi, limit};
use crate::api::{ApiResult, TasksApi};
use crate::caller::Caller;
use crate::doc::task::{
    ClaimedTaskDoc, Hold, NewClaim, NewFailure, NewHeartbeat, NewReclaim, NewResult, NewUserTask,
    QueueStatsDoc, ReclaimedDoc, TasksQuery,
};
use crate::doc::{ItemsDoc, PageDoc};
use crate::problem::Problem;

/// Default number of tasks in a page.
const TASKS_DEFAULT: u32 = 100;
/// How often a waiting claim looks for due tasks without a change: some tasks become due by time alone.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The fence of a hold; a server has replaced a token by its fence.
fn fence(fence: Option<u64>) -> Result<u64, Problem> {
    fence.ok_or_else(|| Problem::bad_request("pass the `fence` or the `token` from the claim"))
}

/// Whether a task was created by the same submission.
fn is_same(task: &Task, new: &Submission) -> bool {
    (&task.kind, &task.queue, &task.lane, &task.key, &task.payload)
        == (&new.kind, &new.queue, &new.lane, &new.key, &new.payload)
        && (task.priority, task.attempts_max, task.silence_max)
            == (new.priority, new.attempts_max, new.silence_max)
}

#[async_trait]
impl TasksApi for LocalApi {
    async fn submit(&self, caller: &Caller, new: NewUserTask) -> ApiResult<Task> {
        let payload = self.payload(&new.payload)?;
        argument::positive("attempts_max", new.attempts_max.into())?;
        for (what, text) in [("the kind", Some(&new.kind)), ("the key", new.key.as_ref())] {
            self.check_text(what, text.map_or("", String::as_str))?;
        }
        let derived = caller.command_id("submit", "").filter(|_| new.id.is_none());
        let id = match (&new.id, &derived) {
            (Some(id), _) => TaskId::new(id)?,
            (None, Some(derived)) => TaskId::new(format!("task-{derived}"))?,
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
            return Err(match derived {
                Some(_) => Problem::key_reused(&task.id),
                None => Problem::id_reused(&task.id),
            });
        }
        Ok(task)
    }

    async fn tasks(&self, query: TasksQuery) -> ApiResult<PageDoc<Task>> {
        let most = limit::page(query.limit, TASKS_DEFAULT)?;
        let queue = query.queue.map(QueueName::new).transpose()?;
        let after = query.after.map(TaskId::new).transpose()?;
        let filter = TaskFilter {
            queue: queue.map(|queue| queue.to_string()),
            state: query.state,
            run: query.run.map(RunId::new).transpose()?,
            owner: query.owner,
            advance: Some(false),
            after,
            limit: most + 1,
            ..TaskFilter::default()
        };
        let mut items = self.client.store().tasks(filter).await?;
        let wanted = usize::try_from(most).unwrap_or(usize::MAX);
        let more = items.len() > wanted;
        items.truncate(wanted);
        let next = items.last().map(|task| task.id.to_string()).filter(|_| more);
        Ok(PageDoc::new(items, next))
    }

    async fn task(&self, task: &TaskId) -> ApiResult<Task> {
        Ok(self.client.queue().get(task).await?)
    }

    async fn claim(&self, _: &Caller, new: NewClaim) -> ApiResult<ItemsDoc<ClaimedTaskDoc>> {
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
                    let last_heartbeat = self.heartbeat_details(&task).await;
                    claimed.push(ClaimedTaskDoc { task, token: None, last_heartbeat });
                }
                return Ok(claimed.into());
            }
            let next_poll = until.min(now + POLL_INTERVAL);
            let seen = mark;
            while mark == seen && clock.elapsed() < next_poll {
                mark = self.client.wait_for_change(seen).await?;
            }
        }
    }

    async fn heartbeat(&self, _: &Caller, task: &TaskId, new: NewHeartbeat) -> ApiResult<Task> {
        let queue = self.client.queue();
        let fence = fence(new.fence)?;
        let details = new.details.as_ref().map(|details| self.payload(details)).transpose()?;
        Ok(match (&new.state, details) {
            (Some(state), details) => queue.heartbeat_in(task, fence, state, details).await?,
            (None, Some(details)) => queue.heartbeat_with(task, fence, details).await?,
            (None, None) => queue.heartbeat(task, fence).await?,
        })
    }

    async fn complete(&self, _: &Caller, task: &TaskId, new: NewResult) -> ApiResult<Task> {
        let result = self.payload(&new.result)?;
        Ok(self.client.queue().complete(task, fence(new.fence)?, result).await?)
    }

    async fn fail(&self, _: &Caller, task: &TaskId, new: NewFailure) -> ApiResult<Task> {
        self.check_text("the failure", &new.failure.message)?;
        let fence = fence(new.fence)?;
        Ok(self.client.queue().fail(task, fence, new.failure).await?)
    }

    async fn release(&self, caller: &Caller, task: &TaskId, hold: Hold) -> ApiResult<Task> {
        let fence = fence(hold.fence)?;
        let released = self.client.queue().release(task, fence).await;
        self.unless_repeated(caller, released, |now| now.was_released_under(fence)).await
    }

    async fn cancel_task(&self, caller: &Caller, task: &TaskId) -> ApiResult<Task> {
        let cancelled = self.client.queue().cancel_by_hand(task, caller.who.as_deref()).await;
        self.unless_repeated(caller, cancelled, |now| now.state == TaskState::Cancelled).await
    }

    async fn reclaim(&self, _: &Caller, new: NewReclaim) -> ApiResult<ReclaimedDoc> {
        let claims = self.client.claims();
        let dry_run = new.dry_run;
        if let Some(ms) = new.older_than_ms {
            let span = Duration::from_millis(ms);
            let entries_reclaimed = match dry_run {
                true => claims.count_stale(span).await?,
                false => claims.reclaim_stale(span).await?,
            };
            return Ok(ReclaimedDoc {
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
        Ok(ReclaimedDoc {
            dry_run,
            entries_reclaimed: stats.entries_reclaimed,
            locks_cleaned: Some(stats.locks_cleaned),
            recovery_timestamp: Some(stats.recovery_timestamp),
        })
    }

    async fn queues(&self) -> ApiResult<QueueStatsDoc> {
        let liveness = self.client.healer().liveness().await?;
        Ok(self.client.queue().stats_served(&liveness).await?)
    }
}

impl LocalApi {
    /// Reads the heartbeat details of an earlier claim. Details are optional: if the read fails, the claim goes on
    /// without them.
    async fn heartbeat_details(&self, task: &Task) -> Option<Payload> {
        match self.client.queue().last_heartbeat(task).await {
            Ok(details) => details,
            Err(error) => {
                tracing::warn!(task = %task.id, %error, "failed to read heartbeat details of earlier attempts");
                None
            }
        }
    }

    /// Accepts a refused change if it repeats a keyed change that was made: the fence refuses the repeat.
    async fn unless_repeated(
        &self,
        caller: &Caller,
        done: Result<Task, EngineError>,
        same: impl Fn(&Task) -> bool,
    ) -> ApiResult<Task> {
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
}
