//! Commands that need no ownership: start, claim, hand back, and all mail.

use super::prune::refuse_archived;
use super::{Decision, Refusal, TaskMove, TooLong, View, ending};
use crate::command::{Claim, Command, Starter};
use crate::error::Failure;
use crate::event::{Cause, Event, Release, RunClaimed, RunQueued, RunRecovered};
use crate::form;
use crate::id::{NodeId, RunId, SignalName};
use crate::limits::Limits;
use crate::path::Path;
use crate::payload::Payload;
use crate::recovery::{Code, Policy, Reason, next_attempt, recorded_attempt};
use crate::summary::{OpenInput, Status, Summary, child_command};
use crate::time::Millis;
use crate::version::UNDECIDED;

pub(super) fn start(
    view: View<'_>,
    queued: &RunQueued,
    claim: Option<&Starter>,
    now: Millis,
) -> Result<Decision, Refusal> {
    let Ok(summary) = view.summary() else {
        let begin = queued.start_at.unwrap_or(now).max(now);
        if let Some(deadline) = queued.deadline.filter(|deadline| *deadline <= begin) {
            return Err(Refusal::DeadlinePassed { deadline, begin });
        }
        let mut events = vec![Event::RunQueued(queued.clone())];
        let Some(Starter { node, recovery }) = claim else {
            return Ok(Decision::new(now, events, TaskMove::Ready));
        };
        let recovery = news(None, *recovery);
        events.push(Event::RunClaimed(RunClaimed { recovery, ..claimed(node, Cause::Start, 0) }));
        events.push(Event::RunStarted);
        return Ok(Decision::new(now, events, TaskMove::Held));
    };
    if let Some(parent) = queued.parent.as_ref().filter(|_| summary.parent != queued.parent) {
        return Err(Refusal::NotOurChild { run: summary.run.clone(), parent: parent.clone() });
    }
    let other = |what| Err(Refusal::OtherInput { run: summary.run.clone(), what });
    if summary.workflow != queued.workflow {
        return other("a different workflow");
    }
    if summary.input_hash != queued.input.hash() {
        return other("different input");
    }
    Ok(Decision::default())
}

fn claimed(node: &NodeId, cause: Cause, attempt: u32) -> RunClaimed {
    RunClaimed {
        node: node.clone(),
        cause,
        attempt,
        alone: false,
        version: None,
        plan: Vec::new(),
        recovery: None,
    }
}

/// Returns the claimant's policy if the log does not have it yet. The default policy is not recorded.
fn news(said: Option<Policy>, own: Option<Policy>) -> Option<Policy> {
    own.filter(|own| *own != said.unwrap_or_default())
}

pub(super) fn claim(view: View<'_>, claim: &Claim, now: Millis) -> Result<Decision, Refusal> {
    let summary = view.summary()?;
    let mut events = Vec::new();
    if summary.is_overdue(now) {
        let timed_out = ending::time_out(view, ending::Code::MayBeLive, now)?;
        // If nothing is left for the code to do, there is nothing to claim.
        if timed_out.task == TaskMove::Remove {
            return Ok(timed_out);
        }
        events.extend(timed_out.events.into_iter().map(|stamped| stamped.event));
    } else if !summary.status.is_active() {
        return Err(Refusal::NotClaimable { status: summary.status });
    }
    let mut attempt = summary.attempt;
    let cause = match (&summary.owner, &claim.lost) {
        (Some(owner), Some(lost)) if *owner == lost.node && *owner != claim.node => {
            if lost.proven {
                let policy = Policy::of(summary, claim.recovery.unwrap_or_default());
                attempt = next_attempt(summary, lost.lived, policy.bounds(), claim.alone);
            }
            events.push(Event::RunRecovered(RunRecovered {
                rule: Code::O2.to_string(),
                reason: match lost.proven {
                    true => Reason::InfrastructureRestart.as_str().to_owned(),
                    false => Reason::StaleDetection.as_str().to_owned(),
                },
                attempt: recorded_attempt(attempt),
                evidence: lost.evidence.clone(),
                node: Some(claim.node.clone()),
                stale_ms: u64::try_from(now.since(summary.last_event_at).as_millis()).unwrap_or(u64::MAX),
                lived_ms: lost.proven.then(|| u64::try_from(lost.lived.most.as_millis()).unwrap_or(u64::MAX)),
                previous_branch: None,
                new_branch: None,
                cutoff: None,
            }));
            Cause::Recovery
        }
        (Some(owner), _) if *owner != claim.node => return Err(Refusal::Owned { owner: owner.clone() }),
        _ if summary.started => Cause::Wake,
        _ => Cause::Start,
    };
    let alone = claim.alone;
    let recovery = news(summary.recovery, claim.recovery);
    let version = claim.version.filter(|_| summary.version == UNDECIDED);
    let plan = if summary.started { Vec::new() } else { claim.plan.clone() };
    let claimed = RunClaimed { alone, version, plan, recovery, ..claimed(&claim.node, cause, attempt) };
    events.push(Event::RunClaimed(claimed));
    if !summary.started {
        events.push(Event::RunStarted);
    }
    Ok(Decision::new(now, events, TaskMove::Keep))
}

