//! Numbers of tasks per queue, counted up to a limit.

mod serving;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use goldseam_core::task::{Task, TaskState};
use goldseam_core::{Millis, QueueName, RunId, TaskId};
use goldseam_store::TaskFilter;
use serde::{Deserialize, Serialize};

use crate::ledger::commit::Ledger;
use crate::ledger::config::QUEUE_DETAILS;
use crate::ledger::error::EngineError;
use crate::ledger::liveness::Liveness;

/// Tasks per read of the store.
const PAGE: u32 = 1_000;
/// Maximum number of tasks counted.
const TASKS_MAX: u64 = 100_000;
/// Maximum number of flawed records reported.
const FLAWS_MAX: usize = 100;

/// The contents of all queues at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Stats {
    /// The time of the count, by the store's clock.
    pub at: Millis,
    /// Each queue that has tasks, by name.
    pub queues: Vec<QueueStats>,
    /// Number of tasks counted.
    pub counted: u64,
    /// Whether all tasks were counted. If not, the numbers are lower bounds.
    pub complete: bool,
    /// Tasks whose records are inconsistent.
    pub flaws: Vec<StatsFlaw>,
    /// Runs that could go on now, but that no live node takes; absent if the server is of an older release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unserved: Option<Vec<UnservedRuns>>,
}

/// Runs of one workflow in one queue that no live node takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct UnservedRuns {
    /// The workflow, with its version if the runs have one: `order@2`.
    pub needs: String,
    /// Number of these runs.
    pub queued: u64,
    /// Their queue.
    pub queues: Vec<QueueName>,
    /// The first of them that were found.
    pub runs: Vec<RunId>,
    /// Since when the oldest of them waits, in milliseconds since 1970.
    pub since_ms: Millis,
    /// The node that they wait for.
    pub waits_for: String,
    /// The workflow.
    pub workflow: String,
}

/// The tasks of one queue, including advance tasks of runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct QueueStats {
    /// The queue.
    pub queue: QueueName,
    /// Unclaimed tasks, due or not.
    pub ready: u64,
    /// Unclaimed tasks that are due.
    pub due: u64,
    /// Claimed tasks.
    pub claimed: u64,
    /// Tasks whose claimants crashed too often.
    pub dead: u64,
    /// Age of the oldest due task.
    pub oldest_ms: Option<u64>,
    /// Due tasks that are no runs: remote steps and tasks of users, which wait for a worker that claims tasks.
    #[serde(default)]
    pub tasks_due: u64,
    /// Live nodes that take runs from the queue; absent if a live node does not record its queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
}

/// An inconsistent record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = Flaw))]
pub struct StatsFlaw {
    /// The task.
    pub task: TaskId,
    /// The condition that does not hold.
    pub flaw: Cow<'static, str>,
}

/// Counts ready, claimed and dead tasks; with `liveness`, also what no live node takes.
pub(crate) async fn count(ledger: &Ledger, liveness: Option<&Liveness>) -> Result<Stats, EngineError> {
    let at = ledger.store.now().await?;
    let mut stats =
        Stats { at, queues: Vec::new(), counted: 0, complete: true, flaws: Vec::new(), unserved: None };
    let mut queues = BTreeMap::new();
    let mut due = BTreeMap::new();
    let mut after = None;
    loop {
        let filter = TaskFilter { open: true, after: after.take(), limit: PAGE, ..TaskFilter::default() };
        let page = ledger.store.tasks(filter).await?;
        stats.counted += page.len() as u64;
        for task in &page {
            stats.add(&mut queues, task);
            serving::add_due(&mut due, task, at);
        }
        match page.last() {
            Some(last) if page.len() == PAGE as usize && stats.counted < TASKS_MAX => {
                after = Some(last.id.clone());
            }
            last => {
                stats.complete = last.is_none() || page.len() < PAGE as usize;
                break;
            }
        }
    }
    stats.queues = queues.into_values().collect();
    if let Some(liveness) = liveness {
        serving::judge(&mut stats, due, liveness);
    }
    report_depths(ledger, &stats.queues);
    Ok(stats)
}

/// Reports the depths to the meter. A label whose queues became empty is reported once more, as 0.
fn report_depths(ledger: &Ledger, queues: &[QueueStats]) {
    let mut reported = ledger.meter.reported_queues();
    let mut depths: BTreeMap<&str, (u64, Option<u64>)> = BTreeMap::new();
    for found in queues {
        let (due, oldest_ms) = depths.entry(ledger.meter.queue_label(found.queue.as_str())).or_default();
        *due += found.due;
        *oldest_ms = (*oldest_ms).max(found.oldest_ms);
    }
    for empty in reported.iter().filter(|label| !depths.contains_key(label.as_str())) {
        ledger.meter.queue_depth(empty, 0, None);
    }
    for (label, (due, oldest_ms)) in &depths {
        ledger.meter.queue_depth(label, *due, oldest_ms.map(Duration::from_millis));
    }
    *reported = depths.into_keys().map(str::to_owned).collect();
}

impl Stats {
    fn add(&mut self, queues: &mut BTreeMap<String, QueueStats>, task: &Task) {
        if let Some(flaw) = task.flaw() {
            tracing::error!(task = %task.id, flaw, "task record is inconsistent");
            if self.flaws.len() < FLAWS_MAX {
                self.flaws.push(StatsFlaw { task: task.id.clone(), flaw: flaw.into() });
            }
        }
        if task.queue.as_str() == QUEUE_DETAILS {
            return;
        }
        let name = task.queue.as_str().to_owned();
        let found = queues.entry(name).or_insert_with(|| QueueStats::of(task.queue.clone()));
        match task.state {
            TaskState::Ready => found.add_ready(task, self.at),
            TaskState::Claimed => found.claimed += 1,
            TaskState::Dead => found.dead += 1,
            TaskState::Completed | TaskState::Failed | TaskState::Cancelled => {}
        }
    }
}

impl QueueStats {
    fn of(queue: QueueName) -> Self {
        Self { queue, ready: 0, due: 0, claimed: 0, dead: 0, oldest_ms: None, tasks_due: 0, nodes: None }
    }

    fn add_ready(&mut self, task: &Task, now: Millis) {
        self.ready += 1;
        if task.run_at <= now {
            self.due += 1;
            self.tasks_due += u64::from(!task.is_advance());
            let waited = now.since(task.run_at.max(task.created_at));
            let waited = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
            self.oldest_ms = Some(self.oldest_ms.unwrap_or_default().max(waited));
        }
    }
}
