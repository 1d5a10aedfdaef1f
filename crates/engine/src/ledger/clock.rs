//! All access to time.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::ledger::sync::lock;
use goldseam_core::Millis;

/// A source of time for an engine.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The time that events carry.
    fn now(&self) -> Millis;

    /// Time since a fixed point. Monotonic; advances while the machine is suspended.
    fn elapsed(&self) -> Duration;
}

/// The clocks of the machine.
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

/// The store's clock as a node or a client knows it: set by every beat or by a request, advanced by the machine's
/// monotonic clock.
///
/// One node sets a timer and another fires it, and the queue judges timers by the store's clock. All nodes must use
/// one
/// clock, or nodes claim and release a run for as long as their clocks differ.
#[derive(Debug)]
pub(crate) struct StoreTime {
    own: Arc<dyn Clock>,
    known: Mutex<Known>,
}

/// A reading of the store's clock.
#[derive(Debug, Clone, Copy)]
enum Known {
    /// No reading yet.
    Nothing,
    /// The store's clock agrees with the machine's, which is finer: what the machine's wall clock and monotonic clock
    /// showed.
    Own(Millis, Duration),
    /// What the store's clock and the machine's monotonic clock showed.
    Store(Millis, Duration),
}

/// Resolution of clock readings.
const TICK: Duration = Duration::from_millis(1);
/// Longest round trip that can prove two clocks equal.
const QUICK: Duration = Duration::from_millis(50);
/// Tolerance between the wall clock and the monotonic clock between two beats; a larger difference means that the
/// wall
/// clock was set.
const SET: Duration = Duration::from_millis(50);
/// How often a process without beats asks for the store's time.
const ASK_EVERY: Duration = Duration::from_secs(60);
/// Replies that took longer are ignored as readings.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(1);

impl StoreTime {
    pub(crate) fn new(own: Arc<dyn Clock>) -> Self {
        Self { own, known: Mutex::new(Known::Nothing) }
    }

    /// Whether the last reading is too old, or missing.
    pub(crate) fn is_old(&self) -> bool {
        match *lock(&self.known) {
            Known::Nothing => true,
            Known::Own(_, at) | Known::Store(_, at) => self.own.elapsed().saturating_sub(at) > ASK_EVERY,
        }
    }

    /// Takes the store's reply `shown` to a request sent at `sent`.
    pub(crate) fn set(&self, shown: Millis, sent: Duration) {
        let received = self.own.elapsed();
        let here = self.own.now();
        let took = received.saturating_sub(sent);
        let fits = here - took - TICK <= shown && shown <= here + TICK;
        let mut known = lock(&self.known);
        *known = match *known {
            _ if fits && took <= QUICK => Known::Own(here, received),
            Known::Own(..) if fits => Known::Own(here, received),
            now @ (Known::Own(..) | Known::Store(..)) if took > ROUND_TRIP_MAX => now,
            _ => Known::Store(shown, sent + took / 2),
        };
    }

    /// Takes the store's time from a reply to another request. Uses it only if the store is ahead, which means that
    /// the
    /// store's clock was set. Otherwise the node would claim and release newly due runs until the next beat.
    pub(crate) fn observe(&self, shown: Millis, sent: Duration) {
        if shown > self.now() + SET {
            self.set(shown, sent);
        }
    }
}

impl Clock for StoreTime {
    fn now(&self) -> Millis {
        match *lock(&self.known) {
            Known::Store(shown, at) => shown + self.own.elapsed().saturating_sub(at),
            Known::Own(shown, at) => {
                let here = self.own.now();
                let carried = shown + self.own.elapsed().saturating_sub(at);
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
        // In pieces, to notice a wall clock that was set forward.
        pause(left.min(Duration::from_secs(60))).await;
    }
}

/// Sleeps for `span`. All sleeps of the engine use it, so simulation can make them virtual.
pub async fn pause(span: Duration) {
    tokio::time::sleep(span).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock set by the test.
    #[derive(Debug)]
    struct ManualClock {
        now: Mutex<Millis>,
        elapsed: Duration,
    }

    impl Clock for ManualClock {
        fn now(&self) -> Millis {
            *self.now.lock().unwrap()
        }

        fn elapsed(&self) -> Duration {
            self.elapsed
        }
    }

    fn time_after(own: i64, took: Duration, store: i64) -> Millis {
        let elapsed = Duration::from_secs(100);
        let time = StoreTime::new(Arc::new(ManualClock { now: Mutex::new(Millis(own)), elapsed }));
        time.set(Millis(store), elapsed - took);
        time.now()
    }

    #[test]
    fn quick_matching_reply_keeps_the_own_clock() {
        assert_eq!(time_after(10_000, Duration::from_millis(10), 9_995), Millis(10_000));
    }

    #[test]
    fn changes_of_the_wall_clock_are_ignored() {
        let elapsed = Duration::from_secs(100);
        let own = Arc::new(ManualClock { now: Mutex::new(Millis(10_000)), elapsed });
        let time = StoreTime::new(own.clone());
        time.set(Millis(10_000), elapsed);
        for set in [10_000 + 3_600_000, 10_000 - 3_600_000] {
            *own.now.lock().unwrap() = Millis(set);
            assert_eq!(time.now(), Millis(10_000));
        }
        // A slightly adjusted wall clock is finer than the store's reading.
        *own.now.lock().unwrap() = Millis(10_020);
        assert_eq!(time.now(), Millis(10_020));
    }

    #[test]
    fn store_clock_ahead_is_used_between_beats() {
        let elapsed = Duration::from_secs(100);
        let time = StoreTime::new(Arc::new(ManualClock { now: Mutex::new(Millis(10_000)), elapsed }));
        time.set(Millis(10_000), elapsed);
        // The store's reply is older by its way back.
        time.observe(Millis(9_000), elapsed);
        assert_eq!(time.now(), Millis(10_000));
        time.observe(Millis(3_610_000), elapsed);
        assert_eq!(time.now(), Millis(3_610_000));
    }

    #[test]
    fn slow_matching_reply_proves_nothing() {
        assert_eq!(time_after(10_000, Duration::from_secs(4), 6_500), Millis(8_500));
    }

    #[test]
    fn differing_clock_is_corrected() {
        assert_eq!(time_after(10_000, Duration::from_millis(10), 70_000), Millis(70_005));
    }
}
