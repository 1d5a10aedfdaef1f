//! All runs at a glance: how many have which status, and which values filters may take.

use goldseam::Status;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// The number of runs by status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Statuses)]
pub struct StatusesDoc {
    /// Every status that a run has, in the order of a life.
    pub items: Vec<StatusCountDoc>,
    /// Number of runs, without operations.
    pub total: u64,
}

/// The number of runs with a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = StatusCount)]
pub struct StatusCountDoc {
    /// Number of runs.
    pub count: u64,
    /// The status.
    pub status: Status,
}

/// Selects suggestions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SuggestionsQuery {
    /// The filter.
    #[param(inline)]
    pub of: SuggestionKind,
    /// Only values that contain this text, without regard to case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Maximum number of suggestions, up to 500; defaults to 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A filter whose values are suggested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SuggestionKind {
    /// Workflows of the latest runs, and of live nodes.
    Workflow,
    /// Tags, as `KEY=VALUE`.
    Tag,
    /// Names of attributes.
    Attribute,
    /// Queues of runs.
    Queue,
    /// Causes of failed and parked runs.
    Cause,
}

/// A value of a filter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Suggestion)]
pub struct SuggestionDoc {
    /// Number of runs that have it, among the latest 500.
    pub count: u64,
    /// The value.
    pub value: String,
}
