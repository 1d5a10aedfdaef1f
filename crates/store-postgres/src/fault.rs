//! Maps errors of Postgres to errors named by what the caller must do next. Decided by SQLSTATE, never by message.
//!
//! Invariant: `Busy` and `Full` mean that certainly nothing was done. If something may have been done, the error is
//! `Unknown`.

use std::error::Error as _;

use goldseam_core::{Hint, NextStep};
use goldseam_store::StoreError;
use tokio_postgres::error::{DbError, Severity, SqlState};

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum PgFault {
    /// There was no connection, so nothing was sent.
    Unreachable(PgFailure),
    /// The statement was sent, but no response came.
    Lost(String),
    /// The server refused the statement, which had no effect.
    Refused(PgFailure),
    /// A record cannot be decoded.
    Damaged(String),
}

/// The error of the server, or of the connection.
#[derive(Debug, Clone)]
pub(crate) struct PgFailure {
    pub(crate) kind: PgFailureKind,
    pub(crate) message: String,
}

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PgFailureKind {
    /// Transient: a deadlock, a server that starts.
    Passing,
    /// Another transaction held a lock for longer than the lock timeout.
    Held,
    /// No connection is left, for all users or for this one.
    Crowded,
    /// The server is read-only: a standby, or about to become one.
    ReadOnly,
    /// The disk is full.
    Full,
    /// User or password is wrong, or this user may not log in.
    Login,
    /// The database does not exist.
    NoDatabase,
    /// This user lacks a privilege.
    Rights,
    /// The session changed: a pooler shares sessions.
    Shared,
    /// Tables or functions are missing.
    NoSchema,
    /// The certificate cannot be verified.
    Certificate,
    /// Any other failure.
    Other,
}

impl PgFailureKind {
    /// Classifies an error by its code.
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

/// The message of an error and of its causes.
pub(crate) fn message(error: &tokio_postgres::Error) -> String {
    let mut message = match error.as_db_error() {
        Some(db_error) => return format!("{} ({})", db_error.message(), db_error.code().code()),
        None => error.to_string(),
    };
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !message.contains(&more) {
            message = format!("{message}: {more}");
        }
        cause = inner.source();
    }
    message
}

impl PgFault {
    /// The fault of a failed connection attempt. `pooled` says whether the URL names a pooler.
    pub(crate) fn connecting(error: &tokio_postgres::Error, pooled: bool) -> Self {
        let kind = match error.as_db_error() {
            // Postgres itself accepts our startup message.
            Some(db_error) if *db_error.code() == SqlState::PROTOCOL_VIOLATION && !pooled => {
                PgFailureKind::Shared
            }
            Some(db_error) => PgFailureKind::of(db_error.code()),
            None if is_about_certificates(error) => PgFailureKind::Certificate,
            // The driver found that the URL lacks a password.
            None if message(error).contains("password") => PgFailureKind::Login,
            None => PgFailureKind::Passing,
        };
        Self::Unreachable(PgFailure { kind, message: message(error) })
    }

    /// The fault of a statement that was sent.
    pub(crate) fn answering(error: &tokio_postgres::Error) -> Self {
        let message = message(error);
        match error.as_db_error() {
            // An error rolls back the transaction of the statement. A fatal error may come after the commit, and so may
            // the error of a pooler that lost its connection.
            Some(db_error) if !is_fatal(db_error) && !db_error.code().code().starts_with("08") => {
                Self::Refused(PgFailure { kind: PgFailureKind::of(db_error.code()), message })
            }
            Some(_) => Self::Lost(message),
            None if error.is_closed() || error.source().is_some_and(|cause| cause.is::<std::io::Error>()) => {
                Self::Lost(message)
            }
            None => Self::Refused(PgFailure { kind: PgFailureKind::Other, message }),
        }
    }

    /// The fault of a record that cannot be decoded.
    pub(crate) fn unreadable(what: &str, error: &dyn std::fmt::Display) -> Self {
        Self::Damaged(format!("cannot decode {what}: {error}"))
    }

