//! The process that a ledger belongs to, as far as the ledger has to know it.

use std::fmt::Debug;

use goldseam_core::decide::TaskMove;
use goldseam_core::{Millis, NodeId, RunId};

/// Learns what the ledger has written. The table of live runs implements it.
pub(crate) trait Process: Debug + Send + Sync {
    /// The node of this process; none in a client, which executes nothing.
    fn node(&self) -> Option<&NodeId>;

    /// Counts an append that has landed, and wakes the claimer if the append made a task ready.
    fn committed(&self, task: TaskMove, now: Millis);

    /// Wakes the claimer: a task is ready.
    fn task_ready(&self);

    /// Makes the run read its log, if it is live in this process.
    fn poke(&self, run: &RunId);

    /// Whether no run is live in this process.
    fn is_idle(&self) -> bool;
}
