//! Liveness of nodes: by locks that the operating system drops, otherwise by beats in the store's time.

use std::collections::BTreeSet;
use std::time::Duration;

use goldseam_core::recovery::{Lived, Owner};
use goldseam_core::version::UNDECIDED;
use goldseam_core::{Millis, NodeId, Summary, WorkflowName};
use goldseam_store::{NodeSeen, NodeState, Pulse};

use crate::ledger::commit::Ledger;
use crate::ledger::config::{Config, Newest};
use crate::ledger::error::EngineError;

/// All nodes at one moment.
#[derive(Debug, Clone)]
pub struct Liveness {
    /// Every node with a record in the store.
    pub nodes: Vec<NodeSeen>,
    /// The time of the reading, by the store's clock.
    pub now: Millis,
    /// A node counts as lost after this time without a beat.
    pub silence_max: Duration,
    /// Interval between two beats of a node.
    pub beat: Duration,
    /// Tolerance when two lifetimes are compared.
    pub doubt: Duration,
}

/// Limits by which liveness is judged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Thresholds {
    pub(crate) silence_max: Duration,
    pub(crate) beat: Duration,
    pub(crate) doubt: Duration,
}

impl Thresholds {
    pub(crate) fn of(config: &Config) -> Self {
        Self { silence_max: config.silence_max, beat: config.beat, doubt: config.recovery.doubt() }
    }
}

impl Ledger {
    /// Reads the state of all nodes.
    pub(crate) async fn liveness(&self, thresholds: Thresholds) -> Result<Liveness, EngineError> {
        let Thresholds { silence_max, beat, doubt } = thresholds;
        // Read the clock after the beats: no beat is then in the future.
        let nodes = self.store.nodes().await?;
        Ok(Liveness { nodes, now: self.store.now().await?, silence_max, beat, doubt })
    }
}

impl Liveness {
    fn find(&self, node: &str) -> Option<&NodeSeen> {
        self.nodes.iter().find(|seen| seen.record.id.as_str() == node)
    }

    /// Whether the store has a record of this node.
    pub fn knows(&self, node: &str) -> bool {
        self.find(node).is_some()
    }

    /// Judges `owner`, which has owned a run since `since`.
    pub fn owner(&self, owner: Option<&NodeId>, since: Option<Millis>) -> Owner {
        owner.map_or(Owner::None, |owner| self.holder(owner.as_str(), since))
    }

    /// Judges a claimant that may not be a node.
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

    /// Whether the store can prove the death of `node`. If not, only silence shows it.
    pub fn can_prove(&self, node: &NodeId) -> bool {
        self.find(node.as_str()).is_none_or(|seen| seen.pulse != Pulse::Unknown)
    }

    /// How long a lost owner lived after `since`: at least until its last beat, at most until its next one.
    pub fn lived(&self, node: &str, since: Millis) -> Lived {
        let until_now = self.now.since(since);
        match self.find(node) {
            Some(seen) => {
                let (least, doubt) = (seen.beat_at.since(since), self.doubt);
                let process = seen.beat_at.since(seen.record.started_at);
                Lived { least, most: (least + self.beat * 2).min(until_now).max(least), doubt, process }
            }
            None => Lived { most: until_now, doubt: self.doubt, ..Lived::default() },
        }
    }

    /// Nodes that are alive and up.
    fn working(&self) -> impl Iterator<Item = &NodeSeen> {
        self.nodes.iter().filter(|seen| {
            seen.record.state == NodeState::Up && self.holder(seen.record.id.as_str(), None).is_alive()
        })
    }

    /// The versions of a workflow that live nodes have, ascending.
    pub fn versions(&self, workflow: &WorkflowName) -> Vec<u32> {
        let of_it = |(name, version): (&str, u32)| (name == workflow.as_str()).then_some(version);
        let all: BTreeSet<u32> = self.working().flat_map(labels).filter_map(of_it).collect();
        all.into_iter().collect()
    }

    /// Whether a live node can execute this version of the workflow, or any version if the run's version is
    /// undecided.
    pub fn can_execute(&self, workflow: &WorkflowName, version: u32) -> bool {
        let fits =
            |label: (&str, u32)| label.0 == workflow.as_str() && (version == UNDECIDED || label.1 == version);
        self.working().flat_map(labels).any(fits)
    }

