//! Cancelling, terminating, retrying and withdrawing: requests and responses.

use goldseam::unstable::core::event::{Request, Terminated as Left};
use goldseam::{Millis, Path, RunId, Seq};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The result of a cancel request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Cancelled)]
pub struct CancelledDoc {
    /// Whether the run has ended; otherwise the request is pending.
    pub ended: bool,
    /// The end of the run's log after the change.
    pub event: Seq,
    /// The run.
    pub run: RunId,
    /// What a pending request waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
}

/// The result of a termination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = TerminatedRun)]
pub struct TerminatedDoc {
    /// The end of the run's log after the change.
    pub event: Seq,
    /// What was left standing.
    pub left: Left,
    /// The run.
    pub run: RunId,
}

/// A request to withdraw.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewWithdrawal {
    /// Which request; defaults to the only pending one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what: Option<Request>,
    /// Who makes the change, as the caller names itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why; kept in the run's history.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The result of a withdrawal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Withdrawn)]
pub struct WithdrawnDoc {
    /// The end of the run's log after the change.
    pub event: Seq,
    /// The run.
    pub run: RunId,
    /// The request that was withdrawn.
    pub what: Request,
}

/// A retry to make.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewRetry {
    /// Drop a pending cancel request; otherwise the retry is refused while one is pending.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub drop_cancel: bool,
    /// Who makes the change, as the caller names itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why; kept in the run's history.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A request that no worker has carried out yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Pending)]
pub struct PendingDoc {
    /// The operator, if the request named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// When it was made; absent if an older release recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Millis>,
    /// The step that a jump goes back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Path>,
    /// Steps to compensate first, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undoes: Vec<Path>,
    /// The request.
    pub what: Request,
}
