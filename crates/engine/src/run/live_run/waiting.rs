//! The open waits of a live run.

use metrics::Gauge;

use super::LiveRun;

/// An open wait, until dropped.
pub(crate) struct Waiting<'a> {
    pub(super) live: &'a LiveRun,
    pub(super) key: u64,
    /// The number of such waits.
    pub(super) open: Gauge,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.open.decrement(1.0);
        self.live.lock().waits.remove(&self.key);
    }
}
