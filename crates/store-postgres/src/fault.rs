//! What Postgres says, as what the caller must do next. Decided by SQLSTATE, never by text.
//!
//! Invariant: `Busy` and `Full` mean that certainly nothing was done; whatever may have been done is `Unknown`.

use std::error::Error as _;

use goldseam_store::StoreError;
use tokio_postgres::error::{DbError, Severity, SqlState};

/// Why a call could not be done.
#[derive(Debug)]
pub(crate) enum Fault {
    /// No connection could be had, so nothing was sent.
    Unreachable(Failure),
    /// The statement was sent and no answer came.
    Lost(String),
    /// The server said no; the statement had no effect.
    Said(Failure),
    /// Stored text cannot be understood.
    Damaged(String),
}

/// What the server said, or why it could not be reached.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) nature: Nature,
    pub(crate) words: String,
}

/// What sort of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nature {
    /// It passes: a deadlock, a server that starts.
    Passing,
    /// Somebody held what it needs for as long as it may wait.
    Held,
    /// No connection is left, for anybody or for this user.
    Crowded,
    /// The server may only be read: a standby, or on its way to be one.
    ReadOnly,
    /// No room.
    Full,
    /// The name or the password is wrong, or this user may not come in.
    Login,
    /// There is no such database.
    NoDatabase,
    /// This user may not do that.
    Rights,
    /// The session is not the one that it was: something shares sessions.
    Shared,
    /// The tables or the calls are not there.
    NoSchema,
    /// The certificate does not prove whose server it is.
    Certificate,
    /// Anything else.
    Other,
}

impl Nature {
    /// By the code alone.
    fn of(state: &SqlState) -> Self {
        let passing = [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::QUERY_CANCELED,
            SqlState::CANNOT_CONNECT_NOW,
            SqlState::OUT_OF_MEMORY,
            SqlState::INSUFFICIENT_RESOURCES,
            SqlState::CONFIGURATION_LIMIT_EXCEEDED,
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
        ];
        if passing.contains(state) || state.code().starts_with("08") {
            return Self::Passing;
        }
        match state {
            state if *state == SqlState::LOCK_NOT_AVAILABLE => Self::Held,
            state if *state == SqlState::TOO_MANY_CONNECTIONS => Self::Crowded,
            state if *state == SqlState::READ_ONLY_SQL_TRANSACTION => Self::ReadOnly,
            state if *state == SqlState::DISK_FULL => Self::Full,
            state if state.code().starts_with("28") => Self::Login,
            state if *state == SqlState::INVALID_CATALOG_NAME => Self::NoDatabase,
            state if *state == SqlState::INSUFFICIENT_PRIVILEGE => Self::Rights,
            state if *state == SqlState::INVALID_SQL_STATEMENT_NAME => Self::Shared,
            state if *state == SqlState::DUPLICATE_PSTATEMENT => Self::Shared,
            state
                if [
                    SqlState::UNDEFINED_FUNCTION,
                    SqlState::UNDEFINED_TABLE,
                    SqlState::INVALID_SCHEMA_NAME,
                ]
                .contains(state) =>
            {
                Self::NoSchema
            }
            _ => Self::Other,
        }
    }
}

/// The words of an error and of its causes.
pub(crate) fn words(error: &tokio_postgres::Error) -> String {
    let mut words = match error.as_db_error() {
        Some(said) => return format!("{} ({})", said.message(), said.code().code()),
        None => error.to_string(),
    };
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        cause = inner.source();
    }
    words
}

impl Fault {
    /// No connection could be made; `pooled` if a pooler is known to stand in between.
    pub(crate) fn connecting(error: &tokio_postgres::Error, pooled: bool) -> Self {
        let nature = match error.as_db_error() {
            // Postgres itself understands how we begin.
            Some(said) if *said.code() == SqlState::PROTOCOL_VIOLATION && !pooled => Nature::Shared,
            Some(said) => Nature::of(said.code()),
            None if is_about_certificates(error) => Nature::Certificate,
            // A wrong password that the driver itself found out is a mistake of the URL.
            None if words(error).contains("password") => Nature::Login,
            None => Nature::Passing,
        };
        Self::Unreachable(Failure { nature, words: words(error) })
    }

