//! What an owner does. All doings of one append are decided against the same state, in order; mail
//! that one of them takes is not given to the next.

use std::collections::BTreeSet;

use super::{Decision, Refusal, Stamped, TaskMove, View, travel};
use crate::branch::Why;
use crate::command::{Doing, Fence, Owned};
use crate::event::{BranchOpened, By, Carried, Cause, Event, Release, RunClaimed, RunQueued, WaitStarted};
use crate::limits::Limits;
use crate::path::Path;
use crate::payload::Payload;
use crate::state::{OpKind, State, StepProgress};
use crate::time::{Millis, Seq};

/// The moment and the bounds that a decision is made under.
pub(super) struct Now<'a> {
    pub(super) now: Millis,
    pub(super) limits: &'a Limits,
}

pub(super) fn decide(
    view: View<'_>,
    fence: Fence,
    doings: &[Doing],
    now: Now<'_>,
) -> Result<Decision, Refusal> {
    let summary = view.summary()?;
    if summary.epoch != fence.epoch || summary.branch != fence.branch || summary.owner.is_none() {
        return Err(Refusal::Fenced);
    }
    let state = view.state()?;
    let length = summary.as_of.0 - summary.base.0.min(summary.as_of.0);
    if length > now.limits.history_events_max && !doings.iter().all(|doing| ends(&doing.what)) {
        return Err(Refusal::HistoryTooLong { events: length });
    }
    let (events, taken) = (Vec::with_capacity(doings.len()), BTreeSet::new());
    let mut batch = Batch { state, at: now.now, now, events, task: TaskMove::Keep, taken };
    for doing in doings {
        batch.at = doing.at;
        batch.take(&doing.what)?;
    }
    Ok(Decision { events: batch.events, task: batch.task })
}

/// Whether a run past its limit may still do this: whatever ends or shortens it.
fn ends(doing: &Owned) -> bool {
    matches!(
        doing,
        Owned::ContinueAsNew(_)
            | Owned::Complete(_)
            | Owned::Fail(_)
            | Owned::EndCancelled
            | Owned::Park { .. }
            | Owned::Release(_)
    )
}

struct Batch<'a> {
    state: &'a State,
    now: Now<'a>,
    at: Millis,
    events: Vec<Stamped>,
    task: TaskMove,
    taken: BTreeSet<Seq>,
}

