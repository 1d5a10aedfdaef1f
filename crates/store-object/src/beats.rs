//! The beat of a node as an object. A store on object storage has no lock that ends with a process: other nodes
//! notice that the count of beats no longer grows.

use goldseam_core::{Millis, NodeId};
use goldseam_store::{NodeRecord, NodeSeen, NodeState, Pulse};
use serde::{Deserialize, Serialize};

use crate::records::Versioned;

/// The content of `node/{id}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct NodeBeat {
    id: NodeId,
    name: String,
    started_at: Millis,
    workflows: Vec<String>,
    slots: u32,
    state: NodeState,
    pub(crate) beats: u64,
    beat_at: Millis,
}

impl NodeBeat {
    pub(crate) fn new(node: &NodeRecord, beats: u64, beat_at: Millis) -> Self {
        Self {
            id: node.id.clone(),
            name: node.name.clone(),
            started_at: node.started_at,
            workflows: node.workflows.clone(),
            slots: node.slots,
            state: node.state,
            beats,
            beat_at,
        }
    }

    pub(crate) fn into_seen(self) -> NodeSeen {
        let record = NodeRecord {
            id: self.id,
            name: self.name,
            started_at: self.started_at,
            workflows: self.workflows,
            slots: self.slots,
            state: self.state,
        };
        NodeSeen { record, beats: self.beats, beat_at: self.beat_at, pulse: Pulse::Unknown }
    }
}

impl Versioned for NodeBeat {
    fn version(&self) -> u64 {
        self.beats
    }
}
