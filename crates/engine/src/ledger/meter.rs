//! The one home of metrics: every name, every label, and a function for each thing that is counted.
//!
//! Invariant: a label is one of few words. Ids of runs, tasks and locks are never labels. Clients choose the names of queues
//! and workflows: the first [`NAMES_MAX`] of each are labels, all others are counted together as [`OTHER`]. A program that runs an engine
//! chooses where the numbers go by installing a recorder of the `metrics` crate; without one they cost next to nothing.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::{
    Label, SharedString, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

/// Recoveries, by rule, workflow (empty for tasks and locks) and reason.
pub const RECOVERIES: &str = "goldseam_recoveries_total";
/// Remedies that could not be applied, by rule.
pub const RECOVERY_FAILED: &str = "goldseam_recovery_failed_total";
/// What was given up because too many recoveries did not help, by workflow (empty for tasks).
pub const ATTEMPTS_EXCEEDED: &str = "goldseam_recovery_attempts_exceeded_total";
/// How long something had been stale when it was healed, by rule.
pub const STALE_SECONDS: &str = "goldseam_recovery_stale_seconds";
/// How long healing took from finding to done, by rule.
pub const HEAL_SECONDS: &str = "goldseam_recovery_heal_seconds";
/// Sweeps that came to their end.
pub const SWEEPS: &str = "goldseam_sweeps_total";
/// What the last look found, by rule.
pub const FINDINGS: &str = "goldseam_findings";
/// Tasks that are due, by queue.
pub const QUEUE_DEPTH: &str = "goldseam_queue_depth";
/// How long the oldest due task has been waiting, by queue.
pub const QUEUE_OLDEST: &str = "goldseam_queue_oldest_seconds";
/// Beats of this process's nodes.
pub const NODE_BEATS: &str = "goldseam_node_beats_total";
/// Stale locks that were freed.
pub const LOCKS_CLEANED: &str = "goldseam_locks_cleaned_total";
/// Tasks that were taken from claimants who are gone or silent.
pub const ENTRIES_RECLAIMED: &str = "goldseam_entries_reclaimed_total";

/// Tells the recorder what each name means.
pub fn describe() {
    describe_counter!(RECOVERIES, "Recoveries by rule, workflow and reason");
    describe_counter!(RECOVERY_FAILED, "Remedies that could not be applied, by rule");
    describe_counter!(ATTEMPTS_EXCEEDED, "Runs and tasks given up after too many recoveries");
    describe_histogram!(STALE_SECONDS, "How long something had been stale when it was healed");
    describe_histogram!(HEAL_SECONDS, "How long healing took from finding to done");
    describe_counter!(SWEEPS, "Sweeps that came to their end");
    describe_gauge!(FINDINGS, "What the last look found, by rule");
    describe_gauge!(QUEUE_DEPTH, "Tasks that are due, by queue");
    describe_gauge!(QUEUE_OLDEST, "How long the oldest due task has been waiting, by queue");
    describe_counter!(NODE_BEATS, "Beats of this process's nodes");
    describe_counter!(LOCKS_CLEANED, "Stale locks that were freed");
    describe_counter!(ENTRIES_RECLAIMED, "Tasks taken from claimants who are gone or silent");
}

/// Queues, and workflows, of a store that have labels of their own.
pub const NAMES_MAX: usize = 200;
/// The label of all others together.
pub const OTHER: &str = "other";

/// Counts what happens in one store. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct Meter {
    namespace: Option<SharedString>,
    queues: Arc<Names>,
    workflows: Arc<Names>,
    /// Labels of the queues whose depth was last reported.
    reported: Arc<Mutex<Vec<String>>>,
}

/// Names that clients chose and that are labels.
#[derive(Debug, Default)]
struct Names(Mutex<BTreeSet<String>>);

impl Names {
    /// The label of a name: a recorder never forgets one, so the first that come have labels of their own.
    fn label<'a>(&self, name: &'a str) -> &'a str {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
    /// One of several stores in this process: everything that is counted in it says so.
    pub fn of(namespace: Option<String>) -> Self {
        Self { namespace: namespace.map(SharedString::from), ..Self::default() }
    }

    fn labels<const N: usize>(&self, own: [(&'static str, SharedString); N]) -> Vec<Label> {
        let namespace = self.namespace.clone().map(|name| ("namespace", name));
        own.into_iter().chain(namespace).map(|(key, value)| Label::new(key, value)).collect()
    }

    /// Something was healed: how long it had been sick, where that is known, and how long the healing took.
    pub fn recovered(
        &self,
        rule: &'static str,
        workflow: &str,
        reason: &'static str,
        (stale, heal): (Option<Duration>, Duration),
    ) {
        let workflow = SharedString::from(self.workflows.label(workflow).to_owned());
        let what = [("rule", rule.into()), ("workflow", workflow), ("reason", reason.into())];
        counter!(RECOVERIES, self.labels(what)).increment(1);
        if let Some(stale) = stale {
            histogram!(STALE_SECONDS, self.labels([("rule", rule.into())])).record(stale.as_secs_f64());
        }
        histogram!(HEAL_SECONDS, self.labels([("rule", rule.into())])).record(heal.as_secs_f64());
    }

    /// A remedy could not be applied.
    pub fn recovery_failed(&self, rule: &'static str) {
        counter!(RECOVERY_FAILED, self.labels([("rule", rule.into())])).increment(1);
    }

    /// Too many recoveries did not help.
    pub fn attempts_exceeded(&self, workflow: &str) {
        let workflow = SharedString::from(self.workflows.label(workflow).to_owned());
        counter!(ATTEMPTS_EXCEEDED, self.labels([("workflow", workflow)])).increment(1);
    }

    /// A sweep came to its end.
    pub fn swept(&self) {
        counter!(SWEEPS, self.labels([])).increment(1);
    }

    /// A look by this rule found so much.
    pub fn findings(&self, rule: &'static str, count: u64) {
        gauge!(FINDINGS, self.labels([("rule", rule.into())])).set(count as f64);
    }

    /// The label of a queue: its name, or [`OTHER`] if there are too many.
    pub fn queue_label<'a>(&self, queue: &'a str) -> &'a str {
        self.queues.label(queue)
    }

    /// The labels whose depth was last reported.
    pub(crate) fn reported_queues(&self) -> MutexGuard<'_, Vec<String>> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many tasks of the queues with this label are due, the oldest for so long.
    pub fn queue_depth(&self, queue: &str, due: u64, oldest: Option<Duration>) {
        let labels = self.labels([("queue", queue.to_owned().into())]);
        gauge!(QUEUE_DEPTH, labels.clone()).set(due as f64);
        gauge!(QUEUE_OLDEST, labels).set(oldest.unwrap_or_default().as_secs_f64());
    }

    /// A node of this process has beaten.
    pub fn beaten(&self) {
        counter!(NODE_BEATS, self.labels([])).increment(1);
    }

    /// A stale lock was freed.
    pub fn lock_cleaned(&self) {
        counter!(LOCKS_CLEANED, self.labels([])).increment(1);
    }

    /// A task was taken from a claimant who is gone or silent.
    pub fn entry_reclaimed(&self) {
        counter!(ENTRIES_RECLAIMED, self.labels([])).increment(1);
    }
}

#[cfg(test)]
mod tests;
