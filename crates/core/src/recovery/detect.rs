//! The detectors of the catalogue: each looks at one run and says what is wrong, or nothing.
//!
//! A1, A2, A3 and A4 need a cache that is not late and an owner that is not alive: a late cache is
//! rewritten without a branch, and whatever a live owner does is its own business.

use std::time::Duration;

use super::{Code, Diagnosis, Owner, Pace, Remedy, Sight, pace, seen_of, used_up};
use crate::error::Class;
use crate::form::check_signal;
use crate::lines::signal_line;
use crate::path::Path;
use crate::state::{Found, Mail, Op, OpKind, State, StepOp, StepProgress, WaitOp};
use crate::summary::{Status, Summary};
use crate::task::{Task, TaskState};
use crate::time::{Millis, Seq};
use crate::version::UNDECIDED;

/// A task that is due within this time does not sleep: a node put it aside for a moment.
const ASIDE_MAX: Duration = Duration::from_secs(10);

fn found(rule: Code, evidence: impl Into<String>, remedy: Remedy) -> Option<Diagnosis> {
    Some(Diagnosis { rule, evidence: evidence.into(), remedy })
}

/// The cached status, if it claims to be of this very log end and nobody executes the run.
fn settled_status(sight: &Sight<'_>) -> Option<Status> {
    let row = sight.row?.summary;
    let settled = row.as_of == sight.state.summary.as_of && !sight.owner.is_alive();
    settled.then_some(row.status)
}

/// Whether the log has the run between two operations: nothing awaited, nothing being undone.
fn is_under_way(state: &State) -> bool {
    matches!(state.summary.status, Status::Running | Status::Queued)
}

/// The last event that may be trusted whatever came after.
pub(super) fn last_stable(state: &State) -> Option<Seq> {
    let stable = |op: &&Op| match &op.kind {
        OpKind::Step(step) => matches!(step.progress, StepProgress::Completed(_)),
        OpKind::Wait(WaitOp { found: Some(Found::Mail(Mail::Answer { .. })), .. }) => true,
        OpKind::Wait(_) | OpKind::Progress => false,
    };
    state.ops.values().filter(stable).map(|op| op.last).max()
}

/// Branch at the last stable event; a run that has done nothing yet begins anew.
fn cut_at_stable(state: &State) -> Remedy {
    match last_stable(state) {
        Some(cutoff) => Remedy::Branch { cutoff },
        None if state.ops.is_empty() => Remedy::Branch { cutoff: state.branches.active().opened },
        None => Remedy::Park { reason: super::NO_STABLE_EVENT.to_owned() },
    }
}

/// A1
pub(super) fn phantom_wait(sight: &Sight<'_>) -> Option<Diagnosis> {
    if settled_status(sight)? != Status::Waiting || !is_under_way(sight.state) {
        return None;
    }
    let evidence = format!("the cache says waiting, the log at {} waits for nothing", end(sight));
    found(Code::A1, evidence, cut_at_stable(sight.state))
}

/// A2
pub(super) fn hidden_question(sight: &Sight<'_>) -> Option<Diagnosis> {
    let hides = matches!(settled_status(sight)?, Status::Running | Status::Queued);
    if !hides || sight.state.summary.status != Status::Waiting {
        return None;
    }
    let asked = |path: &Path| sight.state.ops.get(path).map(|op| (path.clone(), op.first));
    let open = sight.state.summary.inputs.iter().filter_map(|input| asked(&input.path));
    let (path, first) = open.min_by_key(|(_, first)| *first)?;
    let evidence = format!("the cache says running, question {path} is open since event {first}");
    found(Code::A2, evidence, Remedy::Branch { cutoff: first.before() })
}

/// A3
pub(super) fn unended(sight: &Sight<'_>) -> Option<Diagnosis> {
    let plan = &sight.state.queued.plan;
    if settled_status(sight)? != Status::Running || plan.is_empty() || !is_under_way(sight.state) {
        return None;
    }
    let done = || sight.state.ops.iter().filter(|(_, op)| is_done(op));
    let all = plan.iter().all(|name| done().any(|(path, _)| path.name() == name.as_str()));
    let cutoff = done().map(|(_, op)| op.last).max()?;
    let evidence = format!("all {} declared steps are complete, and the run has no end", plan.len());
    all.then_some(Diagnosis { rule: Code::A3, evidence, remedy: Remedy::Branch { cutoff } })
}

