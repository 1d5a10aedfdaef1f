//! Comparing two branches of a run.

use goldseam::{RunId, Seq};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::doc::DamageDoc;

/// Selects two branches to compare.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DiffQuery {
    /// The left branch, as in `b1`.
    pub left: String,
    /// The right branch.
    pub right: String,
}

/// A comparison of two branches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Diff)]
pub struct DiffDoc {
    /// The operations that differ.
    pub items: Vec<DiffItemDoc>,
    /// The left branch.
    pub left: String,
    /// The last event that both branches share.
    pub parted_after: Seq,
    /// The right branch.
    pub right: String,
    /// The run.
    pub run: RunId,
    /// Damage of the log. Absent if the log is intact.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<DamageDoc>,
}

/// An operation that differs between two branches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = DiffItem)]
pub struct DiffItemDoc {
    /// On which branch it exists.
    pub change: DiffKind,
    /// How it ended on the left branch.
    pub left: Option<String>,
    /// The path of the operation, or `run` for the run itself.
    pub path: String,
    /// How it ended on the right branch.
    pub right: Option<String>,
}

/// On which branch an operation exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Change)]
pub enum DiffKind {
    /// On the left branch only.
    Left,
    /// On the right branch only.
    Right,
    /// On both, with different results.
    Changed,
}
