//! Nodes: one object each, written with every beat. There is no lock that dies with a process here: others watch
//! the count stand still.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use goldseam_core::{Millis, NodeId};
use goldseam_store::{NodeRecord, NodeSeen, NodeState, Pulse, StoreError};
use serde::{Deserialize, Serialize};

use crate::bucket::Tag;
use crate::fault::damaged;
use crate::keys;
use crate::store::Inner;

/// `node/{id}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Beat {
    id: NodeId,
    name: String,
    started_at: Millis,
    workflows: Vec<String>,
    slots: u32,
    state: Life,
    beats: u64,
    beat_at: Millis,
    write: String,
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

    fn read(key: &str, object: &[u8]) -> Result<Self, StoreError> {
        serde_json::from_slice(object).map_err(|error| damaged(key, error))
    }
}

/// The beats that this process has seen, its own among them.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    known: Mutex<HashMap<String, (Tag, Beat)>>,
}

impl Nodes {
    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, (Tag, Beat)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    pub(crate) async fn beat(&self, node: &NodeRecord) -> Result<Millis, StoreError> {
        let key = keys::node(&node.id);
        let known = self.nodes.known().get(&key).map(|(_, beat)| beat.beats);
        let beats = match known {
            Some(beats) => beats,
            None => match self.bucket.get(&key).await? {
                Some(found) => Beat::read(&key, &found.body)?.beats,
                None => 0,
            },
        };
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
            write: self.writes.next(),
        };
        let body: Bytes = serde_json::to_vec(&beat).unwrap_or_default().into();
        // Nobody but the node itself writes here.
        let tag = self.bucket.put(&key, body).await?;
        self.nodes.known().insert(key, (tag, beat));
        Ok(self.clock.now())
    }

    pub(crate) async fn list_nodes(&self) -> Result<Vec<NodeSeen>, StoreError> {
        let listed = self.bucket.list(keys::NODES, None, usize::MAX).await?;
        let changed: Vec<String> = {
            let known = self.nodes.known();
            let is_known = |key: &str, tag: &Tag| known.get(key).is_some_and(|(seen, _)| seen.is(tag));
            listed
                .iter()
                .filter(|entry| !is_known(&entry.key, &entry.tag))
                .map(|entry| entry.key.clone())
                .collect()
        };
        let found = self.bucket.get_all(changed.clone()).await?;
        let mut read = Vec::new();
        for (key, found) in changed.into_iter().zip(found) {
            if let Some(found) = found {
                let beat = Beat::read(&key, &found.body)?;
                read.push((key, (found.tag, beat)));
            }
        }
        let mut known = self.nodes.known();
        known.extend(read);
        known.retain(|key, _| listed.iter().any(|entry| entry.key == *key));
        Ok(listed
            .iter()
            .filter_map(|entry| known.get(&entry.key))
            .map(|(_, beat)| beat.clone().seen())
            .collect())
    }

    pub(crate) async fn forget(&self, node: &NodeId) -> Result<(), StoreError> {
        let key = keys::node(node);
        self.bucket.delete(&key).await?;
        self.nodes.known().remove(&key);
        self.watch.bump();
        Ok(())
    }
}