    /// Whether nothing was done and the same call may succeed soon. After a lock timeout the caller retries, because
    /// other callers wait for the connection.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable(failure) | Self::Refused(failure) => {
                matches!(
                    failure.kind,
                    PgFailureKind::Passing | PgFailureKind::Crowded | PgFailureKind::ReadOnly
                )
            }
            Self::Lost(_) | Self::Damaged(_) => false,
        }
    }

    /// Whether no connection is left.
    pub(crate) fn is_crowded(&self) -> bool {
        matches!(self, Self::Unreachable(failure) if failure.kind == PgFailureKind::Crowded)
    }

    /// Whether the connection is unusable after it.
    pub(crate) fn ends_session(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Lost(_) => true,
            Self::Refused(failure) => failure.kind == PgFailureKind::ReadOnly,
            Self::Damaged(_) => false,
        }
    }

    /// The error for the caller.
    pub(crate) fn to_error(&self, doing: &'static str) -> StoreError {
        match self {
            Self::Lost(message) => StoreError::Unknown { doing, source: message.clone().into() },
            Self::Damaged(detail) => StoreError::Damaged { detail: detail.clone() },
            Self::Unreachable(failure) | Self::Refused(failure) => failure.to_error(doing),
        }
    }

    /// The error of a read, which can always be repeated.
    pub(crate) fn to_read_error(&self) -> StoreError {
        match self.to_error("reading") {
            StoreError::Unknown { doing, source } => StoreError::Busy { doing, source },
            error => error,
        }
    }
}

impl PgFailure {
    fn to_error(&self, doing: &'static str) -> StoreError {
        let message = &self.message;
        let source = || message.clone().into();
        let (code, what, hint) = match self.kind {
            PgFailureKind::Passing | PgFailureKind::Held | PgFailureKind::Crowded => {
                return StoreError::Busy { doing, source: source() };
            }
            PgFailureKind::ReadOnly => {
                let source = format!("{message}; is this a standby, or is a failover in progress?").into();
                return StoreError::Busy { doing, source };
            }
            PgFailureKind::Full => return StoreError::Full { doing, source: source() },
            PgFailureKind::Other => return StoreError::Damaged { detail: message.clone() },
            PgFailureKind::Login => (
                "GS0213",
                "Postgres rejects this login",
                "check user and password in the URL, and the server's pg_hba.conf",
            ),
            PgFailureKind::NoDatabase => (
                "GS0213",
                "the database does not exist",
                "create it (createdb NAME), or name another one in the URL",
            ),
            PgFailureKind::Certificate => (
                "GS0213",
                "cannot verify the server's certificate",
                "pass its issuer's certificate with sslrootcert=FILE; on a network that you trust, use sslmode=disable",
            ),
            PgFailureKind::Rights => (
                "GS0214",
                "this user lacks a privilege in the database",
                "grant the privileges that docs/guides/from-one-machine-to-many.md lists, or use another user",
            ),
            PgFailureKind::Shared => (
                "GS0215",
                "a pooler between this process and Postgres shares sessions",
                "add pooler=transaction to the URL, and direct=HOST:PORT to detect dead nodes at once",
            ),
            PgFailureKind::NoSchema => {
                let hint = Hint::from("the schema may have been dropped: restore it from a backup, or run ")
                    .step(NextStep::StoreMigrate { store: None });
                return refused(
                    "GS0205",
                    format!("tables or functions of the store are missing: {message}"),
                    hint,
                );
            }
        };
        refused(code, format!("{what}: {message}"), hint)
    }
}

/// Whether it ends the session. Poolers send only the severity that a server may translate.
fn is_fatal(db_error: &DbError) -> bool {
    match db_error.parsed_severity() {
        Some(severity) => matches!(severity, Severity::Fatal | Severity::Panic),
        None => matches!(db_error.severity(), "FATAL" | "PANIC"),
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

/// A refusal with its code.
pub(crate) fn refused(code: &'static str, what: String, hint: impl Into<Hint>) -> StoreError {
    StoreError::Refused { code, what, hint: hint.into() }
}
