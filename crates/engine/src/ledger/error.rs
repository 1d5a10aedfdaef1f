//! Two kinds of error: what a workflow's author sees, and what a caller of the engine sees.

use std::any::Any;
use std::fmt;

use goldseam_core::decide::Refusal;
use goldseam_core::lock::LockRefusal;
use goldseam_core::recovery::Code;
use goldseam_core::task::TaskRefusal;
use goldseam_core::{
    ArgumentError, Class, Corrupt, Failure, IdError, Path, PayloadError, RunId, TaskId, WorkflowName,
};
use goldseam_store::StoreError;

use crate::ledger::refusal::{CopyRefusal, RemoteRefusal};
use crate::ledger::secrets::SecretError;

/// The result of a workflow function or of a step.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a workflow or a step failed, as its author sees it.
///
/// Any error type converts into it with `?`; it counts as *unknown*, which is retried like
/// *retryable*. Use [`Error::terminal`] where no further attempt can help.
pub struct Error {
    failure: Failure,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Plain,
    Cancelled,
    Continue,
}

impl Error {
    /// No further attempt will help.
    pub fn terminal(message: impl Into<String>) -> Self {
        Failure::terminal(message).into()
    }

    /// Another attempt may help.
    pub fn retryable(message: impl Into<String>) -> Self {
        Failure::retryable(message).into()
    }

    /// What stands in the log for it.
    pub fn failure(&self) -> &Failure {
        &self.failure
    }

    /// Whether the run is being cancelled. Pass it on; compensations will run.
    pub fn is_cancelled(&self) -> bool {
        self.kind == Kind::Cancelled
    }

    /// Whether a wait or an attempt ran out of time.
    pub fn is_timeout(&self) -> bool {
        matches!(self.failure.code.as_deref(), Some("timeout" | "heartbeat-timeout"))
    }

    /// The short stable word for machines, if there is one.
    pub fn code(&self) -> Option<&str> {
        self.failure.code.as_deref()
    }

    pub(crate) fn cancelled() -> Self {
        let failure = Failure::terminal("the run is being cancelled").with_code("cancelled");
        Self { failure, kind: Kind::Cancelled }
    }

    pub(crate) fn timeout(path: &Path) -> Self {
        Failure::terminal(format!("nothing came for {path} in time")).with_code("timeout").into()
    }

    pub(crate) fn of_step(path: &Path, failure: Failure) -> Self {
        let message = format!("step {path} failed: {}", failure.message);
        let kind = if failure.code.as_deref() == Some("cancelled") { Kind::Cancelled } else { Kind::Plain };
        Self { failure: Failure { message, ..failure }, kind }
    }

    pub(crate) fn continue_as_new() -> Self {
        let failure = Failure::terminal("the run continues as new").with_code("continue");
        Self { failure, kind: Kind::Continue }
    }

    pub(crate) fn is_continue(&self) -> bool {
        self.kind == Kind::Continue
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        let any: &dyn Any = &error;
        if let Some(failure) = any.downcast_ref::<Failure>() {
            return Self { failure: failure.clone(), kind: Kind::Plain };
        }
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(": ");
            message.push_str(&cause.to_string());
            source = cause.source();
        }
        Self { failure: Failure::new(Class::Unknown, message), kind: Kind::Plain }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.failure, f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error").field("failure", &self.failure).field("kind", &self.kind).finish()
    }
}