/// Whether this is a completed step: a plan may name leaf steps and group steps.
fn is_done(op: &Op) -> bool {
    matches!(&op.kind, OpKind::Step(StepOp { progress: StepProgress::Completed(_), .. }))
}

/// A4
pub(super) fn left_failure(sight: &Sight<'_>) -> Option<Diagnosis> {
    if sight.owner.is_alive() { None } else { failure_left_in(sight.state, Some(sight)) }
}

/// What whoever has just taken a run must mend before its code sees the log.
pub(super) fn at_claim(state: &State) -> Option<Diagnosis> {
    half_jump_in(state).or_else(|| failure_left_in(state, None))
}

fn failure_left_in(state: &State, sight: Option<&Sight<'_>>) -> Option<Diagnosis> {
    if !is_under_way(state) {
        return None;
    }
    let (path, op) = state.ops.iter().max_by_key(|(_, op)| op.last)?;
    let OpKind::Step(StepOp {
        progress: StepProgress::Failed(failure), left, attempts, group: false, ..
    }) = &op.kind
    else {
        return None;
    };
    let evidence = format!("step {path} failed ({}), and nothing followed", failure.class.as_str());
    if failure.class != Class::Terminal && *left > 0 {
        let (path, attempt) = (path.clone(), attempts.saturating_add(1));
        return found(Code::A4, evidence, Remedy::Retry { path, attempt });
    }
    let sight = sight?;
    // A task that will move the run, or an owner that is lost, leads to the same by itself.
    if sight.task.is_some_and(|task| task.state.is_live()) || sight.owner != Owner::Nobody {
        return None;
    }
    found(Code::A4, evidence, Remedy::Requeue { run_at: sight.now })
}

/// D2
pub(super) fn half_jump(sight: &Sight<'_>) -> Option<Diagnosis> {
    half_jump_in(sight.state)
}

fn half_jump_in(state: &State) -> Option<Diagnosis> {
    let asked = state.half_jump?;
    let evidence = format!("a jump was asked for at event {asked}, and no branch was opened");
    found(Code::D2, evidence, Remedy::Branch { cutoff: asked.before() })
}

/// P1
pub(super) fn poison(sight: &Sight<'_>) -> Option<Diagnosis> {
    let Owner::Lost { proven: true, lived, .. } = &sight.owner else { return None };
    let summary = &sight.state.summary;
    if pace(summary, *lived, sight.bounds) != Pace::Never {
        return None;
    }
    found(Code::P1, seen_of(summary), used_up(summary, sight.bounds))
}

/// O2
pub(super) fn lost_owner(sight: &Sight<'_>) -> Option<Diagnosis> {
    let Owner::Lost { evidence, .. } = &sight.owner else { return None };
    let remedy = match sight.task {
        Some(task) if task.state == TaskState::Claimed && !sight.claimant.is_alive() => Remedy::Reclaim,
        // Nobody takes it over while its task sleeps: W1.
        Some(task) if task.state == TaskState::Ready && task.run_at > sight.now + ASIDE_MAX => return None,
        // No live node can take it over: that is what must be said.
        Some(task) if task.state.is_live() && !is_fit(sight) => return None,
        Some(task) if task.state.is_live() => Remedy::Tell {
            hint: match task.quarantine() {
                Some(waits) => format!("it waits in quarantine {}", waits.place),
                None => "a node that has its workflow takes it over".to_owned(),
            },
        },
        // Without a task nobody comes to take it over: O1.
        _ => return None,
    };
    found(Code::O2, evidence.clone(), remedy)
}

/// W1
pub(super) fn asleep(sight: &Sight<'_>) -> Option<Diagnosis> {
    if let Some((child, result)) = sight.children.first() {
        let evidence = format!("child {child} has ended, and the log does not say so");
        return found(Code::W1, evidence, Remedy::Deliver { child: child.clone(), result: result.clone() });
    }
    let task = sight.task?;
    if sight.owner.is_alive() || task.state != TaskState::Ready || task.run_at <= sight.now + ASIDE_MAX {
        return None;
    }
    let why = wanted(sight.state, sight.now)?;
    found(Code::W1, format!("{why}, and its task sleeps"), Remedy::Wake)
}

