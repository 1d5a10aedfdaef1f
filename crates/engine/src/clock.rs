//! The one home of time.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goldseam_core::Millis;

/// What time it is, for an engine.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The moment that events carry.
    fn now(&self) -> Millis;

    /// Time since some fixed point; never goes back, and counts while the machine is suspended.
    fn elapsed(&self) -> Duration;
}

/// The machine's own clocks.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Millis {
        let spec = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        Millis(spec.tv_sec * 1000 + spec.tv_nsec / 1_000_000)
    }

    fn elapsed(&self) -> Duration {
        let spec = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Duration::new(spec.tv_sec.unsigned_abs(), u32::try_from(spec.tv_nsec).unwrap_or(0))
    }
}

/// A store's clock, as a node knows it: set with every beat, carried on by the node's own monotonic clock.
///
/// Timers are set by one node and fire on another, and the queue judges them by the store's clock. So
/// all must go by one clock, or a run is claimed and put down again for as long as two clocks differ.
#[derive(Debug)]
pub(crate) struct StoreTime {
    own: Arc<dyn Clock>,
    set: Mutex<Option<(Millis, Duration)>>,
}

/// Clocks are read to the millisecond.
const TICK: Duration = Duration::from_millis(1);
/// An answer that took longer says too little about the store's clock.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(1);

impl StoreTime {
    pub(crate) fn new(own: Arc<dyn Clock>) -> Self {
        Self { own, set: Mutex::new(None) }
    }

    /// The store answered `told` to something sent at `sent`.
    pub(crate) fn set(&self, told: Millis, sent: Duration) {
        let received = self.own.elapsed();
        let took = received.saturating_sub(sent);
        let here = self.own.now();
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        if here - took - TICK <= told && told <= here + TICK {
            // The two clocks agree as far as the answer can tell: the node's own is the finer one.
            *set = None;
        } else if set.is_none() || took <= ROUND_TRIP_MAX {
            *set = Some((told, sent + took / 2));
        }
    }
}

impl Clock for StoreTime {
    fn now(&self) -> Millis {
        match *self.set.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((told, at)) => told + self.own.elapsed().saturating_sub(at),
            None => self.own.now(),
        }
    }

    fn elapsed(&self) -> Duration {
        self.own.elapsed()
    }
}

/// Returns once `due` has come by `clock`.
pub async fn sleep_until(clock: &Arc<dyn Clock>, due: Millis) {
    loop {
        let left = due.since(clock.now());
        if left.is_zero() {
            return;
        }
        // In pieces, so that a wall clock that is set forward is noticed.
        pause(left.min(Duration::from_secs(60))).await;
    }
}

/// Lets `span` pass. The only sleep of the engine: in simulation it is virtual.
pub async fn pause(span: Duration) {
    tokio::time::sleep(span).await;
}
