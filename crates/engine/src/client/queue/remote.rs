//! Results of remote steps: first the result is appended to the run's log, then the worker gets its reply, then the
//! task ends.
//!
//! Only the log decides whether a result counts. A task whose step no longer needs it is cancelled when it is next
//! read.

use goldseam_core::command::StepEnded;
use goldseam_core::decide::{Refusal, View};
use goldseam_core::task::{Task, TaskRefusal};
use goldseam_core::{Command, Failure, Payload, RunId, decide};

use super::Queue;
use crate::ledger::error::{EngineError, refused};

/// The owner of a task while it is being cancelled.
const CANCELLER: &str = "cancel";

impl Queue {
    /// Ends the remote step that `task` executes, if it executes one.
    pub(super) async fn end_step(
        &self,
        task: &Task,
        fence: u64,
        result: Result<Payload, Failure>,
    ) -> Result<Option<Task>, EngineError> {
        let Some((run, ended)) = ended(task, fence, result.clone()) else { return Ok(None) };
        if let Err(refusal) = task.held(fence)
            && !self.is_recorded(&run, &ended).await?
        {
            return Err(refusal.into());
        }
        match self.record(&run, ended).await {
            Ok(()) => Ok(Some(self.settle(task, result).await)),
            Err(error) => {
                if is_late(&error) {
                    self.drop_task(task).await;
                }
                Err(error)
            }
        }
    }

    /// Appends the result to the log.
    async fn record(&self, run: &RunId, ended: StepEnded) -> Result<(), EngineError> {
        self.ledger.commit(run, &Command::StepEnded(ended)).await?;
        self.ledger.process.poke(run);
        Ok(())
    }

    /// Whether the log already has this result, because a repeat may come while another claimant has the task.
    /// Another result of the same claim is refused.
    async fn is_recorded(&self, run: &RunId, ended: &StepEnded) -> Result<bool, EngineError> {
        let state = match self.ledger.load_surely(run).await {
            Ok(loaded) => loaded.state,
            Err(EngineError::Refused { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let command = Command::StepEnded(ended.clone());
        let now = self.ledger.clock.now();
        let command = self.ledger.secrets.kept_out(run, &command);
        match decide(View::Full(&state), &command, now, &self.ledger.limits) {
            Ok(decision) => Ok(decision.events.is_empty()),
            Err(refusal @ Refusal::OtherResult { .. }) => Err(refused(run, refusal)),
            Err(_) => Ok(false),
        }
    }

    /// Ends the task, whichever claimant has it. If the store fails here, a later read of the task ends it.
    async fn settle(&self, task: &Task, result: Result<Payload, Failure>) -> Task {
        let settled = |task: Task, now| Ok(task.settled(result.clone(), now));
        match self.change_from(task.clone(), settled).await {
            Ok(over) => over,
            Err(error) => {
                tracing::warn!(task = %task.id, %error, "failed to end a task whose result is in the log");
                task.clone().settled(result.clone(), task.changed_at)
            }
        }
    }

    async fn drop_task(&self, task: &Task) {
        if let Err(error) = self.change_from(task.clone(), Task::cancelled).await {
            tracing::debug!(task = %task.id, %error, "failed to cancel a task that no step waits for");
        }
    }

    /// Cancels the task of a remote step, which fails the step without a retry. Claims the task first, so its worker
    /// can no longer report a result.
    pub(super) async fn cancel_step(&self, task: &Task) -> Result<Option<Task>, EngineError> {
        if task.step.is_none() {
            return Ok(None);
        }
        let take = |task: Task, now| match task.state.is_live() {
            true => Ok(task.claimed(CANCELLER, now)),
            false => Err(TaskRefusal::Over { task: task.id.clone(), state: task.state.as_str() }),
        };
        let taken = self.change_from(task.clone(), take).await?;
        let failure = Failure::terminal("its task was cancelled").with_code("task-cancelled");
        let Some((run, ended)) = ended(&taken, taken.fence, Err(failure)) else { return Ok(None) };
        match self.record(&run, ended).await {
            Err(error) if !is_late(&error) => Err(error),
            _ => self.change_from(taken, Task::cancelled).await.map(Some),
        }
    }

    /// Drops reclaimed tasks that meanwhile have a result, or that no step waits for.
    pub(super) async fn wanted(&self, claimed: Vec<Task>) -> Vec<Task> {
        let mut wanted = Vec::with_capacity(claimed.len());
        for task in claimed {
            let again = task.step.is_some() && task.fence > 1;
            match again {
                false => wanted.push(task),
                true => match self.is_awaited(&task).await {
                    Ok(true) => wanted.push(task),
                    Ok(false) => self.drop_task(&task).await,
                    // The log may have its result, and a second worker could repeat the work. A later sweep returns
                    // the task to its queue.
                    Err(error) => {
                        tracing::warn!(task = %task.id, %error, "withholding task: failed to read its run");
                    }
                },
            }
        }
        wanted
    }

    async fn is_awaited(&self, task: &Task) -> Result<bool, EngineError> {
        let Some(run) = &task.run else { return Ok(true) };
        match self.ledger.load_surely(run).await {
            Ok(loaded) => Ok(loaded.state.open_remote().iter().any(|open| open.task == task.id)),
            Err(EngineError::Refused { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn ended(task: &Task, fence: u64, result: Result<Payload, Failure>) -> Option<(RunId, StepEnded)> {
    let run = task.run.clone()?;
    let step = task.step.as_ref()?;
    let path = step.path.clone();
    let attempt = step.attempt;
    Some((run, StepEnded { path, attempt, task: task.id.clone(), fence, result }))
}

/// Whether the run will never accept the result.
fn is_late(error: &EngineError) -> bool {
    let EngineError::Refused { refusal, .. } = error else { return false };
    matches!(refusal, Refusal::LateResult { .. } | Refusal::Finished { .. } | Refusal::NoSuchRun)
}
