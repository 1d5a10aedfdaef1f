//! What holds for steps that do not state it themselves.

use std::time::Duration;

use goldseam_core::Retry;

use super::LiveRun;

impl LiveRun {
    /// The retry policy of steps that state none.
    pub(crate) fn default_retry(&self) -> Retry {
        self.config.retry_for(&self.lock().state.summary.workflow).clone()
    }

    /// How long an attempt may be silent, if its step states no limit; none: without limit.
    pub(crate) fn default_heartbeat_timeout(&self) -> Option<Duration> {
        self.config.heartbeat_timeout_for(&self.lock().state.summary.workflow)
    }
}
