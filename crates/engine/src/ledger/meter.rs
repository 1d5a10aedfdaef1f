//! All metrics: every name, every label, and a function for each count.
//!
//! Invariant: labels have few values. Ids of runs, tasks and locks are never labels. Clients choose the names of
//! queues, workflows and steps, so only the first [`NAMES_MAX`] queues and workflows and the first [`PAIRS_MAX`] steps
//! become labels; the others share the label [`OTHER`]. A program that runs an engine installs a recorder of the
//! `metrics` crate; without one, metrics cost almost nothing. Every counter whose labels are known exists with 0 from
//! the start of the engine ([`Meter::announce`]).

mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use goldseam_core::recovery::{Budget, CATALOGUE, Code, Detector, Reason};
use goldseam_core::task::Task;
use metrics::{
    Label, SharedString, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use crate::ledger::sync::lock;
use work::{SharedNames, TaskClaims, recorder};
pub(crate) use work::{WaitKind, WorkMeter};

/// Runs that were started, by workflow.
pub const RUNS_STARTED: &str = "goldseam_runs_started_total";
/// Runs that ended, by workflow and outcome: `completed`, `failed` or `cancelled`.
pub const RUNS_ENDED: &str = "goldseam_runs_ended_total";
/// Runs that were parked, by workflow.
pub const RUNS_PARKED: &str = "goldseam_runs_parked_total";
/// Durations of completed attempts at steps, by workflow and step.
pub const STEP_SECONDS: &str = "goldseam_step_seconds";
/// Attempts at steps, by workflow, step and outcome: `completed`, `failed` or `timed_out`.
pub const STEP_ATTEMPTS: &str = "goldseam_step_attempts_total";
/// Retries of steps that were scheduled, by workflow and step.
pub const STEP_RETRIES: &str = "goldseam_step_retries_total";
/// Time from due to claimed, by kind of task, workflow (empty unless the task is a run's) and queue.
pub const SCHEDULE_TO_START: &str = "goldseam_schedule_to_start_seconds";
/// Waits that began, by workflow and kind.
pub const WAITS_STARTED: &str = "goldseam_waits_started_total";
/// Open waits of the runs in the memory of this process, by workflow and kind.
pub const LIVE_WAITS: &str = "goldseam_live_waits";

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

/// Recommended bounds of the buckets of every histogram, in seconds: from a millisecond to a day.
const BUCKETS: [f64; 20] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 30.0, 60.0, 300.0, 900.0,
    3_600.0, 14_400.0, 86_400.0,
];

/// Returns the recommended bounds of the buckets of every histogram, in seconds. The alert rules and the board need
/// buckets; an exporter that is not given any may export summaries instead.
pub fn buckets() -> &'static [f64] {
    &BUCKETS
}

