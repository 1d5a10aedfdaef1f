//! Bulk operations, and groups of failures.

use std::collections::{BTreeMap, BTreeSet};

use goldseam::unstable::core::operation::{Examples, Progress, Verb};
use goldseam::unstable::core::search::Group;
use goldseam::{Millis, Path, Payload, RunId, Status};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::UnreadableDoc;

/// An operation to begin: one verb on every run that a condition selects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewOperation {
    /// What to do to each run.
    pub verb: Verb,
    /// Which runs, as in `status = failed and cause = "ab12cd"`.
    #[serde(rename = "where")]
    pub condition: String,
    /// How fast, as in `50/s`, `10/m` or `100/h`; defaults to as fast as the store allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// The stages, as in `1,10%,all`; defaults to all runs at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<String>,
    /// How long the runs of a stage have to pass, in milliseconds; defaults to ten minutes.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::unstable::core::whole::optional"
    )]
    pub canary_timeout_ms: Option<u64>,
    /// Name of the signal, for the verb `signal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Content of the signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub payload: Option<Payload>,
    /// Who makes the change, if not the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// An operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Operation)]
pub struct BulkOperationDoc {
    /// When it began.
    pub begun_at: Millis,
    /// The operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The stages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
    /// Its id, which is the id of its run.
    pub id: RunId,
    /// How far it is.
    pub progress: Progress,
    /// How fast it acts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// Why.
    pub reason: String,
    /// The status of its run. A stopped operation is `cancelled`.
    pub status: Status,
    /// What it does to each run.
    pub verb: Verb,
    /// Which runs, with absolute times.
    #[serde(rename = "where")]
    pub condition: String,
}

/// Selects operations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct OperationsQuery {
    /// The previous page's `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Maximum number of operations, up to 500; defaults to 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// What an operation would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Preview)]
pub struct PreviewDoc {
    /// The matching runs by cause, the largest group first.
    pub groups: Vec<Group>,
    /// Number of runs that match.
    pub matched: u64,
    /// A few runs that the verb would be carried out on.
    pub samples: Vec<RunId>,
    /// Runs that would be skipped, by reason.
    pub skipped: BTreeMap<String, Examples>,
    /// For each stage, how many runs have been acted on when it ends.
    pub stages: Vec<u64>,
    /// Unreadable rows, which are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<UnreadableDoc>,
    /// What would be done to each run.
    pub verb: Verb,
    /// Which runs, with absolute times.
    #[serde(rename = "where")]
    pub condition: String,
    /// Number of runs that the verb would be carried out on.
    pub would_act: u64,
}

/// Selects failed and parked runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct FailuresQuery {
    /// Only runs that this condition selects.
    #[serde(default, rename = "where", skip_serializing_if = "Option::is_none")]
    #[param(rename = "where")]
    pub condition: Option<String>,
}

/// Failed and parked runs, by the fingerprint of their cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Failures)]
pub struct FailuresDoc {
    /// The groups, the largest first.
    pub groups: Vec<FailureGroupDoc>,
    /// Runs of further groups.
    pub left_out: u64,
    /// Number of runs.
    pub total: u64,
    /// Unreadable rows, which are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<UnreadableDoc>,
}

/// Failed and parked runs with the same cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = FailureGroup)]
pub struct FailureGroupDoc {
    /// The fingerprint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Code of the failure or of the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The command that retries the group, step by step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Number of runs.
    pub count: u64,
    /// The run that failed last.
    pub example: RunId,
    /// When the first of them failed.
    pub first: Millis,
    /// When the last of them failed.
    pub last: Millis,
    /// Message of the run that failed last.
    pub message: String,
    /// The step that failed in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Path>,
    /// Workflows and versions of the runs, as `order@2`.
    pub workflows: BTreeSet<String>,
}
