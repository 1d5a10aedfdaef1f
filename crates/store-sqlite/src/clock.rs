//! The store's clock, by which all expiries are judged.
//!
//! Invariant: within a process the clock never goes back, even if the machine's clock does.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use goldseam_core::Millis;
use goldseam_store::ClockFn;

/// Returns this machine's clock.
pub fn system_clock() -> ClockFn {
    Arc::new(system_now)
}

#[expect(clippy::disallowed_methods, reason = "this is the clock that all other code uses")]
fn system_now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A clock that never goes back.
pub(crate) struct SteadyClock {
    clock: ClockFn,
    latest: AtomicI64,
}

impl SteadyClock {
    pub(crate) fn new(clock: ClockFn) -> Self {
        Self { clock, latest: AtomicI64::new(0) }
    }

    /// Returns the time, or the latest time ever returned if that is later.
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
