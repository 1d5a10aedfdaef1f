//! What SQLite says, as what the caller must do next. Decided by error code, never by text.
//!
//! Invariant: `Busy` and `Full` mean that certainly nothing was done; whatever may have been done
//! is `Unknown`.

use goldseam_core::Seq;
use goldseam_store::StoreError;
use rusqlite::ErrorCode;

/// Why a job could not be done.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The log ends elsewhere. An answer, not a failure: its neighbours go on.
    Conflict(Seq),
    /// SQLite failed.
    Sql(rusqlite::Error),
    /// Stored text cannot be understood.
    Damaged(String),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl Fault {
    /// A record that cannot be read.
    pub(crate) fn unreadable(what: &str, error: &dyn std::fmt::Display) -> Self {
        Self::Damaged(format!("cannot decode {what}: {error}"))
    }

    /// The caller's view of a fault of a read.
    pub(crate) fn into_read_error(self) -> StoreError {
        match self {
            Self::Conflict(end) => StoreError::Conflict { end },
            Self::Damaged(detail) => StoreError::Damaged { detail },
            Self::Sql(error) => match Nature::of(&error) {
                Nature::Busy => StoreError::Busy { doing: "reading", source: Box::new(error) },
                _ => StoreError::Damaged { detail: error.to_string() },
            },
        }
    }
}

/// What sort of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nature {
    /// Another process is in the way.
    Busy,
    /// No room.
    Full,
    /// The disk cannot be trusted any more.
    Disk,
    /// The file's content cannot be trusted.
    Corrupt,
    /// The file may not be written.
    ReadOnly,
    /// Anything else.
    Other,
}

impl Nature {
    /// By the code alone.
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

/// Why a whole group of jobs was not done; every job in it gets its own copy.
#[derive(Debug, Clone)]
pub(crate) struct GroupFault {
    pub(crate) nature: Nature,
    /// Whether it happened at the commit itself.
    pub(crate) at_commit: bool,
    pub(crate) message: String,
}

impl GroupFault {
    pub(crate) fn new(error: &rusqlite::Error, at_commit: bool) -> Self {
        Self { nature: Nature::of(error), at_commit, message: error.to_string() }
    }

    /// Whether the store must not be written to any more by this process.
    pub(crate) fn poisons(&self) -> bool {
        matches!(self.nature, Nature::Disk | Nature::Corrupt)
    }

    /// What one job of the group is told.
    pub(crate) fn to_error(&self) -> StoreError {
        let doing = "committing";
        let source = || self.message.clone().into();
        match self.nature {
            Nature::Busy => StoreError::Busy { doing, source: source() },
            Nature::Full => StoreError::Full { doing, source: source() },
            Nature::Disk => StoreError::Unknown { doing, source: source() },
            _ if self.at_commit => StoreError::Unknown { doing, source: source() },
            Nature::ReadOnly => StoreError::Refused {
                code: "GS0205",
                what: format!("cannot write to the database: {}", self.message),
                hint: "check the file's permissions and how its file system is mounted".to_owned(),
            },
            Nature::Corrupt | Nature::Other => StoreError::Damaged { detail: self.message.clone() },
        }
    }
}

/// The error of every write after the disk or the writer failed.
pub(crate) fn poisoned(message: &str) -> StoreError {
    StoreError::Damaged {
        detail: format!("an earlier write failed ({message}); writes are refused until a restart"),
    }
}
