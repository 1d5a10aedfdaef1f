//! Short constructors for durations.

use std::time::Duration;

/// Returns `count` seconds.
pub const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Returns `count` minutes.
pub const fn mins(count: u64) -> Duration {
    Duration::from_secs(count * 60)
}

/// Returns `count` hours.
pub const fn hours(count: u64) -> Duration {
    Duration::from_secs(count * 3_600)
}

/// Returns `count` days of 24 hours.
pub const fn days(count: u64) -> Duration {
    Duration::from_secs(count * 86_400)
}
