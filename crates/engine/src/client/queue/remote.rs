//! What workers bring for remote steps: into the run's log first, then the worker is told, then the task is over.
//!
//! The log alone says whether a result counts. A task whose step needs nobody any more is cancelled as soon as
//! somebody comes across it.

use goldseam_core::command::StepEnded;
use goldseam_core::decide::{Refusal, View};
use goldseam_core::planted::{self, Bug};
use goldseam_core::task::{Task, TaskRefusal};
use goldseam_core::{Command, Failure, Payload, RunId, decide};

use super::Queue;
use crate::ledger::error::{EngineError, refused};

/// Who has a task while it is being cancelled.
const CANCELLER: &str = "cancel";

impl Queue {
    /// Ends the remote step that `task` does, if it does one.
    pub(super) async fn bring(
        &self,
        task: &Task,
        fence: u64,
        result: Result<Payload, Failure>,
    ) -> Result<Option<Task>, EngineError> {
        let Some((run, ended)) = ended(task, fence, result.clone()) else { return Ok(None) };
        if let Err(refusal) = task.held(fence)
            && !self.was_taken(&run, &ended).await?
        {
            return Err(refusal.into());
        }
        if planted::is(Bug::ResultBeforeLog) {
            let over = self.settle(task, result).await;
            drop(self.tell(&run, ended).await);
            return Ok(Some(over));
        }
        match self.tell(&run, ended).await {
            Ok(()) => Ok(Some(self.settle(task, result).await)),
            Err(error) => {
                if is_late(&error) {
                    self.drop_task(task).await;
                }
                Err(error)
            }
        }
    }

    /// The result is in the log once this returns.
    async fn tell(&self, run: &RunId, ended: StepEnded) -> Result<(), EngineError> {
        self.ledger.commit(run, &Command::StepEnded(ended)).await?;
        self.ledger.process.poke(run);
        Ok(())
    }

    /// Whether the log has exactly this already: a repeat may come when another claimant has the task. Another result of
    /// the same claim is refused.
    async fn was_taken(&self, run: &RunId, ended: &StepEnded) -> Result<bool, EngineError> {
        let state = match self.ledger.load_surely(run).await {
            Ok(loaded) => loaded.state,
            Err(EngineError::Refused { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let (command, now) = (Command::StepEnded(ended.clone()), self.ledger.clock.now());
        let command = self.ledger.secrets.kept_out(run, &command);
        match decide(View::Full(&state), &command, now, &self.ledger.limits) {
            Ok(decision) => Ok(decision.events.is_empty()),
            Err(refusal @ Refusal::OtherResult { .. }) => Err(refused(run, refusal)),
            Err(_) => Ok(false),
        }
    }

    /// The task is over, whoever has it. If the store fails here, somebody finds out later.
    async fn settle(&self, task: &Task, result: Result<Payload, Failure>) -> Task {
        let settled = |task: Task, now| Ok(task.settled(result.clone(), now));
        match self.change_from(task.clone(), settled).await {
            Ok(over) => over,
            Err(error) => {
                tracing::warn!(task = %task.id, %error, "a task whose result is in the log is not over yet");
                task.clone().settled(result.clone(), task.changed_at)
            }
        }
    }

    async fn drop_task(&self, task: &Task) {
        if let Err(error) = self.change_from(task.clone(), Task::cancelled).await {
            tracing::debug!(task = %task.id, %error, "a task that nobody waits for is not over yet");
        }
    }

    /// Cancels a remote step's task: its step fails for good. The task is taken first, so that whoever has it
    /// can bring nothing any more.
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
        match self.tell(&run, ended).await {
            Err(error) if !is_late(&error) => Err(error),
            _ => self.change_from(taken, Task::cancelled).await.map(Some),
        }
    }

    /// Leaves out what was claimed before and has brought its result meanwhile, or that nobody waits for.
    pub(super) async fn wanted(&self, claimed: Vec<Task>) -> Vec<Task> {
        let mut wanted = Vec::with_capacity(claimed.len());
        for task in claimed {
            let again = task.step.is_some() && task.fence > 1;
            match again {
                false => wanted.push(task),
                true => match self.is_awaited(&task).await {
                    Ok(true) => wanted.push(task),
                    Ok(false) => self.drop_task(&task).await,
                    // Its result may be in the log. Handed out now, it could be done twice; it comes back by itself.
                    Err(error) => {
                        tracing::warn!(task = %task.id, %error, "a task is not handed out: its run cannot be read");
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
    let (run, step) = (task.run.clone()?, task.step.as_ref()?);
    let (path, attempt) = (step.path.clone(), step.attempt);
    Some((run, StepEnded { path, attempt, task: task.id.clone(), fence, result }))
}

/// Whether the run will never take it.
fn is_late(error: &EngineError) -> bool {
    let EngineError::Refused { refusal, .. } = error else { return false };
    matches!(refusal, Refusal::LateResult { .. } | Refusal::Finished { .. } | Refusal::NoSuchRun)
}
