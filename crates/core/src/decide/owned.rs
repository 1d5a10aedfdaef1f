//! Actions of an owner. All actions of one append are decided against the same state, in order; mail that one of them
//! takes is not given to the next.

mod published;

use std::collections::BTreeSet;

use super::{Decision, Refusal, Stamped, TaskMove, TooLong, View, branching, ending, remote};
use crate::branch::Why;
use crate::command::{Doing, Fence, Owned};
use crate::error::Failure;
use crate::event::{
    BranchOpened, By, Carried, Cause, Event, Release, RunClaimed, RunQueued, RunRecovered, WaitStarted,
};
use crate::form::check_schema_itself;
use crate::id::TaskId;
use crate::limits::Limits;
use crate::path::Path;
use crate::payload::Payload;
use crate::recovery::{Code, Reason, recorded_attempt};
use crate::state::{Mail, OpKind, State, StepProgress, Undo};
use crate::task::Task;
use crate::time::{Millis, Seq};

/// The time and the limits of a decision.
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
    let superseded = summary.epoch != fence.epoch || summary.branch != fence.branch;
    if superseded || summary.owner.is_none() {
        return Err(Refusal::Fenced);
    }
    let state = view.state()?;
    let ending =
        doings.iter().any(|doing| ends(&doing.what)) || doings.iter().all(|doing| tidies(&doing.what));
    if !ending {
        TooLong::check("events", summary.length(), now.limits.history_events_max)?;
        TooLong::check("bytes", state.own_bytes(), now.limits.history_bytes_max)?;
    }
    let mut batch = Batch {
        state,
        at: now.now,
        now,
        events: Vec::with_capacity(doings.len()),
        task: TaskMove::Keep,
        taken: BTreeSet::new(),
        over: BTreeSet::new(),
        undone: BTreeSet::new(),
        handed: Vec::new(),
        dropped: BTreeSet::new(),
        undoing: state.is_being_undone(),
        left: false,
    };
    for doing in doings {
        batch.at = doing.at;
        batch.take(&doing.what)?;
    }
    let Batch { events, task, handed, dropped, .. } = batch;
    Ok(Decision { events, task, handed, dropped: dropped.into_iter().collect(), unawaited: false })
}

/// Returns whether the action ends or shortens the run. A run past its limit may do this, together with other
/// actions.
fn ends(doing: &Owned) -> bool {
    matches!(
        doing,
        Owned::ContinueAsNew(_)
            | Owned::Complete(_)
            | Owned::Fail(_)
            | Owned::EndCancelled
            | Owned::FinishJump
    )
}

/// Returns whether the action only leads to an end. A run past its limit may do this alone.
fn tidies(doing: &Owned) -> bool {
    matches!(
        doing,
        Owned::UndoStarted { .. }
            | Owned::UndoCompleted(_)
            | Owned::UndoFailed { .. }
            | Owned::Park { .. }
            | Owned::Release(_)
    )
}

/// Returns whether the action ends or compensates the whole run although a jump was requested first. The owner must
/// reload.
fn turns_away(doing: &Owned) -> bool {
    matches!(
        doing,
        Owned::Complete(_)
            | Owned::Fail(_)
            | Owned::EndCancelled
            | Owned::ContinueAsNew(_)
            | Owned::UndoStarted { failure: Some(_), .. }
    )
}

/// Returns whether the action is the last one of the run. A run that was paused in the meantime keeps its earlier
/// actions and rests; after a resume, replay reaches the end again.
fn closes(doing: &Owned) -> bool {
    matches!(doing, Owned::Complete(_) | Owned::Fail(_))
}

struct Batch<'a> {
    state: &'a State,
    now: Now<'a>,
    at: Millis,
    events: Vec<Stamped>,
    task: TaskMove,
    /// Consumed mail.
    taken: BTreeSet<Seq>,
    /// Steps and waits that ended or were handed out in this append.
    over: BTreeSet<Path>,
    /// Steps compensated in this append.
    undone: BTreeSet<Path>,
    /// Tasks of remote steps handed out in this append.
    handed: Vec<Task>,
    /// Tasks of remote steps whose result the run no longer needs.
    dropped: BTreeSet<TaskId>,
    /// Whether the run is compensating, including this append: nothing new begins.
    undoing: bool,
    /// Whether ownership has ended: nothing may follow.
    left: bool,
}

