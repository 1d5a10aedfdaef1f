//! The clock, the mark of changes and the local nodes, which all writes share.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use goldseam_core::NodeId;
use goldseam_store::ChangeMark;

use crate::clock::PgClock;

/// What all writes of a store share.
#[derive(Debug)]
pub(crate) struct WriteContext {
    pub(crate) clock: PgClock,
    pub(crate) mark: Arc<ChangeMark>,
    /// The channel on which writes notify other processes.
    pub(crate) channel: String,
    nodes: Mutex<BTreeSet<NodeId>>,
}

impl WriteContext {
    pub(crate) fn new(clock: PgClock, mark: Arc<ChangeMark>, channel: String) -> Self {
        Self { clock, mark, channel, nodes: Mutex::default() }
    }

    fn lock_nodes(&self) -> MutexGuard<'_, BTreeSet<NodeId>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ids of the nodes in this process.
    pub(crate) fn nodes(&self) -> Vec<String> {
        self.lock_nodes().iter().map(|node| node.as_str().to_owned()).collect()
    }

    /// Whether there is a node in this process.
    pub(crate) fn has_nodes(&self) -> bool {
        !self.lock_nodes().is_empty()
    }

    pub(crate) fn add_node(&self, node: &NodeId) {
        self.lock_nodes().insert(node.clone());
    }

    pub(crate) fn remove_node(&self, node: &NodeId) {
        self.lock_nodes().remove(node);
    }
}
