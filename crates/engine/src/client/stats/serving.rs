//! Due runs that no live node takes.

use std::collections::BTreeMap;

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
