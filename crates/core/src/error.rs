//! Failures of user code: a message and a class that decides what happens next.

use serde::{Deserialize, Serialize};

/// What a failure means for the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Another attempt may succeed.
    Retryable,
    /// No attempt will ever succeed.
    Terminal,
    /// The author did not say; retried as if retryable.
    #[default]
    Unknown,
}

impl Class {
    /// Returns the word used in JSON and on screen.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Retryable => "retryable",
            Self::Terminal => "terminal",
            Self::Unknown => "unknown",
        }
    }
}

/// The reason why a step or a run failed, as the log stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[error("{message}")]
pub struct Failure {
    /// Whether a retry makes sense.
    #[serde(default)]
    pub class: Class,
    /// What happened, for people.
    pub message: String,
    /// A short stable word for machines: `panic`, `timeout`, `heartbeat-timeout`, `cancelled`, or the author's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// Longest message kept, in bytes.
const MESSAGE_BYTES_MAX: usize = 4096;

impl Failure {
    /// Creates a failure of the given class; a message that is too long is cut.
    pub fn new(class: Class, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MESSAGE_BYTES_MAX {
            let cut = (0..=MESSAGE_BYTES_MAX).rev().find(|i| message.is_char_boundary(*i)).unwrap_or(0);
            message.truncate(cut);
            message.push('…');
        }
        Self { class, message, code: None }
    }

    /// Creates a failure that no further attempt can fix.
    pub fn terminal(message: impl Into<String>) -> Self {
        Self::new(Class::Terminal, message)
    }

    /// Creates a failure that another attempt may fix.
    pub fn retryable(message: impl Into<String>) -> Self {
        Self::new(Class::Retryable, message)
    }

    /// Creates the failure of an attempt whose heartbeat stopped for too long.
    pub fn silent() -> Self {
        Self::retryable("the attempt was silent for longer than its heartbeat limit")
            .with_code("heartbeat-timeout")
    }

    /// Sets the code.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// Cuts the message to the length that a log keeps.
    #[must_use]
    pub fn bounded(self) -> Self {
        Self { code: self.code, ..Self::new(self.class, self.message) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_one_word_each() {
        for (class, word) in
            [(Class::Retryable, "retryable"), (Class::Terminal, "terminal"), (Class::Unknown, "unknown")]
        {
            assert_eq!((class.as_str(), serde_json::to_value(class).unwrap()), (word, word.into()));
        }
    }

    #[test]
    fn a_silent_attempt_may_be_tried_again() {
        let silent = Failure::silent();
        assert_eq!((silent.class, silent.code.as_deref()), (Class::Retryable, Some("heartbeat-timeout")));
    }

    #[test]
    fn long_messages_are_cut_at_a_character() {
        let failure = Failure::terminal("ä".repeat(4000));
        assert_eq!(failure.message, "ä".repeat(MESSAGE_BYTES_MAX / 2) + "…");
        let odd = Failure::terminal(format!("x{}", "ä".repeat(4000)));
        assert_eq!(odd.message, format!("x{}…", "ä".repeat(MESSAGE_BYTES_MAX / 2 - 1)));
        let whole = "x".repeat(MESSAGE_BYTES_MAX);
        assert_eq!(Failure::terminal(whole.as_str()).message, whole);
    }

    #[test]
    fn bounded_cuts_the_message_and_keeps_class_and_code() {
        let class = Class::Unknown;
        let code = Some("oom".to_owned());
        let bounded = Failure { class, message: "x".repeat(5_000), code: code.clone() }.bounded();
        assert_eq!((bounded.class, bounded.code), (class, code));
        assert_eq!(bounded.message.chars().count(), MESSAGE_BYTES_MAX + 1);
    }
}
