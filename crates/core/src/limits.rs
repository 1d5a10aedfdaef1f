//! A bound on everything, units last.

use std::time::Duration;

/// The bounds that a store's runs live under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Largest input, output, signal or answer.
    pub payload_bytes_max: usize,
    /// Deepest nesting of a payload.
    pub payload_depth_max: usize,
    /// Most events in the log that a run may load before it must `continue_as_new`.
    pub history_events_max: u64,
    /// Most bytes that they may have. What a run writes and what it is told are each bounded by it.
    pub history_bytes_max: u64,
    /// Most signals that wait unread.
    pub mail_unread_max: u32,
    /// Most tags of one run.
    pub tags_max: usize,
    /// Longest value of a tag, prompt or reason.
    pub text_bytes_max: usize,
    /// Longest an append is retried when the store cannot answer.
    pub store_patience: Duration,
}

impl Limits {
    /// No payload may have more bytes than this, whatever anybody sets: it is read again in every replay.
    pub const PAYLOAD_BYTES_MOST: usize = 2 * 1024 * 1024;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            payload_bytes_max: 256 * 1024,
            payload_depth_max: 64,
            history_events_max: 50_000,
            history_bytes_max: 50 * 1024 * 1024,
            mail_unread_max: 2_000,
            tags_max: 32,
            text_bytes_max: 4_096,
            store_patience: Duration::from_secs(30),
        }
    }
}
