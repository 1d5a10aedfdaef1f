//! Nodes: one object each, written with every beat.

use goldseam_core::{Millis, NodeId};
use goldseam_store::{NodeRecord, NodeSeen, Pulse, StoreError, Unreadable};

use crate::beats::NodeBeat;
use crate::inner::BucketState;
use crate::keys;

impl BucketState {
    pub(crate) async fn beat(&self, node: &NodeRecord) -> Result<Millis, StoreError> {
        let key = keys::node(&node.id);
        let last = match self.nodes.last_seen(&key) {
            Some(last) => Some(last),
            None => self.nodes.get(&key).await?,
        };
        let beats = last.map_or(0, |last| last.record.beats);
        let beat = NodeBeat::new(node, beats + 1, self.clock.now());
        // Only the node itself writes this object.
        self.nodes.overwrite(&key, &beat).await?;
        Ok(self.clock.now())
    }

    pub(crate) async fn list_nodes(&self) -> Result<Vec<NodeSeen>, StoreError> {
        let mut nodes: Vec<NodeSeen> = self.nodes.all().await?.into_iter().map(NodeBeat::into_seen).collect();
        // The beats of an unreadable node are unknown. It counts as having just beaten until its record is readable
        // or removed.
        let now = self.clock.now();
        let unreadable = |id| NodeId::new(id).ok().map(|id| Unreadable::node(id, now, Pulse::Unknown));
        nodes.extend(self.nodes.unreadable_names(unreadable));
        nodes.sort_by(|a, b| a.record.id.cmp(&b.record.id));
        Ok(nodes)
    }

    pub(crate) async fn forget(&self, node: &NodeId) -> Result<(), StoreError> {
        let key = keys::node(node);
        self.nodes.remove(&key).await?;
        self.watch.bump();
        Ok(())
    }
}
