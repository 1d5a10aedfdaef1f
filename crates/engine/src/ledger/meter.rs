//! All metrics: every name, every label, and a function for each count.
//!
//! Invariant: labels have few values. Ids of runs, tasks and locks are never labels. Clients choose the names of
//! queues
//! and workflows, so only the first [`NAMES_MAX`] of each become labels; the others share the label [`OTHER`]. A
//! program
//! that runs an engine installs a recorder of the `metrics` crate; without one, metrics cost almost nothing.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use metrics::{
    Label, SharedString, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use crate::ledger::sync::lock;

/// Recoveries, by rule, workflow (empty for tasks and locks) and reason.
pub const RECOVERIES: &str = "goldseam_recoveries_total";
/// Remedies that failed, by rule.
pub const RECOVERY_FAILED: &str = "goldseam_recovery_failed_total";
/// Runs and tasks given up after too many recoveries, by workflow (empty for tasks).
pub const ATTEMPTS_EXCEEDED: &str = "goldseam_recovery_attempts_exceeded_total";
/// How long a finding had held when it was healed, by rule.
pub const STALE_SECONDS: &str = "goldseam_recovery_stale_seconds";
/// Time from finding to healed, by rule.
pub const HEAL_SECONDS: &str = "goldseam_recovery_heal_seconds";
/// Completed sweeps.
pub const SWEEPS: &str = "goldseam_sweeps_total";
/// Findings of the last sweep, by rule.
pub const FINDINGS: &str = "goldseam_findings";
/// Due tasks, by queue.
pub const QUEUE_DEPTH: &str = "goldseam_queue_depth";
/// Age of the oldest due task, by queue.
pub const QUEUE_OLDEST: &str = "goldseam_queue_oldest_seconds";
/// Beats of the nodes of this process.
pub const NODE_BEATS: &str = "goldseam_node_beats_total";
/// Freed stale locks.
pub const LOCKS_CLEANED: &str = "goldseam_locks_cleaned_total";
/// Tasks reclaimed from lost or silent claimants.
pub const ENTRIES_RECLAIMED: &str = "goldseam_entries_reclaimed_total";

/// Registers a help text for each metric.
pub fn describe() {
    describe_counter!(RECOVERIES, "Recoveries by rule, workflow and reason");
    describe_counter!(RECOVERY_FAILED, "Remedies that failed, by rule");
    describe_counter!(ATTEMPTS_EXCEEDED, "Runs and tasks given up after too many recoveries");
    describe_histogram!(STALE_SECONDS, "How long a finding had held when it was healed");
    describe_histogram!(HEAL_SECONDS, "Time from finding to healed");
    describe_counter!(SWEEPS, "Completed sweeps over all active runs");
    describe_gauge!(FINDINGS, "Findings of the last sweep, by rule");
    describe_gauge!(QUEUE_DEPTH, "Due tasks, by queue");
    describe_gauge!(QUEUE_OLDEST, "Age of the oldest due task in seconds, by queue");
    describe_counter!(NODE_BEATS, "Beats of the nodes of this process");
    describe_counter!(LOCKS_CLEANED, "Stale locks freed");
    describe_counter!(ENTRIES_RECLAIMED, "Tasks reclaimed from lost or silent claimants");
}

/// Maximum number of queue names, and of workflow names, that become labels.
pub const NAMES_MAX: usize = 200;
/// The label of all other names.
pub const OTHER: &str = "other";

/// Durations of one recovery.
#[derive(Debug, Clone, Copy)]
pub struct RecoveryTimes {
    /// How long the finding had held, if known.
    pub stale: Option<Duration>,
    /// Time from finding to healed.
    pub heal: Duration,
}

/// The metrics of one store. Clones share their counts.
#[derive(Debug, Clone, Default)]
pub struct Meter {
    namespace: Option<SharedString>,
    queues: Arc<Names>,
    workflows: Arc<Names>,
    /// Labels of the queues whose depth was reported last.
    reported: Arc<Mutex<Vec<String>>>,
}

