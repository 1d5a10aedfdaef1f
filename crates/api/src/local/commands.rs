//! Starting runs and changing them.

use std::time::Duration;

use async_trait::async_trait;
use goldseam::client::{By, StartOptions, dropping};
use goldseam::unstable::core::command::{Migrate, Withdraw};
use goldseam::unstable::core::decide::Refusal;
use goldseam::unstable::core::event::{JumpRequested, Note, Request, RequestWithdrawn};
use goldseam::unstable::core::reserved::Named;
use goldseam::unstable::core::{Command, Event, QueueName, SignalName, State, WorkflowName};
use goldseam::{EngineError, Millis, Path, RunId, Status, Summary};

use super::healing::{earlier_recovery, recovery_document};
use super::idempotency::{AppliedCommand, KeyedNote};
use super::{LocalApi, limit};
use crate::api::{ApiResult, CommandsApi};
use crate::caller::Caller;
use crate::doc::change::{
    AnsweredDoc, BranchedDoc, DoneDoc, JumpedDoc, NewAnswer, NewJump, NewMigration, NewNote, NewSignal,
    ResumedDoc, SignalledDoc,
};
use crate::doc::ending::{CancelledDoc, NewRetry, NewWithdrawal, TerminatedDoc, WithdrawnDoc};
use crate::doc::run::{NewRun, StartedDoc};
use crate::next_step::with_commands;
use crate::problem::Problem;

/// Adds the times and the lane of a new run.
fn timed(mut options: StartOptions, new: &NewRun) -> ApiResult<StartOptions> {
    let NewRun { timeout_ms, deadline_ms, delay_ms, start_at_ms, lane, .. } = new;
    let twice = |one: &str, other: &str| {
        let detail = format!("`{one}` and `{other}` set the same time");
        Problem::bad_request(detail).code("GS0160").hint(format!("use either `{one}` or `{other}`"))
    };
    if timeout_ms.is_some() && deadline_ms.is_some() {
        return Err(twice("timeout_ms", "deadline_ms"));
    }
    if delay_ms.is_some() && start_at_ms.is_some() {
        return Err(twice("delay_ms", "start_at_ms"));
    }
    options = timeout_ms.iter().fold(options, |options, ms| options.timeout(Duration::from_millis(*ms)));
    options = deadline_ms.iter().fold(options, |options, at| options.deadline(Millis(*at).into()));
    options = delay_ms.iter().fold(options, |options, ms| options.delay(Duration::from_millis(*ms)));
    options = start_at_ms.iter().fold(options, |options, at| options.start_at(Millis(*at).into()));
    Ok(lane.iter().fold(options, |options, lane| options.lane(lane)))
}

#[async_trait]
impl CommandsApi for LocalApi {
    async fn start(&self, caller: &Caller, new: NewRun) -> ApiResult<StartedDoc> {
        let workflow = WorkflowName::new(&new.workflow)?;
        let input = self.payload(&new.input)?;
        // Without an id, the run's id is derived from the idempotency key.
        let derived = caller.command_id("start", "").filter(|_| new.id.is_none());
        let run = match (&new.id, &derived) {
            (Some(id), _) => RunId::new(id)?,
            (None, Some(derived)) => RunId::new(format!("run-{derived}"))?,
            (None, None) => self.client.new_id(),
        };
        limit::open(Named::Id, run.as_str())?;
        limit::open(Named::Workflow, workflow.as_str())?;
        new.queue.as_ref().map(|queue| limit::open_queue(&QueueName::new(queue)?)).transpose()?;
        let mut options = StartOptions::default().priority(new.priority).trace(caller.trace.clone());
        options = new.queue.iter().fold(options, |options, queue| options.queue(queue));
        options = new.version.iter().fold(options, |options, version| options.version(*version));
        options = new.tags.iter().fold(options, |options, (key, value)| options.tag(key, value));
        options = new
            .attributes
            .iter()
            .fold(options, |options, (key, value)| options.attribute(key, value.clone()));
        options = timed(options, &new)?;
        let committed = match self.client.begin(&new.workflow, &run, input, options).await {
            Err(EngineError::Refused { refusal: Refusal::OtherInput { .. }, .. }) if derived.is_some() => {
                return Err(Problem::key_reused(&run));
            }
            committed => committed?,
        };
        if committed.records.is_empty() && !self.is_same_start(&run, &new).await? {
            return Err(if derived.is_some() { Problem::key_reused(&run) } else { Problem::id_reused(&run) });
        }
        // A repeated request gets the original response.
        let status = match caller.key {
            Some(_) => Status::Queued,
            None => self.client.get(&run).await?.status,
        };
        Ok(StartedDoc { run, status, workflow })
    }

