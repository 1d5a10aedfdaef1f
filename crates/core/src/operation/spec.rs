//! What an operation is asked to do.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{ActionRate, Canary};
use crate::id::RunId;
use crate::payload::Payload;
use crate::status::Status;
use crate::summary::Summary;

/// What an operation does to each of its targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// Retries failed and parked runs from their failed step.
    Retry,
    /// Resumes paused and parked runs.
    Resume,
    /// Asks runs to cancel.
    Cancel,
    /// Pauses runs between two effects.
    Pause,
    /// Applies the first rule that finds something wrong with a run.
    Recover,
    /// Sends a signal.
    Signal,
}

impl Verb {
    /// All verbs.
    pub const ALL: [Self; 6] =
        [Self::Retry, Self::Resume, Self::Cancel, Self::Pause, Self::Recover, Self::Signal];

    /// Returns the word in JSON and on screen.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Resume => "resume",
            Self::Cancel => "cancel",
            Self::Pause => "pause",
            Self::Recover => "recover",
            Self::Signal => "signal",
        }
    }

    /// Returns whether a run can pass or relapse after it, so that stages make sense.
    pub fn takes_canary(self) -> bool {
        !matches!(self, Self::Cancel | Self::Pause)
    }

    /// Returns why a run is skipped: it is not, or no longer, in a state that the verb acts on.
    pub fn skips(self, run: &Summary) -> Option<String> {
        let status = run.status;
        if run.pruned.is_some() {
            return Some("it was pruned".to_owned());
        }
        let fits = match self {
            Self::Retry => matches!(status, Status::Failed | Status::Parked),
            Self::Resume => run.paused || status == Status::Parked,
            Self::Cancel if run.is_cancel_pending() => {
                return Some("a request to cancel is pending".to_owned());
            }
            Self::Pause if run.paused => return Some("it is paused".to_owned()),
            Self::Cancel | Self::Pause | Self::Recover | Self::Signal => !status.is_terminal(),
        };
        (!fits).then(|| format!("it is {status}"))
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Verb {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        Self::ALL.into_iter().find(|verb| verb.as_str() == text).ok_or_else(|| {
            let what = format!("unknown verb {:?}", text.chars().take(40).collect::<String>());
            SpecError::new("GS0145", what, "use retry, resume, cancel, pause, recover or signal")
        })
    }
}

/// The signal that an operation sends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SignalSpec {
    /// Its name.
    pub name: crate::id::SignalName,
    /// Its content.
    pub payload: Payload,
}

/// What an operation does, to which runs, and how fast. The input of its run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// What it does to each run.
    pub verb: Verb,
    /// Which runs, as canonical text: relative times are resolved.
    pub condition: String,
    /// How fast; none: as fast as the store allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<ActionRate>,
    /// The stages; none: all runs at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    /// How long the runs of a stage have to pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary_timeout_ms: Option<u64>,
    /// The signal to send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<SignalSpec>,
    /// Why.
    pub reason: String,
    /// The operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// How long the runs of a stage have to pass, unless the operator says otherwise.
const CANARY_TIMEOUT_MS: u64 = 10 * 60 * 1_000;

impl Spec {
    /// Checks the parts that depend on each other.
    pub fn check(&self) -> Result<(), SpecError> {
        if self.condition.trim().is_empty() {
            return Err(SpecError::no_condition());
        }
        if self.canary.is_some() && !self.verb.takes_canary() {
            let what = format!("{} takes no canary: its runs pass no step", self.verb);
            return Err(SpecError::new("GS0148", what, "omit the canary, or limit the rate"));
        }
        if self.canary_timeout_ms == Some(0) {
            let what = "a canary needs time to pass: its timeout is zero";
            return Err(SpecError::new("GS0148", what, "set a longer time, as in 10m"));
        }
        if self.canary.is_none() && self.canary_timeout_ms.is_some() {
            let what = "a timeout of the canary needs a canary";
            return Err(SpecError::new("GS0148", what, "add the stages, as in 1,10%,all"));
        }
        if self.signal.is_some() != (self.verb == Verb::Signal) {
            let what = format!("{} and the signal do not belong together", self.verb);
            return Err(SpecError::new(
                "GS0145",
                what,
                "name the signal with the verb signal, and only there",
            ));
        }
        Ok(())
    }

    /// Returns how long the runs of a stage have to pass.
    pub fn canary_timeout_ms(&self) -> u64 {
        self.canary_timeout_ms.unwrap_or(CANARY_TIMEOUT_MS)
    }
}

/// The reason why an operation cannot begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct SpecError {
    /// Stable code with a page in `docs/codes`.
    pub code: &'static str,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub hint: &'static str,
}

impl SpecError {
    pub(super) fn new(code: &'static str, what: impl Into<String>, hint: &'static str) -> Self {
        Self { code, what: what.into(), hint }
    }

    /// Returns the error for a run that is not an operation.
    pub fn no_operation(id: &RunId) -> Self {
        Self::new(
            "GS0149",
            format!("{id} is not an operation"),
            "list the operations, and pass the id of one",
        )
    }

    /// Returns the error for an operation that would act on every run.
    pub fn no_condition() -> Self {
        let hint = "say which runs, as in: status = failed and cause = \"ab12cd\"";
        Self::new("GS0145", "a bulk operation needs a condition", hint)
    }
}
