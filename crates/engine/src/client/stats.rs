//! Numbers of tasks per queue, counted up to a limit.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use goldseam_core::task::{Task, TaskState};
use goldseam_core::{Millis, QueueName, TaskId};
use goldseam_store::TaskFilter;
use serde::{Deserialize, Serialize};

use crate::ledger::commit::Ledger;
use crate::ledger::config::QUEUE_DETAILS;
use crate::ledger::error::EngineError;

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

/// Counts ready, claimed and dead tasks.
pub(crate) async fn count(ledger: &Ledger) -> Result<Stats, EngineError> {
    let at = ledger.store.now().await?;
    let mut stats = Stats { at, queues: Vec::new(), counted: 0, complete: true, flaws: Vec::new() };
    let mut queues = BTreeMap::new();
    let mut after = None;
    loop {
        let filter = TaskFilter { open: true, after: after.take(), limit: PAGE, ..TaskFilter::default() };
        let page = ledger.store.tasks(filter).await?;
        stats.counted += page.len() as u64;
        page.iter().for_each(|task| stats.add(&mut queues, task));
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
        Self { queue, ready: 0, due: 0, claimed: 0, dead: 0, oldest_ms: None }
    }

    fn add_ready(&mut self, task: &Task, now: Millis) {
        self.ready += 1;
        if task.run_at <= now {
            self.due += 1;
            let waited = now.since(task.run_at.max(task.created_at));
            let waited = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
            self.oldest_ms = Some(self.oldest_ms.unwrap_or_default().max(waited));
        }
    }
}
