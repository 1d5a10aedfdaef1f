//! The store's clock: the database's, carried on by this machine's stopwatch between two calls.
//!
//! Invariant: within a process it never goes back, and this machine's idea of the date is never asked.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use goldseam_core::Millis;
use goldseam_store::Clock;
pub(crate) use goldseam_store::clock::Moment;

/// What the database's clock said, and when it was heard.
#[derive(Debug, Clone, Copy)]
struct Anchor {
    told: i64,
    at: Moment,
}

/// A clock that only goes on.
pub(crate) struct StoreClock {
    /// Another clock in place of the database's.
    given: Option<Clock>,
    anchor: Mutex<Anchor>,
    latest: AtomicI64,
}

impl StoreClock {
    pub(crate) fn new(given: Option<Clock>) -> Self {
        let anchor = Anchor { told: 0, at: Moment::now() };
        Self { given, anchor: Mutex::new(anchor), latest: AtomicI64::new(0) }
    }

    /// What to pass to a call that would ask the database's clock: nothing, unless there is another.
    pub(crate) fn given(&self) -> Option<i64> {
        self.given.as_ref().map(|_| self.now().0)
    }

    /// The time, or the latest one ever told if that is later.
    pub(crate) fn now(&self) -> Millis {
        let now = match &self.given {
            Some(clock) => clock().0,
            None => {
                let anchor = *self.anchor.lock().unwrap_or_else(PoisonError::into_inner);
                anchor.told.saturating_add(milliseconds(anchor.at.elapsed()))
            }
        };
        self.at_least(now)
    }

    /// The database said this while a call that was sent at `sent` ran; half-way is the best guess. Returns what
    /// callers are told for it.
    pub(crate) fn heard(&self, told: i64, sent: Moment) -> Millis {
        if self.given.is_some() {
            return self.now();
        }
        let half = milliseconds(sent.elapsed() / 2);
        let anchor = Anchor { told: told.saturating_add(half), at: Moment::now() };
        *self.anchor.lock().unwrap_or_else(PoisonError::into_inner) = anchor;
        self.at_least(told)
    }

    fn at_least(&self, now: i64) -> Millis {
        Millis(self.latest.fetch_max(now, Ordering::Relaxed).max(now))
    }
}

fn milliseconds(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

impl fmt::Debug for StoreClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreClock").field(&self.now()).finish()
    }
}
