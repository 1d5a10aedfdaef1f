//! The driver of a live run: polls the workflow, appends the queued doings, and releases runs that only wait.
//!
//! One append contains everything that one poll of the workflow queued. So the last step and the completion share a
//! commit, and the result of a step is durable before the next effect.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context as Cx, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use goldseam_core::event::Release;
use goldseam_core::{Command, Failure, Millis, Owned, Payload};

use crate::ledger::clock::{pause, sleep_until};
use crate::ledger::error::EngineError;
use crate::ledger::workflow_error::{Error, Result};
use crate::run::append::{Moved, append_queued, read_on};
use crate::run::compensation;
use crate::run::live_run::{Inner, LiveRun, Mode, Slow, Stop};

/// How an execution ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DriveEnd {
    /// The run has ended.
    Finished,
    /// The run was released: it waits, is paused, parked or handed over.
    Released,
    /// The run continued as new, and this node still owns it.
    Continued,
    /// The execution was dropped; the log decides what follows.
    Dropped(Stop),
}

/// Twice the unnoticed lag of a node's clock behind the store's.
const CLOCK_LAG_MAX: Duration = Duration::from_millis(100);

type Io = BoxFuture<'static, Result<(), Stop>>;

pub(crate) struct Driver {
    live: Arc<LiveRun>,
    work: Option<BoxFuture<'static, Result<Payload>>>,
    io: Option<Io>,
    linger: Option<BoxFuture<'static, ()>>,
    releasing: bool,
    /// The deadline of the run, and the timer that ends there.
    deadline: Option<(Millis, BoxFuture<'static, ()>)>,
    /// Work that was dropped. Its guards lock the live run, so it is dropped only while the lock is free.
    given_up: Option<BoxFuture<'static, Result<Payload>>>,
    /// The span of the run, around all user code.
    span: tracing::Span,
}

/// Drives the run until it ends, is released or is lost.
pub(crate) async fn drive(
    live: Arc<LiveRun>,
    work: BoxFuture<'static, Result<Payload>>,
    span: tracing::Span,
) -> DriveEnd {
    let mut driver = Driver {
        live,
        work: Some(work),
        io: None,
        linger: None,
        releasing: false,
        deadline: None,
        given_up: None,
        span,
    };
    poll_fn(move |cx| driver.poll(cx)).await
}

impl Driver {
    fn poll(&mut self, cx: &mut Cx<'_>) -> Poll<DriveEnd> {
        loop {
            if let Some(stop) = self.enter(cx) {
                return Poll::Ready(DriveEnd::Dropped(stop));
            }
            let mut moved = self.poll_work(cx);
            let live = Arc::clone(&self.live);
            let mut inner = live.lock();
            inner.polling = false;
            // A stop during a poll wakes no task, so it is checked here.
            moved |= inner.stop.is_some();
            if self.io.is_none() {
                self.io = self.consider_deadline(&inner, cx);
            }
            if self.io.is_none() {
                moved |= self.consider_rest(&mut inner, cx);
                self.io = self.next_io(&mut inner);
            }
            drop(inner);
            self.given_up = None;
            moved |= self.poll_io(cx);
            if let Some(end) = self.end() {
                return Poll::Ready(end);
            }
            if !moved {
                return Poll::Pending;
            }
        }
    }

    fn enter(&mut self, cx: &Cx<'_>) -> Option<Stop> {
        let mut inner = self.live.lock();
        match &mut inner.driver {
            Some(waker) => waker.clone_from(cx.waker()),
            None => inner.driver = Some(cx.waker().clone()),
        }
        inner.polling = true;
        inner.stop.take()
    }

    fn poll_work(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(work) = &mut self.work else { return false };
        let polled =
            std::panic::catch_unwind(AssertUnwindSafe(|| self.span.in_scope(|| work.poll_unpin(cx))));
        let result = match polled {
            Ok(Poll::Pending) => return false,
            Ok(Poll::Ready(result)) => result,
            Err(panic) => Err(Error::from(panicked(&*panic))),
        };
        self.work = compensation::after(&self.live, result);
        true
    }

    /// Writes that the deadline has passed, or sets the timer for it.
    fn consider_deadline(&mut self, inner: &Inner, cx: &mut Cx<'_>) -> Option<Io> {
        let Some(due) = inner.state.summary.times_out_at().filter(|_| inner.stop.is_none()) else {
            self.deadline = None;
            return None;
        };
        if due <= self.live.now() {
            self.deadline = None;
            return Some(Box::pin(time_out(Arc::clone(&self.live))));
        }
        if self.deadline.as_ref().is_none_or(|(armed, _)| *armed != due) {
            let clock = Arc::clone(&self.live.ledger.clock);
            self.deadline = Some((due, Box::pin(async move { sleep_until(&clock, due).await })));
        }
        let passed = self.deadline.as_mut().is_some_and(|(_, timer)| timer.poll_unpin(cx).is_ready());
        if passed {
            // The timer may end slightly early; a new one is set.
            self.deadline = None;
            cx.waker().wake_by_ref();
        }
        None
    }

