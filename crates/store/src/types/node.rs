//! Nodes: the processes that execute workflows, as they describe themselves and as others see them.

use std::time::Duration;

use goldseam_core::{Millis, NodeId, QueueName};
use serde::{Deserialize, Serialize};

/// One incarnation of an engine process, as the node describes itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// Id of the node; random per start.
    pub id: NodeId,
    /// For people: host and process id.
    pub name: String,
    /// When it joined.
    pub started_at: Millis,
    /// Its workflows, as `name@version`.
    pub workflows: Vec<String>,
    /// Most runs that it executes at once.
    pub slots: u32,
    /// Its intervals; none: the node is of a release that does not record them.
    pub timing: Option<Timing>,
    /// The present state.
    pub state: NodeState,
}

/// The intervals that a node is configured with. Others judge its silence by them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Time between two beats.
    pub beat: Duration,
    /// The node is lost after this time without a beat.
    pub silence_max: Duration,
}

/// Start of the label that holds the release of a node's engine.
const RELEASE: &str = "goldseam.release:";
/// Start of a label that holds a queue from which a node takes runs.
const QUEUE: &str = "goldseam.queue:";
/// A node with more queues records none of them, so that its beats stay small.
const QUEUES_RECORDED_MAX: usize = 64;
/// Start of the label that holds the intervals of a node.
const TIMING: &str = "goldseam.timing:";

impl Timing {
    fn label(self) -> String {
        format!("{TIMING}{}:{}", self.beat.as_millis(), self.silence_max.as_millis())
    }

    /// Returns intervals in milliseconds; none if one is missing or zero, which no node has.
    pub fn of_millis(beat: Option<u64>, silence_max: Option<u64>) -> Option<Self> {
        let span = |ms: Option<u64>| ms.filter(|ms| *ms > 0).map(Duration::from_millis);
        Some(Self { beat: span(beat)?, silence_max: span(silence_max)? })
    }
}

impl NodeRecord {
    /// Returns the label for the release of an engine, which a node lists among its workflows. It has no version, so
    /// every release skips it where it looks for workflows.
    pub fn release_label(release: &str) -> String {
        format!("{RELEASE}{release}")
    }

    /// Returns the release of the node's engine; none if the node is of a release that does not record it.
    pub fn release(&self) -> Option<&str> {
        self.workflows.iter().find_map(|label| label.strip_prefix(RELEASE))
    }

    /// Returns the labels for the queues from which a node takes runs; empty if there are too many to record.
    pub fn queue_labels(queues: &[QueueName]) -> Vec<String> {
        match queues.len() {
            0..=QUEUES_RECORDED_MAX => queues.iter().map(|queue| format!("{QUEUE}{queue}")).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the queues from which the node takes runs; none if it does not record them: it may then take runs from
    /// any queue.
    pub fn queues(&self) -> Option<Vec<&str>> {
        let queues: Vec<&str> = self.workflows.iter().filter_map(|label| label.strip_prefix(QUEUE)).collect();
        (!queues.is_empty()).then_some(queues)
    }

    /// Returns the labels that a store with columns keeps: the workflows, then the intervals.
    ///
    /// The intervals have no column of their own: a new column is a new schema, and older releases refuse to work on
    /// a newer schema. They skip a label without a version.
    pub fn labels(&self) -> Vec<String> {
        self.workflows.iter().cloned().chain(self.timing.map(Timing::label)).collect()
    }

    /// Returns the workflows and the intervals among the labels of a node.
    pub fn parse_labels(labels: Vec<String>) -> (Vec<String>, Option<Timing>) {
        let is_timing = |label: &String| label.starts_with(TIMING) && !label.contains('@');
        let (timing, workflows): (Vec<String>, Vec<String>) = labels.into_iter().partition(is_timing);
        let parse = |label: &String| {
            let mut spans = label.strip_prefix(TIMING)?.split(':').map(|span| span.parse().ok());
            Timing::of_millis(spans.next()?, spans.next()?)
        };
        (workflows, timing.first().and_then(parse))
    }
}

/// The state of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// It is working.
    Up,
    /// It claims no more tasks and hands over its runs.
    Leaving,
    /// It has left in an orderly way.
    Left,
    /// It ended without handing over; other nodes may take over its runs.
    Gone,
}

impl NodeState {
    /// Returns the stored name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Leaving => "leaving",
            Self::Left => "left",
            Self::Gone => "gone",
        }
    }

    /// Returns the state with this stored name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Up, Self::Leaving, Self::Left, Self::Gone].into_iter().find(|state| state.as_str() == name)
    }
}

/// A node as other nodes see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSeen {
    /// Its latest record.
    pub record: NodeRecord,
    /// Number of beats.
    pub beats: u64,
    /// Time of the last beat, by the store's clock.
    pub beat_at: Millis,
    /// What the system knows about its process.
    pub pulse: Pulse,
}

