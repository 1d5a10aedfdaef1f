//! Ending runs, and taking back what was asked of them: what is asked for, and what was done.

use goldseam::core::event::{Request, Terminated as Left};
use goldseam::{Millis, Path, RunId, Seq};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a request to cancel did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Cancelled {
    /// Whether the run has ended; if not, the request is pending.
    pub ended: bool,
    /// Where the run's log ended then.
    pub event: Seq,
    /// The run.
    pub run: RunId,
    /// What a pending request waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
}

/// What a termination did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = TerminatedRun)]
pub struct Terminated {
    /// Where the run's log ended then.
    pub event: Seq,
    /// What was left standing.
    pub left: Left,
    /// The run.
    pub run: RunId,
}

/// Which request is to be taken back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewWithdrawal {
    /// The request; the only one that is pending unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what: Option<Request>,
    /// Who, in the caller's own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why; stays in the run's history.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// What a withdrawal did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Withdrawn {
    /// Where the run's log ended then.
    pub event: Seq,
    /// The run.
    pub run: RunId,
    /// The request that was taken back.
    pub what: Request,
}

/// How a run is to be tried again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewRetry {
    /// Drop a pending request to cancel; without this the retry is refused.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub drop_cancel: bool,
    /// Who, in the caller's own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why; stays in the run's history.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A request that no worker has carried out yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Pending {
    /// The operator, if the request named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// When it was made; absent if an older release took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Millis>,
    /// The step that a jump goes back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Path>,
    /// Steps that are undone first, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undoes: Vec<Path>,
    /// The request.
    pub what: Request,
}
