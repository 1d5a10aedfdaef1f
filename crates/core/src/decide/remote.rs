//! Remote steps: handed out by the owner, ended by whoever has the task, healed by whoever finds it lost.
//!
//! What a worker brings is decided against the log alone, under no epoch: it is taken while its task is handed
//! out, and answered with no events if the same claim brought the same before. So a repeat is harmless, and a second
//! result of one attempt has no way in: under the same claim it is refused as another result.

use std::time::Duration;

use super::{Decision, Refusal, TaskMove, View, idempotency_key};
use crate::command::StepEnded;
use crate::error::Failure;
use crate::event::{Event, Remote, StepCompleted, StepFailed, StepStarted};
use crate::hash::Hash;
use crate::id::TaskId;
use crate::path::Path;
use crate::retry::Retry;
use crate::state::{Op, OpKind, RemoteEnd, RemoteOp, State, StepOp};
use crate::task::{NewTask, Task, TaskStep};
use crate::time::Millis;

/// An attempt at a step.
type Attempt<'a> = (&'a Path, u32);

/// The id of the next task for an attempt at the step at `path`, and how many of that attempt were lost before.
///
/// It is made of the step's idempotency key, so where a recovery keeps the keys, the task of an attempt that is
/// begun again is the same one.
pub fn next_task(state: &State, path: &Path, attempt: u32) -> (TaskId, u32) {
    task_from(state, (path, attempt), 0)
}

fn task_from(state: &State, (path, attempt): Attempt<'_>, delivery: u32) -> (TaskId, u32) {
    let step = idempotency_key(state, path);
    let id = |delivery: u32| {
        let hash = Hash::of_parts(&["remote", &step, &attempt.to_string(), &delivery.to_string()]);
        TaskId::new(format!("s-{hash}")).unwrap_or_else(|_| unreachable!("a hash is an id"))
    };
    let mut next = (delivery..u32::MAX).map(|delivery| (id(delivery), delivery));
    next.find(|(task, _)| !state.spent.contains(task)).unwrap_or_else(|| (id(u32::MAX), u32::MAX))
}

/// The start of an attempt as it goes into the log, and its task if somebody else does it. What the worker is
/// given is in the log once.
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
        lane: None,
        priority: remote.priority,
        key: None,
        run_at: now,
        payload,
        attempts_max: 1,
        silence_max: Some(Duration::from_millis(remote.silence_ms)),
    };
    let (path, key) = (started.path.clone(), idempotency_key(state, &started.path));
    let step = Some(TaskStep { path, attempt: started.attempt, key });
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
    /// Whether this task is what the run waits for.
    fn awaits(&self, attempt: u32, task: &TaskId) -> bool {
        let open = self.state.awaited(self.step).is_some();
        open && self.step.attempts == attempt && self.remote.sent.task == *task
    }

    /// The attempt failed: when the next one begins is in the log with it, by the policy that is in the log.
    fn failed(&self, failure: Failure, fence: Option<u64>, now: Millis) -> Vec<Event> {
        let (path, attempt) = (self.path.clone(), self.step.attempts);
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

    /// A run that rests by an operator's will is not woken.
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
            _ => Err(late("the attempt has ended already, by another claim or by itself")),
        };
    }
    let status = state.summary.status;
    let found = match found {
        Some(found) if found.awaits(*attempt, task) => found,
        _ if status.is_terminal() => return Err(Refusal::Finished { status }),
        Some(_) | None => return Err(late("the run does not wait for it any more")),
    };
    let events = match result {
        Ok(output) => vec![found.completed(ended, output.clone())],
        Err(failure) => found.failed(failure.clone().bounded(), Some(*fence), now),
    };
    Ok(Decision::new(now, events, found.wake()))
}

fn awaited<'a>(state: &'a State, (path, attempt): Attempt<'a>) -> Result<Found<'a>, Refusal> {
    let found = find(state, path).filter(|found| found.awaits(attempt, &found.remote.sent.task));
    found.ok_or(Refusal::NothingToDo { why: "the run does not wait for that attempt" })
}

/// Rule O3: its task is finished, and brought this.
pub(super) fn take_result(
    state: &State,
    (path, attempt): Attempt<'_>,
    task: &Task,
    now: Millis,
) -> Result<Decision, Refusal> {
    awaited(state, (path, attempt))?;
    let nothing = || Failure::retryable("its task failed and does not say why");
    let result = task.result.clone().ok_or_else(|| task.failure.clone().unwrap_or_else(nothing));
    let (path, task, fence) = (path.clone(), task.id.clone(), task.fence);
    ended(View::Full(state), &StepEnded { path, attempt, task, fence, result }, now)
}

/// Rule O3: the same attempt once more, under another task. No retry is used.
pub(super) fn send_again(
    state: &State,
    (path, attempt): Attempt<'_>,
    now: Millis,
) -> Result<Decision, Refusal> {
    let found = awaited(state, (path, attempt))?;
    let sent = &found.remote.sent;
    let (task, delivery) = task_from(state, (path, attempt), sent.delivery.saturating_add(1));
    let remote = Some(Box::new(Remote { task, delivery, ..sent.clone() }));
    let (path, ord, input) = (path.clone(), found.op.ord, found.op.input);
    let (started, made) = hand_out(state, &StepStarted { path, ord, attempt, input, remote }, now);
    let decision = Decision::new(now, vec![Event::StepStarted(started)], TaskMove::Keep);
    Ok(Decision { handed: made.into_iter().collect(), ..decision.dropping([sent.task.clone()]) })
}

/// Rule H1: whoever has its task was silent for too long, and has it no more.
pub(super) fn give_up(state: &State, (path, attempt): Attempt<'_>, now: Millis) -> Result<Decision, Refusal> {
    let found = awaited(state, (path, attempt))?;
    let failure = Failure::silent();
    let reason = failure.code.clone().unwrap_or_default();
    let mut events = vec![Event::StepTimeout { path: path.clone(), attempt, reason }];
    events.extend(found.failed(failure, None, now));
    Ok(Decision::new(now, events, found.wake()).dropping([found.remote.sent.task.clone()]))
}