    /// The last beat of a node that has this version, live or dead; none if the store has no record of one.
    pub fn last_had(&self, workflow: &WorkflowName, version: u32) -> Option<Millis> {
        let has = |seen: &&NodeSeen| labels(seen).any(|label| label == (workflow.as_str(), version));
        self.nodes.iter().filter(has).map(|seen| seen.beat_at).max()
    }

    /// The newest version of each workflow that live nodes have.
    pub(crate) fn newest(&self) -> Newest {
        let mut newest = Newest::new();
        for (name, version) in self.working().flat_map(labels) {
            if let Ok(name) = WorkflowName::new(name) {
                let known = newest.entry(name).or_default();
                *known = version.max(*known);
            }
        }
        newest
    }
}

/// The workflow names and versions that a node has registered.
fn labels(seen: &NodeSeen) -> impl Iterator<Item = (&str, u32)> {
    let parse = |label: &'_ String| {
        let (name, version) = label.rsplit_once('@')?;
        Some((name.len(), version.parse::<u32>().ok()?))
    };
    seen.record.workflows.iter().filter_map(move |label| {
        let (end, version) = parse(label)?;
        Some((&label[..end], version))
    })
}

impl Liveness {
    /// Whether a live node has code that can continue this run: its current version, or its initial one.
    pub fn can_run(&self, summary: &Summary) -> bool {
        let wanted = [summary.version, summary.initial_version];
        let is_it = |label: &String| {
            label.rsplit_once('@').is_some_and(|(name, version)| {
                let version = version.parse().ok();
                name == summary.workflow.as_str() && wanted.into_iter().any(|one| Some(one) == version)
            })
        };
        self.nodes.iter().any(|seen| {
            self.holder(seen.record.id.as_str(), None).is_alive()
                && seen.record.state == goldseam_store::NodeState::Up
                && seen.record.workflows.iter().any(is_it)
        })
    }

