//! The detectors of the catalogue. Each examines one run and returns a diagnosis, or `None`.
//!
//! A1, A2, A3 and A4 need a cached row that is not late and an owner that is not alive: a late row is rewritten
//! without a branch, and a live owner may still be working.

use std::time::Duration;

use super::{Code, Diagnosis, Owner, Pace, Remedy, Sight, pace, seen_of, used_up};
use crate::error::Class;
use crate::form::check_signal;
use crate::next_step::{Hint, NextStep};
use crate::path::Path;
use crate::recovery_policy::Bounds;
use crate::state::{Found, Mail, Op, OpKind, State, StepOp, StepProgress, WaitOp};
use crate::summary::{Status, Summary};
use crate::task::{Task, TaskState};
use crate::time::{Millis, Seq};
use crate::version::UNDECIDED;

/// A task that is due within this time is not dormant: a node postponed it for a moment.
const ASIDE_MAX: Duration = Duration::from_secs(10);

fn found(rule: Code, evidence: impl Into<String>, remedy: Remedy) -> Option<Diagnosis> {
    Some(Diagnosis { rule, evidence: evidence.into(), remedy })
}

/// Returns the cached status if the row is as new as the log and no node executes the run.
fn settled_status(sight: &Sight<'_>) -> Option<Status> {
    let row = sight.row?.summary;
    let settled = row.as_of == sight.state.summary.as_of && !sight.owner.is_alive();
    settled.then_some(row.status)
}

/// Returns whether the run is between two operations: no open wait, no compensation.
fn is_under_way(state: &State) -> bool {
    matches!(state.summary.status, Status::Running | Status::Queued)
}

/// Returns the last stable event.
pub(super) fn last_stable(state: &State) -> Option<Seq> {
    let stable = |op: &&Op| match &op.kind {
        OpKind::Step(step) => matches!(step.progress, StepProgress::Completed(_)),
        OpKind::Wait(WaitOp { found: Some(Found::Mail(Mail::Answer { .. })), .. }) => true,
        OpKind::Wait(_) | OpKind::Progress | OpKind::Attributes | OpKind::Published | OpKind::Answered => {
            false
        }
    };
    state.ops.values().filter(stable).map(|op| op.last).max()
}

/// Returns a branch at the last stable event, or at the start if the run has done nothing yet.
fn cut_at_stable(state: &State) -> Remedy {
    match last_stable(state) {
        Some(cutoff) => Remedy::Branch { cutoff },
        None if state.ops.is_empty() => Remedy::Branch { cutoff: state.branches.active().opened },
        None => Remedy::Park { reason: super::NO_STABLE_EVENT.to_owned() },
    }
}

/// Detects rule A1.
pub(super) fn phantom_wait(sight: &Sight<'_>) -> Option<Diagnosis> {
    if settled_status(sight)? != Status::Waiting || !is_under_way(sight.state) {
        return None;
    }
    let evidence =
        format!("the cached status is waiting, but the log has no open wait at event {}", end(sight));
    found(Code::A1, evidence, cut_at_stable(sight.state))
}

/// Detects rule A2.
pub(super) fn hidden_question(sight: &Sight<'_>) -> Option<Diagnosis> {
    let hides = matches!(settled_status(sight)?, Status::Running | Status::Queued);
    if !hides || sight.state.summary.status != Status::Waiting {
        return None;
    }
    let asked = |path: &Path| sight.state.ops.get(path).map(|op| (path.clone(), op.first));
    let open = sight.state.summary.inputs.iter().filter_map(|input| asked(&input.path));
    let (path, first) = open.min_by_key(|(_, first)| *first)?;
    let evidence =
        format!("the cached status is running, but question {path} has been open since event {first}");
    found(Code::A2, evidence, Remedy::Branch { cutoff: first.before() })
}

/// Detects rule A3.
pub(super) fn unended(sight: &Sight<'_>) -> Option<Diagnosis> {
    let plan = &sight.state.queued.plan;
    if settled_status(sight)? != Status::Running || plan.is_empty() || !is_under_way(sight.state) {
        return None;
    }
    let done = || sight.state.ops.iter().filter(|(_, op)| is_done(op));
    let all = plan.iter().all(|name| done().any(|(path, _)| path.name() == name.as_str()));
    let cutoff = done().map(|(_, op)| op.last).max()?;
    let evidence = format!("all {} declared steps are complete, but the run has not ended", plan.len());
    all.then_some(Diagnosis { rule: Code::A3, evidence, remedy: Remedy::Branch { cutoff } })
}

/// Returns whether the operation is a completed step: a plan may name leaf steps and group steps.
fn is_done(op: &Op) -> bool {
    matches!(&op.kind, OpKind::Step(StepOp { progress: StepProgress::Completed(_), .. }))
}

