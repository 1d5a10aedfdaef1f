//! What a server answered, as what the caller must do next.

use goldseam_store::StoreError;
use goldseam_store::error::BoxError;
use object_store::Error;

/// What an error means for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The condition of a put did not hold, or the server says so.
    Condition,
    /// It may be sent again. `done` says whether it was done, where that is known.
    Failed {
        /// None: nobody knows.
        done: Option<bool>,
    },
    /// Sending it again would be answered the same.
    Refused,
}

pub(crate) fn verdict(error: &Error) -> Verdict {
    match error {
        Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotModified { .. } => {
            Verdict::Condition
        }
        Error::Generic { .. } | Error::JoinError { .. } => Verdict::Failed { done: None },
        _ => Verdict::Refused,
    }
}

pub(crate) fn refused(doing: &'static str, error: Error) -> StoreError {
    StoreError::Refused {
        code: "GS0217",
        what: format!("the bucket refused {doing}: {error}"),
        hint: "look at the credentials, the bucket's policy and the name of the bucket".to_owned(),
    }
}

pub(crate) fn busy(doing: &'static str, source: BoxError) -> StoreError {
    StoreError::Busy { doing, source }
}

pub(crate) fn unknown(doing: &'static str, source: BoxError) -> StoreError {
    StoreError::Unknown { doing, source }
}

/// An object that makes no sense.
pub(crate) fn damaged(key: &str, detail: impl std::fmt::Display) -> StoreError {
    StoreError::Damaged { detail: format!("object {key}: {detail}") }
}
