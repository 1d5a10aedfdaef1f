//! Nodes: beats are counted, and tests decide how a process ends.

use goldseam_core::{Millis, NodeId};

use super::{MemoryState, MemoryStore};
use crate::api::{NodeRecord, NodeSeen, NodeState, Pulse};

impl MemoryState {
    pub(super) fn beat(&mut self, node: &NodeRecord) -> Millis {
        let now = self.now;
        let fresh = || NodeSeen { record: node.clone(), beats: 0, beat_at: now, pulse: Pulse::Held };
        let over = matches!(node.state, NodeState::Left | NodeState::Gone);
        self.garbled.nodes.remove(&node.id);
        let seen = self.nodes.entry(node.id.clone()).or_insert_with(fresh);
        seen.record = node.clone();
        seen.beats += 1;
        seen.beat_at = now;
        // A beat takes a lost lock again; a delayed beat of a dead process revives nothing.
        match seen.pulse {
            Pulse::Held | Pulse::Suspect if over => seen.pulse = Pulse::Dropped,
            Pulse::Suspect => seen.pulse = Pulse::Held,
            Pulse::Held | Pulse::Dropped | Pulse::Unknown => {}
        }
        now
    }
}

impl MemoryStore {
    /// Ends the node's process: its lock is free for good.
    pub fn kill(&self, node: &NodeId) {
        self.set_pulse(node, Pulse::Dropped);
    }

    /// Takes the node's lock away, as a lost connection would; its next beat takes it again.
    pub fn suspect(&self, node: &NodeId) {
        self.set_pulse(node, Pulse::Suspect);
    }

    /// Hides the node's pulse, as in a store without liveness locks.
    pub fn silence(&self, node: &NodeId) {
        self.set_pulse(node, Pulse::Unknown);
    }

    fn set_pulse(&self, node: &NodeId, pulse: Pulse) {
        self.change(|state| {
            if let Some(seen) = state.nodes.get_mut(node) {
                seen.pulse = pulse;
            }
        });
    }
}