/// W2
pub(super) fn misfit(sight: &Sight<'_>) -> Option<Diagnosis> {
    let state = sight.state;
    if state.summary.mail_unread == 0 || state.summary.status != Status::Waiting {
        return None;
    }
    let taken = std::collections::BTreeSet::new();
    // If one that fits is there as well, the run goes on by itself.
    let is_stuck = |path: &Path| match state.ops.get(path).map(|op| &op.kind) {
        Some(OpKind::Wait(WaitOp { wanted: Some(wanted), .. })) => state.mail_for(wanted, &taken).is_none(),
        _ => false,
    };
    let (path, name, at, schema) = state.misfits().into_iter().find(|(path, ..)| is_stuck(path))?;
    let Some(Mail::Signal { payload, .. }) = state.unread.get(&at) else { return None };
    let reason = check_signal(&schema, payload).err().map(|invalid| invalid.0).unwrap_or_default();
    let evidence = format!("signal {name} at event {at} does not fit wait {path}: {reason}");
    found(Code::W2, evidence, Remedy::Tell { hint: signal_line(&state.summary.run, &name, Some(&schema)) })
}

/// Why a run that nobody executes should move now, if it should.
fn wanted(state: &State, now: Millis) -> Option<&'static str> {
    let summary = &state.summary;
    if summary.owner.is_some() {
        return Some("its owner is lost");
    }
    if summary.waits.is_empty() {
        return Some("it waits for nothing");
    }
    if summary.due().is_some_and(|due| due <= now) {
        return Some("its timer is due");
    }
    if summary.cancel.is_some() {
        return Some("it is to be cancelled");
    }
    if state.told {
        return Some("a remote step has ended");
    }
    if state.jump.is_some() {
        return Some("a jump waits to be carried out");
    }
    let taken = std::collections::BTreeSet::new();
    let mail = summary.waits.iter().any(|wait| match state.ops.get(&wait.path).map(|op| &op.kind) {
        Some(OpKind::Wait(WaitOp { wanted: Some(wanted), found: None, .. })) => {
            state.mail_for(wanted, &taken).is_some()
        }
        _ => false,
    });
    mail.then_some("what it waits for is in the log")
}

/// O1
pub(super) fn no_task(sight: &Sight<'_>) -> Option<Diagnosis> {
    if sight.owner.is_alive() {
        return None;
    }
    let evidence = match sight.task {
        None => "its advance task is missing".to_owned(),
        Some(task) if task.state == TaskState::Claimed && !sight.claimant.is_alive() => {
            if sight.owner != Owner::Nobody {
                return None;
            }
            return found(Code::O1, lapsed(task), Remedy::Reclaim);
        }
        // Only nodes that have the version which the kind names are offered it.
        Some(task) if task.state == TaskState::Ready && !is_offered(sight, task) => {
            let needs = sight.state.summary.needs();
            format!("its advance task is of kind {}, and the run needs {needs}", task.kind)
        }
        Some(task) if task.state.is_live() => return None,
        Some(task) => format!("its advance task is {}", task.state.as_str()),
    };
    let run_at = due_at(sight.state, sight.now);
    found(Code::O1, evidence, Remedy::Requeue { run_at })
}

fn is_offered(sight: &Sight<'_>, task: &Task) -> bool {
    let Summary { workflow, version, .. } = &sight.state.summary;
    !task.is_advance() || task.is_offered_to(workflow.as_str(), *version)
}

fn lapsed(task: &Task) -> String {
    let owner = task.owner.as_deref().unwrap_or("nobody");
    format!("its advance task is claimed by {owner}, which is gone")
}

/// When the run's task must be due: what a lost owner had is to be taken over at once.
fn due_at(state: &State, now: Millis) -> Millis {
    match wanted(state, now) {
        Some(_) => now,
        None => state.summary.due().unwrap_or(Millis::NEVER),
    }
}