/// Registers a help text for each metric.
pub fn describe() {
    describe_counter!(RUNS_STARTED, "Runs that were started, by workflow");
    describe_counter!(RUNS_ENDED, "Runs that ended, by workflow and outcome");
    describe_counter!(RUNS_PARKED, "Runs that were parked, by workflow");
    describe_histogram!(STEP_SECONDS, "Durations of completed attempts at steps, by workflow and step");
    describe_counter!(STEP_ATTEMPTS, "Attempts at steps, by workflow, step and outcome");
    describe_counter!(STEP_RETRIES, "Retries of steps that were scheduled, by workflow and step");
    describe_histogram!(SCHEDULE_TO_START, "Time from due to claimed, by kind of task, workflow and queue");
    describe_counter!(WAITS_STARTED, "Waits that began, by workflow and kind");
    describe_gauge!(LIVE_WAITS, "Open waits of the runs in memory, by workflow and kind");
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
/// Maximum number of steps of all workflows that become labels.
pub const PAIRS_MAX: usize = 500;
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
#[derive(Debug, Clone)]
pub struct Meter {
    labels: LabelSet,
    workflows: Arc<Names>,
    names: SharedNames,
    /// The meters of the workflows that have labels, and of all others.
    works: Arc<Mutex<BTreeMap<String, Arc<WorkMeter>>>>,
    claims: Arc<TaskClaims>,
    /// The recorder that has all known counters.
    announced_to: Arc<AtomicUsize>,
    /// Labels of the queues whose depth was reported last.
    reported: Arc<Mutex<Vec<String>>>,
}

impl Default for Meter {
    fn default() -> Self {
        Self::of(None)
    }
}

/// The labels that all metrics of a store have.
#[derive(Debug, Clone)]
struct LabelSet(Option<SharedString>);

impl LabelSet {
    fn with<const N: usize>(&self, own: [(&'static str, SharedString); N]) -> Vec<Label> {
        let namespace = self.0.clone().map(|name| ("namespace", name));
        own.into_iter().chain(namespace).map(|(key, value)| Label::new(key, value)).collect()
    }
}

/// Names chosen by clients that are used as labels.
#[derive(Debug)]
struct Names {
    known: Mutex<BTreeSet<String>>,
    max: usize,
}

impl Names {
    fn up_to(max: usize) -> Arc<Self> {
        Arc::new(Self { known: Mutex::default(), max })
    }

    /// The label of a name. A recorder keeps every label forever, so only the first names get one.
    fn label<'a>(&self, name: &'a str) -> &'a str {
        let mut known = lock(&self.known);
        if known.contains(name) {
            return name;
        }
        if known.len() >= self.max {
            return OTHER;
        }
        known.insert(name.to_owned());
        name
    }
}

impl Meter {
    /// Creates a meter. `namespace` labels every metric, for a process with several stores.
    pub fn of(namespace: Option<String>) -> Self {
        let names = SharedNames {
            queues: Names::up_to(NAMES_MAX),
            steps: Names::up_to(PAIRS_MAX),
            claims: Names::up_to(PAIRS_MAX),
        };
        Self {
            labels: LabelSet(namespace.map(SharedString::from)),
            workflows: Names::up_to(NAMES_MAX),
            names,
            works: Arc::default(),
            claims: Arc::default(),
            announced_to: Arc::default(),
            reported: Arc::default(),
        }
    }

    fn labels<const N: usize>(&self, own: [(&'static str, SharedString); N]) -> Vec<Label> {
        self.labels.with(own)
    }

    /// The meter of a workflow. Its counters exist from then on.
    pub(crate) fn work(&self, workflow: &str) -> Arc<WorkMeter> {
        let label = self.workflows.label(workflow);
        if let Some(known) = lock(&self.works).get(label) {
            return Arc::clone(known);
        }
        self.announce_recoveries_of(label);
        let new = || Arc::new(WorkMeter::new(self.labels.clone(), label.to_owned(), self.names.clone()));
        Arc::clone(lock(&self.works).entry(label.to_owned()).or_insert_with(new))
    }

    /// Registers everything that is counted for a workflow, with 0, and the steps that it declares.
    pub(crate) fn expect<'a>(&self, workflow: &str, steps: impl Iterator<Item = &'a str>) {
        self.work(workflow).announce(steps);
    }

    /// Describes every metric, and registers every counter whose labels are known with 0, so that the first increase is
    /// visible to `rate` and `increase`. Does nothing if the present recorder has them already.
    pub fn announce(&self) {
        let recorder = recorder();
        if self.announced_to.swap(recorder, Ordering::Relaxed) == recorder {
            return;
        }
        describe();
        for rule in CATALOGUE {
            let code = rule.code.as_str();
            let of = || self.labels([("rule", code.into())]);
            counter!(RECOVERY_FAILED, of()).increment(0);
            if rule.budget != Budget::Never {
                let _ = (histogram!(STALE_SECONDS, of()), histogram!(HEAL_SECONDS, of()));
            }
            if matches!(rule.detector, Detector::Run(_)) || matches!(rule.code, Code::L1 | Code::L2) {
                gauge!(FINDINGS, of()).increment(0.0);
            }
        }
        for (rule, reason) in [
            ("L1", "expired"),
            ("L1", "node_gone"),
            ("L2", "silent"),
            ("L2", "node_gone"),
            ("L2", "no_owner"),
        ] {
            let of = [("rule", rule.into()), ("workflow", "".into()), ("reason", reason.into())];
            counter!(RECOVERIES, self.labels(of)).increment(0);
        }
        counter!(ATTEMPTS_EXCEEDED, self.labels([("workflow", "".into())])).increment(0);
        for name in [SWEEPS, NODE_BEATS, LOCKS_CLEANED, ENTRIES_RECLAIMED] {
            counter!(name, self.labels([])).increment(0);
        }
        let works: Vec<_> =
            lock(&self.works).iter().map(|(name, work)| (name.clone(), Arc::clone(work))).collect();
        for (workflow, work) in works {
            self.announce_recoveries_of(&workflow);
            work.announce(std::iter::empty());
        }
    }

    /// Registers the recoveries that follow the death of a process, and the limit on recoveries.
    fn announce_recoveries_of(&self, workflow: &str) {
        let workflow = SharedString::from(workflow.to_owned());
        for reason in [Reason::InfrastructureRestart, Reason::StaleDetection] {
            let of = [
                ("rule", Code::O2.as_str().into()),
                ("workflow", workflow.clone()),
                ("reason", reason.as_str().into()),
            ];
            counter!(RECOVERIES, self.labels(of)).increment(0);
        }
        counter!(ATTEMPTS_EXCEEDED, self.labels([("workflow", workflow)])).increment(0);
    }

    /// Records how long a user's task, or that of a remote step, was due before it was claimed.
    pub(crate) fn task_claimed(&self, task: &Task) {
        self.claims.claimed(&self.labels, &self.names.queues, task);
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
        self.names.queues.label(queue)
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

    /// Counts a beat. Registers all counters again if a recorder was installed since the last beat.
    pub fn beaten(&self) {
        self.announce();
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
