//! The beat of a node as an object. A store on object storage has no lock that ends with a process: other nodes
//! notice that the count of beats no longer grows.

use std::time::Duration;

use goldseam_core::{Millis, NodeId};
use goldseam_store::{NodeRecord, NodeSeen, NodeState, Pulse, Timing};
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
    /// Absent in records of releases that do not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    beat_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    silence_max_ms: Option<u64>,
    state: NodeState,
    pub(crate) beats: u64,
    beat_at: Millis,
}

impl NodeBeat {
    pub(crate) fn new(node: &NodeRecord, beats: u64, beat_at: Millis) -> Self {
        let ms = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Self {
            id: node.id.clone(),
            name: node.name.clone(),
            started_at: node.started_at,
            workflows: node.workflows.clone(),
            slots: node.slots,
            beat_ms: node.timing.map(|timing| ms(timing.beat)),
            silence_max_ms: node.timing.map(|timing| ms(timing.silence_max)),
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
            timing: Timing::of_millis(self.beat_ms, self.silence_max_ms),
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