    async fn signal(&self, caller: &Caller, run: &RunId, new: NewSignal) -> ApiResult<SignalledDoc> {
        let name = SignalName::new(&new.name)?;
        let payload = self.payload(&new.payload)?;
        self.check_id(new.id.as_deref())?;
        limit::open(Named::Command, new.id.as_deref().unwrap_or_default())?;
        let derived = caller.command_id("signal", run.as_str()).filter(|_| new.id.is_none());
        let given = new.id.or(derived);
        let fresh = given.is_none();
        let id = self.client.command_id(given);
        let command = Command::Signal { name: name.clone(), id, fresh, payload };
        let applied = self.carry_out_once(run, !fresh, command).await?;
        let expects = |state: &State| state.summary.waits.iter().any(|wait| wait.wants(&name).is_some());
        let unawaited = applied.state_before(run).map_or(applied.unawaited, |state| !expects(&state));
        let warning = unawaited
            .then(|| format!("no open wait of {run} expects signal {name}; the signal stays unread for now"));
        Ok(SignalledDoc { event: applied.end, run: run.clone(), signal: name, warning })
    }

    async fn answer(
        &self,
        caller: &Caller,
        run: &RunId,
        question: &Path,
        new: NewAnswer,
    ) -> ApiResult<AnsweredDoc> {
        let answer = self.payload(&new.answer)?;
        self.check_id(new.id.as_deref())?;
        limit::open(Named::Command, new.id.as_deref().unwrap_or_default())?;
        let derived = caller.command_id("answer", run.as_str()).filter(|_| new.id.is_none());
        let given = new.id.or(derived);
        let keyed = given.is_some();
        let id = self.client.command_id(given);
        let by = self.who(caller, new.by)?;
        let command = Command::Answer { question: question.clone(), since: new.since, id, answer, by };
        let event = self.carry_out_once(run, keyed, command).await?.end;
        Ok(AnsweredDoc { event, question: question.clone(), run: run.clone() })
    }

    async fn pause(&self, caller: &Caller, run: &RunId, reason: NewNote) -> ApiResult<DoneDoc> {
        let KeyedNote { note, keyed } = self.note(caller, "pause", run, reason)?;
        let event = self.carry_out_once(run, keyed, Command::Pause(note)).await?.end;
        Ok(DoneDoc { event, run: run.clone() })
    }

    async fn resume(&self, caller: &Caller, run: &RunId, reason: NewNote) -> ApiResult<ResumedDoc> {
        let KeyedNote { note, keyed } = self.note(caller, "resume", run, reason)?;
        if let Some(applied) = self.find_repeat(run, keyed, &Command::Resume(note.clone())).await? {
            let recovery = earlier_recovery(run, &applied);
            return Ok(ResumedDoc { event: applied.end, recovery, run: run.clone(), warning: None });
        }
        let warning = self.client.get(run).await.ok().and_then(|summary| may_park_again(&summary));
        let resumed = self.client.resume(run, by(note.clone())).await?;
        let mut event = resumed.end;
        if keyed && !resumed.rested {
            // The run was only recovered, and the events of a recovery do not name the command.
            event = self.client.annotate(run, by(note)).await?;
        }
        Ok(ResumedDoc { event, recovery: recovery_document(&resumed.recovery), run: run.clone(), warning })
    }

    async fn cancel(&self, caller: &Caller, run: &RunId, reason: NewNote) -> ApiResult<CancelledDoc> {
        let KeyedNote { note, keyed } = self.note(caller, "cancel", run, reason)?;
        let command = self.client.cancel_command(run, note).await?;
        let event = self.carry_out_once(run, keyed, command).await?.end;
        let waits_for = self.client.cancel_waits_for(run).await?.as_ref().map(with_commands);
        Ok(CancelledDoc { ended: waits_for.is_none(), event, run: run.clone(), waits_for })
    }

    async fn terminate(&self, caller: &Caller, run: &RunId, reason: NewNote) -> ApiResult<TerminatedDoc> {
        if reason.reason.trim().is_empty() {
            return Err(Problem::bad_request("a termination needs a reason")
                .hint("say in `reason` (--reason) why the run ends without compensation"));
        }
        let KeyedNote { note, keyed } = self.note(caller, "terminate", run, reason)?;
        if keyed {
            let done = self.client.termination(run).await?.filter(|done| done.left.note.id == note.id);
            match done {
                Some(done) if done.left.note.reason == note.reason => {
                    return Ok(TerminatedDoc { event: done.end, left: done.left, run: run.clone() });
                }
                Some(_) => return Err(Problem::key_reused(run)),
                None => {}
            }
            if let Ok(summary) = self.client.get(run).await
                && summary.has_seen(&note.id) == Some(true)
            {
                return Err(Problem::key_reused(run));
            }
        }
        let done = self.client.terminate(run, by(note)).await?;
        Ok(TerminatedDoc { event: done.end, left: done.left, run: run.clone() })
    }

