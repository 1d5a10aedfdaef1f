//! The store's clock: the server's time from its responses, continued by this machine's monotonic clock.
//!
//! Invariant: within a process the clock never goes back, and it never uses this machine's date.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use goldseam_core::Millis;
use goldseam_store::ClockFn;
pub(crate) use goldseam_store::clock::MonotonicTime;

/// Two monotonic clocks drift apart by at most one part in this number.
const DRIFT: i64 = 2_000;

/// Nanoseconds per millisecond, and per second.
const MILLI: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MILLI;
/// Longest time that this clock stops if the server's clock is behind it.
const STILL_MAX: i64 = 2 * SECOND;

/// The bounds of the server's clock at a moment of this machine's monotonic clock. In nanoseconds: every response moves
/// them, and rounding errors would add up.
#[derive(Debug, Clone, Copy)]
struct ClockBounds {
    least: i64,
    most: i64,
    at: MonotonicTime,
}

impl ClockBounds {
    /// The bounds at a later moment, wider by the possible drift.
    fn at(self, at: MonotonicTime) -> Self {
        let passed = nanoseconds(at.since(self.at));
        let drift = passed / DRIFT;
        Self { least: self.least + passed - drift, most: self.most + passed + drift, at }
    }

    fn middle(self) -> i64 {
        self.least + (self.most - self.least) / 2
    }
}

/// What is known of the server's clock.
#[derive(Debug, Clone, Copy)]
struct Estimate {
    bounds: ClockBounds,
    /// How far this clock is ahead of the server's clock, which was set back.
    ahead: i64,
}

impl Estimate {
    /// The time of this clock, in nanoseconds.
    fn shown(&self, at: MonotonicTime) -> i64 {
        self.bounds.at(at).middle() + self.ahead
    }
}

/// A clock that never goes back, and never stops for long: even if the server's clock is set back by hours, waits end.
pub(crate) struct BucketClock {
    /// A clock that replaces the server's.
    injected: Option<ClockFn>,
    known: Mutex<Option<Estimate>>,
    latest: AtomicI64,
}

impl BucketClock {
    pub(crate) fn new(injected: Option<ClockFn>) -> Self {
        Self { injected, known: Mutex::new(None), latest: AtomicI64::new(0) }
    }

    fn known(&self) -> MutexGuard<'_, Option<Estimate>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the time is known yet.
    pub(crate) fn is_set(&self) -> bool {
        self.injected.is_some() || self.known().is_some()
    }

    /// Returns the time, or the latest time ever returned if that is later.
    pub(crate) fn now(&self) -> Millis {
        let now = match &self.injected {
            Some(clock) => clock().0,
            None => self.known().map_or(0, |known| known.shown(MonotonicTime::now()) / MILLI),
        };
        Millis(self.latest.fetch_max(now, Ordering::Relaxed).max(now))
    }

    /// By how many milliseconds the server's clock is ahead of this machine's. For reports only.
    #[expect(clippy::disallowed_methods, reason = "only a report shows this machine's date")]
    pub(crate) fn ahead(&self) -> Option<i64> {
        let bounds = (*self.known())?.bounds.at(MonotonicTime::now());
        let here = nanoseconds(SystemTime::now().duration_since(UNIX_EPOCH).ok()?);
        // Only the certain part: a response names whole seconds.
        let certain = match here {
            here if here < bounds.least => bounds.least - here,
            here if here > bounds.most => bounds.most - here,
            _ => 0,
        };
        Some(certain / MILLI)
    }

    /// Learns from a response that has just arrived, to a request sent at `sent`, which second the server's clock
    /// shows. Each response narrows the bounds; one that contradicts earlier ones replaces them, because the server's
    /// clock was set.
    pub(crate) fn observe(&self, second: i64, sent: MonotonicTime) {
        let mut known = self.known();
        let at = MonotonicTime::now();
        let least = second.saturating_mul(SECOND);
        // The server read its clock after `sent` and before now.
        let most = least.saturating_add(SECOND).saturating_add(nanoseconds(at.since(sent)));
        let observed = ClockBounds { least, most, at };
        let both = known.map(|known| known.bounds.at(at)).map(|known| ClockBounds {
            least: known.least.max(observed.least),
            most: known.most.min(observed.most),
            at,
        });
        let bounds = both.filter(|both| both.least <= both.most).unwrap_or(observed);
        let back = known.map_or(0, |known| known.shown(at) - bounds.middle());
        *known = Some(Estimate { bounds, ahead: if back > STILL_MAX { back } else { 0 } });
    }
}

fn nanoseconds(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

impl fmt::Debug for BucketClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BucketClock").field(&self.now()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_narrow_the_bounds() {
        let clock = BucketClock::new(None);
        assert!(!clock.is_set());
        clock.observe(1_000, MonotonicTime::now());
        let first = clock.now().0;
        assert!((1_000_000..=1_001_010).contains(&first), "{first}");
        // The same second again, and then the next one: the second changed in between.
        clock.observe(1_000, MonotonicTime::now());
        clock.observe(1_001, MonotonicTime::now());
        let narrowed = clock.now().0;
        assert!((1_001_000..=1_001_050).contains(&narrowed), "{narrowed}");
    }

    #[test]
    fn many_responses_do_not_slow_the_clock() {
        let begun = MonotonicTime::now();
        let first = ClockBounds { least: 0, most: 0, at: begun };
        let mut carried = first;
        let mut responses = 0;
        while begun.elapsed() < Duration::from_millis(20) {
            carried = carried.at(MonotonicTime::now());
            responses += 1;
        }
        // Each response may lose about a nanosecond to rounding, and some drift.
        let passed = nanoseconds(carried.at.since(begun));
        assert!(carried.most >= passed - responses, "{carried:?} after {passed}");
        assert!(carried.least <= passed && carried.least >= passed - passed / 1_000, "{carried:?}");
    }

    #[test]
    fn follows_a_clock_that_was_set_but_never_goes_back() {
        let clock = BucketClock::new(None);
        clock.observe(5_000, MonotonicTime::now());
        let before = clock.now();
        clock.observe(1_000, MonotonicTime::now());
        assert_eq!(clock.now().0.max(before.0), clock.now().0);
        clock.observe(9_000, MonotonicTime::now());
        assert!(clock.now().0 >= 9_000_000);
    }

    #[test]
    fn a_clock_that_was_set_back_advances_and_recovers() {
        let clock = BucketClock::new(None);
        clock.observe(5_000, MonotonicTime::now());
        clock.observe(1_000, MonotonicTime::now());
        let before = clock.now().0;
        let begun = MonotonicTime::now();
        while begun.elapsed() < Duration::from_millis(20) {
            clock.observe(1_000, MonotonicTime::now());
        }
        let passed = clock.now().0 - before;
        assert!((15..1_500).contains(&passed), "{passed} ms");
        // Two servers that disagree do not push it forward.
        for _ in 0..100 {
            clock.observe(6_000, MonotonicTime::now());
            clock.observe(5_990, MonotonicTime::now());
        }
        let now = clock.now().0;
        assert!((6_000_000..6_003_000).contains(&now), "{now}");
    }
}
