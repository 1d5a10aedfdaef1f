//! Errors as a person sees them: what, what to do, where to read on; and the exit codes.

use std::process::ExitCode;

use goldseam::core::decide::Refusal;
use goldseam::core::lock::LockRefusal;
use goldseam::core::task::TaskRefusal;
use goldseam::core::{IdError, PayloadError};
use goldseam::store::StoreError;
use goldseam::{EngineError, RunId};
use serde::Serialize;

use crate::when;

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
    /// Ctrl-C.
    Interrupted = 130,
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
    pub(crate) code: Option<&'static str>,
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

fn exit_of(error: &EngineError) -> Exit {
    match error {
        EngineError::Id(_) | EngineError::Payload(_) => Exit::Usage,
        EngineError::NoSuchTask(_) => Exit::NotFound,
        EngineError::Refused { refusal, .. } => match refusal {
            Refusal::NoSuchRun | Refusal::NoSuchStep { .. } | Refusal::NoSuchQuestion { .. } => {
                Exit::NotFound
            }
            Refusal::InvalidAnswer { .. } | Refusal::InvalidForm { .. } => Exit::Error,
            _ => Exit::Conflict,
        },
        EngineError::Task(_) | EngineError::Lock(_) | EngineError::Copy(_) => Exit::Conflict,
        EngineError::Ended { .. } => Exit::Ended,
        EngineError::Patience { .. } => Exit::Unreachable,
        EngineError::Store(store) => match store {
            StoreError::Refused { code: "GS0206", .. } => Exit::Usage,
            StoreError::Refused { .. } | StoreError::Busy { .. } => Exit::Unreachable,
            _ => Exit::Error,
        },
        _ => Exit::Error,
    }
}

/// What to do about errors that only a command line can name the command for.
fn hint(error: &EngineError) -> Option<String> {
    Some(match error {
        EngineError::Lock(LockRefusal::Held { name, .. }) => {
            format!("wait until it expires or is released: goldseam lock get {name}")
        }
        EngineError::Lock(LockRefusal::Lost { name, .. }) => {
            format!("stop the work that it guards, then acquire it anew: goldseam lock acquire {name}")
        }
        EngineError::Task(TaskRefusal::Fenced { task, .. } | TaskRefusal::Over { task, .. }) => {
            format!("drop the work; goldseam queue get {task} tells who has it")
        }
        EngineError::NoSuchTask(_) => "goldseam queue ls lists the tasks of this store".to_owned(),
        EngineError::Refused { run, .. } => format!("goldseam show {run} tells how it stands"),
        EngineError::Ended { run, .. } => format!("goldseam show {run}; goldseam retry {run} tries again"),
        EngineError::Store(StoreError::Busy { .. }) | EngineError::Patience { .. } => {
            "another process holds the store; try again".to_owned()
        }
        _ => return None,
    })
}

impl From<EngineError> for Fail {
    fn from(error: EngineError) -> Self {
        let message = match &error {
            EngineError::Lock(LockRefusal::Held { name, holder, expires_at }) => {
                format!("lock {name} is held by {holder} until {}", when::iso(*expires_at))
            }
            _ => error.to_string(),
        };
        let help = error.hint().or_else(|| hint(&error));
        Self { code: Some(error.code()), message, help, exit: exit_of(&error) }
    }
}

impl From<IdError> for Fail {
    fn from(error: IdError) -> Self {
        EngineError::from(error).into()
    }
}

impl From<PayloadError> for Fail {
    fn from(error: PayloadError) -> Self {
        EngineError::from(error).into()
    }
}

impl From<StoreError> for Fail {
    fn from(error: StoreError) -> Self {
        EngineError::from(error).into()
    }
}
