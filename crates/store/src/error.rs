//! Why a store said no.

use goldseam_core::Seq;

/// The cause that a backend gives.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a store said no, named by what the caller must do next.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Somebody appended first, or the append lies past the end. Read on, derive, decide again.
    #[error("the log ends at {end}, not where this append expected it")]
    Conflict {
        /// Where the log ends.
        end: Seq,
    },
    /// It was not done. Repeat the same call after a pause.
    #[error("the store is busy while {doing}")]
    Busy {
        /// What was being done.
        doing: &'static str,
        /// The backend's own words.
        #[source]
        source: BoxError,
    },
    /// It may or may not have been done. Look for the write-id before anything else.
    #[error("the outcome is unknown: the store failed while {doing}")]
    Unknown {
        /// What was being done.
        doing: &'static str,
        /// The backend's own words.
        #[source]
        source: BoxError,
    },
    /// There is no room: reads go on, writes do not. Make room.
    #[error("the store is full while {doing}")]
    Full {
        /// What was being done.
        doing: &'static str,
        /// The backend's own words.
        #[source]
        source: BoxError,
    },
    /// Stored bytes cannot be understood, or the disk cannot be trusted. Stop, keep the evidence.
    #[error("the store is damaged: {detail}")]
    Damaged {
        /// What was found.
        detail: String,
    },
    /// This store cannot be used as it is. Tell the user what to change.
    #[error("{what}")]
    Refused {
        /// Stable code with a page in `docs/codes`.
        code: &'static str,
        /// What is wrong.
        what: String,
        /// What to do about it.
        hint: String,
    },
}

impl StoreError {
    /// An append without events, as every store refuses it.
    pub fn empty_append() -> Self {
        Self::Refused {
            code: "GS0211",
            what: "an append must hold at least one event".to_owned(),
            hint: "leave the call out if there is nothing to write".to_owned(),
        }
    }

    /// A cursor that no page of a list ever gave, as every store refuses it.
    pub fn foreign_cursor(cursor: &str) -> Self {
        let shown: String = cursor.chars().take(64).collect();
        Self::Refused {
            code: "GS0210",
            what: format!("{shown:?} is no cursor of this list"),
            hint: "begin without a cursor, or pass the one that the page before gave".to_owned(),
        }
    }

    /// Whether the call certainly had no effect and may be repeated.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Busy { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_certainly_not_done_may_simply_be_repeated() {
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
    fn a_refusal_has_a_code_and_shows_little_of_what_was_wrong() {
        let StoreError::Refused { code, what, .. } = StoreError::foreign_cursor(&"x".repeat(100)) else {
            panic!("not refused")
        };
        assert_eq!((code, what), ("GS0210", format!("\"{}\" is no cursor of this list", "x".repeat(64))));
        assert!(matches!(StoreError::empty_append(), StoreError::Refused { code: "GS0211", .. }));
        let StoreError::Refused { code, what, .. } = crate::feed::no_place(&"x".repeat(100)) else {
            panic!("not refused")
        };
        assert_eq!(code, "GS0612");
        assert_eq!(what, format!("\"{}\" is no place in this store's order", "x".repeat(40)));
    }
}
