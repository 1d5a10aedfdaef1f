//! The error for a log that cannot be read.

use crate::time::Seq;

/// The error for a log that cannot be read. Nothing is guessed: a damaged run is parked and the evidence kept; a run
/// that a newer release has written is left to that release.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {seq} of the log {}: {detail}", nature(*.is_newer))]
pub struct Corrupt {
    /// Position of the event.
    pub seq: Seq,
    /// What is wrong.
    pub detail: String,
    /// Whether the event is intact but a newer release wrote it.
    pub is_newer: bool,
}

fn nature(is_newer: bool) -> &'static str {
    if is_newer { "cannot be read by this release" } else { "is damaged" }
}

impl Corrupt {
    /// Creates the error for damage at `seq`.
    pub fn new(seq: Seq, detail: impl Into<String>) -> Self {
        Self { seq, detail: detail.into(), is_newer: false }
    }

    /// Creates the error for an event at `seq` that only a newer release can read.
    pub fn newer(seq: Seq, detail: impl Into<String>) -> Self {
        Self { is_newer: true, ..Self::new(seq, detail) }
    }
}
