//! What happened lately, for each interval of time.

use goldseam::Millis;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::view::percentiles::Percentiles;

/// Default time that is counted, in milliseconds.
pub const WINDOW_MS_DEFAULT: i64 = 3_600_000;
/// Default length of an interval, in milliseconds.
pub const INTERVAL_MS_DEFAULT: u64 = 60_000;
/// Maximum number of intervals.
pub const INTERVALS_MAX: u64 = 1_440;

/// Selects the time and its intervals.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ActivityQuery {
    /// Counts from this time on, in milliseconds since 1970; defaults to one hour ago.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<i64>,
    /// Length of an interval in milliseconds; defaults to one minute. There are at most 1,440 intervals.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::unstable::core::whole::optional"
    )]
    pub interval_ms: Option<u64>,
}

/// Starts, ends and recoveries of a recent time, by interval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Activity)]
pub struct ActivityDoc {
    /// Whether everything was counted. If not, the oldest runs are missing.
    pub complete: bool,
    /// Length of an interval, in milliseconds.
    pub interval_ms: u64,
    /// Every interval, oldest first.
    pub intervals: Vec<IntervalDoc>,
    /// Time to detect: how long the subjects of the recoveries were stalled.
    pub stalled_ms: Percentiles,
    /// Time to heal: from the recovery until the subject moved.
    pub heal_ms: Percentiles,
    /// The time of this answer, by the clock of the store.
    pub now: Millis,
}

/// What happened in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = Interval)]
pub struct IntervalDoc {
    /// Its start.
    pub at: Millis,
    /// Runs that were cancelled.
    pub cancelled: u64,
    /// Runs that completed.
    pub completed: u64,
    /// Runs that failed.
    pub failed: u64,
    /// Recoveries of runs, tasks, locks and foreign states.
    pub recovered: u64,
    /// Runs that were queued.
    pub started: u64,
}