/// Detects rule A4.
pub(super) fn left_failure(sight: &Sight<'_>) -> Option<Diagnosis> {
    if sight.owner.is_alive() { None } else { failure_left_in(sight.state, Some(sight)) }
}

/// Returns what a node that has just claimed a run must repair before its code sees the log.
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
    let evidence = format!("step {path} failed ({}) and nothing followed", failure.class.as_str());
    if failure.class != Class::Terminal && *left > 0 {
        let path = path.clone();
        let attempt = attempts.saturating_add(1);
        return found(Code::A4, evidence, Remedy::Retry { path, attempt });
    }
    let sight = sight?;
    // A live task or a lost owner leads to the same result automatically.
    if sight.task.is_some_and(|task| task.state.is_live()) || sight.owner != Owner::None {
        return None;
    }
    found(Code::A4, evidence, Remedy::Requeue { run_at: sight.now })
}

/// Detects rule D2.
pub(super) fn half_jump(sight: &Sight<'_>) -> Option<Diagnosis> {
    half_jump_in(sight.state)
}

fn half_jump_in(state: &State) -> Option<Diagnosis> {
    let asked = state.half_jump?;
    let evidence = format!("a jump was requested at event {asked}, but no branch was opened");
    found(Code::D2, evidence, Remedy::Branch { cutoff: asked.before() })
}

/// Detects rule P1.
pub(super) fn poison(sight: &Sight<'_>) -> Option<Diagnosis> {
    let Owner::Lost { proven: true, lived, .. } = &sight.owner else { return None };
    let summary = &sight.state.summary;
    (pace(summary, *lived, sight.bounds) == Pace::Never).then(|| poisoned(summary, sight.bounds))
}

/// Returns the diagnosis of a run that is never admitted again ([`Pace::Never`]): rule P1.
pub fn poisoned(summary: &Summary, bounds: Bounds) -> Diagnosis {
    Diagnosis { rule: Code::P1, evidence: seen_of(summary), remedy: used_up(summary, bounds) }
}

/// Detects rule O2.
pub(super) fn lost_owner(sight: &Sight<'_>) -> Option<Diagnosis> {
    let Owner::Lost { evidence, .. } = &sight.owner else { return None };
    let remedy = match sight.task {
        Some(task) if task.state == TaskState::Claimed && !sight.claimant.is_alive() => Remedy::Reclaim,
        // While its task is dormant, no node takes over: W1.
        Some(task) if task.state == TaskState::Ready && task.run_at > sight.now + ASIDE_MAX => return None,
        // No live node can take over: N1 and E2 report that.
        Some(task) if task.state.is_live() && !is_fit(sight) => return None,
        Some(task) if task.state.is_live() => Remedy::Tell {
            hint: match task.quarantine() {
                Some(waits) => format!("it waits in quarantine {}", waits.place).into(),
                None => "a node with the workflow will take it over".into(),
            },
        },
        // Without a task, no node takes over: O1.
        _ => return None,
    };
    found(Code::O2, evidence.clone(), remedy)
}

/// Detects rule W1.
pub(super) fn asleep(sight: &Sight<'_>) -> Option<Diagnosis> {
    if let Some((child, result)) = sight.children.first() {
        let evidence = format!("child {child} has ended, but the log does not record it");
        return found(Code::W1, evidence, Remedy::Deliver { child: child.clone(), result: result.clone() });
    }
    let task = sight.task?;
    if sight.owner.is_alive() || task.state != TaskState::Ready || task.run_at <= sight.now + ASIDE_MAX {
        return None;
    }
    let why = wanted(sight.state, sight.now)?;
    found(Code::W1, format!("{why}, but its task is dormant"), Remedy::Wake)
}

/// Detects rule W2.
pub(super) fn misfit(sight: &Sight<'_>) -> Option<Diagnosis> {
    let state = sight.state;
    if state.summary.mail_unread == 0 || state.summary.status != Status::Waiting {
        return None;
    }
    let taken = std::collections::BTreeSet::new();
    // If another signal fits, the run continues automatically.
    let is_stuck = |path: &Path| match state.ops.get(path).map(|op| &op.kind) {
        Some(OpKind::Wait(WaitOp { wanted: Some(wanted), .. })) => state.mail_for(wanted, &taken).is_none(),
        _ => false,
    };
    let (path, name, at, schema) = state.misfits().into_iter().find(|(path, ..)| is_stuck(path))?;
    let Some(Mail::Signal { payload, .. }) = state.unread.get(&at) else { return None };
    let reason = check_signal(&schema, payload).err().map(|invalid| invalid.0).unwrap_or_default();
    let evidence = format!("signal {name} at event {at} does not match wait {path}: {reason}");
    let hint = NextStep::signal(&state.summary.run, &name, Some(&schema)).into();
    found(Code::W2, evidence, Remedy::Tell { hint })
}

