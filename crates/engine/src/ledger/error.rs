//! The error of callers of the engine. Authors of workflows use
//! [`Error`](crate::ledger::workflow_error::Error).

use goldseam_core::attribute::AttributeError;
use goldseam_core::decide::Refusal;
use goldseam_core::event::Request;
use goldseam_core::lock::LockRefusal;
use goldseam_core::next_step::Setting;
use goldseam_core::operation::SpecError;
use goldseam_core::recovery::Code;
use goldseam_core::search::ConditionError;
use goldseam_core::task::TaskRefusal;
use goldseam_core::timing::TimingError;
use goldseam_core::{
    ArgumentError, Corrupt, Failure, Hint, IdError, NextStep, Path, PayloadError, RunId, TaskId, WorkflowName,
};
use goldseam_store::StoreError;

use crate::ledger::dialogue::{PublishError, RequestError};
use crate::ledger::refusal::{CopyRefusal, RemoteRefusal};
use crate::ledger::secrets::SecretError;
use crate::ledger::settings::SettingError;

/// Why the engine or the store refused an operation. Each variant has a code with a page in `docs/codes`.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A name breaks the rules for names.
    #[error(transparent)]
    Id(#[from] IdError),
    /// A text is empty or has control characters, or a number is 0.
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    /// The times of a start make no sense.
    #[error(transparent)]
    Timing(#[from] TimingError),
    /// A bulk operation cannot begin, or does not exist.
    #[error(transparent)]
    Operation(#[from] SpecError),
    /// An attribute exceeds a limit, or has a value that is not allowed.
    #[error(transparent)]
    Attribute(#[from] AttributeError),
    /// A condition does not parse.
    #[error(transparent)]
    Condition(#[from] ConditionError),
    /// A value is too large, too deep, or not JSON.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// The run does not allow the command now.
    #[error("run {run}: {refusal}")]
    Refused {
        /// The run.
        run: RunId,
        /// Why.
        refusal: Refusal,
    },
    /// The workflow is not registered on this engine.
    #[error("workflow {name} is not registered on this engine ({})", known_list(.known))]
    UnknownWorkflow {
        /// The requested name.
        name: String,
        /// The registered names.
        known: Vec<String>,
    },
    /// A function is registered under several names, so it does not tell which workflow to start.
    #[error("function {function} is registered as several workflows, so it names none of them")]
    AmbiguousWorkflow {
        /// The function.
        function: &'static str,
    },
    /// Versions start at 1.
    #[error("workflow {workflow} cannot have version 0: versions start at 1")]
    NoSuchVersion {
        /// The workflow.
        workflow: WorkflowName,
    },
    /// A secret is missing, or too short to be redacted.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// A setting from the environment is unknown or invalid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The engine's configuration is invalid.
    #[error("invalid configuration: {0}")]
    Config(String),
    /// The run's log cannot be decoded.
    #[error("run {run}: {corrupt}")]
    Corrupt {
        /// The run.
        run: RunId,
        /// The damage.
        corrupt: Corrupt,
    },
    /// The caller no longer holds the task.
    #[error(transparent)]
    Task(#[from] TaskRefusal),
    /// The run has a newer advance task; this one is finished.
    #[error("task {task} is superseded: its run has a newer advance task")]
    Superseded {
        /// The older task.
        task: TaskId,
    },
    /// The requested rule does not apply to the run.
    #[error("run {run}: rule {rule} does not apply: the run is {status}, {}", found_list(.found))]
    RuleDoesNotApply {
        /// The run.
        run: RunId,
        /// The requested rule.
        rule: Code,
        /// The run's status.
        status: goldseam_core::Status,
        /// The rules that apply.
        found: Vec<Code>,
    },
    /// A rule applies to the run, but its log has no stable event to cut at.
    #[error("run {run}: no stable event found, so rule {rule} cannot cut its log; the run is parked")]
    NoStableEvent {
        /// The run.
        run: RunId,
        /// The rule.
        rule: Code,
        /// The run's status before.
        before: goldseam_core::Status,
    },
    /// The task does not exist.
    #[error("task {0} does not exist")]
    NoSuchTask(String),
    /// Another holder has the lock.
    #[error(transparent)]
    Lock(#[from] LockRefusal),
    /// A store cannot be copied now, or not to this destination.
    #[error(transparent)]
    Copy(#[from] CopyRefusal),
    /// A request of a remote worker is refused.
    #[error(transparent)]
    Remote(#[from] RemoteRefusal),
    /// The run would park or fail on the version that it is to be moved to.
    #[error("run {run} cannot continue on version {to}: it {verdict}: {reason}")]
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
    /// A preflight cannot start.
    #[error("cannot run a preflight: {what}")]
    Preflight {
        /// Why.
        what: String,
    },
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store did not answer within the configured time.
    #[error("the store did not settle {doing} within {seconds} s")]
    TimedOut {
        /// The operation.
        doing: &'static str,
        /// How long the engine retried.
        seconds: u64,
    },
    /// Other writers won every attempt.
    #[error("gave up {doing}: other writers won every attempt")]
    Contended {
        /// The operation.
        doing: &'static str,
    },
    /// A value cannot be published or read.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// A request has no answer.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Another call of the same run chose the same id for its child.
    #[error("run {run}: {path} chose the child id {child}, which {other} has chosen")]
    ChildIdReused {
        /// The run.
        run: RunId,
        /// The call.
        path: Path,
        /// The id.
        child: RunId,
        /// The other call.
        other: Path,
    },
    /// The run did not complete.
    #[error("run {run} ended {status}: {failure}")]
    Ended {
        /// The run.
        run: RunId,
        /// `failed` or `cancelled`.
        status: goldseam_core::Status,
        /// Why.
        failure: Failure,
    },
    /// The value cannot be converted to the requested type.
    #[error("{what} does not have the requested type: {source}")]
    NotThatType {
        /// Which value.
        what: &'static str,
        /// The error of serde.
        source: serde_json::Error,
    },
}

/// Hint for a second, different result of one claim.
const OTHER_RESULT: &str =
    "drop this result: the first result is kept; only the same result may be sent again";

fn found_list(found: &[Code]) -> String {
    match found {
        [] => "and no rule applies to it".to_owned(),
        found => {
            let codes: Vec<&str> = found.iter().map(|code| code.as_str()).collect();
            format!("and these rules apply: {}", codes.join(", "))
        }
    }
}

fn known_list(known: &[String]) -> String {
    if known.is_empty() { "no workflows are".to_owned() } else { format!("registered: {}", known.join(", ")) }
}

impl EngineError {
    /// The stable code, with a page in `docs/codes` that `goldseam explain` prints.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Id(_) => "GS0101",
            Self::Setting(error) => error.code(),
            Self::Argument(_) => "GS0138",
            Self::Timing(_) => "GS0160",
            Self::Operation(error) => error.code,
            Self::Attribute(_) => AttributeError::CODE,
            Self::Condition(error) => error.code(),
            Self::Payload(_) | Self::NotThatType { .. } => "GS0102",
            Self::UnknownWorkflow { .. } | Self::AmbiguousWorkflow { .. } => "GS0103",
            Self::Refused { refusal, .. } => refusal.code(),
            Self::Corrupt { corrupt, .. } if corrupt.is_newer => "GS0225",
            Self::Corrupt { .. } => "GS0224",
            Self::Task(TaskRefusal::OtherResult { .. }) => "GS0603",
            Self::Task(_) | Self::Superseded { .. } => "GS0301",
            Self::NoSuchTask(_) => "GS0303",
            Self::Lock(_) => "GS0302",
            Self::Copy(refusal) => refusal.code(),
            Self::Remote(refusal) => refusal.code(),
            Self::Publish(error) => error.code(),
            Self::Request(error) => error.code(),
            Self::ChildIdReused { .. } => "GS0173",
            Self::Ended { .. } => "GS0117",
            Self::RuleDoesNotApply { .. } => "GS0118",
            Self::NoStableEvent { .. } => "GS0135",
            Self::Config(_) => "GS0120",
            Self::Secret(_) => "GS0121",
            Self::WouldPark { .. } => "GS0124",
            Self::Preflight { .. } => "GS0125",
            Self::NoSuchVersion { .. } => "GS0134",
            Self::TimedOut { .. } | Self::Contended { .. } => "GS0209",
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

    /// What to do next, if the message does not say it.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::Id(_) => Some("use letters, digits, `.`, `_` and `-`, at most 128 characters".into()),
            Self::Argument(error) => Some(error.flaw.hint().into()),
            Self::Timing(TimingError::NoTime) => Some("give it at least a millisecond, or no timeout".into()),
            Self::Timing(TimingError::TooLate { .. }) => Some("use an earlier time".into()),
            Self::Setting(error) => Some(error.hint().into()),
            Self::Attribute(_) => {
                Some("put large values into the input or a step; attributes are for search".into())
            }
            Self::Condition(error) => Some(error.hint.clone().into()),
            Self::Operation(error) => Some(error.hint.into()),
            Self::Payload(PayloadError::NotJson(_)) => Some("quote strings: '\"like this\"'".into()),
            Self::Payload(PayloadError::HalfCharacter(_)) => {
                Some("send the character itself, or both halves of its surrogate pair".into())
            }
            Self::Payload(PayloadError::HugeNumber(_)) => Some("send the number as a string".into()),
            Self::Payload(PayloadError::TooMany { .. }) => Some("send fewer".into()),
            Self::Payload(_) => Some("keep large data elsewhere and pass a reference".into()),
            Self::Refused { refusal, run } => refusal_hint(refusal, run),
            Self::Store(StoreError::Refused { hint, .. }) => Some(hint.clone()),
            Self::Copy(refusal) => Some(refusal.hint()),
            Self::Publish(error) => error.hint(),
            Self::Request(error) => error.hint(),
            Self::ChildIdReused { .. } => Some("choose a different id for each call".into()),
            Self::Remote(refusal) => remote_hint(refusal),
            Self::Task(TaskRefusal::OtherResult { .. }) => Some(OTHER_RESULT.into()),
            Self::Store(StoreError::Full { .. }) => {
                Some("free some space, then retry; nothing was written".into())
            }
            Self::Store(StoreError::Unknown { .. }) => Some(
                "check whether it was done before you repeat it; a repeat with the same id does nothing"
                    .into(),
            ),
            Self::Store(StoreError::Damaged { .. }) => Some(
                Hint::from(
                    "check the disk and its free space, then restart; verify the acknowledged data with: ",
                )
                .step(NextStep::StoreCheck),
            ),
            Self::NoStableEvent { run, .. } => Some(Hint::from("read ").step(NextStep::history(run)).text(
                "; then resume the run to continue from its log, reset it to start over, or terminate it",
            )),
            Self::Corrupt { run, corrupt } if corrupt.is_newer => {
                let hint = Hint::from("use the release that wrote the event, or a newer one; ");
                Some(hint.step(NextStep::history(run)).text(" shows the readable events"))
            }
            Self::Corrupt { run, .. } => {
                let restore =
                    " shows the readable events (rule K1); restore the log from a backup, or end the run: ";
                Some(Hint::from(NextStep::history(run)).text(restore).step(NextStep::terminate(run)))
            }
            Self::RuleDoesNotApply { run, .. } => {
                Some(Hint::from(NextStep::why(run)).text(" shows what holds it up"))
            }
            Self::Secret(SecretError::Unhidable { .. }) => Some("use a longer random value".into()),
            Self::Secret(_) => Some("set the variable in the environment of this process".into()),
            Self::WouldPark { run, to, .. } => Some(
                Hint::from("change the code, or force the move: ")
                    .step(NextStep::Migrate { run: run.clone(), to_version: *to }),
            ),
            Self::NoSuchVersion { .. } => {
                Some("omit the version to use the newest one that a live node has".into())
            }
            Self::AmbiguousWorkflow { .. } => {
                Some("pass the name of the workflow instead of its function".into())
            }
            Self::UnknownWorkflow { .. } => Some("register it with `.workflow(name, function)`".into()),
            _ => None,
        }
    }
}

fn remote_hint(refusal: &RemoteRefusal) -> Option<Hint> {
    match refusal {
        RemoteRefusal::NoSuchWorker(_) => {
            Some("register again, and drop the runs that this worker held".into())
        }
        RemoteRefusal::TooManyWorkers { .. } => {
            Some("let a worker leave first, or register fewer workers with more slots".into())
        }
        RemoteRefusal::IdReused { .. } => {
            Some("send the same doings again, or use a new id for these doings".into())
        }
        RemoteRefusal::Forbidden(_) => Some("use another name, or a key for that queue".into()),
        _ => None,
    }
}

fn refusal_hint(refusal: &Refusal, run: &RunId) -> Option<Hint> {
    let show = || Hint::from(NextStep::show(run));
    let why = NextStep::why(run);
    match refusal {
        Refusal::NoSuchRun => Some(Hint::from(NextStep::list()).text(" lists the runs of this store")),
        Refusal::Finished { .. } => Some(show().text(" shows how it ended")),
        Refusal::Archived { .. } => Some(show().text(" shows how it ended and where its log is archived")),
        Refusal::NotPrunable { .. } => Some("the run is unchanged; prune it after it has ended".into()),
        Refusal::NoSuchStep { .. } => Some(show().text(" lists its steps")),
        Refusal::LateResult { .. } => Some(
            Hint::from("drop the result, and undo the work if it must not remain; ")
                .hint(&show())
                .text(" shows why"),
        ),
        Refusal::OtherResult { .. } => Some(OTHER_RESULT.into()),
        Refusal::NoSuchQuestion { open, .. } if open.is_empty() => {
            Some("the run has no open questions".into())
        }
        Refusal::NoSuchQuestion { open, .. } => {
            let open: Vec<&str> = open.iter().map(Path::as_str).collect();
            Some(format!("open questions: {}", open.join(", ")).into())
        }
        Refusal::Owned { .. } => {
            Some(Hint::from("a live node owns the run; ").step(why).text(" shows what it does"))
        }
        Refusal::NotOurChild { run, .. } => Some(
            Hint::from("choose another id for the child; ").step(NextStep::show(run)).text(" shows that run"),
        ),
        Refusal::OtherInput { .. } => Some("use a new run id for different input".into()),
        Refusal::TooMuchMail { .. } => Some("wait until the run has consumed some of its mail".into()),
        Refusal::CancelPending => Some(
            Hint::from("add ")
                .step(NextStep::Repeat { setting: Setting::DropCancel })
                .text(" to drop the request, or withdraw it first: ")
                .step(NextStep::withdraw(run, Request::Cancel)),
        ),
        Refusal::UndoBegun { .. } => Some(
            Hint::from("let the compensations finish (")
                .step(NextStep::resume(run))
                .text(" if the run is parked), or end the run: ")
                .step(NextStep::terminate(run)),
        ),
        Refusal::ActedOn { .. } => Some(Hint::from(why).text(" shows its progress")),
        Refusal::Terminated => Some("start another run".into()),
        Refusal::DeadlinePassed { .. } => {
            Some("give it a later deadline; times are compared with the clock of the store".into())
        }
        Refusal::HistoryTooLong(_) => {
            Some("change the workflow to call continue_as_new, which starts a new history".into())
        }
        _ => None,
    }
}

/// Wraps a refusal as an error of `run`.
pub(crate) fn refused(run: &RunId, refusal: Refusal) -> EngineError {
    EngineError::Refused { run: run.clone(), refusal }
}
