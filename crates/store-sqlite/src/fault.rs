//! Maps errors of SQLite to errors named by what the caller must do next. Decided by error code, never by message.
//!
//! Invariant: `Busy` and `Full` mean that certainly nothing was done. If something may have been done, the error is
//! `Unknown`.

use goldseam_core::{Hint, Seq};
use goldseam_store::StoreError;
use rusqlite::ErrorCode;

/// Why a job failed.
#[derive(Debug)]
pub(crate) enum SqliteFault {
    /// The log ends elsewhere. Other jobs of the group are not affected.
    Conflict(Seq),
    /// SQLite failed.
    Sql(rusqlite::Error),
    /// A record cannot be encoded or decoded.
    Damaged(String),
}

impl From<rusqlite::Error> for SqliteFault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl SqliteFault {
    /// The error of a read.
    pub(crate) fn into_read_error(self) -> StoreError {
        match self {
            Self::Conflict(end) => StoreError::Conflict { end },
            Self::Damaged(detail) => StoreError::Damaged { detail },
            Self::Sql(error) => match SqliteErrorKind::of(&error) {
                SqliteErrorKind::Busy => StoreError::Busy { doing: "reading", source: Box::new(error) },
                _ => StoreError::Damaged { detail: error.to_string() },
            },
        }
    }
}

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SqliteErrorKind {
    /// Another process holds a lock.
    Busy,
    /// The disk is full.
    Full,
    /// The disk failed, and cannot be trusted.
    Disk,
    /// The content of the file is damaged.
    Corrupt,
    /// The file cannot be written.
    ReadOnly,
    /// Any other failure.
    Other,
}

impl SqliteErrorKind {
    /// Classifies an error by its code.
    pub(crate) fn of(error: &rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::SystemIoFailure) => Self::Disk,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Corrupt,
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Self::ReadOnly,
            _ => Self::Other,
        }
    }
}

/// Why a whole group of jobs failed.
#[derive(Debug, Clone)]
pub(crate) struct GroupFault {
    pub(crate) kind: SqliteErrorKind,
    /// Whether the commit itself failed.
    pub(crate) at_commit: bool,
    pub(crate) message: String,
}

impl GroupFault {
    pub(crate) fn new(error: &rusqlite::Error, at_commit: bool) -> Self {
        Self { kind: SqliteErrorKind::of(error), at_commit, message: error.to_string() }
    }

    /// Whether this process must refuse all further writes.
    pub(crate) fn poisons(&self) -> bool {
        matches!(self.kind, SqliteErrorKind::Disk | SqliteErrorKind::Corrupt)
    }

    /// The error of one job of the group.
    pub(crate) fn to_error(&self) -> StoreError {
        let doing = "committing";
        let source = || self.message.clone().into();
        match self.kind {
            SqliteErrorKind::Busy => StoreError::Busy { doing, source: source() },
            SqliteErrorKind::Full => StoreError::Full { doing, source: source() },
            SqliteErrorKind::Disk => StoreError::Unknown { doing, source: source() },
            _ if self.at_commit => StoreError::Unknown { doing, source: source() },
            SqliteErrorKind::ReadOnly => refused(
                "GS0205",
                format!("cannot write to the database: {}", self.message),
                "check the file's permissions and how its file system is mounted",
            ),
            SqliteErrorKind::Corrupt | SqliteErrorKind::Other => {
                StoreError::Damaged { detail: self.message.clone() }
            }
        }
    }
}

/// The error of every write after the disk or the writer failed.
pub(crate) fn poisoned(message: &str) -> StoreError {
    StoreError::Damaged {
        detail: format!("an earlier write failed ({message}); writes are refused until a restart"),
    }
}

/// A refusal with its code.
pub(crate) fn refused(code: &'static str, what: String, hint: impl Into<Hint>) -> StoreError {
    StoreError::Refused { code, what, hint: hint.into() }
}