/// Returns why a run that no node executes should continue now, if it should.
fn wanted(state: &State, now: Millis) -> Option<&'static str> {
    let summary = &state.summary;
    if summary.owner.is_some() {
        return Some("its owner is lost");
    }
    if summary.is_overdue(now) {
        return Some("its deadline has passed");
    }
    if summary.begins_at().is_some_and(|at| at > now) {
        return None;
    }
    if summary.waits.is_empty() {
        return Some("it has no open wait");
    }
    if summary.due().is_some_and(|due| due <= now) {
        return Some("its timer is due");
    }
    if summary.cancel.is_some() {
        return Some("a request to cancel is pending");
    }
    if state.remote_ended {
        return Some("a remote step has ended");
    }
    if state.jump.is_some() {
        return Some("a jump is pending");
    }
    let taken = std::collections::BTreeSet::new();
    let mail = summary.waits.iter().any(|wait| match state.ops.get(&wait.path).map(|op| &op.kind) {
        Some(OpKind::Wait(WaitOp { wanted: Some(wanted), found: None, .. })) => {
            state.mail_for(wanted, &taken).is_some()
        }
        _ => false,
    });
    mail.then_some("the log has the mail that it waits for")
}

/// Detects rule O1.
pub(super) fn no_task(sight: &Sight<'_>) -> Option<Diagnosis> {
    if sight.owner.is_alive() {
        return None;
    }
    let evidence = match sight.task {
        None => idle(None),
        Some(task) if task.state == TaskState::Claimed && !sight.claimant.is_alive() => {
            if sight.owner != Owner::None {
                return None;
            }
            return found(Code::O1, lapsed(&sight.claimant), Remedy::Reclaim);
        }
        // Only nodes with the version in the task's kind are offered the task.
        Some(task) if task.state == TaskState::Ready && !is_offered(sight, task) => {
            let needs = sight.state.summary.needs();
            format!("its advance task is of kind {}, but the run needs {needs}", task.kind)
        }
        // Only nodes with the queue of the task are offered it.
        Some(task) if task.state == TaskState::Ready && task.is_advance() && !is_in_queue(sight, task) => {
            let queue = &sight.state.summary.queue;
            format!("its advance task is in queue {}, but the run is in queue {queue}", task.queue)
        }
        Some(task) if task.state.is_live() => return None,
        Some(task) => idle(Some(task)),
    };
    let run_at = due_at(sight.state, sight.now);
    found(Code::O1, evidence, Remedy::Requeue { run_at })
}

/// Detects rule O1 on a run that its live owner does not execute, which only the owner knows: no other node may claim
/// the run, and its task does not bring it back.
pub fn not_executed(task: Option<&Task>, now: Millis) -> Option<Diagnosis> {
    let is_dormant = |task: &Task| task.state == TaskState::Ready && task.run_at == Millis::NEVER;
    if task.is_some_and(|task| task.state.is_live() && !is_dormant(task)) {
        return None;
    }
    let evidence = format!("its owner does not execute it, and {}", idle(task));
    found(Code::O1, evidence, Remedy::Requeue { run_at: now })
}

/// Describes an advance task that moves nothing.
fn idle(task: Option<&Task>) -> String {
    match task {
        None => "its advance task is missing".to_owned(),
        Some(task) if task.state == TaskState::Ready => "its advance task is dormant".to_owned(),
        Some(task) => format!("its advance task is {}", task.state.as_str()),
    }
}

fn is_offered(sight: &Sight<'_>, task: &Task) -> bool {
    let Summary { workflow, version, .. } = &sight.state.summary;
    !task.is_advance() || task.is_offered_to(workflow.as_str(), *version)
}

fn is_in_queue(sight: &Sight<'_>, task: &Task) -> bool {
    task.queue == sight.state.summary.queue
}

fn lapsed(claimant: &Owner) -> String {
    match claimant {
        Owner::Lost { evidence, .. } => format!("its advance task is claimed, but {evidence}"),
        Owner::None | Owner::Alive => "its advance task is claimed without an owner".to_owned(),
    }
}

/// Returns when the run's task must be due; the run of a lost owner is due now.
fn due_at(state: &State, now: Millis) -> Millis {
    match wanted(state, now) {
        Some(_) => now,
        None => state.summary.due().unwrap_or(Millis::NEVER),
    }
}

