//! Changes of runs.

use goldseam::client::{By, StartOptions, dropping};
use goldseam::core::command::Migrate;
use goldseam::core::decide::Refusal;
use goldseam::core::event::{JumpRequested, Note};
use goldseam::core::reserved::Named;
use goldseam::core::{Command, Event, QueueName, SignalName, State, WorkflowName};
use goldseam::{EngineError, Path, RunId, Status, Summary};

use super::once::{Asked, Landed};
use super::{Local, limit};
use crate::api::Answer;
use crate::caller::Caller;
use crate::doc::change::{
    Answered, Branched, Done, Jumped, NewAnswer, NewJump, NewMigration, NewSignal, Reason, Signalled,
};
use crate::doc::run::{NewRun, Started};
use crate::problem::Problem;

impl Local {
    pub(super) async fn start_run(&self, caller: &Caller, new: NewRun) -> Answer<Started> {
        let workflow = WorkflowName::new(&new.workflow)?;
        let input = self.payload(&new.input)?;
        // Without an id, the key becomes one.
        let made = caller.command_id("start", "").filter(|_| new.id.is_none());
        let run = match (&new.id, &made) {
            (Some(id), _) => RunId::new(id)?,
            (None, Some(made)) => RunId::new(format!("run-{made}"))?,
            (None, None) => self.client.new_id(),
        };
        limit::open(Named::Id, run.as_str())?;
        new.queue.as_ref().map(|queue| limit::open_queue(&QueueName::new(queue)?)).transpose()?;
        let mut options = StartOptions::default().priority(new.priority);
        options = new.queue.iter().fold(options, |options, queue| options.queue(queue));
        options = new.version.iter().fold(options, |options, version| options.version(*version));
        options = new.tags.iter().fold(options, |options, (key, value)| options.tag(key, value));
        let committed = match self.client.begin(&new.workflow, &run, input, options).await {
            Err(EngineError::Refused { refusal: Refusal::OtherInput { .. }, .. }) if made.is_some() => {
                return Err(Problem::key_reused(&run));
            }
            committed => committed?,
        };
        if committed.records.is_empty() && !self.is_same_start(&run, &new).await? {
            return Err(if made.is_some() { Problem::key_reused(&run) } else { Problem::id_reused(&run) });
        }
        // Whoever repeats himself is told what he was told.
        let status = match caller.key {
            Some(_) => Status::Queued,
            None => self.client.get(&run).await?.status,
        };
        Ok(Started { run, status, workflow })
    }

    pub(super) async fn send(&self, caller: &Caller, run: &RunId, new: NewSignal) -> Answer<Signalled> {
        let (name, payload) = (SignalName::new(&new.name)?, self.payload(&new.payload)?);
        self.check_id(new.id.as_deref())?;
        limit::open(Named::Command, new.id.as_deref().unwrap_or_default())?;
        let made = caller.command_id("signal", run.as_str()).filter(|_| new.id.is_none());
        let given = new.id.or(made);
        let (fresh, id) = (given.is_none(), self.client.command_id(given));
        let command = Command::Signal { name: name.clone(), id, fresh, payload };
        let landed = self.order(run, !fresh, command).await?;
        let (event, before) = (landed.end, landed.state_before(run));
        let looks = |state: &State| state.summary.waits.iter().any(|wait| wait.wants(&name).is_some());
        let unawaited = before.map_or(landed.unawaited, |state| !looks(&state));
        let warning =
            unawaited.then(|| format!("no wait of {run} looks for signal {name} so far; it is kept unread"));
        Ok(Signalled { event, run: run.clone(), signal: name, warning })
    }

    pub(super) async fn give_answer(
        &self,
        caller: &Caller,
        run: &RunId,
        question: &Path,
        new: NewAnswer,
    ) -> Answer<Answered> {
        let answer = self.payload(&new.answer)?;
        self.check_id(new.id.as_deref())?;
        limit::open(Named::Command, new.id.as_deref().unwrap_or_default())?;
        let made = caller.command_id("answer", run.as_str()).filter(|_| new.id.is_none());
        let given = new.id.or(made);
        let (keyed, id) = (given.is_some(), self.client.command_id(given));
        let by = self.who(caller, new.by)?;
        let command = Command::Answer { question: question.clone(), since: new.since, id, answer, by };
        let event = self.order(run, keyed, command).await?.end;
        Ok(Answered { event, question: question.clone(), run: run.clone() })
    }

    /// A command that only says who and why.
    pub(super) async fn told(
        &self,
        caller: &Caller,
        (operation, run): (&str, &RunId),
        reason: Reason,
        command: fn(Note) -> Command,
    ) -> Answer<Done> {
        let Asked { note, keyed } = self.note(caller, (operation, run), (reason.by, reason.reason))?;
        let event = self.order(run, keyed, command(note)).await?.end;
        Ok(Done { event, run: run.clone() })
    }

    /// The same for one that opens a branch.
    pub(super) async fn cut(
        &self,
        caller: &Caller,
        (operation, run): (&str, &RunId),
        reason: Reason,
        command: fn(Note) -> Command,
    ) -> Answer<Branched> {
        let Asked { note, keyed } = self.note(caller, (operation, run), (reason.by, reason.reason))?;
        let landed = self.order(run, keyed, command(note)).await?;
        let branch = self.branch_of(run, &landed).await?;
        Ok(Branched { branch, event: landed.end, run: run.clone() })
    }