/// Names chosen by clients that are used as labels.
#[derive(Debug, Default)]
struct Names(Mutex<BTreeSet<String>>);

impl Names {
    /// The label of a name. A recorder keeps every label forever, so only the first [`NAMES_MAX`] names get one.
    fn label<'a>(&self, name: &'a str) -> &'a str {
        let mut known = lock(&self.0);
        if known.contains(name) {
            return name;
        }
        if known.len() >= NAMES_MAX {
            return OTHER;
        }
        known.insert(name.to_owned());
        name
    }
}

impl Meter {
    /// Creates a meter. `namespace` labels every metric, for a process with several stores.
    pub fn of(namespace: Option<String>) -> Self {
        Self { namespace: namespace.map(SharedString::from), ..Self::default() }
    }

    fn labels<const N: usize>(&self, own: [(&'static str, SharedString); N]) -> Vec<Label> {
        let namespace = self.namespace.clone().map(|name| ("namespace", name));
        own.into_iter().chain(namespace).map(|(key, value)| Label::new(key, value)).collect()
    }

    /// Counts a recovery.
    pub fn recovered(&self, rule: &'static str, workflow: &str, reason: &'static str, times: RecoveryTimes) {
        let workflow = SharedString::from(self.workflows.label(workflow).to_owned());
        let what = [("rule", rule.into()), ("workflow", workflow), ("reason", reason.into())];
        counter!(RECOVERIES, self.labels(what)).increment(1);
        if let Some(stale) = times.stale {
            histogram!(STALE_SECONDS, self.labels([("rule", rule.into())])).record(stale.as_secs_f64());
        }
        histogram!(HEAL_SECONDS, self.labels([("rule", rule.into())])).record(times.heal.as_secs_f64());
    }

    /// Counts a remedy that failed.
    pub fn recovery_failed(&self, rule: &'static str) {
        counter!(RECOVERY_FAILED, self.labels([("rule", rule.into())])).increment(1);
    }

    /// Counts a run or task given up after too many recoveries.
    pub fn attempts_exceeded(&self, workflow: &str) {
        let workflow = SharedString::from(self.workflows.label(workflow).to_owned());
        counter!(ATTEMPTS_EXCEEDED, self.labels([("workflow", workflow)])).increment(1);
    }

    /// Counts a completed sweep.
    pub fn swept(&self) {
        counter!(SWEEPS, self.labels([])).increment(1);
    }

    /// Sets the number of findings of a rule.
    pub fn findings(&self, rule: &'static str, count: u64) {
        gauge!(FINDINGS, self.labels([("rule", rule.into())])).set(count as f64);
    }

    /// The label of a queue: its name, or [`OTHER`] if too many queues have labels.
    pub fn queue_label<'a>(&self, queue: &'a str) -> &'a str {
        self.queues.label(queue)
    }

    /// The labels whose depth was reported last.
    pub(crate) fn reported_queues(&self) -> MutexGuard<'_, Vec<String>> {
        lock(&self.reported)
    }

    /// Sets the number of due tasks of the queues with this label, and the age of the oldest.
    pub fn queue_depth(&self, queue: &str, due: u64, oldest: Option<Duration>) {
        let labels = self.labels([("queue", queue.to_owned().into())]);
        gauge!(QUEUE_DEPTH, labels.clone()).set(due as f64);
        gauge!(QUEUE_OLDEST, labels).set(oldest.unwrap_or_default().as_secs_f64());
    }

    /// Counts a beat.
    pub fn beaten(&self) {
        counter!(NODE_BEATS, self.labels([])).increment(1);
    }

    /// Counts a freed stale lock.
    pub fn lock_cleaned(&self) {
        counter!(LOCKS_CLEANED, self.labels([])).increment(1);
    }

    /// Counts a task reclaimed from a lost or silent claimant.
    pub fn entry_reclaimed(&self) {
        counter!(ENTRIES_RECLAIMED, self.labels([])).increment(1);
    }
}

#[cfg(test)]
mod tests;