/// O3
pub(super) fn lost_remote(sight: &Sight<'_>) -> Option<Diagnosis> {
    sight.remote.iter().find_map(|remote| {
        let (path, attempt) = (remote.path.clone(), remote.attempt);
        match &remote.task {
            Some(task) if task.state.is_live() => None,
            Some(task) if task.result.is_some() || task.state == TaskState::Failed => {
                let evidence =
                    format!("the task of step {path} is {}, the log has no result", task.state.as_str());
                found(Code::O3, evidence, Remedy::TakeResult { path, attempt, task: Box::new(task.clone()) })
            }
            // It took one worker down after the other: another task would, too.
            Some(task) if task.state == TaskState::Dead => {
                let evidence = format!("the task of step {path} is dead");
                found(Code::O3, evidence, Remedy::GiveUp { path, attempt, task: Box::new(task.clone()) })
            }
            Some(task) => {
                let evidence = format!("the task of step {path} is {}", task.state.as_str());
                found(Code::O3, evidence, Remedy::SendAgain { path, attempt })
            }
            None => {
                let evidence = format!("the task of step {path} is missing");
                found(Code::O3, evidence, Remedy::SendAgain { path, attempt })
            }
        }
    })
}

/// H1
pub(super) fn silent_remote(sight: &Sight<'_>) -> Option<Diagnosis> {
    sight.remote.iter().find_map(|remote| {
        let task = remote.task.as_ref().filter(|task| task.state == TaskState::Claimed)?;
        let heard = task.heartbeat_at.or(task.started_at)?;
        let silent = sight.now.since(heard);
        if silent <= remote.silence {
            return None;
        }
        let (path, attempt) = (remote.path.clone(), remote.attempt);
        let evidence = format!("step {path} has been silent for {} s", silent.as_secs());
        found(Code::H1, evidence, Remedy::GiveUp { path, attempt, task: Box::new(task.clone()) })
    })
}

/// Whether a live node can execute the run, as far as was looked up.
fn is_fit(sight: &Sight<'_>) -> bool {
    let version = sight.state.summary.version;
    sight.versions.is_none_or(|live| match version {
        UNDECIDED => !live.is_empty(),
        version => live.contains(&version),
    })
}

/// Whether the run should move and no live node has it, although none can execute it.
fn waits_for_worker(sight: &Sight<'_>) -> bool {
    !is_fit(sight) && !sight.owner.is_alive() && wanted(sight.state, sight.now).is_some()
}

/// N1
pub(super) fn nobody_fit(sight: &Sight<'_>) -> Option<Diagnosis> {
    let summary = &sight.state.summary;
    if !waits_for_worker(sight) || sight.versions.is_some_and(|live| !live.is_empty()) {
        return None;
    }
    let Summary { workflow, .. } = summary;
    let hint = format!("start a node that has workflow {workflow}");
    let evidence =
        format!("no live node has workflow {workflow}: the run waits for a worker with {}", summary.needs());
    found(Code::N1, evidence, Remedy::Tell { hint })
}

/// E2
pub(super) fn no_version(sight: &Sight<'_>) -> Option<Diagnosis> {
    let live = sight.versions.filter(|live| !live.is_empty())?;
    if !waits_for_worker(sight) {
        return None;
    }
    let summary = &sight.state.summary;
    let missing = missing(summary, live);
    let remedy = match summary.initial_version {
        initial if initial != summary.version && live.contains(&initial) => {
            Remedy::ChangeVersion { to: initial }
        }
        _ => Remedy::Park { reason: missing.clone() },
    };
    found(Code::E2, format!("{missing}: the run waits for a worker with {}", summary.needs()), remedy)
}

/// "no live node has version 2 of order (live nodes have 1)"
fn missing(summary: &Summary, live: &[u32]) -> String {
    let Summary { workflow, version, .. } = summary;
    let has = match live {
        [] => "no live node has the workflow".to_owned(),
        live => format!("live nodes have {}", live.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    };
    format!("no live node has version {version} of {workflow} ({has})")
}

/// What brings a run back that E2 parked.
pub(super) fn comes_back(sight: &Sight<'_>) -> String {
    let Summary { run, .. } = &sight.state.summary;
    let needs = sight.state.summary.needs();
    match is_fit(sight) {
        true => format!("a live node has {needs} now: goldseam resume {run}"),
        false => format!("start a worker with {needs}, then: goldseam resume {run}"),
    }
}

fn end(sight: &Sight<'_>) -> Seq {
    sight.state.summary.as_of
}