/// How long nodes that cannot read a run's log leave it alone.
const HANDED_BACK: std::time::Duration = std::time::Duration::from_secs(5);

/// Gives up the node's claim and changes nothing else of the run: the node knows only its cached row.
pub(super) fn hand_back(view: View<'_>, node: &NodeId, now: Millis) -> Result<Decision, Refusal> {
    let summary = view.summary()?;
    if summary.owner.as_ref() != Some(node) {
        return Ok(Decision::default());
    }
    let released = Event::RunReleased { reason: Release::Unfit };
    Ok(Decision::new(now, vec![released], TaskMove::Rest(now + HANDED_BACK)))
}

pub(super) fn mail(
    view: View<'_>,
    command: &Command,
    now: Millis,
    limits: &Limits,
) -> Result<Decision, Refusal> {
    let summary = view.summary()?;
    let id = match command {
        Command::Signal { id, .. } | Command::Answer { id, .. } => id.clone(),
        Command::Pause(note) | Command::Resume(note) | Command::Annotate(note) => note.id.clone(),
        Command::ChildEnded { child, .. } | Command::ChildRefused { child, .. } => child_command(child),
        Command::Start { .. }
        | Command::Claim(_)
        | Command::Cancel(_)
        | Command::CancelUnmanned { .. }
        | Command::TimeOut
        | Command::TimeOutUnmanned { .. }
        | Command::Terminate(_)
        | Command::Withdraw(_)
        | Command::Jump(_)
        | Command::Retry(_)
        | Command::DropCancel(_)
        | Command::StepEnded(_)
        | Command::Heal(_)
        | Command::Requeue(_)
        | Command::Reset(_)
        | Command::UndoSeam(_)
        | Command::Migrate(_)
        | Command::Prune(_)
        | Command::HandBack(_)
        | Command::Owned(..) => {
            return Err(Refusal::NeedsHistory);
        }
    };
    let fresh = matches!(command, Command::Signal { fresh: true, .. });
    if !fresh && view.has_seen(&id)? {
        return Ok(Decision::default());
    }
    refuse_archived(summary)?;
    let event = mail_event(view, command, limits)?;
    let task = match &event {
        Event::RunPaused(_) if summary.owner.is_none() => TaskMove::Rest(summary.stopped_until()),
        Event::RunResumed(_) if summary.ready_at(now) > now => TaskMove::Rest(summary.ready_at(now)),
        Event::RunPaused(_) | Event::RunResumed(_) => TaskMove::Wake,
        event if summary.awaits(event) && summary.status.is_active() => TaskMove::Wake,
        _ => TaskMove::Keep,
    };
    let unawaited = match &event {
        Event::SignalReceived { name, .. } => summary.waits.iter().all(|wait| wait.wants(name).is_none()),
        _ => false,
    };
    Ok(Decision { unawaited, ..Decision::new(now, vec![event], task) })
}

/// Refuses a signal that every open wait for its name would leave unread, while the sender can still correct it.
fn check_signal(summary: &Summary, name: &SignalName, payload: &Payload) -> Result<(), Refusal> {
    let mut refused = None;
    for wanted in summary.waits.iter().filter_map(|wait| wait.wants(name)) {
        let Some(schema) = wanted else { return Ok(()) };
        match form::check_signal(schema, payload) {
            Ok(()) => return Ok(()),
            Err(invalid) => refused = Some(Refusal::InvalidSignal { name: name.clone(), reason: invalid.0 }),
        }
    }
    refused.map_or(Ok(()), Err)
}