    async fn withdraw(&self, caller: &Caller, run: &RunId, new: NewWithdrawal) -> ApiResult<WithdrawnDoc> {
        let NewWithdrawal { what, by, reason } = new;
        let KeyedNote { note, keyed } = self.note(caller, "withdraw", run, NewNote { by, reason })?;
        let asked = what.unwrap_or(Request::Cancel);
        let probe = Command::Withdraw(Withdraw { note: note.clone(), what: asked, lost: None });
        if let Some(applied) = self.find_repeat(run, keyed, &probe).await? {
            let withdrawn = applied.records.iter().find_map(|recorded| match &recorded.event {
                Event::RequestWithdrawn(RequestWithdrawn { what, .. }) => Some(*what),
                _ => None,
            });
            return match withdrawn {
                Some(withdrawn) if what.is_none_or(|what| what == withdrawn) => {
                    Ok(WithdrawnDoc { event: applied.end, run: run.clone(), what: withdrawn })
                }
                _ => Err(Problem::key_reused(run)),
            };
        }
        let command = self.client.withdraw_command(run, what, note).await?;
        let what = command.what;
        let event = self.carry_out_once(run, keyed, Command::Withdraw(command)).await?.end;
        Ok(WithdrawnDoc { event, run: run.clone(), what })
    }

    async fn jump(&self, caller: &Caller, run: &RunId, new: NewJump) -> ApiResult<JumpedDoc> {
        let NewJump { to, input, drop_mail, compensate, dry_run, drop_cancel, by, reason } = new;
        let step = Path::new(&to)?;
        let input = input.as_ref().map(|input| self.payload(input)).transpose()?;
        let KeyedNote { note, keyed } = self.note(caller, "jump", run, NewNote { by, reason })?;
        let jump = Command::Jump(JumpRequested { note, to: step.clone(), input, drop_mail, compensate });
        let command = dropping(drop_cancel, jump);
        if let Some(applied) = self.find_repeat(run, keyed && !dry_run, &command).await? {
            return self.earlier_jump(run, step, applied, compensate).await;
        }
        let summary = self.client.get(run).await?;
        let needs_code = cannot_undo(&summary);
        let standing = match compensate {
            true => Vec::new(),
            false => self.client.standing(run, &step).await?,
        };
        let jumped = JumpedDoc {
            branch: None,
            cancel_pending: summary.is_cancel_pending(),
            compensating: false,
            event: None,
            over: summary.status.is_terminal(),
            run: run.clone(),
            standing,
            step,
            waits_for: needs_code.clone(),
        };
        if dry_run {
            return Ok(jumped);
        }
        let applied = self.carry_out_once(run, keyed, command).await?;
        if applied.before.is_some() {
            return self.earlier_jump(run, jumped.step, applied, compensate).await;
        }
        let branch = self.branch_of(run, &applied).await?;
        let compensating = is_compensating(&applied);
        let waits_for = match compensating {
            true => Some(self.compensation_waits_for(run, needs_code).await?),
            false => None,
        };
        Ok(JumpedDoc { branch: Some(branch), compensating, event: Some(applied.end), waits_for, ..jumped })
    }

    async fn retry(&self, caller: &Caller, run: &RunId, new: NewRetry) -> ApiResult<DoneDoc> {
        let NewRetry { drop_cancel, by, reason } = new;
        let KeyedNote { note, keyed } = self.note(caller, "retry", run, NewNote { by, reason })?;
        let command = dropping(drop_cancel, Command::Retry(note));
        let event = self.carry_out_once(run, keyed, command).await?.end;
        Ok(DoneDoc { event, run: run.clone() })
    }

    async fn requeue(&self, caller: &Caller, run: &RunId, reason: NewNote) -> ApiResult<DoneDoc> {
        let KeyedNote { note, keyed } = self.note(caller, "requeue", run, reason)?;
        if let Some(applied) = self.find_repeat(run, keyed, &Command::Requeue(note.clone())).await? {
            return Ok(DoneDoc { event: applied.end, run: run.clone() });
        }
        let event = self.client.requeue(run, by(note)).await?;
        Ok(DoneDoc { event, run: run.clone() })
    }

