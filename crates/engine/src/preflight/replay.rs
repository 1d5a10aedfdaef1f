//! The replay of one run up to the end of its log.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context as Cx, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, select};
use goldseam_core::state::{Found, Mail, OpKind, State, StepProgress};
use goldseam_core::{Failure, Owned, Payload, Seq};
use tokio::sync::oneshot;

use super::Verdict;
use crate::ledger::clock::pause;
use crate::ledger::spawn::thread;
use crate::ledger::workflow_error::{Error, Result};
use crate::run::compensation;
use crate::run::context::Context;
use crate::run::driver::panicked;
use crate::run::live_run::{Inner, LiveRun, Stop};
use crate::run::registry::WorkflowFn;

/// Number of further polls after the first arm has reached its frontier, for the other arms.
const TURNS: u32 = 4;

/// The end of a replay.
enum Reached {
    /// All next operations of the code are missing in the log.
    Frontier,
    /// The function returned.
    Returned(Result<Payload>),
    /// The function panicked.
    Panicked(Failure),
    /// The context stopped it.
    Stopped(Stop),
    /// The code waits for something outside its context.
    Unsettled,
}

/// Replays on a separate thread, so code that never yields costs one verdict, not the preflight.
pub(super) async fn on_thread(
    live: Arc<LiveRun>,
    function: WorkflowFn,
    input: Payload,
    patience: Duration,
) -> Verdict {
    let (sender, receiver) = oneshot::channel();
    let work = {
        let live = Arc::clone(&live);
        let function = Arc::clone(&function);
        let input = input.clone();
        async move {
            let _ = sender.send(in_task(live, function, input, patience).await);
        }
    };
    if thread("goldseam-preflight", work).is_err() {
        return in_task(live, function, input, patience).await;
    }
    // The replay has its own timeout; this one is for code that never yields.
    let late = std::pin::pin!(pause(patience + Duration::from_secs(1)));
    match select(receiver, late).await {
        Either::Left((Ok(verdict), _)) => verdict,
        Either::Left((Err(_), _)) => Verdict::Unknown { reason: "its replay was interrupted".to_owned() },
        Either::Right(_) => unsettled(patience),
    }
}

/// Replays in this task.
pub(super) async fn in_task(
    live: Arc<LiveRun>,
    function: WorkflowFn,
    input: Payload,
    patience: Duration,
) -> Verdict {
    let context = Context::new(Arc::clone(&live));
    let made = std::panic::catch_unwind(AssertUnwindSafe(|| function(context, input)));
    let reached = match made {
        Ok(work) => drive(&live, work, patience).await,
        Err(panic) => Reached::Panicked(panicked(&*panic)),
    };
    verdict_of(&live.lock(), reached, patience)
}

async fn drive(live: &LiveRun, mut work: BoxFuture<'static, Result<Payload>>, patience: Duration) -> Reached {
    let mut late = Box::pin(pause(patience));
    let mut turns = 0;
    poll_fn(move |cx| {
        loop {
            if let Some(stop) = enter(live, cx) {
                return Poll::Ready(Reached::Stopped(stop));
            }
            match std::panic::catch_unwind(AssertUnwindSafe(|| work.poll_unpin(cx))) {
                Ok(Poll::Ready(result)) => return Poll::Ready(returned(live, result)),
                Ok(Poll::Pending) => {}
                Err(panic) => return Poll::Ready(Reached::Panicked(panicked(&*panic))),
            }
            let (stopped, frontier) = {
                let mut inner = live.lock();
                inner.polling = false;
                (inner.stop.is_some(), inner.is_at_the_frontier())
            };
            if stopped {
                continue;
            }
            if frontier && turns == TURNS {
                return Poll::Ready(Reached::Frontier);
            }
            if late.poll_unpin(cx).is_ready() {
                return Poll::Ready(Reached::Unsettled);
            }
            if frontier {
                turns += 1;
                cx.waker().wake_by_ref();
            }
            return Poll::Pending;
        }
    })
    .await
}

/// Registers the waker like a driver, and takes the stop of the context.
fn enter(live: &LiveRun, cx: &Cx<'_>) -> Option<Stop> {
    let mut inner = live.lock();
    match &mut inner.driver {
        Some(waker) => waker.clone_from(cx.waker()),
        None => inner.driver = Some(cx.waker().clone()),
    }
    inner.polling = true;
    inner.stop.take()
}

