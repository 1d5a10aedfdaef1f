//! Virtual time: the machine's clock, moved forward by tests.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use goldseam::unstable::core::Millis;
use goldseam::unstable::engine::{Clock, SystemClock};

/// The machine's clock plus all that a test has added. Durations that code measures, such as leases, stay real.
#[derive(Debug, Default)]
pub struct ShiftedClock {
    ahead_ms: AtomicI64,
}

impl ShiftedClock {
    /// Moves the time forward.
    pub fn advance(&self, span: Duration) {
        let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        let add = |ahead: i64| Some(ahead.saturating_add(millis));
        // Never fails: the closure always returns a value.
        let _ = self.ahead_ms.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add);
    }
}

impl Clock for ShiftedClock {
    fn now(&self) -> Millis {
        Millis(SystemClock.now().0.saturating_add(self.ahead_ms.load(Ordering::SeqCst)))
    }

    fn elapsed(&self) -> Duration {
        SystemClock.elapsed()
    }
}
