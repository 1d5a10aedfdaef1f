//! Which queues and runs live nodes serve, by the records of the nodes.
//!
//! A node that does not record its queues (an older release, or more queues than a record holds) may take runs from any
//! queue: what it could serve is never reported as unserved.

use std::collections::{BTreeMap, BTreeSet};

use goldseam_core::reserved::{self, Named};
use goldseam_core::task::{Task, TaskState};
use goldseam_core::version::UNDECIDED;
use goldseam_core::{Millis, QueueName, RunId, WorkflowName};

use super::{Stats, UnservedRuns};
use crate::ledger::liveness::Liveness;

/// Maximum number of runs that are named for each workflow and queue.
const EXAMPLES: usize = 3;

/// Due advance tasks by queue and kind.
pub(super) type DueRuns = BTreeMap<(QueueName, String), DueOfKind>;

/// Due advance tasks of one queue and kind.
#[derive(Debug)]
pub(super) struct DueOfKind {
    count: u64,
    since: Millis,
    runs: Vec<RunId>,
}

/// Counts a task if it is a run that could go on now.
pub(super) fn add_due(due: &mut DueRuns, task: &Task, now: Millis) {
    if !task.is_advance() || task.state != TaskState::Ready || task.run_at > now {
        return;
    }
    let since = task.run_at.max(task.created_at);
    let key = (task.queue.clone(), task.kind.clone());
    let found = due.entry(key).or_insert_with(|| DueOfKind { count: 0, since, runs: Vec::new() });
    found.count += 1;
    found.since = found.since.min(since);
    if found.runs.len() < EXAMPLES {
        found.runs.extend(task.run.clone());
    }
}

/// Adds what live nodes serve to the counts.
pub(super) fn judge(stats: &mut Stats, due: DueRuns, liveness: &Liveness) {
    for found in &mut stats.queues {
        found.nodes = liveness.nodes_of(&found.queue);
    }
    stats.unserved = Some(due.into_iter().filter_map(|(key, due)| unserved(&key, due, liveness)).collect());
}

fn unserved(key: &(QueueName, String), due: DueOfKind, liveness: &Liveness) -> Option<UnservedRuns> {
    let (queue, kind) = key;
    let needs = Task::advanced_by(kind)?;
    let (name, version) = match needs.rsplit_once('@') {
        Some((name, version)) => (name, version.parse().ok()?),
        None => (needs, UNDECIDED),
    };
    // The built-in workflows are part of every engine.
    if reserved::prefix(Named::Workflow, name).is_some() {
        return None;
    }
    let workflow = WorkflowName::new(name).ok()?;
    let waits_for = liveness.missing(&workflow, version, queue)?;
    Some(UnservedRuns {
        needs: needs.to_owned(),
        queued: due.count,
        queues: vec![queue.clone()],
        runs: due.runs,
        since_ms: due.since,
        waits_for,
        workflow: name.to_owned(),
    })
}

impl Liveness {
    /// Number of live nodes that take runs from a queue; none if a live node does not record its queues.
    pub fn nodes_of(&self, queue: &QueueName) -> Option<u32> {
        let takes = |queues: Vec<&str>| u32::from(queues.contains(&queue.as_str()));
        self.working().map(|seen| seen.record.queues().map(takes)).sum()
    }

    /// Describes the node that a run waits for; none if a live node takes it, or may take it.
    pub fn missing(&self, workflow: &WorkflowName, version: u32, queue: &QueueName) -> Option<String> {
        let versions = self.versions(workflow);
        if versions.is_empty() {
            return Some(format!("an engine with workflow {workflow}; none is running"));
        }
        let label = |version: u32| format!("{workflow}@{version}");
        let needs = if version == UNDECIDED { workflow.to_string() } else { label(version) };
        if version != UNDECIDED && !versions.contains(&version) {
            let live: Vec<String> = versions.iter().map(u32::to_string).collect();
            return Some(format!("a worker with {needs}; live nodes have {}", live.join(", ")));
        }
        let labels: Vec<String> = match version {
            UNDECIDED => versions.into_iter().map(label).collect(),
            version => vec![label(version)],
        };
        let mut taken = BTreeSet::new();
        for seen in self.working().filter(|seen| seen.record.workflows.iter().any(|one| labels.contains(one)))
        {
            taken.extend(seen.record.queues()?);
        }
        if taken.contains(queue.as_str()) {
            return None;
        }
        let taken: Vec<&str> = taken.into_iter().collect();
        Some(format!(
            "a node with {needs} that takes runs from queue {queue}; live nodes take {}",
            taken.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use goldseam_core::NodeId;
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
        assert!(missing(&live, 2, "default").unwrap().ends_with("live nodes take images, mail"));
        assert!(missing(&live, 3, "default").unwrap().ends_with("live nodes have 1, 2"));
        assert!(missing(&live, UNDECIDED, "other").unwrap().contains("takes runs from queue other"));
        assert!(missing(&seen(Vec::new()), 1, "default").unwrap().ends_with("none is running"));
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
