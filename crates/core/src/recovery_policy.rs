//! The recovery policy of a run: how often it is recovered, and what happens then.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The recovery policy of a run. The log carries it, so that every healer decides alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = RecoveryPolicy))]
pub struct Policy {
    /// Counted recoveries without progress before rule P1 stops the run.
    pub attempts_max: u32,
    /// Whether rule P1 parks the run; otherwise the run is compensated and fails.
    pub park: bool,
    /// How long a finding must have held before a sweep heals it.
    pub stale_ms: u64,
    /// Pause of a run that waits for the recovery of others; ten pauses are the doubt when two lifetimes are
    /// compared.
    pub delay_ms: u64,
}

impl Default for Policy {
    fn default() -> Self {
        Self { attempts_max: 3, park: true, stale_ms: 30_000, delay_ms: 100 }
    }
}

impl Policy {
    /// Returns the part that `diagnose` needs.
    pub fn bounds(self) -> Bounds {
        Bounds { attempts_max: self.attempts_max, park: self.park }
    }

    /// Returns the tolerance when comparing two lifetimes.
    pub fn doubt(self) -> Duration {
        Duration::from_millis(self.delay_ms).saturating_mul(10)
    }

    /// Returns how long a finding must have held before a sweep heals it.
    pub fn stale_after(self) -> Duration {
        Duration::from_millis(self.stale_ms)
    }
}

/// How often a run may be recovered without progress, and what happens then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Counted recoveries without progress, at least 1.
    pub attempts_max: u32,
    /// Whether to park the run instead of failing it.
    pub park: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        Policy::default().bounds()
    }
}

impl Bounds {
    /// Returns the number of the decisive recovery: the run is alone in it, and P1 acts if the process dies again.
    pub(crate) fn decisive(self) -> u32 {
        self.attempts_max.max(1)
    }
}
