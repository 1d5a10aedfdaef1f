//! Remote steps: the owner hands out a task, the worker that claims it reports the result, and a healer replaces a
//! lost task.
//!
//! `decide` checks a worker's result against the log alone, without an epoch: it accepts the result while the task is
//! handed out, and answers a repeat of the same result under the same claim with no events. A different result under
//! the same claim is refused.

use std::time::Duration;

use super::{Decision, Refusal, TaskMove, View, idempotency_key};
use crate::command::StepEnded;
use crate::error::Failure;
use crate::event::{Event, Remote, StepCompleted, StepFailed, StepStarted};
use crate::hash::Hash;
use crate::id::TaskId;
use crate::path::Path;
use crate::reserved::EngineTask;
use crate::retry::Retry;
use crate::state::{Op, OpKind, RemoteEnd, RemoteOp, State, StepOp};
use crate::task::{NewTask, Task, TaskStep};
use crate::time::Millis;

/// An attempt of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attempt<'a> {
    /// The step.
    pub(super) path: &'a Path,
    /// Number of the attempt, from 1.
    pub(super) number: u32,
}

/// Returns the id of the next task for an attempt of the step at `path`, and how many tasks of that attempt were lost
/// before.
///
/// The id is derived from the step's idempotency key. If a recovery keeps the keys, an attempt that begins again has
/// the same task.
pub fn next_task(state: &State, path: &Path, attempt: u32) -> (TaskId, u32) {
    task_from(state, Attempt { path, number: attempt }, 0)
}

fn task_from(state: &State, attempt: Attempt<'_>, delivery: u32) -> (TaskId, u32) {
    let step = idempotency_key(state, attempt.path);
    let id = |delivery: u32| {
        let hash = Hash::of_parts(&["remote", &step, &attempt.number.to_string(), &delivery.to_string()]);
        EngineTask::RemoteStep.id(hash)
    };
    let mut next = (delivery..u32::MAX).map(|delivery| (id(delivery), delivery));
    next.find(|(task, _)| !state.spent.contains(task)).unwrap_or_else(|| (id(u32::MAX), u32::MAX))
}

/// Returns the start of an attempt as it goes into the log and, for a remote step, its task. The log holds the
/// worker's payload once.
pub(super) fn hand_out(state: &State, started: &StepStarted, now: Millis) -> (StepStarted, Option<Task>) {
    let mut started = started.clone();
    let Some(remote) = &mut started.remote else { return (started, None) };
    let recorded = match state.ops.get(&started.path).map(|op| &op.kind) {
        Some(OpKind::Step(step)) => step.remote.as_ref().and_then(|remote| remote.sent.payload.as_ref()),
        _ => None,
    };
    let payload = match recorded {
        Some(recorded) => {
            remote.payload = None;
            recorded.clone()
        }
        None => remote.payload.clone().unwrap_or_else(crate::payload::Payload::null),
    };
    let new = NewTask {
        id: remote.task.clone(),
        kind: started.path.name().to_owned(),
        queue: remote.queue.clone(),
        lane: remote.lane.clone(),
        priority: remote.priority,
        key: None,
        run_at: now,
        payload,
        attempts_max: 1,
        silence_max: Some(Duration::from_millis(remote.silence_ms)),
    };
    let key = idempotency_key(state, &started.path);
    let trace = state.queued.trace.as_ref().map(|trace| trace.within(&key));
    let step = Some(TaskStep { path: started.path.clone(), attempt: started.attempt, key, trace });
    let task = Task { run: Some(state.summary.run.clone()), step, ..new.into_task(now) };
    (started, Some(task))
}

/// A remote step as the log has it.
struct Found<'a> {
    state: &'a State,
    path: &'a Path,
    op: &'a Op,
    step: &'a StepOp,
    remote: &'a RemoteOp,
}

fn find<'a>(state: &'a State, path: &'a Path) -> Option<Found<'a>> {
    let op = state.ops.get(path)?;
    let OpKind::Step(step) = &op.kind else { return None };
    Some(Found { state, path, op, step, remote: step.remote.as_deref()? })
}

