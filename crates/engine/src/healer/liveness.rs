//! Who lives, as far as the store tells: by locks that the system drops, else by beats in the store's time.

use std::time::Duration;

use goldseam_core::recovery::{Lived, Owner};
use goldseam_core::{Millis, NodeId, WorkflowName};
use goldseam_store::{NodeSeen, NodeState, Pulse};

/// All nodes at one moment.
#[derive(Debug, Clone)]
pub struct Liveness {
    /// Every node that the store knows.
    pub nodes: Vec<NodeSeen>,
    /// When that was, by the store's clock.
    pub now: Millis,
    /// A node that has not beaten for so long is taken for lost.
    pub silence_max: Duration,
    /// How often nodes beat.
    pub beat: Duration,
    /// Two lives that differ by less do not differ.
    pub doubt: Duration,
}

impl Liveness {
    fn find(&self, node: &str) -> Option<&NodeSeen> {
        self.nodes.iter().find(|seen| seen.record.id.as_str() == node)
    }

    /// What is known about the process of `owner`, which has had something since `since`.
    pub fn owner(&self, owner: Option<&NodeId>, since: Option<Millis>) -> Owner {
        owner.map_or(Owner::Nobody, |owner| self.holder(owner.as_str(), since))
    }

    /// The same for a claimant that need not be a node.
    pub fn holder(&self, holder: &str, since: Option<Millis>) -> Owner {
        let lived = self.lived(holder, since.unwrap_or(self.now));
        let lost = |proven, evidence: String| Owner::Lost { proven, evidence, lived };
        let Some(seen) = self.find(holder) else {
            return lost(true, format!("node {holder} is gone and did not hand it over"));
        };
        let name = &seen.record.name;
        match (seen.record.state, seen.pulse) {
            (NodeState::Left, _) => lost(true, format!("node {holder} ({name}) has left")),
            (NodeState::Gone, _) => lost(true, format!("node {holder} ({name}) is gone")),
            (_, Pulse::Dropped) => lost(true, format!("the process of node {holder} ({name}) is gone")),
            _ => match self.now.since(seen.beat_at) {
                silent if silent >= self.silence_max => {
                    lost(false, format!("node {holder} ({name}) has not beaten for {} s", silent.as_secs()))
                }
                _ => Owner::Alive,
            },
        }
    }

    /// Whether the store would know of the death of `node`; if it cannot, only silence tells.
    pub fn can_prove(&self, node: &NodeId) -> bool {
        self.find(node.as_str()).is_none_or(|seen| seen.pulse != Pulse::Unknown)
    }

    /// How long a lost owner lived after `since`: its last beat tells the least, its next one the most.
    pub fn lived(&self, node: &str, since: Millis) -> Lived {
        let until_now = self.now.since(since);
        match self.find(node) {
            Some(seen) => {
                let least = seen.beat_at.since(since);
                Lived { least, most: (least + self.beat * 2).min(until_now).max(least), doubt: self.doubt }
            }
            None => Lived { least: Duration::ZERO, most: until_now, doubt: self.doubt },
        }
    }

    /// Whether a live node has the workflow.
    pub fn has(&self, workflow: &WorkflowName) -> bool {
        let label =
            |label: &String| label.rsplit_once('@').is_some_and(|(name, _)| name == workflow.as_str());
        self.nodes.iter().any(|seen| {
            self.holder(seen.record.id.as_str(), None).is_alive()
                && seen.record.state == NodeState::Up
                && seen.record.workflows.iter().any(label)
        })
    }
}
