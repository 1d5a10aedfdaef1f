//! Bulk operations: one verb on every run that a condition selects.
//!
//! An operation is a run of the built-in workflow [`WORKFLOW`], so it has a log, survives crashes, and can be paused and
//! cancelled like any other run. This module holds what it is asked to do ([`Spec`]), how far it is ([`Progress`]), and
//! the judgement of a canary ([`verdict()`]).
//!
//! Invariant: the log of a target records the action of an operation under [`action_id`], in the append that carries it
//! out. A repeat is therefore recognised by the target, whatever the operation remembers.

mod canary;
mod progress;
mod rate;
mod spec;
mod verdict;

pub use canary::{Canary, CanaryStage};
pub use progress::{
    Chapter, Examples, OperationEnd, OperationPhase, PlanPage, Progress, Relapse, TargetResult,
};
pub use rate::ActionRate;
pub use spec::{SignalSpec, Spec, SpecError, Verb};
pub use verdict::{CanaryVerdict, verdict};

use crate::id::{RunId, WorkflowName};

/// Name of the built-in workflow.
pub const WORKFLOW: &str = "goldseam.operation";
/// Version of the built-in workflow.
pub const VERSION: u32 = 1;
/// Queue of its advance tasks, which every engine of this release serves.
pub const QUEUE: &str = "goldseam-operations";

/// Returns whether a workflow is the built-in one.
pub fn is_operation(workflow: &WorkflowName) -> bool {
    workflow.as_str() == WORKFLOW
}

/// Returns the id under which the logs of its targets record the actions of an operation.
pub fn action_id(operation: &RunId) -> String {
    format!("goldseam.operation:{operation}")
}
