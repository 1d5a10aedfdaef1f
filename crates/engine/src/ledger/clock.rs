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

/// A store's clock, as a node or a client knows it: set with every beat or asked for, carried on by the machine's own
/// monotonic clock.
///
/// Timers are set by one node and fire on another, and the queue judges them by the store's clock. So
/// all must go by one clock, or a run is claimed and put down again for as long as two clocks differ.
#[derive(Debug)]
pub(crate) struct StoreTime {
    own: Arc<dyn Clock>,
    known: Mutex<Known>,
}

/// What a node knows of the store's clock.
#[derive(Debug, Clone, Copy)]
enum Known {
    /// Nothing yet.
    Nothing,
    /// It cannot be told apart from the node's own, which is the finer one and showed this, when its monotonic clock
    /// showed that.
    Own(Millis, Duration),
    /// It showed this, when the node's monotonic clock showed that.
    Told(Millis, Duration),
}

/// Clocks are read to the millisecond.
const TICK: Duration = Duration::from_millis(1);
/// Only an answer as quick as this can say that two clocks agree.
const QUICK: Duration = Duration::from_millis(50);
/// Between two beats a clock that goes on by itself differs less than this from the monotonic one; if it differs
/// more, somebody has set it.
const SET: Duration = Duration::from_millis(50);
/// Whoever does not beat asks again after so long.
const ASK_EVERY: Duration = Duration::from_secs(60);
/// An answer that took longer says too little about the store's clock.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(1);

impl StoreTime {
    pub(crate) fn new(own: Arc<dyn Clock>) -> Self {
        Self { own, known: Mutex::new(Known::Nothing) }
    }

    /// Whether it was heard of so long ago, if ever, that it should be asked for.
    pub(crate) fn is_old(&self) -> bool {
        match *self.known.lock().unwrap_or_else(PoisonError::into_inner) {
            Known::Nothing => true,
            Known::Own(_, at) | Known::Told(_, at) => self.own.elapsed().saturating_sub(at) > ASK_EVERY,
        }
    }

    /// The store answered `told` to something sent at `sent`.
    pub(crate) fn set(&self, told: Millis, sent: Duration) {
        let (received, here) = (self.own.elapsed(), self.own.now());
        let took = received.saturating_sub(sent);
        let fits = here - took - TICK <= told && told <= here + TICK;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known = match *known {
            _ if fits && took <= QUICK => Known::Own(here, received),
            Known::Own(..) if fits => Known::Own(here, received),
            now @ (Known::Own(..) | Known::Told(..)) if took > ROUND_TRIP_MAX => now,
            _ => Known::Told(told, sent + took / 2),
        };
    }

    /// The store showed `told` to somebody who asked for something else: believed at once if the store is ahead, as it is
    /// where somebody has set its clock. What is due by that would otherwise be claimed and put down again until the next
    /// beat.
    pub(crate) fn hear(&self, told: Millis, sent: Duration) {
        if told > self.now() + SET {
            self.set(told, sent);
        }
    }
}

impl Clock for StoreTime {
    fn now(&self) -> Millis {
        match *self.known.lock().unwrap_or_else(PoisonError::into_inner) {
            Known::Told(told, at) => told + self.own.elapsed().saturating_sub(at),
            Known::Own(shown, at) => {
                let (here, carried) = (self.own.now(), shown + self.own.elapsed().saturating_sub(at));
                let moved = here.since(carried).max(carried.since(here));
                if moved > SET { carried } else { here }
            }
            Known::Nothing => self.own.now(),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that shows what it is told.
    #[derive(Debug)]
    struct Still {
        now: Mutex<Millis>,
        elapsed: Duration,
    }

    impl Clock for Still {
        fn now(&self) -> Millis {
            *self.now.lock().unwrap()
        }

        fn elapsed(&self) -> Duration {
            self.elapsed
        }
    }

    fn told(own: i64, took: Duration, store: i64) -> Millis {
        let elapsed = Duration::from_secs(100);
        let time = StoreTime::new(Arc::new(Still { now: Mutex::new(Millis(own)), elapsed }));
        time.set(Millis(store), elapsed - took);
        time.now()
    }

    #[test]
    fn a_quick_answer_that_fits_leaves_the_nodes_own_clock() {
        assert_eq!(told(10_000, Duration::from_millis(10), 9_995), Millis(10_000));
    }

    #[test]
    fn a_clock_that_somebody_sets_is_not_believed() {
        let elapsed = Duration::from_secs(100);
        let own = Arc::new(Still { now: Mutex::new(Millis(10_000)), elapsed });
        let time = StoreTime::new(own.clone());
        time.set(Millis(10_000), elapsed);
        for set in [10_000 + 3_600_000, 10_000 - 3_600_000] {
            *own.now.lock().unwrap() = Millis(set);
            assert_eq!(time.now(), Millis(10_000));
        }
        // A clock that is only adjusted a little is finer than what was heard of the store's.
        *own.now.lock().unwrap() = Millis(10_020);
        assert_eq!(time.now(), Millis(10_020));
    }

    #[test]
    fn a_store_that_is_ahead_is_believed_between_two_beats() {
        let elapsed = Duration::from_secs(100);
        let time = StoreTime::new(Arc::new(Still { now: Mutex::new(Millis(10_000)), elapsed }));
        time.set(Millis(10_000), elapsed);
        // Behind by what the way takes.
        time.hear(Millis(9_000), elapsed);
        assert_eq!(time.now(), Millis(10_000));
        time.hear(Millis(3_610_000), elapsed);
        assert_eq!(time.now(), Millis(3_610_000));
    }

    #[test]
    fn a_slow_answer_that_fits_proves_nothing() {
        assert_eq!(told(10_000, Duration::from_secs(4), 6_500), Millis(8_500));
    }

    #[test]
    fn a_clock_that_differs_is_corrected() {
        assert_eq!(told(10_000, Duration::from_millis(10), 70_000), Millis(70_005));
    }
}