/// Why the engine or the store said no, as a caller sees it. Each has a code with a page.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A name breaks the rules for names.
    #[error(transparent)]
    Id(#[from] IdError),
    /// A text is empty or has control characters, or a number is 0.
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    /// A value is too large, too deep or no JSON.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// The run does not allow it now.
    #[error("run {run}: {refusal}")]
    Refused {
        /// The run.
        run: RunId,
        /// Why.
        refusal: Refusal,
    },
    /// This engine does not have the workflow.
    #[error("no workflow {name} is registered here; there {}", known_list(.known))]
    UnknownWorkflow {
        /// The name that was asked for.
        name: String,
        /// The names that are registered.
        known: Vec<String>,
    },
    /// Versions begin with 1.
    #[error("workflow {workflow} cannot have version 0: versions begin with 1")]
    NoSuchVersion {
        /// The workflow.
        workflow: WorkflowName,
    },
    /// A secret is not there, or cannot be hidden.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// What an engine was told cannot work.
    #[error("this configuration cannot work: {0}")]
    Config(String),
    /// The run's log cannot be understood.
    #[error("run {run}: {corrupt}")]
    Corrupt {
        /// The run.
        run: RunId,
        /// What was found.
        corrupt: Corrupt,
    },
    /// The task is not the caller's any more.
    #[error(transparent)]
    Task(#[from] TaskRefusal),
    /// Another task moves the run now; this one is over.
    #[error("task {task} is superseded: another one moves its run now")]
    Superseded {
        /// The older task.
        task: TaskId,
    },
    /// The rule that was asked for does not apply to the run.
    #[error("run {run}: rule {rule} does not apply: the run is {status}, {}", found_list(.found))]
    RuleDoesNotApply {
        /// The run.
        run: RunId,
        /// The rule that was asked for.
        rule: Code,
        /// The run's status.
        status: goldseam_core::Status,
        /// The rules that do apply.
        found: Vec<Code>,
    },
    /// A rule applies to the run, but its log has no event to go on from.
    #[error("run {run}: no stable event found, so rule {rule} cannot cut its log; the run is parked")]
    NoStableEvent {
        /// The run.
        run: RunId,
        /// The rule.
        rule: Code,
        /// The run's status before.
        before: goldseam_core::Status,
    },
    /// There is no such task.
    #[error("there is no task {0}")]
    NoSuchTask(String),
    /// The lock is somebody else's.
    #[error(transparent)]
    Lock(#[from] LockRefusal),
    /// A store cannot be copied now, or not to there.
    #[error(transparent)]
    Copy(#[from] CopyRefusal),
    /// What a worker in another process wants cannot be.
    #[error(transparent)]
    Remote(#[from] RemoteRefusal),
    /// A run would park or fail on the version that it is to be moved to.
    #[error("run {run} cannot go on with version {to}: it {verdict}: {reason}")]
    WouldPark {
        /// The run.
        run: RunId,
        /// The version.
        to: u32,
        /// `parks`, `fails` or `unknown`.
        verdict: &'static str,
        /// The difference.
        reason: String,
    },
    /// A preflight cannot be made.
    #[error("no preflight: {what}")]
    Preflight {
        /// Why.
        what: String,
    },
    /// The store said no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store did not answer within the patience that was configured.
    #[error("the store did not settle {doing} within {seconds} s")]
    Patience {
        /// What was being done.
        doing: &'static str,
        /// How long it was tried.
        seconds: u64,
    },
    /// The run ended another way than by returning.
    #[error("run {run} ended {status}: {failure}")]
    Ended {
        /// The run.
        run: RunId,
        /// `failed` or `cancelled`.
        status: goldseam_core::Status,
        /// Why.
        failure: Failure,
    },
    /// The value is not of the type that was asked for.
    #[error("{what} is not of the type that was asked for: {source}")]
    NotThatType {
        /// Which value.
        what: &'static str,
        /// What serde says.
        source: serde_json::Error,
    },
}

/// What to do with a second result of one claim.
const OTHER_RESULT: &str = "drop this result: the first one stands; only the same result may be sent again";

fn found_list(found: &[Code]) -> String {
    match found {
        [] => "and nothing is wrong with it".to_owned(),
        found => {
            let codes: Vec<&str> = found.iter().map(|code| code.as_str()).collect();
            format!("and what applies is: {}", codes.join(", "))
        }
    }
}

fn known_list(known: &[String]) -> String {
    if known.is_empty() { "is none at all".to_owned() } else { format!("are: {}", known.join(", ")) }
}

impl EngineError {
    /// The stable code, with a page in `docs/codes` that `goldseam explain` prints.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Id(_) => "GS0101",
            Self::Argument(_) => "GS0138",
            Self::Payload(_) | Self::NotThatType { .. } => "GS0102",
            Self::UnknownWorkflow { .. } => "GS0103",
            Self::Refused { refusal, .. } => refusal.code(),
            Self::Corrupt { corrupt, .. } if corrupt.is_newer => "GS0225",
            Self::Corrupt { .. } => "GS0224",
            Self::Task(TaskRefusal::OtherResult { .. }) => "GS0603",
            Self::Task(_) | Self::Superseded { .. } => "GS0301",
            Self::NoSuchTask(_) => "GS0303",
            Self::Lock(_) => "GS0302",
            Self::Copy(refusal) => refusal.code(),
            Self::Remote(refusal) => refusal.code(),
            Self::Ended { .. } => "GS0117",
            Self::RuleDoesNotApply { .. } => "GS0118",
            Self::NoStableEvent { .. } => "GS0135",
            Self::Config(_) => "GS0120",
            Self::Secret(_) => "GS0121",
            Self::WouldPark { .. } => "GS0124",
            Self::Preflight { .. } => "GS0125",
            Self::NoSuchVersion { .. } => "GS0134",
            Self::Patience { .. } => "GS0209",
            Self::Store(error) => match error {
                StoreError::Refused { code, .. } => code,
                StoreError::Full { .. } => "GS0207",
                StoreError::Damaged { .. } => "GS0208",
                StoreError::Busy { .. } | StoreError::Unknown { .. } | StoreError::Conflict { .. } => {
                    "GS0209"
                }
            },
        }
    }

    /// What to do next, if it is not said in the error itself.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Id(_) => Some("use letters, digits, `.`, `_` and `-`; at most 128 of them".into()),
            Self::Argument(error) => Some(error.flaw.hint().into()),
            Self::Payload(PayloadError::NotJson(_)) => Some("quote texts: '\"like this\"'".into()),
            Self::Payload(PayloadError::HalfCharacter(_)) => {
                Some("send the character itself, or both halves of its surrogate pair".into())
            }
            Self::Payload(PayloadError::HugeNumber(_)) => Some("send the number as a text".into()),
            Self::Payload(PayloadError::TooMany { .. }) => Some("leave some out".into()),
            Self::Payload(_) => Some("keep large data elsewhere and pass a reference".into()),
            Self::Refused { refusal, run } => refusal_hint(refusal, run),
            Self::Store(StoreError::Refused { hint, .. }) => Some(hint.clone()),
            Self::Copy(refusal) => Some(refusal.hint()),
            Self::Remote(RemoteRefusal::NoSuchWorker(_)) => Some("register again, and drop what you have".into()),
            Self::Remote(RemoteRefusal::TooManyWorkers { .. }) => {
                Some("let a worker leave first, or register fewer workers with more slots".into())
            }
            Self::Task(TaskRefusal::OtherResult { .. }) => Some(OTHER_RESULT.into()),
            Self::Remote(RemoteRefusal::IdReused { .. }) => {
                Some("send the same doings again, or give these doings an id of their own".into())
            }
            Self::Remote(RemoteRefusal::Forbidden(_)) => Some("use another name, or a key for that queue".into()),
            Self::Store(StoreError::Full { .. }) => {
                Some("make room, then try again; nothing was written".into())
            }
            Self::Store(StoreError::Unknown { .. }) => {
                Some("look whether it was done before you do it again; the same id is never done twice".into())
            }
            Self::Store(StoreError::Damaged { .. }) => Some(
                "look at the disk and its free room, then start anew; what was acknowledged is there: goldseam store check"
                    .into(),
            ),
            Self::NoStableEvent { run, .. } => Some(format!(
                "look at goldseam history {run}; then resume it to go on from its log, reset it to run it again from its start, or terminate it"
            )),
            Self::Corrupt { run, corrupt } if corrupt.is_newer => {
                Some(format!("use the release that wrote it, or a newer one; goldseam history {run} shows the rest"))
            }
            Self::Corrupt { run, .. } => Some(format!(
                "goldseam history {run} shows what is left (rule K1); restore its log from a backup, or end it as it is: \
                 goldseam terminate {run}"
            )),
            Self::RuleDoesNotApply { run, .. } => Some(format!("goldseam why {run} tells what holds it up")),
            Self::Secret(SecretError::Unhidable { .. }) => Some("use a longer one, drawn at random".into()),
            Self::Secret(_) => Some("set it where this process is started".into()),
            Self::WouldPark { run, to, .. } => {
                Some(format!("change the code, or move it all the same: goldseam migrate {run} --to-version {to} --force"))
            }
            Self::NoSuchVersion { .. } => {
                Some("leave the version out to take the newest one that a live node has".into())
            }
            Self::UnknownWorkflow { .. } => Some("register it with `.workflow(name, function)`".into()),
            _ => None,
        }
    }
}

