//! Remote steps: handed out by the owner, ended by whoever has the task, healed by whoever finds it lost.
//!
//! What a worker brings is decided against the log alone, under no epoch: it is taken while its task is handed
//! out, and answered with no events if the same claim brought it before. So a repeat is harmless, and a second
//! result of one attempt has no way in.

use std::time::Duration;

use super::{Decision, Refusal, TaskMove, View, idempotency_key};
use crate::command::StepEnded;
use crate::error::Failure;
use crate::event::{Event, Remote, RunRecovered, StepCompleted, StepFailed, StepStarted};
use crate::hash::Hash;
use crate::id::{NodeId, TaskId};
use crate::path::Path;
use crate::retry::Retry;
use crate::state::{Op, OpKind, RemoteOp, State, StepOp};
use crate::task::{NewTask, Task, TaskStep};
use crate::time::Millis;

/// An attempt at a remote step, and the task that does it.
type Handed<'a> = (&'a Path, u32, &'a TaskId);

/// The id of the task that does an attempt at the step at `path`; `delivery` counts the tasks of that attempt
/// that were lost before.
pub fn remote_task_id(state: &State, path: &Path, attempt: u32, delivery: u32) -> TaskId {
    let step = idempotency_key(state, path);
    let hash = Hash::of_parts(&["remote", &step, &attempt.to_string(), &delivery.to_string()]);
    TaskId::new(format!("s-{hash}")).unwrap_or_else(|_| unreachable!("a hash is an id"))
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
        let pause = retry.pause(self.step.failures.saturating_add(1), &failure, path.as_str());
        let mut events = vec![Event::StepFailed(StepFailed {
            path: path.clone(),
            ord: self.op.ord,
            attempt,
            began: self.remote.since,
            failure,
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
            (by, Some(claim)) if by == task && claim == fence => Ok(Decision::default()),
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

/// Rule H1, once the task was taken from whoever was silent.
pub(super) fn silent(
    view: View<'_>,
    (path, attempt, task): Handed<'_>,
    now: Millis,
) -> Result<Decision, Refusal> {
    let Some(found) = find(view.state()?, path).filter(|found| found.awaits(attempt, task)) else {
        return Ok(Decision::default());
    };
    let failure = Failure::silent();
    let reason = failure.code.clone().unwrap_or_default();
    let mut events = vec![Event::StepTimeout { path: path.clone(), attempt, reason }];
    events.extend(found.failed(failure, None, now));
    Ok(Decision::new(now, events, found.wake()).dropping([task.clone()]))
}

/// Rule O3: the same attempt once more, under another task. No retry is used.
pub(super) fn requeue(
    view: View<'_>,
    (path, attempt, task): Handed<'_>,
    (evidence, node): (&str, Option<&NodeId>),
    now: Millis,
) -> Result<Decision, Refusal> {
    let state = view.state()?;
    let Some(found) = find(state, path).filter(|found| found.awaits(attempt, task)) else {
        return Ok(Decision::default());
    };
    let sent = &found.remote.sent;
    let delivery = sent.delivery.saturating_add(1);
    let again = remote_task_id(state, path, attempt, delivery);
    let remote = Some(Box::new(Remote { task: again, delivery, ..sent.clone() }));
    let (ord, input) = (found.op.ord, found.op.input);
    let (started, made) =
        hand_out(state, &StepStarted { path: path.clone(), ord, attempt, input, remote }, now);
    let recovered = RunRecovered {
        rule: "O3".to_owned(),
        reason: "stale_detection".to_owned(),
        attempt: state.summary.attempt,
        evidence: evidence.to_owned(),
        node: node.cloned(),
        stale_ms: u64::try_from(now.since(found.remote.since).as_millis()).unwrap_or(u64::MAX),
        previous_branch: None,
        new_branch: None,
        cutoff: None,
    };
    let events = vec![Event::RunRecovered(recovered), Event::StepStarted(started)];
    let decision = Decision::new(now, events, TaskMove::Keep).dropping([task.clone()]);
    Ok(Decision { handed: made.into_iter().collect(), ..decision })
}
