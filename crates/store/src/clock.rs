//! The clock as a value: a store never asks the system by itself.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use goldseam_core::Millis;

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Millis + Send + Sync>;

/// A moment on this machine's stopwatch: spans between two of them, never a date.
#[derive(Debug, Clone, Copy)]
pub struct Moment(Instant);

impl Moment {
    /// This one.
    #[expect(clippy::disallowed_methods, reason = "a stopwatch for stores, not a date")]
    pub fn now() -> Self {
        Self(Instant::now())
    }

    /// How long ago it was.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// How long after `earlier` it was; zero if it was not.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }
}

/// A clock that stands still until somebody moves it. Clones share their hands.
#[derive(Clone)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// Where a fresh one stands.
    pub const START: Millis = Millis(1_700_000_000_000);

    /// Stands at `at`.
    pub fn at(at: Millis) -> Self {
        Self(Arc::new(AtomicI64::new(at.0)))
    }

    /// What it shows.
    pub fn now(&self) -> Millis {
        Millis(self.0.load(Ordering::SeqCst))
    }

    /// Moves it to `at`, backwards too.
    pub fn set(&self, at: Millis) {
        self.0.store(at.0, Ordering::SeqCst);
    }

    /// Moves it on by `span`.
    pub fn advance(&self, span: Duration) {
        let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        self.0.fetch_add(millis, Ordering::SeqCst);
    }

    /// The clock in the form that stores take.
    pub fn clock(&self) -> Clock {
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
    fn a_stopwatch_tells_spans_and_never_less_than_nothing() {
        let (first, span) = (Moment::now(), Duration::from_secs(1));
        let (earlier, later) = (Moment(first.0 - span), Moment(first.0 + span));
        assert_eq!((later.since(first), first.since(later)), (span, Duration::ZERO));
        assert!(earlier.elapsed() >= span);
    }

    #[test]
    fn a_clock_goes_where_it_is_moved_and_its_clones_with_it() {
        let clock = ManualClock::default();
        let told = clock.clone().clock();
        clock.advance(Duration::from_millis(5));
        assert_eq!(told(), ManualClock::START + Duration::from_millis(5));
        clock.set(Millis(7));
        assert_eq!((told(), clock.now()), (Millis(7), Millis(7)));
        assert_eq!(format!("{clock:?}"), "ManualClock(Millis(7))");
    }
}
