//! The interface between a ledger and the process that it belongs to.

use std::fmt::Debug;

use goldseam_core::decide::TaskMove;
use goldseam_core::{Millis, NodeId, RunId};

/// Observes the writes of the ledger. The table of live runs implements it.
pub(crate) trait Process: Debug + Send + Sync {
    /// The node of this process; none in a client, which executes no runs.
    fn node(&self) -> Option<&NodeId>;

    /// Counts a successful append, and wakes the claimer if the append made a task ready.
    fn committed(&self, task: TaskMove, now: Millis);

    /// Wakes the claimer because a task is ready.
    fn task_ready(&self);

    /// Makes the run read its log, if it is live in this process.
    fn poke(&self, run: &RunId);

    /// Whether no run is live in this process.
    fn is_idle(&self) -> bool;
}
