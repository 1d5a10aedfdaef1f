//! The end of a workflow function: completion, failure, and compensation of completed steps, latest first.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use goldseam_core::event::Note;
use goldseam_core::state::{Op, OpKind, State, StepProgress, Undo};
use goldseam_core::{Failure, Owned, Path, Payload, Retry, Seq, TaskId};
use goldseam_store::TaskChange;

use crate::ledger::clock::pause;
use crate::ledger::workflow_error::Result;
use crate::run::attempt::details_id;
use crate::run::driver::panicked;
use crate::run::live_run::{Inner, LiveRun, Mode, Stop};
use crate::run::spans::{self, OperationScope};

/// Attempts at one compensation before the run parks.
const UNDO_ATTEMPTS: u32 = 5;

/// Queues what follows from the workflow's result. If steps must be compensated, returns that work.
pub(crate) fn after(
    live: &Arc<LiveRun>,
    result: Result<Payload>,
) -> Option<BoxFuture<'static, Result<Payload>>> {
    let mut inner = live.lock();
    if inner.stop.is_some() || inner.mode != Mode::Run {
        return None;
    }
    let doing = match result {
        Ok(output) => match disagrees(&inner) {
            Some(detail) => Err(Stop::Diverged(detail)),
            None => Ok(Owned::Complete(output)),
        },
        Err(error) if error.is_continue() => match inner.continue_with.take() {
            Some(input) => Ok(Owned::ContinueAsNew(input)),
            None => Ok(Owned::Fail(error.failure().clone())),
        },
        Err(error) => {
            drop(inner);
            return Some(Box::pin(unwind(Arc::clone(live), error.failure().clone())));
        }
    };
    match doing {
        Ok(doing) => {
            drop(inner);
            live.queue(doing);
        }
        Err(stop) => inner.stop = Some(stop),
    }
    None
}

/// Why the code's result contradicts the log, if it does.
pub(crate) fn disagrees(inner: &Inner) -> Option<String> {
    let asked = inner.arm_counts();
    let left = match asked.values().all(|count| *count == 0) {
        // Code that requests no operation enters no arm, and so skips all of them.
        true => first(inner.state.ops.iter()),
        false => unasked(&inner.state, &asked),
    };
    left.map(|path| left_out(&path))
}

/// Describes an operation that the code did not request.
pub(crate) fn left_out(path: &Path) -> String {
    format!("the log has {path}, but the code returned without it")
}

/// An operation of the log that the code did not request.
pub(crate) fn unasked(state: &State, asked: &std::collections::HashMap<String, u32>) -> Option<Path> {
    let missed = |(path, op): &(&Path, &Op)| asked.get(path.arm()).is_some_and(|count| op.ord >= *count);
    first(state.ops.iter().filter(missed))
}

/// The first by position, because the order of a map differs between processes.
fn first<'a>(ops: impl Iterator<Item = (&'a Path, &'a Op)>) -> Option<Path> {
    ops.min_by_key(|(_, op)| op.first).map(|(path, _)| path.clone())
}

/// Compensates a failed or cancelled run, then ends it.
async fn unwind(live: Arc<LiveRun>, failure: Failure) -> Result<Payload> {
    live.settled().await;
    let (failure, cancelled) = {
        let mut inner = live.lock();
        inner.mode = Mode::Undo;
        let failure = inner.state.failure.clone().unwrap_or(failure);
        let cancelled = inner.state.summary.cancel.is_some() && failure.code.as_deref() == Some("cancelled");
        (failure, cancelled)
    };
    undo_after(&live, Seq::ZERO, Some(&failure)).await?;
    cancel_children(&live).await;
    let last = if cancelled { Owned::EndCancelled } else { Owned::Fail(failure) };
    let ticket = live.queue(last);
    live.durable(ticket).await;
    std::future::pending().await
}

/// The compensation work that the log requires, independent of the code's result.
pub(crate) fn from_log(live: &Arc<LiveRun>, state: &State) -> BoxFuture<'static, Result<Payload>> {
    let live = Arc::clone(live);
    match (&state.jump, &state.failure) {
        (None, Some(failure)) => Box::pin(unwind(live, failure.clone())),
        _ => Box::pin(rewind(live)),
    }
}

/// The compensation work of a run whose deadline has passed.
pub(crate) fn timed_out(live: &Arc<LiveRun>, state: &State) -> BoxFuture<'static, Result<Payload>> {
    let live = Arc::clone(live);
    let failure = state.summary.timeout_failure(None);
    let dropped = state.ops.iter().filter_map(|(path, op)| match &op.kind {
        OpKind::Step(step) if step.progress == StepProgress::Started && step.remote.is_none() => {
            details_id(&live.run, path)
        }
        _ => None,
    });
    let dropped: Vec<TaskId> = dropped.collect();
    Box::pin(async move {
        // Heartbeat details of the dropped attempts are not needed any longer.
        live.lock().extra.extend(dropped.into_iter().map(|task| TaskChange::Remove { task }));
        unwind(live, failure).await
    })
}

