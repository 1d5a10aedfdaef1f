//! The store's clock: the server's, as its answers tell it, carried on by this machine's stopwatch.
//!
//! Invariant: within a process it never goes back, and this machine's idea of the date is never asked to tell it.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use goldseam_core::Millis;
use goldseam_store::Clock;
pub(crate) use goldseam_store::clock::Moment;

/// Two stopwatches drift apart by one part of so many at the most.
const DRIFT: i64 = 2_000;

/// Nanoseconds of a millisecond, and of a second.
const MILLI: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MILLI;
/// For so long the clock stands still if the server's is behind it.
const STILL_MAX: i64 = 2 * SECOND;

/// Between which bounds the server's clock stood when this machine's stopwatch stood at `at`, in nanoseconds: they
/// are carried on with every answer, and what is rounded off would add up.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    least: i64,
    most: i64,
    at: Moment,
}

impl Bounds {
    /// The same bounds at a later moment, wider by what two stopwatches may drift apart.
    fn at(self, at: Moment) -> Self {
        let passed = nanoseconds(at.since(self.at));
        let drift = passed / DRIFT;
        Self { least: self.least + passed - drift, most: self.most + passed + drift, at }
    }

    fn middle(self) -> i64 {
        self.least + (self.most - self.least) / 2
    }
}

/// What answers have told.
#[derive(Debug, Clone, Copy)]
struct Known {
    bounds: Bounds,
    /// How far this clock is ahead of the server's, which was set back.
    ahead: i64,
}

impl Known {
    /// What this clock shows, in nanoseconds.
    fn shown(&self, at: Moment) -> i64 {
        self.bounds.at(at).middle() + self.ahead
    }
}

/// A clock that only goes on. It does not stand still for long either: time that somebody waits for comes, even if
/// the server's clock is set back by hours.
pub(crate) struct StoreClock {
    /// Another clock in place of the server's.
    given: Option<Clock>,
    known: Mutex<Option<Known>>,
    latest: AtomicI64,
}

impl StoreClock {
    pub(crate) fn new(given: Option<Clock>) -> Self {
        Self { given, known: Mutex::new(None), latest: AtomicI64::new(0) }
    }

    fn known(&self) -> MutexGuard<'_, Option<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it can tell the time yet.
    pub(crate) fn is_set(&self) -> bool {
        self.given.is_some() || self.known().is_some()
    }

    /// The time, or the latest one ever told if that is later.
    pub(crate) fn now(&self) -> Millis {
        let now = match &self.given {
            Some(clock) => clock().0,
            None => self.known().map_or(0, |known| known.shown(Moment::now()) / MILLI),
        };
        Millis(self.latest.fetch_max(now, Ordering::Relaxed).max(now))
    }

    /// By how many milliseconds the server's clock is ahead of this machine's. For people: nothing is decided by it.
    #[expect(
        clippy::disallowed_methods,
        reason = "this machine's date is told to people, and used for nothing"
    )]
    pub(crate) fn ahead(&self) -> Option<i64> {
        let bounds = (*self.known())?.bounds.at(Moment::now());
        let here = nanoseconds(SystemTime::now().duration_since(UNIX_EPOCH).ok()?);
        // No more than is certain: an answer names whole seconds.
        let certain = match here {
            here if here < bounds.least => bounds.least - here,
            here if here > bounds.most => bounds.most - here,
            _ => 0,
        };
        Some(certain / MILLI)
    }

    /// An answer to a request that was sent at `sent` and has just come says which second the server's clock
    /// shows. Each answer narrows what is possible; one that contradicts the others is believed alone, as the
    /// server's clock was set.
    pub(crate) fn heard(&self, second: i64, sent: Moment) {
        let mut known = self.known();
        let at = Moment::now();
        let told = second.saturating_mul(SECOND);
        // It was said after we sent, and before now.
        let most = told.saturating_add(SECOND).saturating_add(nanoseconds(at.since(sent)));
        let heard = Bounds { least: told, most, at };
        let both = known.map(|known| known.bounds.at(at)).map(|known| Bounds {
            least: known.least.max(heard.least),
            most: known.most.min(heard.most),
            at,
        });
        let bounds = both.filter(|both| both.least <= both.most).unwrap_or(heard);
        let back = known.map_or(0, |known| known.shown(at) - bounds.middle());
        *known = Some(Known { bounds, ahead: if back > STILL_MAX { back } else { 0 } });
    }
}

fn nanoseconds(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

impl fmt::Debug for StoreClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreClock").field(&self.now()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_narrow_the_time_down() {
        let clock = StoreClock::new(None);
        assert!(!clock.is_set());
        clock.heard(1_000, Moment::now());
        let first = clock.now().0;
        assert!((1_000_000..=1_001_010).contains(&first), "{first}");
        // The same second again, and then the next one: the turn lies between.
        clock.heard(1_000, Moment::now());
        clock.heard(1_001, Moment::now());
        let narrowed = clock.now().0;
        assert!((1_001_000..=1_001_050).contains(&narrowed), "{narrowed}");
    }

    #[test]
    fn many_answers_do_not_slow_the_clock() {
        let begun = Moment::now();
        let first = Bounds { least: 0, most: 0, at: begun };
        let mut carried = first;
        let mut answers = 0;
        while begun.elapsed() < Duration::from_millis(20) {
            carried = carried.at(Moment::now());
            answers += 1;
        }
        // Each answer may round off a nanosecond or so, and some drift.
        let passed = nanoseconds(carried.at.since(begun));
        assert!(carried.most >= passed - answers, "{carried:?} after {passed}");
        assert!(carried.least <= passed && carried.least >= passed - passed / 1_000, "{carried:?}");
    }

    #[test]
    fn a_clock_that_was_set_is_believed_but_never_goes_back() {
        let clock = StoreClock::new(None);
        clock.heard(5_000, Moment::now());
        let before = clock.now();
        clock.heard(1_000, Moment::now());
        assert_eq!(clock.now().0.max(before.0), clock.now().0);
        clock.heard(9_000, Moment::now());
        assert!(clock.now().0 >= 9_000_000);
    }

    #[test]
    fn a_clock_that_was_set_back_goes_on_and_is_right_again_once_it_has_been_set_forward() {
        let clock = StoreClock::new(None);
        clock.heard(5_000, Moment::now());
        clock.heard(1_000, Moment::now());
        let (before, begun) = (clock.now().0, Moment::now());
        while begun.elapsed() < Duration::from_millis(20) {
            clock.heard(1_000, Moment::now());
        }
        let passed = clock.now().0 - before;
        assert!((15..1_500).contains(&passed), "{passed} ms");
        // Two servers that disagree do not drive it forward.
        for _ in 0..100 {
            clock.heard(6_000, Moment::now());
            clock.heard(5_990, Moment::now());
        }
        let now = clock.now().0;
        assert!((6_000_000..6_003_000).contains(&now), "{now}");
    }
}