    /// A statement that was sent failed.
    pub(crate) fn answering(error: &tokio_postgres::Error) -> Self {
        let words = words(error);
        match error.as_db_error() {
            // An error ends the statement's transaction; what ends the session may come after its commit. So may
            // what a pooler says of a connection that it lost, even though it calls that an error.
            Some(said) if !is_fatal(said) && !said.code().code().starts_with("08") => {
                Self::Said(Failure { nature: Nature::of(said.code()), words })
            }
            Some(_) => Self::Lost(words),
            None if error.is_closed() || error.source().is_some_and(|cause| cause.is::<std::io::Error>()) => {
                Self::Lost(words)
            }
            None => Self::Said(Failure { nature: Nature::Other, words }),
        }
    }

    /// A record that cannot be read.
    pub(crate) fn unreadable(what: &str, error: &dyn std::fmt::Display) -> Self {
        Self::Damaged(format!("cannot decode {what}: {error}"))
    }

    /// Whether certainly nothing was done and the same call may do better in a moment. What has waited in vain is
    /// the caller's to repeat: others wait with it.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable(failure) | Self::Said(failure) => {
                matches!(failure.nature, Nature::Passing | Nature::Crowded | Nature::ReadOnly)
            }
            Self::Lost(_) | Self::Damaged(_) => false,
        }
    }

    /// Whether there is no connection left.
    pub(crate) fn is_crowded(&self) -> bool {
        matches!(self, Self::Unreachable(failure) if failure.nature == Nature::Crowded)
    }

    /// Whether its connection is of no more use.
    pub(crate) fn ends_session(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Lost(_) => true,
            Self::Said(failure) => failure.nature == Nature::ReadOnly,
            Self::Damaged(_) => false,
        }
    }

    /// The caller's view of a fault.
    pub(crate) fn to_error(&self, doing: &'static str) -> StoreError {
        match self {
            Self::Lost(words) => StoreError::Unknown { doing, source: words.clone().into() },
            Self::Damaged(detail) => StoreError::Damaged { detail: detail.clone() },
            Self::Unreachable(failure) | Self::Said(failure) => failure.to_error(doing),
        }
    }

    /// The same for a read, which can always be repeated.
    pub(crate) fn to_read_error(&self) -> StoreError {
        match self.to_error("reading") {
            StoreError::Unknown { doing, source } => StoreError::Busy { doing, source },
            error => error,
        }
    }
}

impl Failure {
    fn to_error(&self, doing: &'static str) -> StoreError {
        let words = &self.words;
        let source = || words.clone().into();
        let (code, what, hint) = match self.nature {
            Nature::Passing | Nature::Held | Nature::Crowded => {
                return StoreError::Busy { doing, source: source() };
            }
            Nature::ReadOnly => {
                let source = format!("{words}; is this a standby, or is a failover in progress?").into();
                return StoreError::Busy { doing, source };
            }
            Nature::Full => return StoreError::Full { doing, source: source() },
            Nature::Other => return StoreError::Damaged { detail: words.clone() },
            Nature::Login => (
                "GS0213",
                "Postgres rejects this login",
                "check user and password in the URL, and the server's pg_hba.conf",
            ),
            Nature::NoDatabase => (
                "GS0213",
                "the database does not exist",
                "create it (createdb NAME), or name another one in the URL",
            ),
            Nature::Certificate => (
                "GS0213",
                "cannot verify the server's certificate",
                "pass its issuer's certificate with sslrootcert=FILE; on a network that you trust, use sslmode=disable",
            ),
            Nature::Rights => (
                "GS0214",
                "this user lacks a privilege in the database",
                "grant the privileges that docs/guides/from-one-machine-to-many.md lists, or use another user",
            ),
            Nature::Shared => (
                "GS0215",
                "a pooler between this process and Postgres shares sessions",
                "add pooler=transaction to the URL, and direct=HOST:PORT to detect dead nodes at once",
            ),
            Nature::NoSchema => (
                "GS0205",
                "tables or functions of the store are missing",
                "the schema may have been dropped: restore it from a backup, or run goldseam store migrate",
            ),
        };
        StoreError::Refused { code, what: format!("{what}: {words}"), hint: hint.to_owned() }
    }
}

/// Whether it ends the session. Poolers do not say so apart from the words, which the server may translate.
fn is_fatal(said: &DbError) -> bool {
    match said.parsed_severity() {
        Some(severity) => matches!(severity, Severity::Fatal | Severity::Panic),
        None => matches!(said.severity(), "FATAL" | "PANIC"),
    }
}

fn is_about_certificates(error: &tokio_postgres::Error) -> bool {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if inner.is::<rustls::Error>() {
            return true;
        }
        let io = inner.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if io.is_some_and(|inner| inner.is::<rustls::Error>()) {
            return true;
        }
        cause = inner.source();
    }
    false
}
