//! Errors of commands: message, help, code; and the exit codes.

use std::process::ExitCode;

use goldseam::unstable::core::{IdError, PayloadError};
use goldseam::unstable::store::StoreError;
use goldseam::{EngineError, RunId};
use goldseam_api::Problem;
use goldseam_api::next_step::NextStepDoc;
use serde::Serialize;

/// The exit codes. `goldseam exit-codes` documents them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Ok = 0,
    Error = 1,
    Usage = 2,
    NotFound = 3,
    NotAuthorised = 4,
    /// The run that the command waited for failed or was cancelled.
    Ended = 5,
    Conflict = 6,
    Unreachable = 7,
    TimedOut = 8,
    /// The run needs an operator, and nothing was healed.
    NeedsHelp = 9,
    /// The log is damaged; the readable part was shown.
    Damaged = 10,
    Unchanged = 11,
    /// A preflight found a run that would park or fail.
    WouldPark = 20,
    /// A preflight could not try every run.
    Untried = 21,
    Interrupted = 130,
    Terminated = 143,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error of a command.
#[derive(Debug, Serialize)]
pub(crate) struct CliError {
    /// The code, if the error has a page.
    pub(crate) code: Option<String>,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
    /// What a program can do next.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) next: Vec<NextStepDoc>,
    #[serde(skip)]
    pub(crate) exit: Exit,
}

impl CliError {
    /// Creates an error without code and help.
    pub(crate) fn plain(message: impl Into<String>) -> Self {
        Self { code: None, message: message.into(), help: None, next: Vec::new(), exit: Exit::Error }
    }

    /// Creates an error for invalid arguments.
    pub(crate) fn usage(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            code: None,
            message: message.into(),
            help: Some(help.into()),
            next: Vec::new(),
            exit: Exit::Usage,
        }
    }

    /// Creates an error for something that does not exist.
    pub(crate) fn not_found(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            code: None,
            message: message.into(),
            help: Some(help.into()),
            next: Vec::new(),
            exit: Exit::NotFound,
        }
    }

    /// Creates an error for a wait that timed out.
    pub(crate) fn timed_out(run: &RunId, after: &str) -> Self {
        Self {
            code: None,
            message: format!("run {run} did not end within {after}; it is still active"),
            help: Some(format!("goldseam watch {run} follows it")),
            next: Vec::new(),
            exit: Exit::TimedOut,
        }
    }
}

/// The exit code of a problem, from its error code or its HTTP status.
fn exit_of(problem: &Problem) -> Exit {
    match (problem.status, problem.code.as_deref()) {
        (_, Some("GS0117")) => Exit::Ended,
        (_, Some("GS0135")) => Exit::NeedsHelp,
        (_, Some("GS0118" | "GS0125")) => Exit::Error,
        (_, Some("GS0124")) => Exit::WouldPark,
        (_, Some("GS0109")) => Exit::Conflict,
        (_, Some("GS0224" | "GS0225")) => Exit::Damaged,
        (400 | 413 | 431, _) => Exit::Usage,
        (401 | 403, _) => Exit::NotAuthorised,
        (404, _) => Exit::NotFound,
        (409 | 410, _) => Exit::Conflict,
        (408 | 429 | 502..=504, _) => Exit::Unreachable,
        _ => Exit::Error,
    }
}

impl From<Problem> for CliError {
    fn from(problem: Problem) -> Self {
        let exit = exit_of(&problem);
        let help = match problem.status {
            401 => Some("set GOLDSEAM_KEY, or pass the file with the key as --key-file".to_owned()),
            _ => problem.hint.map(Into::into),
        };
        let next = problem.next.map(|next| *next).unwrap_or_default();
        Self { code: problem.code.map(Into::into), message: problem.detail, help, next, exit }
    }
}

impl From<EngineError> for CliError {
    fn from(error: EngineError) -> Self {
        Problem::from(error).into()
    }
}

impl From<IdError> for CliError {
    fn from(error: IdError) -> Self {
        Problem::from(error).into()
    }
}

impl From<PayloadError> for CliError {
    fn from(error: PayloadError) -> Self {
        Problem::from(error).into()
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        Problem::from(error).into()
    }
}