impl Batch<'_> {
    fn push(&mut self, event: Event) {
        self.events.push(Stamped { at: self.at, event });
    }

    fn take(&mut self, doing: &Owned) -> Result<(), Refusal> {
        match doing {
            Owned::StepStarted(started) => {
                self.not_over(&started.path)?;
                self.push(Event::StepStarted(started.clone()));
            }
            Owned::StepCompleted(completed) => {
                self.not_over(&completed.path)?;
                self.push(Event::StepCompleted(completed.clone()));
            }
            Owned::StepFailed { failed, retry_at, timeout } => {
                self.not_over(&failed.path)?;
                let (path, attempt) = (failed.path.clone(), failed.attempt);
                if let Some(reason) = timeout {
                    self.push(Event::StepTimeout { path: path.clone(), attempt, reason: (*reason).into() });
                }
                self.push(Event::StepFailed(failed.clone()));
                if let Some(due) = retry_at {
                    self.push(Event::StepRetryScheduled { path, attempt: attempt + 1, due: *due });
                }
            }
            Owned::Wait { wanted, ask } => self.wait(wanted, ask.as_ref())?,
            Owned::Child(child) => self.push(Event::ChildStarted(child.clone())),
            Owned::Sleep { path, ord, due } => {
                self.push(Event::TimerSet { path: path.clone(), ord: *ord, due: *due });
                if *due <= self.now.now {
                    self.push(Event::TimerFired { path: path.clone() });
                }
            }
            Owned::Check(path) => self.check(path),
            Owned::Progress { path, ord, message } => {
                let (path, ord, message) = (path.clone(), *ord, message.clone());
                self.push(Event::ProgressEmitted { path, ord, message });
            }
            Owned::UndoStarted { path, failure } => {
                self.push(Event::CompensationStarted { path: path.clone(), failure: failure.clone() });
            }
            Owned::UndoCompleted(path) => self.push(Event::CompensationCompleted { path: path.clone() }),
            Owned::UndoFailed { path, failure } => {
                let (path, failure) = (path.clone(), failure.clone());
                let reason = format!("step {path} could not be undone: {failure}");
                self.push(Event::CompensationFailed { path, failure });
                self.park("GS0116", reason);
            }
            Owned::FinishJump => self.finish_jump()?,
            Owned::ContinueAsNew(input) => self.continue_as_new(input),
            Owned::ChangeVersion { to, reason } => {
                let from = self.state.summary.version;
                self.push(Event::VersionChanged { from, to: *to, reason: reason.clone() });
            }
            Owned::Complete(output) => self.finish(Event::RunCompleted { output: output.clone() }),
            Owned::Fail(failure) => self.finish(Event::RunFailed { failure: failure.clone() }),
            Owned::EndCancelled => {
                let reason = self.state.summary.cancel.clone().unwrap_or_default();
                self.finish(Event::RunCancelled { reason });
            }
            Owned::Park { code, reason } => self.park(code, reason.clone()),
            Owned::Release(reason) => self.release(*reason),
        }
        Ok(())
    }

    /// A step that is over on this lineage is never recorded again.
    fn not_over(&self, path: &Path) -> Result<(), Refusal> {
        match self.state.ops.get(path).map(|op| &op.kind) {
            Some(OpKind::Step(step)) => match step.progress {
                StepProgress::Completed(_) | StepProgress::Failed(_) => Err(Refusal::Fenced),
                StepProgress::Started | StepProgress::Retry(_) => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn wait(
        &mut self,
        wanted: &WaitStarted,
        ask: Option<&crate::event::InputRequested>,
    ) -> Result<(), Refusal> {
        let mail = self.state.mail_for(wanted, &self.taken);
        if let (Some(ask), None) = (ask, mail) {
            ask.form.check_itself().map_err(|invalid| Refusal::InvalidForm { reason: invalid.0 })?;
            self.push(Event::InputRequested(ask.clone()));
        }
        self.push(Event::WaitStarted(wanted.clone()));
        self.resolve(wanted, mail);
        Ok(())
    }

    fn check(&mut self, path: &Path) {
        let Some(OpKind::Wait(wait)) = self.state.ops.get(path).map(|op| &op.kind) else { return };
        let (Some(wanted), None) = (&wait.wanted, &wait.found) else { return };
        let mail = self.state.mail_for(wanted, &self.taken);
        self.resolve(wanted, mail);
    }

    fn resolve(&mut self, wanted: &WaitStarted, mail: Option<Seq>) {
        let path = wanted.path.clone();
        if let Some(seq) = mail {
            self.taken.insert(seq);
            self.push(Event::WaitResolved { path, by: By::Mail(seq) });
        } else if wanted.due.is_some_and(|due| due <= self.now.now) {
            let sleep = wanted.signals.is_empty() && wanted.inputs.is_empty() && wanted.children.is_empty();
            self.push(match sleep {
                true => Event::TimerFired { path },
                false => Event::WaitResolved { path, by: By::Timer },
            });
        }
    }

    fn finish_jump(&mut self) -> Result<(), Refusal> {
        let Some(jump) = &self.state.jump else {
            return Err(Refusal::NothingToDo { why: "no jump is under way" });
        };
        let cutoff = travel::cutoff_before(self.state, &jump.to)?;
        self.push(travel::open_jump(self.state, jump, cutoff));
        self.task = TaskMove::Ready;
        Ok(())
    }

    fn continue_as_new(&mut self, input: &Payload) {
        let summary = &self.state.summary;
        let run = RunQueued { input: input.clone(), version: summary.version, ..self.state.queued.clone() };
        self.push(Event::BranchOpened(BranchOpened {
            branch: self.state.branches.next_id(),
            parent: None,
            cutoff: Seq::ZERO,
            why: Why::Continue,
            input: None,
            dropped_mail: Vec::new(),
            carried: Some(Carried {
                run,
                summary: Box::new(summary.clone()),
                mail: self.state.unread.keys().copied().filter(|seq| !self.taken.contains(seq)).collect(),
                children: self.state.open_children(),
            }),
        }));
        if let Some(node) = summary.owner.clone() {
            self.push(Event::RunClaimed(RunClaimed { node, cause: Cause::Wake, attempt: 0 }));
        }
    }

    fn finish(&mut self, event: Event) {
        self.push(event);
        self.task = TaskMove::Remove;
    }

    fn park(&mut self, code: &str, reason: String) {
        self.push(Event::RunParked { code: code.to_owned(), reason });
        self.task = TaskMove::Rest(Millis::NEVER);
    }

    fn release(&mut self, reason: Release) {
        let resolved = |stamped: &Stamped| {
            matches!(stamped.event, Event::WaitResolved { .. } | Event::TimerFired { .. })
        };
        // What the same append ends, or hands to another branch, has no owner left to release it.
        let gone = |stamped: &Stamped| {
            stamped.event.is_terminal()
                || matches!(stamped.event, Event::RunParked { .. } | Event::BranchOpened(_))
        };
        if self.events.iter().any(gone) {
            return;
        }
        let summary = &self.state.summary;
        let run_at = match reason {
            Release::Unload if self.events.iter().any(resolved) || self.is_wanted() => return,
            Release::Unload => self.due(),
            Release::Paused if !summary.paused => return,
            Release::Paused => Millis::NEVER,
            Release::HandOver if summary.paused => Millis::NEVER,
            Release::HandOver => self.now.now,
            Release::Unfit => self.now.now + std::time::Duration::from_secs(5),
        };
        self.push(Event::RunReleased { reason });
        self.task = TaskMove::Rest(run_at);
    }

    /// Whether there is something to do for the owner that came between looking and resting: a request, or mail
    /// that an open wait looks for. The wake-up that it brought would end with the release.
    fn is_wanted(&self) -> bool {
        if self.state.summary.cancel.is_some() || self.state.jump.is_some() {
            return true;
        }
        self.state.summary.waits.iter().any(|wait| match self.state.ops.get(&wait.path).map(|op| &op.kind) {
            Some(OpKind::Wait(wait)) => {
                wait.wanted.as_ref().is_some_and(|wanted| self.state.mail_for(wanted, &self.taken).is_some())
            }
            _ => false,
        })
    }

    /// When the run must be looked at again: the earliest of what is open and what this append opens.
    fn due(&self) -> Millis {
        let opened = self.events.iter().filter_map(|stamped| match &stamped.event {
            Event::WaitStarted(wait) => wait.due,
            Event::TimerSet { due, .. } | Event::StepRetryScheduled { due, .. } => Some(*due),
            _ => None,
        });
        opened.chain(self.state.summary.due()).min().unwrap_or(Millis::NEVER)
    }
}