    /// Describes the worker that a request to this run waits for.
    pub fn worker_for(&self, summary: &Summary) -> String {
        let code = format!("{}@{}", summary.workflow, summary.version);
        match &summary.owner {
            Some(owner) if self.owner(Some(owner), summary.claimed_at).is_alive() => {
                format!("node {owner}, which owns the run")
            }
            _ if summary.paused => format!("goldseam resume {}: the run is paused", summary.run),
            _ if summary.parked => format!("goldseam resume {}: the run is parked", summary.run),
            _ if self.can_run(summary) => format!("a worker with {code}"),
            _ => format!("a worker with {code} (none is live)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use goldseam_store::NodeRecord;

    use super::*;

    const NOW: Millis = Millis(100_000);
    const SECOND: Duration = Duration::from_secs(1);

    fn node(id: &str, state: NodeState, pulse: Pulse, beat_at: i64) -> NodeSeen {
        let record = NodeRecord {
            id: NodeId::new(id).unwrap(),
            name: format!("host-{id}"),
            started_at: Millis(0),
            workflows: vec!["pay@1".to_owned(), format!("of-{id}@2")],
            slots: 1,
            timing: None,
            state,
        };
        NodeSeen { record, beats: 1, beat_at: Millis(beat_at), pulse }
    }

    fn seen(nodes: Vec<NodeSeen>) -> Liveness {
        Liveness { nodes, now: NOW, silence_max: 10 * SECOND, beat: 3 * SECOND, doubt: SECOND }
    }

    fn all_nodes() -> Liveness {
        seen(vec![
            node("well", NodeState::Up, Pulse::Held, 99_000),
            node("leaving", NodeState::Leaving, Pulse::Unknown, 90_001),
            node("suspect", NodeState::Up, Pulse::Suspect, 99_000),
            node("left", NodeState::Left, Pulse::Held, 99_000),
            node("gone", NodeState::Gone, Pulse::Held, 99_000),
            node("dropped", NodeState::Up, Pulse::Dropped, 99_000),
            node("silent", NodeState::Up, Pulse::Unknown, 90_000),
        ])
    }

    #[test]
    fn holder_is_judged_by_state_pulse_and_beats() {
        let all = all_nodes();
        let cases = [
            ("well", None),
            ("leaving", None),
            ("suspect", None),
            ("left", Some((true, "node left (host-left) has left"))),
            ("gone", Some((true, "node gone (host-gone) is gone"))),
            ("dropped", Some((true, "the process of node dropped (host-dropped) is gone"))),
            ("silent", Some((false, "node silent (host-silent) has not beaten for 10 s"))),
            ("unknown", Some((true, "node unknown is gone and did not hand it over"))),
        ];
        for (holder, lost) in cases {
            let expected = lost.map_or(Owner::Alive, |(proven, evidence)| Owner::Lost {
                proven,
                evidence: evidence.to_owned(),
                lived: all.lived(holder, Millis(50_000)),
            });
            assert_eq!(all.holder(holder, Some(Millis(50_000))), expected, "{holder}");
            let id = NodeId::new(holder).unwrap();
            assert_eq!(all.owner(Some(&id), Some(Millis(50_000))), expected, "{holder}");
        }
        assert_eq!(all.owner(None, Some(Millis(50_000))), Owner::None);
    }

    #[test]
    fn owner_without_a_claim_has_lived_for_no_time() {
        let Owner::Lost { lived, .. } = all_nodes().holder("unknown", None) else { panic!("it lives") };
        assert_eq!((lived.least, lived.most), (Duration::ZERO, Duration::ZERO));
    }

    #[test]
    fn only_a_pulse_can_prove_a_death() {
        let all = all_nodes();
        let can = ["well", "leaving", "suspect", "dropped", "unknown"]
            .map(|node| all.can_prove(&NodeId::new(node).unwrap()));
        assert_eq!(can, [true, false, true, true, true]);
    }

    #[test]
    fn lifetime_ends_within_two_beats_of_the_last_one() {
        let all = all_nodes();
        let lived = |node: &str, since: i64| {
            let Lived { least, most, doubt, .. } = all.lived(node, Millis(since));
            assert_eq!(doubt, SECOND);
            (least.as_millis(), most.as_millis())
        };
        assert_eq!(lived("silent", 80_000), (10_000, 16_000));
        assert_eq!(lived("well", 90_000), (9_000, 10_000), "a lifetime ends now at the latest");
        assert_eq!(lived("silent", 95_000), (0, 5_000), "it claimed after its last beat");
        assert_eq!(lived("unknown", 90_000), (0, 10_000), "no record");
    }

    #[test]
    fn only_nodes_that_are_up_can_execute() {
        let all = all_nodes();
        let has = |name: &str| all.can_execute(&WorkflowName::new(name).unwrap(), UNDECIDED);
        let names = ["of-well", "of-suspect", "of-leaving", "of-left", "of-gone", "of-dropped", "of-silent"];
        assert_eq!(names.map(has), [true, true, false, false, false, false, false]);
        assert!(has("pay") && !has("pa") && !has("ship"));
        assert!(!seen(Vec::new()).can_execute(&WorkflowName::new("pay").unwrap(), UNDECIDED));
    }

    #[test]
    fn versions_come_from_live_nodes_and_last_had_from_dead_ones() {
        let all = all_nodes();
        let name = |name: &str| WorkflowName::new(name).unwrap();
        assert_eq!(all.versions(&name("pay")), [1]);
        assert_eq!(all.versions(&name("of-well")), [2]);
        assert_eq!(all.versions(&name("of-silent")), [0; 0]);
        assert!(all.can_execute(&name("of-well"), 2) && !all.can_execute(&name("of-well"), 1));
        assert!(!all.can_execute(&name("of-gone"), 2));
        assert_eq!(all.last_had(&name("of-silent"), 2), Some(Millis(90_000)));
        assert_eq!((all.last_had(&name("of-silent"), 1), all.last_had(&name("ship"), 1)), (None, None));
        let newest = all.newest();
        assert_eq!(newest.get(&name("of-well")), Some(&2));
        assert_eq!((newest.get(&name("pay")), newest.get(&name("of-gone"))), (Some(&1), None));
    }
}
