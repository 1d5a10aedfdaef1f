//! Errors of a store.

use goldseam_core::{Hint, Seq};

/// The cause as the backend reports it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An error of a store. Each variant says what the caller does next.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another writer appended first, or the append lies past the end. Read the log, derive, decide again.
    #[error("the log ends at {end}, not at the position that this append expected")]
    Conflict {
        /// Where the log ends.
        end: Seq,
    },
    /// The call had no effect. Repeat it after a pause.
    #[error("the store is busy ({doing})")]
    Busy {
        /// The operation.
        doing: &'static str,
        /// The cause as the backend reports it.
        #[source]
        source: BoxError,
    },
    /// The call may have succeeded. Search for the write-id before anything else.
    #[error("the store failed and the outcome is unknown ({doing})")]
    Unknown {
        /// The operation.
        doing: &'static str,
        /// The cause as the backend reports it.
        #[source]
        source: BoxError,
    },
    /// The store is full: reads succeed, writes fail. Free some space.
    #[error("the store is full ({doing})")]
    Full {
        /// The operation.
        doing: &'static str,
        /// The cause as the backend reports it.
        #[source]
        source: BoxError,
    },
    /// Stored bytes cannot be decoded, or the disk cannot be trusted. Stop, and keep the evidence.
    #[error("the store is damaged: {detail}")]
    Damaged {
        /// What was found.
        detail: String,
    },
    /// The store cannot be used as it is. Tell the user what to change.
    #[error("{what}")]
    Refused {
        /// Stable code with a page in `docs/codes`.
        code: &'static str,
        /// What is wrong.
        what: String,
        /// What to do.
        hint: Hint,
    },
}

impl StoreError {
    /// Returns the error for an append without events.
    pub fn empty_append() -> Self {
        Self::Refused {
            code: "GS0211",
            what: "an append must contain at least one event".to_owned(),
            hint: "omit the append if there is nothing to write".into(),
        }
    }

    /// Returns the error for a cursor that no page of the list returned.
    pub fn foreign_cursor(cursor: &str) -> Self {
        let shown: String = cursor.chars().take(64).collect();
        Self::Refused {
            code: "GS0210",
            what: format!("invalid cursor {shown:?}"),
            hint: "pass the previous page's cursor unchanged, or omit it".into(),
        }
    }

    /// Returns the error for a cursor of a list with another condition or order.
    pub fn cursor_of_another_list() -> Self {
        Self::Refused {
            code: "GS0154",
            what: "this cursor belongs to a list with another condition or order".to_owned(),
            hint:
                "repeat the condition and the order of the page that returned the cursor, or omit the cursor"
                    .into(),
        }
    }

    /// Returns whether the call certainly had no effect and may be repeated.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Busy { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_without_effect_are_transient() {
        let source = || -> BoxError { "no".into() };
        let doing = "writing";
        assert!(StoreError::Busy { doing, source: source() }.is_transient());
        for other in [
            StoreError::Conflict { end: Seq(1) },
            StoreError::Unknown { doing, source: source() },
            StoreError::Full { doing, source: source() },
            StoreError::Damaged { detail: String::new() },
            StoreError::empty_append(),
        ] {
            assert!(!other.is_transient(), "{other}");
        }
    }

    #[test]
    fn a_refusal_has_a_code_and_a_short_excerpt() {
        let StoreError::Refused { code, what, .. } = StoreError::foreign_cursor(&"x".repeat(100)) else {
            panic!("not refused")
        };
        assert_eq!((code, what), ("GS0210", format!("invalid cursor \"{}\"", "x".repeat(64))));
        assert!(matches!(StoreError::empty_append(), StoreError::Refused { code: "GS0211", .. }));
        let StoreError::Refused { code, what, .. } = crate::feed::unknown_place(&"x".repeat(100)) else {
            panic!("not refused")
        };
        assert_eq!(code, "GS0612");
        assert_eq!(what, format!("\"{}\" is not a place in this store's feed", "x".repeat(40)));
    }
}
