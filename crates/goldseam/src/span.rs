//! Spans of time that read well in a workflow.

use std::time::Duration;

/// So many seconds.
pub const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// So many minutes.
pub const fn mins(count: u64) -> Duration {
    Duration::from_secs(count * 60)
}

/// So many hours.
pub const fn hours(count: u64) -> Duration {
    Duration::from_secs(count * 3_600)
}

/// So many days of 24 hours.
pub const fn days(count: u64) -> Duration {
    Duration::from_secs(count * 86_400)
}
