//! Nodes: beats are counted, and tests say how a process ended.

use goldseam_core::{Millis, NodeId};

use super::{MemoryStore, World};
use crate::api::{NodeRecord, NodeSeen, NodeState, Pulse};

impl World {
    pub(super) fn beat(&mut self, node: &NodeRecord) -> Millis {
        let now = self.now;
        let fresh = || NodeSeen { record: node.clone(), beats: 0, beat_at: now, pulse: Pulse::Held };
        let over = matches!(node.state, NodeState::Left | NodeState::Gone);
        self.garbled.nodes.remove(&node.id);
        let seen = self.nodes.entry(node.id.clone()).or_insert_with(fresh);
        seen.record = node.clone();
        seen.beats += 1;
        seen.beat_at = now;
        // A lost lock is taken again by beating; a dead process's delayed beat revives nothing.
        match seen.pulse {
            Pulse::Held | Pulse::Suspect if over => seen.pulse = Pulse::Dropped,
            Pulse::Suspect => seen.pulse = Pulse::Held,
            Pulse::Held | Pulse::Dropped | Pulse::Unknown => {}
        }
        now
    }
}

impl MemoryStore {
    /// The node's process died: its lock is free for good.
    pub fn kill(&self, node: &NodeId) {
        self.set_pulse(node, Pulse::Dropped);
    }

    /// The node lost its lock, perhaps only with its connection; its next beat takes it again.
    pub fn suspect(&self, node: &NodeId) {
        self.set_pulse(node, Pulse::Suspect);
    }

    /// Nothing is known about the node's process but its beats, as in a store without such locks.
    pub fn silence(&self, node: &NodeId) {
        self.set_pulse(node, Pulse::Unknown);
    }

    fn set_pulse(&self, node: &NodeId, pulse: Pulse) {
        self.change(|world| {
            if let Some(seen) = world.nodes.get_mut(node) {
                seen.pulse = pulse;
            }
        });
    }
}