/// Returns the mail for the end of a child that this run started. The cached row knows the children of open waits
/// only.
fn child_mail(view: View<'_>, child: &RunId, result: &Result<Payload, Failure>) -> Result<Event, Refusal> {
    if view.summary()?.waits.iter().any(|wait| wait.children.contains(child)) {
        return Ok(child_event(child, result));
    }
    match view.state()?.children.get(child) {
        Some(child) if child.detached => Err(Refusal::NothingToDo { why: "the child is detached" }),
        Some(_) => Ok(child_event(child, result)),
        None => Err(Refusal::NothingToDo { why: "the run did not start this child" }),
    }
}

/// Returns an open question, or one that a recovery cut off, as asked at `since`, if given.
fn find_question<'a>(
    summary: &'a Summary,
    question: &Path,
    since: Option<Millis>,
) -> Result<&'a OpenInput, Refusal> {
    let is_meant = |at: Millis| since.is_none_or(|since| since == at);
    let mut answerable = summary.inputs.iter().chain(&summary.cut_off);
    answerable.find(|input| input.path == *question && is_meant(input.since)).ok_or_else(|| {
        let open = summary.inputs.iter().map(|input| input.path.clone()).collect();
        Refusal::NoSuchQuestion { question: question.clone(), open }
    })
}

fn mail_event(view: View<'_>, command: &Command, limits: &Limits) -> Result<Event, Refusal> {
    let summary = view.summary()?;
    let alive = || match summary.status {
        status if status.is_terminal() => Err(Refusal::Finished { status }),
        _ => Ok(()),
    };
    let room = || match summary.mail_unread {
        unread if unread >= limits.mail_unread_max => Err(Refusal::TooMuchMail { unread }),
        _ => Ok(()),
    };
    let fits = || TooLong::check("bytes", summary.bytes.unwrap_or_default(), limits.history_bytes_max);
    match command {
        Command::Signal { name, id, payload, fresh: _ } => {
            alive()?;
            room()?;
            fits()?;
            check_signal(summary, name, payload)?;
            Ok(Event::SignalReceived { name: name.clone(), id: id.clone(), payload: payload.clone() })
        }
        Command::Answer { question, since, id, answer, by } => {
            alive()?;
            let asked = find_question(summary, question, *since)?;
            asked.form.check(answer).map_err(|invalid| Refusal::InvalidAnswer { reason: invalid.0 })?;
            fits()?;
            let question = question.clone();
            let id = id.clone();
            let answer = answer.clone();
            let by = by.clone();
            Ok(Event::InputAnswered { question, id, answer, by })
        }
        Command::Pause(note) => {
            alive()?;
            if summary.paused {
                return Err(Refusal::NothingToDo { why: "the run is already paused" });
            }
            Ok(Event::RunPaused(note.clone()))
        }
        Command::Resume(note) => {
            alive()?;
            if !summary.paused && summary.status != Status::Parked {
                return Err(Refusal::NothingToDo { why: "the run is neither paused nor parked" });
            }
            Ok(Event::RunResumed(note.clone()))
        }
        Command::ChildEnded { child, result } => alive().and_then(|()| child_mail(view, child, result)),
        Command::ChildRefused { child, failure } => {
            alive()?;
            refused_child(view, child, failure)
        }
        Command::Annotate(note) => Ok(Event::NoteAdded(note.clone())),
        Command::Start { .. }
        | Command::Claim(_)
        | Command::Cancel(_)
        | Command::CancelUnmanned { .. }
        | Command::TimeOut
        | Command::TimeOutUnmanned { .. }
        | Command::Terminate(_)
        | Command::Withdraw(_)
        | Command::Jump(_)
        | Command::Retry(_)
        | Command::DropCancel(_)
        | Command::StepEnded(_)
        | Command::Heal(_)
        | Command::Requeue(_)
        | Command::Reset(_)
        | Command::UndoSeam(_)
        | Command::Migrate(_)
        | Command::Prune(_)
        | Command::HandBack(_)
        | Command::Owned(..) => Err(Refusal::NeedsHistory),
    }
}

fn refused_child(view: View<'_>, child: &RunId, failure: &Failure) -> Result<Event, Refusal> {
    if !view.state()?.children.contains_key(child) {
        return Err(Refusal::NothingToDo { why: "the run did not request this child" });
    }
    Ok(Event::ChildFailed { run: child.clone(), failure: failure.clone(), refused: true })
}

/// Returns the event for the parent's log about the end of a child.
pub(super) fn child_event(child: &RunId, result: &Result<Payload, Failure>) -> Event {
    let run = child.clone();
    match result {
        Ok(output) => Event::ChildCompleted { run, output: output.clone() },
        Err(failure) => Event::ChildFailed { run, failure: failure.clone(), refused: false },
    }
}
