//! Clocks as values: a store never reads the system clock itself.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use goldseam_core::Millis;
use tokio::time::Instant;

/// A function that returns the present time.
pub type ClockFn = Arc<dyn Fn() -> Millis + Send + Sync>;

/// A time of this machine's monotonic clock: for spans, not for dates. In tests with paused time it is paused, too.
#[derive(Debug, Clone, Copy)]
pub struct MonotonicTime(Instant);

impl MonotonicTime {
    /// Returns the present time.
    #[expect(clippy::disallowed_methods, reason = "a stopwatch for stores, not a date")]
    pub fn now() -> Self {
        Self(Instant::now())
    }

    /// Returns the time since then.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }
}

/// A clock that only tests move. Clones share the same time.
#[derive(Clone)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// The time of a new clock.
    pub const START: Millis = Millis(1_700_000_000_000);

    /// Creates a clock at `at`.
    pub fn at(at: Millis) -> Self {
        Self(Arc::new(AtomicI64::new(at.0)))
    }

    /// Returns the present time.
    pub fn now(&self) -> Millis {
        Millis(self.0.load(Ordering::SeqCst))
    }

    /// Sets the time, also to an earlier one.
    pub fn set(&self, at: Millis) {
        self.0.store(at.0, Ordering::SeqCst);
    }

    /// Advances the time by `span`.
    pub fn advance(&self, span: Duration) {
        let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        self.0.fetch_add(millis, Ordering::SeqCst);
    }

    /// Returns the clock in the form that stores take.
    pub fn clock(&self) -> ClockFn {
        let hands = self.clone();
        Arc::new(move || hands.now())
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::at(Self::START)
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualClock").field(&self.now()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_never_negative() {
        let first = MonotonicTime::now();
        let span = Duration::from_secs(1);
        let earlier = MonotonicTime(first.0 - span);
        let later = MonotonicTime(first.0 + span);
        assert_eq!((later.since(first), first.since(later)), (span, Duration::ZERO));
        assert!(earlier.elapsed() >= span);
    }

    #[test]
    fn clones_of_a_clock_share_its_time() {
        let clock = ManualClock::default();
        let read = clock.clone().clock();
        clock.advance(Duration::from_millis(5));
        assert_eq!(read(), ManualClock::START + Duration::from_millis(5));
        clock.set(Millis(7));
        assert_eq!((read(), clock.now()), (Millis(7), Millis(7)));
        assert_eq!(format!("{clock:?}"), "ManualClock(Millis(7))");
    }
}
