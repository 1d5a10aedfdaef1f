//! Nodes: one object each, written with every beat. There is no lock that dies with a process here: others watch
//! the count stand still.

use goldseam_core::{Millis, NodeId};
use goldseam_store::{NodeRecord, NodeSeen, NodeState, Pulse, StoreError, Unreadable};
use serde::{Deserialize, Serialize};

use crate::keys;
use crate::records::{Records, Versioned};
use crate::store::Inner;

/// `node/{id}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Beat {
    id: NodeId,
    name: String,
    started_at: Millis,
    workflows: Vec<String>,
    slots: u32,
    state: Life,
    beats: u64,
    beat_at: Millis,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Life {
    Up,
    Leaving,
    Left,
    Gone,
}

impl Beat {
    fn seen(self) -> NodeSeen {
        let state = match self.state {
            Life::Up => NodeState::Up,
            Life::Leaving => NodeState::Leaving,
            Life::Left => NodeState::Left,
            Life::Gone => NodeState::Gone,
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

/// The beats that this process has seen, its own among them.
pub(crate) type Nodes = Records<Beat>;

impl Inner {
    pub(crate) async fn beat(&self, node: &NodeRecord) -> Result<Millis, StoreError> {
        let key = keys::node(&node.id);
        let seen = match self.nodes.last_seen(&key) {
            Some(seen) => Some(seen),
            None => self.nodes.get(&self.bucket, &key).await?,
        };
        let beats = seen.map_or(0, |seen| seen.record.beats);
        let beat_at = self.clock.now();
        let beat = Beat {
            id: node.id.clone(),
            name: node.name.clone(),
            started_at: node.started_at,
            workflows: node.workflows.clone(),
            slots: node.slots,
            state: match node.state {
                NodeState::Up => Life::Up,
                NodeState::Leaving => Life::Leaving,
                NodeState::Left => Life::Left,
                NodeState::Gone => Life::Gone,
            },
            beats: beats + 1,
            beat_at,
        };
        // Nobody but the node itself writes here.
        self.nodes.overwrite(&self.bucket, (&key, &beat), &self.writes).await?;
        Ok(self.clock.now())
    }

    pub(crate) async fn list_nodes(&self) -> Result<Vec<NodeSeen>, StoreError> {
        let mut nodes: Vec<NodeSeen> =
            self.nodes.all(&self.bucket).await?.into_iter().map(Beat::seen).collect();
        // Nothing is known of its beats: it counts as one that has just beaten, until its record is gone or it beats.
        let now = self.clock.now();
        let unreadable = |id| NodeId::new(id).ok().map(|id| Unreadable::node(id, now, Pulse::Unknown));
        nodes.extend(self.nodes.unreadable_names(unreadable));
        nodes.sort_by(|a, b| a.record.id.cmp(&b.record.id));
        Ok(nodes)
    }

    pub(crate) async fn forget(&self, node: &NodeId) -> Result<(), StoreError> {
        let key = keys::node(node);
        self.nodes.remove(&self.bucket, &key).await?;
        self.watch.bump();
        Ok(())
    }
}
