//! Limits, with the unit in each name.

use std::time::Duration;

/// The limits of the runs of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Largest input, output, signal or answer.
    pub payload_bytes_max: usize,
    /// Deepest nesting of a payload, in levels.
    pub payload_depth_max: usize,
    /// Most events that a run may load before it must `continue_as_new`.
    pub history_events_max: u64,
    /// Most bytes of those events. It bounds the run's own events and its mail separately.
    pub history_bytes_max: u64,
    /// Most unread signals.
    pub mail_unread_max: u32,
    /// Most tags of one run.
    pub tags_max: usize,
    /// Longest value of a tag, prompt or reason.
    pub text_bytes_max: usize,
    /// Largest published value.
    pub published_bytes_max: usize,
    /// Most names under which one run publishes values.
    pub published_names_max: usize,
    /// How long an append is retried while the store does not answer.
    pub store_patience: Duration,
}

impl Limits {
    /// Upper bound of `payload_bytes_max`, regardless of the configuration: every replay reads a payload again.
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
            published_bytes_max: 64 * 1024,
            published_names_max: 32,
            store_patience: Duration::from_secs(30),
        }
    }
}
