//! What live nodes serve, by their records.
//!
//! A node that does not record its queues (an older release, or more queues than a record holds) may take runs from any
//! queue: what it could serve is never reported as unserved.

use std::collections::BTreeSet;

use goldseam_core::reserved::{self, Named};
use goldseam_core::task::Task;
use goldseam_core::version::UNDECIDED;
use goldseam_core::{QueueName, WorkflowName};
use goldseam_store::NodeSeen;

use super::{Liveness, labels};

/// What live nodes have of a workflow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    /// The versions, ascending.
    pub versions: Vec<u32>,
    /// The queues from which nodes with the requested version take runs; none: a node does not record its queues.
    pub queues: Option<Vec<String>>,
}

impl Coverage {
    /// Describes the node that a run waits for; none if a live node takes it, or may take it.
    pub fn missing(&self, workflow: &WorkflowName, version: u32, queue: &QueueName) -> Option<String> {
        let needs = match version {
            UNDECIDED => workflow.to_string(),
            version => format!("{workflow}@{version}"),
        };
        if self.versions.is_empty() {
            return Some(format!("a worker with {needs}; no live node has the workflow"));
        }
        if version != UNDECIDED && !self.versions.contains(&version) {
            let live: Vec<String> = self.versions.iter().map(u32::to_string).collect();
            return Some(format!("a worker with {needs}; live nodes have {}", live.join(", ")));
        }
        let taken = self.queues.as_ref().filter(|taken| taken.iter().all(|taken| taken != queue.as_str()))?;
        Some(format!("a worker with {needs} that takes queue {queue}; live ones take {}", taken.join(", ")))
    }
}

impl Liveness {
    /// Number of live nodes with workflows that take runs from a queue; none if one of them does not record its queues,
    /// or if the queue belongs to the engine.
    pub fn nodes_of(&self, queue: &QueueName) -> Option<u32> {
        if reserved::prefix(Named::Queue, queue.as_str()).is_some() {
            return None;
        }
        let takes = |queues: Vec<&str>| u32::from(queues.contains(&queue.as_str()));
        let works = |seen: &&NodeSeen| {
            labels(seen).any(|(name, _)| reserved::prefix(Named::Workflow, name).is_none())
        };
        self.working().filter(works).map(|seen| seen.record.queues().map(takes)).sum()
    }

    /// The kinds of advance tasks that live nodes claim: of each queue if they record their queues, otherwise of all.
    pub(crate) fn kinds(&self) -> Vec<String> {
        let mut all = BTreeSet::new();
        for seen in self.working() {
            let queues: Option<Vec<QueueName>> = seen.record.queues().and_then(|queues| {
                let queues = queues.into_iter().map(|queue| QueueName::new(queue).ok());
                queues.collect()
            });
            for (name, version) in labels(seen) {
                let is_built_in = reserved::prefix(Named::Workflow, name).is_some();
                let kinds = [version, UNDECIDED].map(|version| Task::advance_kind(name, version));
                match queues.as_ref().filter(|_| !is_built_in) {
                    Some(queues) => all.extend(
                        queues
                            .iter()
                            .flat_map(|queue| kinds.iter().map(move |kind| Task::pool_of(queue, Some(kind)))),
                    ),
                    None => all.extend(kinds),
                }
            }
        }
        all.into_iter().collect()
    }

    /// What live nodes have of a workflow, for runs of a version.
    pub fn coverage(&self, workflow: &WorkflowName, version: u32) -> Coverage {
        let is_it =
            |(name, has): (&str, u32)| name == workflow.as_str() && (version == UNDECIDED || has == version);
        let mut queues = Some(BTreeSet::new());
        for seen in self.working().filter(|seen| labels(seen).any(is_it)) {
            queues = queues.zip(seen.record.queues()).map(|(mut all, its)| {
                all.extend(its.into_iter().map(str::to_owned));
                all
            });
        }
        let queues = queues.map(|queues| queues.into_iter().collect());
        Coverage { versions: self.versions(workflow), queues }
    }

    /// Describes the node that a run waits for; none if a live node takes it, or may take it.
    pub fn missing(&self, workflow: &WorkflowName, version: u32, queue: &QueueName) -> Option<String> {
        // Every engine has the built-in workflows, and claims them from the queues of the engine.
        if reserved::prefix(Named::Workflow, workflow.as_str()).is_some() {
            return None;
        }
        self.coverage(workflow, version).missing(workflow, version, queue)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use goldseam_core::{Millis, NodeId};
    use goldseam_store::{NodeRecord, NodeSeen, NodeState, Pulse};

    use super::*;
    use crate::ledger::liveness::Thresholds;

    fn queue(name: &str) -> QueueName {
        QueueName::new(name).unwrap()
    }

    fn node(id: &str, labels: &[&str], queues: &[&str]) -> NodeSeen {
        let queues: Vec<QueueName> = queues.iter().map(|name| queue(name)).collect();
        let workflows =
            labels.iter().map(|label| (*label).to_owned()).chain(NodeRecord::queue_labels(&queues));
        let record = NodeRecord {
            id: NodeId::new(id).unwrap(),
            name: id.to_owned(),
            started_at: Millis(0),
            workflows: workflows.collect(),
            slots: 1,
            timing: None,
            state: NodeState::Up,
        };
        NodeSeen { record, beats: 1, beat_at: Millis(99_000), pulse: Pulse::Held }
    }

    fn seen(nodes: Vec<NodeSeen>) -> Liveness {
        let second = Duration::from_secs(1);
        let thresholds =
            Thresholds { silence_max: 10 * second, beat: 3 * second, doubt: second, grace: second / 2 };
        Liveness { nodes, now: Millis(100_000), thresholds }
    }

    fn missing(live: &Liveness, version: u32, name: &str) -> Option<String> {
        live.missing(&WorkflowName::new("order").unwrap(), version, &queue(name))
    }

    #[test]
    fn run_needs_a_node_with_its_workflow_version_and_queue() {
        let live =
            seen(vec![node("a", &["order@1"], &["default"]), node("b", &["order@2"], &["images", "mail"])]);
        assert_eq!(missing(&live, 1, "default"), None);
        assert_eq!(missing(&live, UNDECIDED, "mail"), None);
        assert!(missing(&live, 2, "default").unwrap().ends_with("live ones take images, mail"));
        assert!(missing(&live, 3, "default").unwrap().ends_with("live nodes have 1, 2"));
        assert!(missing(&live, UNDECIDED, "other").unwrap().contains("takes queue other"));
        assert!(missing(&seen(Vec::new()), 1, "default").unwrap().ends_with("no live node has the workflow"));
        let counts = ["default", "images", "other"].map(|name| live.nodes_of(&queue(name)));
        assert_eq!(counts, [Some(1), Some(1), Some(0)]);
    }

    #[test]
    fn node_without_recorded_queues_may_take_any_run_of_its_workflows() {
        let live = seen(vec![node("new", &["pay@1"], &["default"]), node("old", &["order@1"], &[])]);
        assert_eq!(missing(&live, 1, "images"), None);
        assert!(missing(&live, 2, "images").is_some(), "it records its workflows");
        assert_eq!(live.nodes_of(&queue("images")), None);
    }

    #[test]
    fn leaving_node_serves_nothing() {
        let mut leaving = node("a", &["order@1"], &["default"]);
        leaving.record.state = NodeState::Leaving;
        let live = seen(vec![leaving]);
        assert!(missing(&live, 1, "default").is_some());
        assert_eq!(live.nodes_of(&queue("default")), Some(0));
    }
}
