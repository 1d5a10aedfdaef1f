//! The beat of a node as an object. A store on object storage has no lock that ends with a process: other nodes
//! notice that the count of beats no longer grows.

use goldseam_core::{Millis, NodeId};
use goldseam_store::{NodeRecord, NodeSeen, NodeState, Pulse};
use serde::{Deserialize, Serialize};

use crate::records::Versioned;

/// The content of `node/{id}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Beat {
    id: NodeId,
    name: String,
    started_at: Millis,
    workflows: Vec<String>,
    slots: u32,
    state: State,
    pub(crate) beats: u64,
    beat_at: Millis,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Up,
    Leaving,
    Left,
    Gone,
}

impl Beat {
    pub(crate) fn new(node: &NodeRecord, beats: u64, beat_at: Millis) -> Self {
        Self {
            id: node.id.clone(),
            name: node.name.clone(),
            started_at: node.started_at,
            workflows: node.workflows.clone(),
            slots: node.slots,
            state: match node.state {
                NodeState::Up => State::Up,
                NodeState::Leaving => State::Leaving,
                NodeState::Left => State::Left,
                NodeState::Gone => State::Gone,
            },
            beats,
            beat_at,
        }
    }

    pub(crate) fn into_seen(self) -> NodeSeen {
        let state = match self.state {
            State::Up => NodeState::Up,
            State::Leaving => NodeState::Leaving,
            State::Left => NodeState::Left,
            State::Gone => NodeState::Gone,
        };
        let record = NodeRecord {
            id: self.id,
            name: self.name,
            started_at: self.started_at,
            workflows: self.workflows,
            slots: self.slots,
            state,
        };
        NodeSeen { record, beats: self.beats, beat_at: self.beat_at, pulse: Pulse::Unknown }
    }
}

impl Versioned for Beat {
    fn version(&self) -> u64 {
        self.beats
    }
}