    async fn branch_of(&self, run: &RunId, landed: &Landed) -> Answer<String> {
        Ok(match landed.branch() {
            Some(branch) => branch.to_string(),
            None => self.client.get(run).await?.branch.to_string(),
        })
    }

    pub(super) async fn give_new_task(&self, caller: &Caller, run: &RunId, reason: Reason) -> Answer<Done> {
        let Asked { note, keyed } = self.note(caller, ("requeue", run), (reason.by, reason.reason))?;
        if let Some(landed) = self.before(run, keyed, &Command::Requeue(note.clone())).await? {
            return Ok(Done { event: landed.end, run: run.clone() });
        }
        let event = self.client.requeue(run, by(note)).await?;
        Ok(Done { event, run: run.clone() })
    }

    pub(super) async fn move_to(&self, caller: &Caller, run: &RunId, new: NewMigration) -> Answer<Done> {
        let to = new.to_version;
        let Asked { note, keyed } = self.note(caller, ("migrate", run), (new.by, new.reason))?;
        let command = Command::Migrate(Migrate { note: note.clone(), to, lost: None });
        if let Some(landed) = self.before(run, keyed, &command).await? {
            return Ok(Done { event: landed.end, run: run.clone() });
        }
        let event = self.client.migrate(run, to, by(note)).await?;
        Ok(Done { event, run: run.clone() })
    }

    pub(super) async fn go_back(&self, caller: &Caller, run: &RunId, new: NewJump) -> Answer<Jumped> {
        let step = Path::new(&new.to)?;
        let input = new.input.as_ref().map(|input| self.payload(input)).transpose()?;
        let Asked { note, keyed } = self.note(caller, ("jump", run), (new.by, new.reason))?;
        let (drop_mail, compensate) = (new.drop_mail, new.compensate);
        let jump = Command::Jump(JumpRequested { note, to: step.clone(), input, drop_mail, compensate });
        let command = dropping(new.drop_cancel, jump);
        let done = self.before(run, keyed && !new.dry_run, &command).await?;
        if let Some(landed) = done {
            return self.jumped(run, step, (landed, compensate)).await;
        }
        let summary = self.client.get(run).await?;
        let (over, cancel_pending) = (summary.status.is_terminal(), summary.is_cancel_pending());
        let needs_code = cannot_undo(&summary);
        let standing = match compensate {
            true => Vec::new(),
            false => self.client.standing(run, &step).await?,
        };
        let jumped = Jumped {
            branch: None,
            cancel_pending,
            compensating: false,
            event: None,
            over,
            run: run.clone(),
            standing,
            step,
            waits_for: needs_code.clone(),
        };
        if new.dry_run {
            return Ok(jumped);
        }
        let landed = self.order(run, keyed, command).await?;
        if landed.before.is_some() {
            return self.jumped(run, jumped.step, (landed, compensate)).await;
        }
        let (branch, compensating) = (self.branch_of(run, &landed).await?, is_undoing(&landed));
        let waits_for = match compensating {
            true => Some(self.undoing_waits_for(run, needs_code).await?),
            false => None,
        };
        Ok(Jumped { branch: Some(branch), compensating, event: Some(landed.end), waits_for, ..jumped })
    }

    /// What a jump waits for that undoes something first.
    async fn undoing_waits_for(&self, run: &RunId, needs_code: Option<String>) -> Answer<String> {
        let waits_for = self.client.jump_waits_for(run).await?.unwrap_or_default();
        Ok(match needs_code {
            Some(condition) => format!("{waits_for}; {condition}"),
            None => waits_for,
        })
    }

    /// What a jump that was made before did.
    async fn jumped(&self, run: &RunId, step: Path, (landed, undoes): (Landed, bool)) -> Answer<Jumped> {
        let state = landed.state_before(run);
        let over = state.as_ref().is_some_and(|state| state.summary.status.is_terminal());
        let standing = state.filter(|_| !undoes).and_then(|state| {
            let first = state.ops.get(&step)?.first;
            Some(state.to_undo(first.before()))
        });
        let compensating = is_undoing(&landed);
        let waits_for = match compensating {
            true => Some(self.undoing_waits_for(run, None).await?),
            false => None,
        };
        Ok(Jumped {
            branch: Some(self.branch_of(run, &landed).await?),
            cancel_pending: false,
            compensating,
            event: Some(landed.end),
            over,
            run: run.clone(),
            standing: standing.unwrap_or_default(),
            step,
            waits_for,
        })
    }
}

/// Whether what lies after the step is undone before a branch is opened.
fn is_undoing(landed: &Landed) -> bool {
    !landed.records.iter().any(|recorded| matches!(recorded.event, Event::BranchOpened(_)))
}

/// Why no worker can undo anything for this run now, and what would let one, if the run says so.
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

/// Who and why, as the engine takes it.
pub(super) fn by(note: Note) -> By {
    By { who: note.by, reason: note.reason, id: Some(note.id) }
}