impl NodeSeen {
    /// Returns whether the node has certainly ended: it said so, or the system did.
    pub fn is_gone(&self) -> bool {
        self.record.state == NodeState::Gone || self.pulse == Pulse::Dropped
    }
}

/// What the system knows about a node's process, without any timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pulse {
    /// The process holds its liveness lock.
    Held,
    /// The lock is free, and only the end of the process or of the node frees it.
    Dropped,
    /// The lock is free, but a lost connection frees it, too: a suspicion.
    Suspect,
    /// The store has no such lock; only beats show liveness.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(state: NodeState, pulse: Pulse) -> NodeSeen {
        let record = NodeRecord {
            id: NodeId::new("n-1").unwrap(),
            name: String::new(),
            started_at: Millis(0),
            workflows: Vec::new(),
            slots: 1,
            timing: None,
            state,
        };
        NodeSeen { record, beats: 1, beat_at: Millis(0), pulse }
    }

    #[test]
    fn a_node_is_gone_by_its_record_or_its_pulse_not_by_suspicion() {
        assert!(seen(NodeState::Gone, Pulse::Held).is_gone());
        assert!(seen(NodeState::Up, Pulse::Dropped).is_gone());
        for pulse in [Pulse::Held, Pulse::Suspect, Pulse::Unknown] {
            assert!(!seen(NodeState::Up, pulse).is_gone(), "{pulse:?}");
        }
    }

    #[test]
    fn a_label_holds_the_release_and_names_no_workflow() {
        let label = NodeRecord::release_label("1.2.3");
        assert_eq!(label.rsplit_once('@'), None, "releases read NAME@VERSION");
        let plain = seen(NodeState::Up, Pulse::Held).record;
        assert_eq!(plain.release(), None);
        let node = NodeRecord { workflows: vec!["order@1".to_owned(), label], ..plain };
        assert_eq!(node.release(), Some("1.2.3"));
        let (workflows, _) = NodeRecord::parse_labels(node.labels());
        assert_eq!(NodeRecord { workflows, ..node.clone() }.release(), Some("1.2.3"), "stores keep it");
    }

    #[test]
    fn labels_hold_the_queues_and_older_releases_see_no_workflow_in_them() {
        let queue = |name: String| QueueName::new(name).unwrap();
        let queues = [queue("default".to_owned()), queue("images".to_owned())];
        let labels = NodeRecord::queue_labels(&queues);
        assert!(labels.iter().all(|label| label.rsplit_once('@').is_none()), "releases read NAME@VERSION");
        let plain = seen(NodeState::Up, Pulse::Held).record;
        assert_eq!(plain.queues(), None, "an older release");
        let node = NodeRecord { workflows: labels, ..plain };
        let (workflows, _) = NodeRecord::parse_labels(node.labels());
        assert_eq!(
            NodeRecord { workflows, ..node }.queues(),
            Some(vec!["default", "images"]),
            "stores keep them"
        );
        let many: Vec<QueueName> = (0..65).map(|n| queue(format!("q-{n}"))).collect();
        assert_eq!(NodeRecord::queue_labels(&many[..64]).len(), 64);
        assert!(NodeRecord::queue_labels(&many).is_empty(), "too many to record");
    }

    #[test]
    fn labels_hold_the_timing_and_older_releases_see_no_workflow_in_it() {
        let beat = Duration::from_millis(200);
        let silence_max = Duration::from_secs(1);
        let timing = Some(Timing { beat, silence_max });
        let workflows = vec!["order@1".to_owned()];
        let node = |timing| NodeRecord {
            workflows: workflows.clone(),
            timing,
            ..seen(NodeState::Up, Pulse::Held).record
        };
        for timing in [None, timing] {
            assert_eq!(NodeRecord::parse_labels(node(timing).labels()), (workflows.clone(), timing));
        }
        let labels = node(timing).labels();
        assert_eq!(labels, ["order@1", "goldseam.timing:200:1000"]);
        assert_eq!(labels[1].rsplit_once('@'), None, "older releases read NAME@VERSION");
        for bad in ["", "200", "200:x", "0:1000", "200:0", ":"] {
            let labels = vec![format!("{TIMING}{bad}"), "order@1".to_owned()];
            assert_eq!(NodeRecord::parse_labels(labels), (workflows.clone(), None), "{bad}");
        }
        let named_alike = vec![format!("{TIMING}200:1000@1")];
        assert_eq!(NodeRecord::parse_labels(named_alike.clone()), (named_alike, None), "a workflow");
        let newer = vec!["order@1".to_owned(), format!("{TIMING}200:1000:7")];
        assert_eq!(NodeRecord::parse_labels(newer), (workflows.clone(), timing));
    }
}