    async fn migrate(&self, caller: &Caller, run: &RunId, new: NewMigration) -> ApiResult<DoneDoc> {
        let NewMigration { to_version: to, by: who, reason } = new;
        let KeyedNote { note, keyed } = self.note(caller, "migrate", run, NewNote { by: who, reason })?;
        let command = Command::Migrate(Migrate { note: note.clone(), to, lost: None });
        if let Some(applied) = self.find_repeat(run, keyed, &command).await? {
            return Ok(DoneDoc { event: applied.end, run: run.clone() });
        }
        let event = self.client.migrate(run, to, by(note)).await?;
        Ok(DoneDoc { event, run: run.clone() })
    }

    async fn reset(&self, caller: &Caller, run: &RunId, reason: NewNote) -> ApiResult<BranchedDoc> {
        let KeyedNote { note, keyed } = self.note(caller, "reset", run, reason)?;
        let applied = self.carry_out_once(run, keyed, Command::Reset(note)).await?;
        self.branched(run, &applied).await
    }

    async fn note_run(&self, caller: &Caller, run: &RunId, reason: NewNote) -> ApiResult<DoneDoc> {
        let KeyedNote { note, keyed } = self.note(caller, "note", run, reason)?;
        let event = self.carry_out_once(run, keyed, Command::Annotate(note)).await?.end;
        Ok(DoneDoc { event, run: run.clone() })
    }
}

impl LocalApi {
    /// The response to a command that opened a branch.
    pub(super) async fn branched(&self, run: &RunId, applied: &AppliedCommand) -> ApiResult<BranchedDoc> {
        let branch = self.branch_of(run, applied).await?;
        Ok(BranchedDoc { branch, event: applied.end, run: run.clone() })
    }

    async fn branch_of(&self, run: &RunId, applied: &AppliedCommand) -> ApiResult<String> {
        Ok(match applied.branch() {
            Some(branch) => branch.to_string(),
            None => self.client.get(run).await?.branch.to_string(),
        })
    }

    /// What a jump waits for while it compensates.
    async fn compensation_waits_for(&self, run: &RunId, needs_code: Option<String>) -> ApiResult<String> {
        let waits_for = with_commands(&self.client.jump_waits_for(run).await?.unwrap_or_default());
        Ok(match needs_code {
            Some(condition) => format!("{waits_for}; {condition}"),
            None => waits_for,
        })
    }

    /// The response to a repeated jump, rebuilt from the log.
    async fn earlier_jump(
        &self,
        run: &RunId,
        step: Path,
        applied: AppliedCommand,
        compensate: bool,
    ) -> ApiResult<JumpedDoc> {
        let state = applied.state_before(run);
        let over = state.as_ref().is_some_and(|state| state.summary.status.is_terminal());
        let standing = state.filter(|_| !compensate).and_then(|state| {
            let first = state.ops.get(&step)?.first;
            Some(state.to_undo(first.before()))
        });
        let compensating = is_compensating(&applied);
        let waits_for = match compensating {
            true => Some(self.compensation_waits_for(run, None).await?),
            false => None,
        };
        Ok(JumpedDoc {
            branch: Some(self.branch_of(run, &applied).await?),
            cancel_pending: false,
            compensating,
            event: Some(applied.end),
            over,
            run: run.clone(),
            standing: standing.unwrap_or_default(),
            step,
            waits_for,
        })
    }
}

/// Whether a jump compensates first: then it has not opened its branch yet.
fn is_compensating(applied: &AppliedCommand) -> bool {
    !applied.records.iter().any(|recorded| matches!(recorded.event, Event::BranchOpened(_)))
}

/// Why no worker can run compensations of a parked run now, and what must change.
fn cannot_undo(summary: &Summary) -> Option<String> {
    let parked = summary.trouble.as_ref().filter(|_| summary.parked)?;
    let condition = match parked.code.as_deref()? {
        "V1" => "the run is parked by V1, so a worker must have code that agrees with its log",
        "E2" => "the run is parked by E2, so a worker must have its version",
        "GS0116" => "the run is parked by GS0116, so a worker must have compensations that work",
        _ => return None,
    };
    Some(condition.to_owned())
}

/// Why a parked run may park again after a resume, according to its cached row.
fn may_park_again(summary: &Summary) -> Option<String> {
    let parked = summary.trouble.as_ref().filter(|_| summary.parked)?;
    let warning = match parked.code.as_deref()? {
        "V1" => "it parks again at the same difference unless the workers' code has changed",
        "E2" => "it parks again unless a worker has its version now",
        "GS0116" => "it parks again unless the compensation works now",
        _ => return None,
    };
    Some(warning.to_owned())
}

/// A note as the engine's `By`.
pub(super) fn by(note: Note) -> By {
    By { who: note.by, reason: note.reason, id: Some(note.id) }
}