/// Detects rule O3.
pub(super) fn lost_remote(sight: &Sight<'_>) -> Option<Diagnosis> {
    sight.remote.iter().find_map(|remote| {
        let path = remote.path.clone();
        let attempt = remote.attempt;
        match &remote.task {
            Some(task) if task.state.is_live() => None,
            Some(task) if task.result.is_some() || task.state == TaskState::Failed => {
                let evidence =
                    format!("the task of step {path} is {}, but the log has no result", task.state.as_str());
                found(Code::O3, evidence, Remedy::TakeResult { path, attempt, task: Box::new(task.clone()) })
            }
            // The task crashed one worker after another: a new task would do the same.
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

/// Detects rule H1.
pub(super) fn silent_remote(sight: &Sight<'_>) -> Option<Diagnosis> {
    sight.remote.iter().find_map(|remote| {
        let task = remote.task.as_ref().filter(|task| task.state == TaskState::Claimed)?;
        let last_sign = task.heartbeat_at.or(task.started_at)?;
        let silent = sight.now.since(last_sign);
        if silent <= remote.silence {
            return None;
        }
        let path = remote.path.clone();
        let attempt = remote.attempt;
        let evidence = format!("step {path} has been silent for {} s", silent.as_secs());
        found(Code::H1, evidence, Remedy::GiveUp { path, attempt, task: Box::new(task.clone()) })
    })
}

/// Returns whether a live node can execute the run, as far as was looked up.
fn is_fit(sight: &Sight<'_>) -> bool {
    let version = sight.state.summary.version;
    sight.versions.is_none_or(|live| match version {
        UNDECIDED => !live.is_empty(),
        version => live.contains(&version),
    })
}

/// Returns whether the run should continue although no live node owns it or can execute it.
fn waits_for_worker(sight: &Sight<'_>) -> bool {
    !is_fit(sight) && !sight.owner.is_alive() && wanted(sight.state, sight.now).is_some()
}

/// Detects rule N1.
pub(super) fn no_live_workflow(sight: &Sight<'_>) -> Option<Diagnosis> {
    let summary = &sight.state.summary;
    let Summary { workflow, .. } = summary;
    if !waits_for_worker(sight) {
        return untaken_queue(sight);
    }
    if sight.versions.is_some_and(|live| !live.is_empty()) {
        return None;
    }
    let hint = format!("start a node with workflow {workflow}").into();
    let evidence =
        format!("no live node has workflow {workflow}: the run waits for a worker with {}", summary.needs());
    found(Code::N1, evidence, Remedy::Tell { hint })
}

/// Detects rule N1 for a run whose code live nodes have, but whose queue none of them takes.
fn untaken_queue(sight: &Sight<'_>) -> Option<Diagnosis> {
    let summary = &sight.state.summary;
    let queue = &summary.queue;
    let taken = sight.queues.filter(|taken| taken.iter().all(|taken| taken != queue.as_str()))?;
    if !is_fit(sight) || sight.owner.is_alive() || wanted(sight.state, sight.now).is_none() {
        return None;
    }
    let needs = summary.needs();
    let worker = format!("a worker with {needs} that takes queue {queue}");
    let taken = taken.join(", ");
    let evidence = format!(
        "no live node with {needs} takes queue {queue} (they take {taken}): the run waits for {worker}"
    );
    found(Code::N1, evidence, Remedy::Tell { hint: format!("start {worker}").into() })
}

/// Detects rule E2.
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
        // A run that is to end is not parked: it ends as soon as a worker with its version is there.
        _ if summary.is_cancel_pending() => Remedy::Tell {
            hint: Hint::from(format!("start a worker with {}, or: ", summary.needs()))
                .step(NextStep::terminate(&summary.run)),
        },
        _ => Remedy::Park { reason: missing.clone() },
    };
    found(Code::E2, format!("{missing}: the run waits for a worker with {}", summary.needs()), remedy)
}

/// Returns, for example, "no live node has version 2 of order (live nodes have 1)".
fn missing(summary: &Summary, live: &[u32]) -> String {
    let Summary { workflow, version, .. } = summary;
    let has = match live {
        [] => "no live node has the workflow".to_owned(),
        live => format!("live nodes have {}", live.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    };
    format!("no live node has version {version} of {workflow} ({has})")
}

/// Returns how to resume a run that E2 parked.
pub(super) fn resume_hint(sight: &Sight<'_>) -> Hint {
    let summary = &sight.state.summary;
    let needs = summary.needs();
    let text = match is_fit(sight) {
        true => format!("a live node has {needs} now: "),
        false => format!("start a worker with {needs}, then: "),
    };
    Hint::from(text).step(NextStep::resume(&summary.run))
}

fn end(sight: &Sight<'_>) -> Seq {
    sight.state.summary.as_of
}