fn refusal_hint(refusal: &Refusal, run: &RunId) -> Option<String> {
    match refusal {
        Refusal::NoSuchRun => Some("goldseam ls lists the runs of this store".into()),
        Refusal::Finished { .. } => Some(format!("goldseam show {run} tells how it ended")),
        Refusal::Archived { .. } => {
            Some(format!("goldseam show {run} tells how it ended and where its log is"))
        }
        Refusal::NotPrunable { .. } => Some("it stays as it is; prune it once it is over".into()),
        Refusal::NoSuchStep { .. } => Some(format!("goldseam show {run} lists its steps")),
        Refusal::LateResult { .. } => {
            Some(format!("drop the work, and undo it if it must not stand; goldseam show {run} tells why"))
        }
        Refusal::OtherResult { .. } => Some(OTHER_RESULT.into()),
        Refusal::NoSuchQuestion { open, .. } if open.is_empty() => {
            Some("it has no open question at all".into())
        }
        Refusal::NoSuchQuestion { open, .. } => {
            let open: Vec<&str> = open.iter().map(Path::as_str).collect();
            Some(format!("open questions: {}", open.join(", ")))
        }
        Refusal::Owned { .. } => Some(format!("a live node has it: goldseam why {run} tells what it does")),
        Refusal::OtherInput { .. } => Some("use another id for another piece of work".into()),
        Refusal::TooMuchMail { .. } => Some("wait until the run has read some of it".into()),
        Refusal::CancelPending => Some(format!(
            "add --drop-cancel to drop the request, or take it back first: goldseam withdraw {run} --cancel"
        )),
        Refusal::UndoBegun { .. } => Some(format!(
            "let the undoing finish (goldseam resume {run} if it is parked), or end the run: goldseam terminate {run}"
        )),
        Refusal::ActedOn { .. } => Some(format!("goldseam why {run} tells how far it is")),
        Refusal::Terminated => Some("start another run".to_owned()),
        Refusal::HistoryTooLong(_) => {
            Some("its workflow must call continue_as_new, which begins its history anew".into())
        }
        _ => None,
    }
}

/// A refusal as an error of this run.
pub(crate) fn refused(run: &RunId, refusal: Refusal) -> EngineError {
    EngineError::Refused { run: run.clone(), refusal }
}