/// The position after which completed steps are compensated: the start, unless a jump has a later target.
pub(crate) fn cutoff(state: &State) -> Seq {
    let target = state.jump.as_ref().and_then(|jump| state.ops.get(&jump.to));
    target.map_or(Seq::ZERO, |op| op.first.before())
}

/// Compensates the steps after the target of a pending jump, then jumps.
async fn rewind(live: Arc<LiveRun>) -> Result<Payload> {
    let cutoff = cutoff(&live.lock().state);
    undo_after(&live, cutoff, None).await?;
    let ticket = live.queue(Owned::FinishJump);
    live.durable(ticket).await;
    std::future::pending().await
}

async fn undo_after(live: &Arc<LiveRun>, cutoff: Seq, failure: Option<&Failure>) -> Result<()> {
    let mut done = BTreeSet::new();
    loop {
        live.gate().await?;
        let (path, begun, first) = {
            let inner = live.lock();
            let left = inner.state.to_undo(cutoff).into_iter().find(|path| !done.contains(path));
            let Some(path) = left else { break };
            let begun = inner.state.undone.get(&path) == Some(&Undo::Started);
            (path, begun, inner.state.failure.is_none())
        };
        if !begun {
            let failure = failure.filter(|_| first).cloned();
            let ticket = live.queue(Owned::UndoStarted { path, failure });
            live.durable(ticket).await;
            // A remote step may have completed just before; it is compensated first.
            continue;
        }
        match undo_one(live, &path).await {
            Ok(()) => {
                live.queue(Owned::UndoCompleted(path.clone()));
                done.insert(path);
            }
            Err(failure) => {
                let ticket = live.queue(Owned::UndoFailed { path: path.clone(), failure });
                live.durable(ticket).await;
                std::future::pending::<()>().await;
            }
        }
    }
    live.settled().await;
    Ok(())
}

async fn undo_one(live: &Arc<LiveRun>, path: &Path) -> std::result::Result<(), Failure> {
    let (undo, output) = {
        let inner = live.lock();
        let output = inner.state.ops.get(path).and_then(|op| match &op.kind {
            OpKind::Step(step) => match &step.progress {
                StepProgress::Completed(output) => Some(output.clone()),
                _ => None,
            },
            OpKind::Wait(wait) => wait.completed.clone(),
            OpKind::Progress | OpKind::Attributes | OpKind::Published | OpKind::Answered => None,
        });
        (inner.undo.get(path).cloned(), output)
    };
    let (Some(undo), Some(output)) = (undo, output) else {
        return Err(Failure::terminal(format!("the code has no compensation for {path}")));
    };
    let retry = Retry::exponential().attempts_max(UNDO_ATTEMPTS);
    let span = spans::compensation(path);
    let key = spans::undo_key(live, path);
    for attempt in 1.. {
        let _busy = live.busy();
        #[cfg(feature = "testing")]
        live.begins_undo(path);
        let scope = OperationScope::attempt(live, &span, attempt, Arc::clone(&key));
        let made = std::panic::catch_unwind(AssertUnwindSafe(|| scope.call(|| undo(path, &output))));
        let failure = match made {
            Ok(Ok(undoing)) => match AssertUnwindSafe(scope.wrap(undoing)).catch_unwind().await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => error.failure().clone(),
                Err(panic) => panicked(&*panic),
            },
            // A retry cannot help, and the compensation itself did not fail.
            Ok(Err(misfit)) => return live.stop_and_hang(Stop::Diverged(misfit)).await,
            Err(panic) => panicked(&*panic),
        };
        match retry.pause(attempt, &failure, path.as_str()) {
            Some(span) => pause(span).await,
            None => return Err(failure),
        }
    }
    Ok(())
}

/// Asks every open child to cancel before the parent ends.
async fn cancel_children(live: &Arc<LiveRun>) {
    let children = live.lock().state.open_children();
    for child in children {
        cancel_child(live, &child).await;
    }
}

/// Asks a child to cancel. Nothing to do if it has ended or was never created.
pub(crate) async fn cancel_child(live: &Arc<LiveRun>, child: &goldseam_core::RunId) {
    let id = format!("parent-{}-{}", live.run, live.lock().fence.epoch);
    let note = Note { id, by: None, reason: format!("its parent {} ended", live.run) };
    if let Err(error) = live.ledger.cancel_child(&live.run, child, note).await {
        tracing::debug!(%child, %error, "child was not cancelled");
    }
}