impl Found<'_> {
    /// Returns whether the run waits for this task.
    fn awaits(&self, attempt: u32, task: &TaskId) -> bool {
        let open = self.state.awaited(self.step).is_some();
        open && self.step.attempts == attempt && self.remote.sent.task == *task
    }

    /// Returns the events of a failed attempt. The retry time follows from the policy in the log, and is logged with
    /// the failure.
    fn failed(&self, failure: Failure, fence: Option<u64>, now: Millis) -> Vec<Event> {
        let path = self.path.clone();
        let attempt = self.step.attempts;
        let retry = Retry::from(self.remote.sent.retry);
        let failures = self.step.failures.saturating_add(1);
        let pause = retry.pause(failures, &failure, path.as_str());
        let mut events = vec![Event::StepFailed(StepFailed {
            path: path.clone(),
            ord: self.op.ord,
            attempt,
            began: self.remote.since,
            failure,
            left: pause.map_or(0, |_| retry.attempts_max.saturating_sub(failures)),
            input: self.op.input,
            group: false,
            fence,
            retry: None,
        })];
        events.extend(pause.map(|pause| Event::StepRetryScheduled {
            path,
            attempt: attempt.saturating_add(1),
            due: now + pause,
        }));
        events
    }

    fn completed(&self, ended: &StepEnded, output: crate::payload::Payload) -> Event {
        Event::StepCompleted(StepCompleted {
            path: self.path.clone(),
            ord: self.op.ord,
            attempt: ended.attempt,
            began: self.remote.since,
            output,
            input: self.op.input,
            undo: self.remote.sent.undo,
            group: false,
            fence: Some(ended.fence),
        })
    }

    /// Wakes the run, unless an operator stopped it.
    fn wake(&self) -> TaskMove {
        if self.state.summary.status.is_active() { TaskMove::Wake } else { TaskMove::Keep }
    }
}

pub(super) fn ended(view: View<'_>, ended: &StepEnded, now: Millis) -> Result<Decision, Refusal> {
    let state = view.state()?;
    let StepEnded { path, attempt, task, fence, result } = ended;
    let late = |why| Refusal::LateResult { step: path.clone(), attempt: *attempt, why };
    let found = find(state, path);
    if let Some(end) = found.as_ref().and_then(|found| found.remote.ends.get(attempt)) {
        return match end {
            RemoteEnd { task: by, fence: Some(claim), result: had } if by == task && claim == fence => {
                let bounded = result.clone().map_err(Failure::bounded);
                match RemoteEnd::result_hash(bounded.as_ref()) == *had {
                    true => Ok(Decision::default()),
                    false => Err(Refusal::OtherResult { step: path.clone(), attempt: *attempt }),
                }
            }
            _ => Err(late("the attempt has already ended")),
        };
    }
    let status = state.summary.status;
    let found = match found {
        Some(found) if found.awaits(*attempt, task) => found,
        _ if status.is_terminal() => return Err(Refusal::Finished { status }),
        Some(_) | None => return Err(late("the run no longer waits for it")),
    };
    let events = match result {
        Ok(output) => vec![found.completed(ended, output.clone())],
        Err(failure) => found.failed(failure.clone().bounded(), Some(*fence), now),
    };
    Ok(Decision::new(now, events, found.wake()))
}

fn awaited<'a>(state: &'a State, attempt: Attempt<'a>) -> Result<Found<'a>, Refusal> {
    let is_open = |found: &Found<'_>| found.awaits(attempt.number, &found.remote.sent.task);
    let found = find(state, attempt.path).filter(is_open);
    found.ok_or(Refusal::NothingToDo { why: "the run does not wait for that attempt" })
}

/// Applies rule O3 to a task that has ended with a result.
pub(super) fn take_result(
    state: &State,
    attempt: Attempt<'_>,
    task: &Task,
    now: Millis,
) -> Result<Decision, Refusal> {
    awaited(state, attempt)?;
    let nothing = || Failure::retryable("the task failed without a reason");
    let result = task.result.clone().ok_or_else(|| task.failure.clone().unwrap_or_else(nothing));
    let ended_by = StepEnded {
        path: attempt.path.clone(),
        attempt: attempt.number,
        task: task.id.clone(),
        fence: task.fence,
        result,
    };
    ended(View::Full(state), &ended_by, now)
}

/// Applies rule O3 to a lost task: hands out the same attempt again, under another task. Uses up no retry.
pub(super) fn send_again(state: &State, attempt: Attempt<'_>, now: Millis) -> Result<Decision, Refusal> {
    let found = awaited(state, attempt)?;
    let sent = &found.remote.sent;
    let (task, delivery) = task_from(state, attempt, sent.delivery.saturating_add(1));
    let remote = Some(Box::new(Remote { task, delivery, ..sent.clone() }));
    let started = StepStarted {
        path: attempt.path.clone(),
        ord: found.op.ord,
        attempt: attempt.number,
        input: found.op.input,
        remote,
    };
    let (started, made) = hand_out(state, &started, now);
    let decision = Decision::new(now, vec![Event::StepStarted(started)], TaskMove::Keep);
    Ok(Decision { handed: made.into_iter().collect(), ..decision.dropping([sent.task.clone()]) })
}

/// Applies rule H1: the worker was silent for too long and loses the task.
pub(super) fn give_up(state: &State, attempt: Attempt<'_>, now: Millis) -> Result<Decision, Refusal> {
    let found = awaited(state, attempt)?;
    let failure = Failure::silent();
    let reason = failure.code.clone().unwrap_or_default();
    let mut events = vec![Event::StepTimeout { path: attempt.path.clone(), attempt: attempt.number, reason }];
    events.extend(found.failed(failure, None, now));
    Ok(Decision::new(now, events, found.wake()).dropping([found.remote.sent.task.clone()]))
}
