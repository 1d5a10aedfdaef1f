//! The store's clock: the only one that expiries are judged by.
//!
//! Invariant: within a process it never goes back, whatever happens to the machine's clock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use goldseam_core::Millis;
use goldseam_store::Clock;

/// The clock of this machine.
pub fn system_clock() -> Clock {
    Arc::new(system_now)
}

#[expect(clippy::disallowed_methods, reason = "this is the clock that everybody else asks")]
fn system_now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A clock that only goes on.
pub(crate) struct SteadyClock {
    clock: Clock,
    latest: AtomicI64,
}

impl SteadyClock {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, latest: AtomicI64::new(0) }
    }

    /// The time, or the latest one ever told if that is later.
    pub(crate) fn now(&self) -> Millis {
        let now = (self.clock)().0;
        Millis(self.latest.fetch_max(now, Ordering::Relaxed).max(now))
    }
}

impl fmt::Debug for SteadyClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SteadyClock").field(&self.now()).finish()
    }
}
