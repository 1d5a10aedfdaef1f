//! The store's clock: the database's time, continued by this machine's monotonic clock between two calls.
//!
//! Invariant: within a process the clock never goes back, and it never uses this machine's date.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use goldseam_core::Millis;
use goldseam_store::ClockFn;
pub(crate) use goldseam_store::clock::MonotonicTime;

/// A time of the database, and when this process received it.
#[derive(Debug, Clone, Copy)]
struct Anchor {
    time: i64,
    at: MonotonicTime,
}

/// A clock that never goes back.
pub(crate) struct PgClock {
    /// A clock that replaces the database's.
    injected: Option<ClockFn>,
    anchor: Mutex<Anchor>,
    latest: AtomicI64,
}

impl PgClock {
    pub(crate) fn new(injected: Option<ClockFn>) -> Self {
        let anchor = Anchor { time: 0, at: MonotonicTime::now() };
        Self { injected, anchor: Mutex::new(anchor), latest: AtomicI64::new(0) }
    }

    /// The time to pass to an SQL function that would use the clock of the database: none, unless another clock
    /// replaces it.
    pub(crate) fn injected(&self) -> Option<i64> {
        self.injected.as_ref().map(|_| self.now().0)
    }

    /// Returns the time, or the latest time ever returned if that is later.
    pub(crate) fn now(&self) -> Millis {
        let now = match &self.injected {
            Some(clock) => clock().0,
            None => {
                let anchor = *self.anchor.lock().unwrap_or_else(PoisonError::into_inner);
                anchor.time.saturating_add(milliseconds(anchor.at.elapsed()))
            }
        };
        self.at_least(now)
    }

    /// Learns the time of the database from a call that was sent at `sent`; the middle of the call is the best guess.
    /// Returns the time for callers.
    pub(crate) fn observe(&self, time: i64, sent: MonotonicTime) -> Millis {
        if self.injected.is_some() {
            return self.now();
        }
        let half = milliseconds(sent.elapsed() / 2);
        let anchor = Anchor { time: time.saturating_add(half), at: MonotonicTime::now() };
        *self.anchor.lock().unwrap_or_else(PoisonError::into_inner) = anchor;
        self.at_least(time)
    }

    fn at_least(&self, now: i64) -> Millis {
        Millis(self.latest.fetch_max(now, Ordering::Relaxed).max(now))
    }
}

fn milliseconds(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

impl fmt::Debug for PgClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PgClock").field(&self.now()).finish()
    }
}