    /// Releases a run that only waits, is paused, or whose node leaves.
    fn consider_rest(&mut self, inner: &mut Inner, cx: &mut Cx<'_>) -> bool {
        if self.releasing || inner.stop.is_some() {
            return false;
        }
        // A run that has timed out stops at once: its code cannot catch that.
        if inner.mode == Mode::Run && inner.state.summary.timed_out && inner.knows_compensations() {
            inner.mode = Mode::Undo;
            self.given_up = self.work.replace(compensation::timed_out(&self.live, &inner.state));
            return true;
        }
        if inner.mode == Mode::Replay && inner.is_quiet() && self.has_replayed(inner, cx) {
            inner.mode = Mode::Undo;
            self.given_up = self.work.replace(compensation::from_log(&self.live, &inner.state));
            return true;
        }
        let reason = if inner.is_paused_and_quiet() {
            Some(Release::Paused)
        } else if self.live.live_runs().is_aborting()
            || (self.live.live_runs().is_leaving() && inner.is_quiet())
        {
            self.given_up = self.work.take();
            Some(Release::HandOver)
        } else if inner.mode == Mode::Replay {
            None
        } else {
            self.lingered(inner, cx).then_some(Release::Unload)
        };
        let Some(reason) = reason else { return false };
        inner.push(goldseam_core::Doing { at: self.live.now(), what: Owned::Release(reason) });
        self.releasing = true;
        true
    }

    /// Whether replay is complete: the function returned, or all compensations are known. All other arms wait at
    /// operations that the log does not have; an arm that awaits something else gets some time.
    fn has_replayed(&mut self, inner: &Inner, cx: &mut Cx<'_>) -> bool {
        if self.work.is_none() || inner.knows_compensations() {
            return true;
        }
        let span = self.live.config.linger * 5;
        let timer = self.linger.get_or_insert_with(|| Box::pin(pause(span)));
        timer.poll_unpin(cx).is_ready()
    }

    fn lingered(&mut self, inner: &Inner, cx: &mut Cx<'_>) -> bool {
        match inner.idle() {
            None => {
                self.linger = None;
                false
            }
            Some(Slow::Yes) => true,
            // If a dead process owned the run, more than a wait was in progress.
            Some(Slow::No) if inner.is_suspect() && !self.is_almost_due(inner) => true,
            // Beside a run that must be alone, no waiting run may wake up.
            Some(Slow::No) if !inner.is_suspect() && self.live.live_runs().is_secluded() => true,
            Some(Slow::No) => {
                let span = self.live.config.linger;
                let timer = self.linger.get_or_insert_with(|| Box::pin(pause(span)));
                timer.poll_unpin(cx).is_ready()
            }
        }
    }

    /// Whether the run is about to continue. By the store's clock its time may have come: a released run would be
    /// claimed and released again until the node's clock agrees.
    fn is_almost_due(&self, inner: &Inner) -> bool {
        let due = inner.state.summary.due();
        due.is_some_and(|due| due.since(self.live.now()) <= CLOCK_LAG_MAX)
    }

    fn next_io(&self, inner: &mut Inner) -> Option<Io> {
        if !inner.queue.is_empty() {
            return Some(Box::pin(append_queued(Arc::clone(&self.live))));
        }
        if std::mem::take(&mut inner.poked) {
            let live = Arc::clone(&self.live);
            let unused = live.ledger.entropy.write_id();
            return Some(Box::pin(async move { read_on(&live, unused).await.map(|_| ()) }));
        }
        None
    }

    fn poll_io(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(io) = &mut self.io else { return false };
        let Poll::Ready(result) = io.poll_unpin(cx) else { return false };
        self.io = None;
        self.releasing = false;
        self.linger = None;
        if let Err(stop) = result {
            self.live.lock().stop.get_or_insert(stop);
        }
        true
    }

    fn end(&self) -> Option<DriveEnd> {
        if self.io.is_some() {
            return None;
        }
        let inner = self.live.lock();
        match inner.moved {
            Moved::Continued(_) => return Some(DriveEnd::Continued),
            Moved::Left => return Some(DriveEnd::Released),
            Moved::No => {}
        }
        let summary = &inner.state.summary;
        match (&summary.owner, summary.status.is_terminal()) {
            (_, true) => Some(DriveEnd::Finished),
            (Some(_), _) if summary.epoch == inner.fence.epoch => None,
            (None, _) => Some(DriveEnd::Released),
            (Some(_), _) => Some(DriveEnd::Dropped(Stop::Fenced)),
        }
    }
}

/// Requests the end of a run whose deadline has passed.
pub(crate) async fn time_out(live: Arc<LiveRun>) -> Result<(), Stop> {
    match live.ledger.commit(&live.run, &Command::TimeOut).await {
        Ok(_) => {}
        // Another request was faster.
        Err(EngineError::Refused { refusal, .. }) => {
            tracing::debug!(run = %live.run, %refusal, "run does not time out");
        }
        Err(error) => return Err(error.into()),
    }
    let unused = live.ledger.entropy.write_id();
    read_on(&live, unused).await.map(|_| ())
}

/// The failure that the log records for a panic in user code.
pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let text = text.unwrap_or_else(|| "without a message".to_owned());
    Failure::new(goldseam_core::Class::Unknown, format!("panicked: {text}")).with_code("panic")
}