impl Batch<'_> {
    fn push(&mut self, event: Event) {
        self.events.push(Stamped { at: self.at, event });
    }

    #[expect(clippy::too_many_lines, reason = "one arm per event or doing, and no `_` arm")]
    fn take(&mut self, doing: &Owned) -> Result<(), Refusal> {
        if self.state.jump.is_some() && turns_away(doing) {
            return Err(Refusal::Fenced);
        }
        // If an earlier action of this append ended ownership, there is nothing left to release.
        if self.left {
            return if matches!(doing, Owned::Release(_)) { Ok(()) } else { Err(Refusal::Fenced) };
        }
        if self.undoing && self.leads_on(doing) {
            return Err(Refusal::BeingUndone);
        }
        if self.state.summary.paused && closes(doing) {
            self.release(Release::Paused);
            return Ok(());
        }
        match doing {
            Owned::StepStarted(started) => {
                self.not_over(&started.path, started.attempt)?;
                let (started, task) = remote::hand_out(self.state, started, self.now.now);
                if let Some(task) = task {
                    // From here on, only the worker may end this attempt.
                    self.over.insert(started.path.clone());
                    self.handed.push(task);
                }
                self.push(Event::StepStarted(started));
            }
            Owned::StepCompleted(completed) => {
                self.not_over(&completed.path, completed.attempt)?;
                self.over.insert(completed.path.clone());
                self.push(Event::StepCompleted(completed.clone()));
            }
            Owned::StepFailed { failed, retry_at, timeout } => {
                self.not_over(&failed.path, failed.attempt)?;
                let path = failed.path.clone();
                let attempt = failed.attempt;
                if retry_at.is_none() {
                    self.over.insert(path.clone());
                }
                if let Some(reason) = timeout {
                    self.push(Event::StepTimeout { path: path.clone(), attempt, reason: (*reason).into() });
                }
                self.push(Event::StepFailed(failed.clone()));
                if let Some(due) = retry_at {
                    self.push(Event::StepRetryScheduled {
                        path,
                        attempt: attempt.saturating_add(1),
                        due: *due,
                    });
                }
            }
            Owned::Wait { wanted, ask } => self.wait(wanted, ask.as_ref())?,
            Owned::Child(child) => self.push(Event::ChildStarted(child.clone())),
            Owned::Sleep { path, ord, due } => {
                self.not_found(path)?;
                self.push(Event::TimerSet { path: path.clone(), ord: *ord, due: *due });
                if *due <= self.now.now {
                    self.over.insert(path.clone());
                    self.push(Event::TimerFired { path: path.clone() });
                }
            }
            Owned::Check(path) => self.check(path),
            Owned::Progress { path, ord, message } => {
                self.push(Event::ProgressEmitted { path: path.clone(), ord: *ord, message: message.clone() });
            }
            Owned::Attributes(changed) => self.push(Event::AttributesChanged(changed.clone())),
            Owned::Publish(published) => self.publish(published),
            Owned::AnswerRequest(answered) => self.answer(answered),
            Owned::Change { path, ord } => self.mark(path, *ord),
            Owned::UndoStarted { path, failure } => {
                self.not_undone(path)?;
                self.drop_tasks();
                let failure = match failure {
                    Some(failure) => Some(self.timed_out(Some(failure)).unwrap_or_else(|| failure.clone())),
                    None => self.cause_of_undoing(),
                };
                self.undoing |= failure.is_some();
                self.push(Event::CompensationStarted { path: path.clone(), failure });
            }
            Owned::UndoCompleted(path) => {
                self.not_undone(path)?;
                self.undone.insert(path.clone());
                self.push(Event::CompensationCompleted { path: path.clone() });
            }
            Owned::UndoFailed { path, failure } => {
                self.not_undone(path)?;
                let reason = format!("step {path} could not be undone: {failure}");
                self.push(Event::CompensationFailed { path: path.clone(), failure: failure.clone() });
                self.park("GS0116", reason);
            }
            Owned::FinishJump => self.finish_jump()?,
            Owned::ContinueAsNew(input) => self.continue_as_new(input),
            Owned::ChangeVersion { to, reason } => {
                let from = self.state.summary.version;
                self.push(Event::VersionChanged { from, to: *to, reason: reason.clone(), note: None });
                self.push(Event::RunRecovered(self.fell_back(reason)));
            }
            Owned::Complete(output) => self.finish(Event::RunCompleted { output: output.clone() }),
            Owned::Fail(failure) => {
                self.nothing_left()?;
                let failure = self.timed_out(Some(failure)).unwrap_or_else(|| failure.clone());
                self.finish(Event::RunFailed { failure });
            }
            Owned::EndCancelled => {
                self.nothing_left()?;
                let reason = self.state.summary.cancel.clone().unwrap_or_default();
                self.finish(match self.timed_out(None) {
                    Some(failure) => Event::RunFailed { failure },
                    None => Event::RunCancelled { reason, terminated: None },
                });
            }
            Owned::Park { code, reason } => self.park(code, reason.clone()),
            Owned::Release(reason) => self.release(*reason),
        }
        Ok(())
    }

    /// Marks a change, once per lineage.
    fn mark(&mut self, path: &Path, ord: u32) {
        let marked = |stamped: &Stamped| matches!(&stamped.event, Event::ChangeMarked { path: there, .. } if there == path);
        if !self.state.changes.contains(path) && !self.events.iter().any(marked) {
            self.push(Event::ChangeMarked { path: path.clone(), ord });
        }
    }

    /// Returns whether the action begins an operation, or ends the run as if it had not failed. The end of an attempt
    /// whose start is in the log is a fact and is recorded.
    fn leads_on(&self, doing: &Owned) -> bool {
        let begins = |path: &Path| match self.state.ops.get(path).map(|op| &op.kind) {
            Some(OpKind::Step(step)) => step.progress != StepProgress::Started,
            _ => true,
        };
        match doing {
            Owned::StepCompleted(completed) => begins(&completed.path),
            Owned::StepFailed { failed, .. } => begins(&failed.path),
            Owned::StepStarted(_)
            | Owned::Wait { .. }
            | Owned::Child(_)
            | Owned::Sleep { .. }
            | Owned::Progress { .. }
            | Owned::Attributes(_)
            | Owned::Publish(_)
            | Owned::AnswerRequest(_)
            | Owned::Change { .. }
            | Owned::ContinueAsNew(_)
            | Owned::Complete(_) => true,
            Owned::Check(_)
            | Owned::UndoStarted { .. }
            | Owned::UndoCompleted(_)
            | Owned::UndoFailed { .. }
            | Owned::FinishJump
            | Owned::ChangeVersion { .. }
            | Owned::Fail(_)
            | Owned::EndCancelled
            | Owned::Park { .. }
            | Owned::Release(_) => false,
        }
    }

    /// Returns why the run is compensating if the first compensation does not say it. Without a cause, replay would
    /// go forward.
    fn cause_of_undoing(&self) -> Option<Failure> {
        if self.undoing || self.state.jump.is_some() {
            return None;
        }
        Some(match self.state.summary.cancel {
            Some(_) if self.state.summary.timed_out => self.state.summary.timeout_failure(None),
            Some(_) => Failure::terminal("the run is being cancelled").with_code("cancelled"),
            None => Failure::terminal("the run failed without a reason"),
        })
    }

    /// Returns why the run fails, if its deadline passed before its code failed with `own`. A run that was compensating
    /// before its deadline keeps its own failure.
    fn timed_out(&self, own: Option<&Failure>) -> Option<Failure> {
        let summary = &self.state.summary;
        match &self.state.failure {
            _ if !summary.timed_out => None,
            Some(recorded) => Some(recorded.clone()),
            None => Some(summary.timeout_failure(own)),
        }
    }

    /// Refuses to record a step that has ended on this lineage, or an attempt that was given up.
    fn not_over(&self, path: &Path, attempt: u32) -> Result<(), Refusal> {
        let current = match self.state.ops.get(path).map(|op| &op.kind) {
            Some(OpKind::Step(step)) => match step.progress {
                StepProgress::Completed(_) | StepProgress::Failed(_) => false,
                // A worker has the task, and only that worker can report the result.
                StepProgress::Started if self.state.awaited(step).is_some() => false,
                StepProgress::Started => attempt >= step.attempts,
                StepProgress::Retry(_) => attempt > step.attempts,
            },
            _ => true,
        };
        if current && !self.over.contains(path) { Ok(()) } else { Err(Refusal::Fenced) }
    }

    /// Refuses to repeat a wait that was resolved on this lineage.
    fn not_found(&self, path: &Path) -> Result<(), Refusal> {
        let found = match self.state.ops.get(path).map(|op| &op.kind) {
            Some(OpKind::Wait(wait)) => wait.found.is_some(),
            _ => false,
        };
        if found || self.over.contains(path) { Err(Refusal::Fenced) } else { Ok(()) }
    }

    /// Refuses to compensate a step twice on the same lineage.
    fn not_undone(&self, path: &Path) -> Result<(), Refusal> {
        let undone = self.state.undone.get(path) == Some(&Undo::Completed) || self.undone.contains(path);
        if undone { Err(Refusal::Fenced) } else { Ok(()) }
    }

    /// Refuses to end the run if a worker completed a remote step, or a child completed, in the meantime.
    fn nothing_left(&self) -> Result<(), Refusal> {
        let came_meanwhile = |path: &Path| match self.state.ops.get(path).map(|op| &op.kind) {
            Some(OpKind::Step(step)) => step.remote.is_some() && !self.undone.contains(path),
            Some(OpKind::Wait(wait)) => wait.completed.is_some() && !self.undone.contains(path),
            _ => false,
        };
        let left = self.state.to_undo(Seq::ZERO).iter().any(came_meanwhile);
        if left { Err(Refusal::LeftToUndo) } else { Ok(()) }
    }

    /// Drops the tasks of all remote steps.
    fn drop_tasks(&mut self) {
        self.dropped.extend(self.state.handed_out.iter().cloned());
        self.dropped.extend(self.handed.iter().map(|task| task.id.clone()));
    }

    fn wait(
        &mut self,
        wanted: &WaitStarted,
        ask: Option<&crate::event::InputRequested>,
    ) -> Result<(), Refusal> {
        self.not_found(&wanted.path)?;
        for schema in wanted.schemas.values() {
            check_schema_itself(schema).map_err(|invalid| Refusal::InvalidForm { reason: invalid.0 })?;
        }
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
        let (Some(wanted), None, false) = (&wait.wanted, &wait.found, self.over.contains(path)) else {
            return;
        };
        if self.undoing {
            return;
        }
        let mail = self.state.mail_for(wanted, &self.taken);
        self.resolve(wanted, mail);
    }

    fn resolve(&mut self, wanted: &WaitStarted, mail: Option<Seq>) {
        let path = wanted.path.clone();
        if let Some(seq) = mail {
            self.taken.insert(seq);
            self.over.insert(path.clone());
            self.push(Event::WaitResolved { path, by: By::Mail(seq) });
        } else if wanted.due.is_some_and(|due| due <= self.now.now) {
            self.over.insert(path.clone());
            let sleep = wanted.signals.is_empty() && wanted.inputs.is_empty() && wanted.children.is_empty();
            self.push(match sleep {
                true => Event::TimerFired { path },
                false => Event::WaitResolved { path, by: By::Timer },
            });
        }
    }

    fn finish_jump(&mut self) -> Result<(), Refusal> {
        let Some(jump) = &self.state.jump else {
            return Err(Refusal::NothingToDo { why: "no jump is pending" });
        };
        let cutoff = branching::cutoff_before(self.state, &jump.to)?;
        self.drop_tasks();
        self.push(branching::open_jump(self.state, jump, cutoff));
        if let Some(again) = ending::cancel_again(self.state) {
            self.push(again);
        }
        self.task = TaskMove::Ready;
        self.left = true;
        Ok(())
    }

    fn continue_as_new(&mut self, input: &Payload) {
        let mut summary = self.state.summary.clone();
        let mut children = self.state.open_children();
        // The row before this append, plus the changes that this append made to carried values.
        let mut seq = summary.as_of;
        for Stamped { at, event } in &self.events {
            seq = seq.next();
            match event {
                Event::VersionChanged { to, .. } => summary.version = *to,
                Event::RunRecovered(_) => {
                    summary.recoveries += 1;
                    summary.recovered_at = Some(*at);
                }
                Event::ChildStarted(child) if !child.detached => children.push(child.run.clone()),
                Event::ValuePublished(published) => summary.publish(published, seq),
                Event::RequestAnswered(answered) => summary.answer(&answered.request, seq),
                Event::AttributesChanged(changed) => changed.apply_to(&mut summary.attributes),
                _ => {}
            }
        }
        children.sort_unstable();
        let version = summary.version;
        let owner = summary.owner.clone();
        let run = RunQueued { input: input.clone(), version, ..self.state.queued.clone() };
        let mail = self.unread();
        let mail_bytes = mail.iter().filter_map(|seq| self.state.unread.get(seq)).map(Mail::bytes).sum();
        self.drop_tasks();
        self.push(Event::BranchOpened(BranchOpened {
            branch: self.state.branches.next_id(),
            parent: None,
            cutoff: Seq::ZERO,
            why: Why::Continue,
            input: None,
            dropped_mail: Vec::new(),
            carried: Some(Carried { run, summary: Box::new(summary), mail, mail_bytes, children }),
        }));
        if let Some(node) = owner {
            self.push(Event::RunClaimed(RunClaimed {
                node,
                cause: Cause::Wake,
                attempt: 0,
                alone: false,
                version: None,
                plan: Vec::new(),
                recovery: None,
            }));
        }
        self.left = true;
    }

    /// Returns the mail that is unread after this append.
    fn unread(&self) -> Vec<Seq> {
        let left = |seq: &Seq| !self.taken.contains(seq);
        self.state.unread.keys().copied().filter(left).collect()
    }

    fn fell_back(&self, evidence: &str) -> RunRecovered {
        let summary = &self.state.summary;
        RunRecovered {
            rule: Code::E2.to_string(),
            reason: Reason::InfrastructureRestart.as_str().to_owned(),
            attempt: recorded_attempt(summary.attempt),
            evidence: evidence.to_owned(),
            node: summary.owner.clone(),
            stale_ms: 0,
            lived_ms: None,
            previous_branch: None,
            new_branch: None,
            cutoff: None,
        }
    }

    fn finish(&mut self, event: Event) {
        self.drop_tasks();
        self.push(event);
        self.task = TaskMove::Remove;
        self.left = true;
    }

    fn park(&mut self, code: &str, reason: String) {
        self.push(Event::RunParked { code: code.to_owned(), reason });
        self.task = TaskMove::Rest(self.state.summary.stopped_until());
        self.left = true;
    }

    fn release(&mut self, reason: Release) {
        let resolved = |stamped: &Stamped| {
            matches!(stamped.event, Event::WaitResolved { .. } | Event::TimerFired { .. })
        };
        let summary = &self.state.summary;
        let run_at = match reason {
            Release::Unload if self.events.iter().any(resolved) => return,
            Release::Unload if self.is_wanted() => return,
            Release::Unload => self.due(),
            Release::Paused if !summary.paused => return,
            Release::Paused => summary.stopped_until(),
            Release::HandOver if summary.paused => summary.stopped_until(),
            Release::HandOver => self.now.now,
            Release::Unfit => self.now.now + std::time::Duration::from_secs(5),
        };
        self.push(Event::RunReleased { reason });
        self.task = TaskMove::Rest(run_at);
        self.left = true;
    }

    /// Returns whether a request, or mail that an open wait looks for, arrived between the last check and this
    /// release. The release would discard the wake-up.
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

    /// Returns when the run must be looked at again: the earliest due time of open waits and of those that this
    /// append opens.
    fn due(&self) -> Millis {
        let opened = self.events.iter().filter_map(|stamped| match &stamped.event {
            Event::WaitStarted(wait) => wait.due,
            Event::TimerSet { due, .. } | Event::StepRetryScheduled { due, .. } => Some(*due),
            _ => None,
        });
        let begun = |path: &Path| {
            let begins =
                |stamped: &Stamped| matches!(&stamped.event, Event::StepStarted(step) if step.path == *path);
            self.events.iter().any(begins)
        };
        // The attempt that this append begins ends the pause before it.
        let open = self.state.summary.waits.iter().filter(|wait| !begun(&wait.path));
        let deadline = self.state.summary.times_out_at();
        opened.chain(open.filter_map(|wait| wait.due)).chain(deadline).min().unwrap_or(Millis::NEVER)
    }
}