/// One arm may have stopped the execution in the poll in which the function returned.
fn returned(live: &LiveRun, result: Result<Payload>) -> Reached {
    match live.lock().stop.take() {
        Some(stop) => Reached::Stopped(stop),
        None => Reached::Returned(result),
    }
}

fn unsettled(patience: Duration) -> Verdict {
    let seconds = patience.as_secs_f64();
    let reason = format!(
        "its code did not reach an operation within {seconds} s: it loops, or awaits something outside the context"
    );
    Verdict::Unknown { reason }
}

fn parks(code: &str, reason: String) -> Verdict {
    Verdict::Parks { code: code.to_owned(), reason }
}

fn verdict_of(inner: &Inner, reached: Reached, patience: Duration) -> Verdict {
    let result = match reached {
        Reached::Stopped(Stop::Diverged(detail)) => return parks("V1", detail),
        Reached::Stopped(Stop::Form(detail)) => return parks("GS0115", detail),
        Reached::Stopped(stop) => {
            return Verdict::Unknown { reason: format!("its replay was stopped: {stop:?}") };
        }
        Reached::Unsettled => return unsettled(patience),
        Reached::Panicked(failure) => Some(Err(Error::from(failure))),
        Reached::Returned(result) => Some(result),
        Reached::Frontier => None,
    };
    if let Some(path) = left_out(inner) {
        return parks("V1", compensation::left_out(&path));
    }
    if let Some(verdict) = cannot_undo(inner) {
        return verdict;
    }
    if inner.state.is_being_undone() {
        // Compensation continues, whatever the code would do now.
        return Verdict::Safe;
    }
    match result {
        Some(Ok(_)) => match compensation::disagrees(inner) {
            Some(detail) => parks("V1", detail),
            None => Verdict::Safe,
        },
        Some(Err(error)) if !error.is_continue() && !is_explained(&inner.state, &error) => {
            Verdict::Fails { reason: error.to_string() }
        }
        Some(Err(_)) | None => Verdict::Safe,
    }
}

/// An operation of a group in the log that the code skips.
fn left_out(inner: &Inner) -> Option<goldseam_core::Path> {
    let asked = inner.arm_counts();
    let groups = inner.queue.iter().filter_map(|doing| match &doing.what {
        Owned::StepCompleted(done) if done.group => Some(done.path.as_str()),
        _ => None,
    });
    let in_groups = groups.map(|group| (group.to_owned(), asked.get(group).copied().unwrap_or_default()));
    compensation::unasked(&inner.state, &in_groups.collect())
}

/// A run that is being compensated, or jumps with compensations, needs the compensations of all remaining steps.
fn cannot_undo(inner: &Inner) -> Option<Verdict> {
    let state = &inner.state;
    if state.summary.status.is_terminal() {
        return None;
    }
    let cutoff = match &state.jump {
        Some(jump) => state.ops.get(&jump.to).map_or(Seq::ZERO, |op| op.first.before()),
        None if state.failure.is_some() => Seq::ZERO,
        None => return None,
    };
    let missing = state.to_undo(cutoff).into_iter().find(|path| !inner.undo.contains_key(path))?;
    let reason = format!("step {missing} cannot be undone: the code has no compensation for {missing}");
    Some(parks("GS0116", reason))
}

/// Whether the log explains the error of the code, so the run fails with the old code, too.
fn is_explained(state: &State, error: &Error) -> bool {
    let failed = |kind: &OpKind| match kind {
        OpKind::Step(step) => matches!(step.progress, StepProgress::Failed(_)),
        OpKind::Wait(wait) => {
            matches!(wait.found, Some(Found::Timer | Found::Mail(Mail::Child { result: Err(_), .. })))
        }
        OpKind::Progress | OpKind::Attributes | OpKind::Published | OpKind::Answered => false,
    };
    let ended =
        state.summary.status.is_terminal() && state.summary.status != goldseam_core::Status::Completed;
    ended
        || error.is_cancelled()
        || state.failure.is_some()
        || state.summary.cancel.is_some()
        || state.ops.values().any(|op| failed(&op.kind))
}
