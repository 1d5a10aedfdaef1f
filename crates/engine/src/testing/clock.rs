//! Virtual time: tokio's paused clock, seen through each node's own offset and drift.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use goldseam_core::Millis;
use tokio::time::Instant;

use crate::ledger::clock::Clock;

/// Where virtual time begins.
pub const START: Millis = Millis(1_700_000_000_000);

/// The true time of a simulation.
#[derive(Debug, Clone, Copy)]
pub struct TrueTime {
    began: Instant,
    start: Millis,
}

impl TrueTime {
    /// Starts now, at [`START`].
    pub fn begin() -> Self {
        Self::begin_at(START)
    }

    /// Starts now, at `start`.
    #[expect(clippy::disallowed_methods, reason = "the one home of virtual time")]
    pub fn begin_at(start: Millis) -> Self {
        Self { began: Instant::now(), start }
    }

    /// Virtual time since the start.
    #[expect(clippy::disallowed_methods, reason = "the one home of virtual time")]
    pub fn elapsed(&self) -> Duration {
        Instant::now().saturating_duration_since(self.began)
    }

    /// The true time.
    pub fn now(&self) -> Millis {
        self.start + self.elapsed()
    }

    /// A store clock that shows the true time.
    pub fn store_clock(self) -> goldseam_store::ClockFn {
        Arc::new(move || self.now())
    }
}

/// The clock of a machine, with an offset and a drift.
#[derive(Debug)]
pub struct SimClock {
    time: TrueTime,
    offset_ms: AtomicI64,
    drift_ppm: i64,
}

impl SimClock {
    /// Creates a clock with an offset of `offset_ms` and a drift of `drift_ppm` millionths.
    pub fn new(time: TrueTime, offset_ms: i64, drift_ppm: i64) -> Self {
        Self { time, offset_ms: AtomicI64::new(offset_ms), drift_ppm }
    }

    /// Sets the clock forward or back. [`Clock::elapsed`] is not affected.
    pub fn jump(&self, by_ms: i64) {
        self.offset_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    fn drifted(&self) -> i64 {
        let passed = i64::try_from(self.time.elapsed().as_millis()).unwrap_or(i64::MAX);
        passed + passed * self.drift_ppm / 1_000_000
    }
}

impl Clock for SimClock {
    fn now(&self) -> Millis {
        Millis(START.0 + self.drifted() + self.offset_ms.load(Ordering::Relaxed))
    }

    fn elapsed(&self) -> Duration {
        // A day ahead, so that "just booted" differs from "long ago".
        Duration::from_millis(self.drifted().unsigned_abs()) + Duration::from_secs(86_400)
    }
}
