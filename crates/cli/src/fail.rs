//! Errors as a person sees them: what, what to do, where to read on; and the exit codes.

use std::process::ExitCode;

use goldseam::core::{IdError, PayloadError};
use goldseam::store::StoreError;
use goldseam::{EngineError, RunId};
use goldseam_api::Problem;
use serde::Serialize;

/// How the program ends. Documented in `goldseam exit-codes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done; an empty list is done too.
    Ok = 0,
    /// It did not work.
    Error = 1,
    /// It was asked for in a way that makes no sense.
    Usage = 2,
    /// There is no such run, step, question, task or page.
    NotFound = 3,
    /// Somebody else may do that.
    NotAuthorised = 4,
    /// The run that was waited for failed or was cancelled.
    Ended = 5,
    /// Somebody was faster, or it is over.
    Conflict = 6,
    /// The store cannot be reached or used.
    Unreachable = 7,
    /// The wait timed out; the run goes on.
    TimedOut = 8,
    /// The run needs a person, and nothing was healed.
    NeedsHelp = 9,
    /// The log of the run is damaged; what can be read of it was shown.
    Damaged = 10,
    /// Nothing was wrong or a worker was faster, so nothing was changed.
    Unchanged = 11,
    /// A preflight found a run that would park or fail.
    WouldPark = 20,
    /// A preflight could not try every run.
    Untried = 21,
    /// Ctrl-C.
    Interrupted = 130,
    /// It was asked to end (SIGTERM).
    Terminated = 143,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error with everything that is shown of it.
#[derive(Debug, Serialize)]
pub(crate) struct Fail {
    /// With a page; none for what needs no page.
    pub(crate) code: Option<String>,
    /// What happened.
    pub(crate) message: String,
    /// What to do.
    pub(crate) help: Option<String>,
    /// How the program ends.
    #[serde(skip)]
    pub(crate) exit: Exit,
}

impl Fail {
    /// An error without a code.
    pub(crate) fn plain(message: impl Into<String>) -> Self {
        Self { code: None, message: message.into(), help: None, exit: Exit::Error }
    }

    /// An argument that makes no sense.
    pub(crate) fn usage(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { code: None, message: message.into(), help: Some(help.into()), exit: Exit::Usage }
    }

    /// Something that is not there.
    pub(crate) fn not_found(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { code: None, message: message.into(), help: Some(help.into()), exit: Exit::NotFound }
    }

    /// The wait for a run was given up.
    pub(crate) fn timed_out(run: &RunId, after: &str) -> Self {
        Self {
            code: None,
            message: format!("run {run} did not end within {after}; it goes on"),
            help: Some(format!("goldseam watch {run} follows it")),
            exit: Exit::TimedOut,
        }
    }
}

/// How the program ends for a problem: by its status, and where that is not enough by its code.
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

impl From<Problem> for Fail {
    fn from(problem: Problem) -> Self {
        let exit = exit_of(&problem);
        let help = match problem.status {
            401 => Some("set GOLDSEAM_KEY, or name the file that holds the key with --key-file".to_owned()),
            _ => problem.hint,
        };
        Self { code: problem.code.map(Into::into), message: problem.detail, help, exit }
    }
}

impl From<EngineError> for Fail {
    fn from(error: EngineError) -> Self {
        Problem::from(error).into()
    }
}

impl From<IdError> for Fail {
    fn from(error: IdError) -> Self {
        Problem::from(error).into()
    }
}

impl From<PayloadError> for Fail {
    fn from(error: PayloadError) -> Self {
        Problem::from(error).into()
    }
}

impl From<StoreError> for Fail {
    fn from(error: StoreError) -> Self {
        Problem::from(error).into()
    }
}
