//! Metrics of the work of one workflow: its runs, steps, waits and claims.
//!
//! The write loop passes every append that landed to [`WorkMeter::committed`], so each event is counted once, by the
//! process that wrote it. Handles are registered once per recorder and kept: an event costs no label and no allocation.

use std::collections::HashMap;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use goldseam_core::event::{Event, WaitStarted};
use goldseam_core::task::Task;
use goldseam_core::{Millis, Path, Recorded};
use metrics::{Counter, Gauge, Histogram, SharedString, counter, gauge, histogram};

use super::{
    LIVE_WAITS, LabelSet, Names, OTHER, RUNS_ENDED, RUNS_PARKED, RUNS_STARTED, SCHEDULE_TO_START,
    STEP_ATTEMPTS, STEP_RETRIES, STEP_SECONDS, WAITS_STARTED,
};
use crate::ledger::sync::lock;

/// What a run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitKind {
    Signal,
    Question,
    Timer,
    Child,
    RemoteStep,
    Retry,
}

impl WaitKind {
    const ALL: [Self; 6] =
        [Self::Signal, Self::Question, Self::Timer, Self::Child, Self::RemoteStep, Self::Retry];

    fn as_str(self) -> &'static str {
        match self {
            Self::Signal => "signal",
            Self::Question => "question",
            Self::Timer => "timer",
            Self::Child => "child",
            Self::RemoteStep => "remote_step",
            Self::Retry => "retry",
        }
    }

    /// The kind of a wait. A wait for several things has the first kind of: question, signal, child, timer.
    pub(crate) fn of(wanted: &WaitStarted) -> Self {
        if !wanted.inputs.is_empty() {
            Self::Question
        } else if !wanted.signals.is_empty() {
            Self::Signal
        } else if !wanted.children.is_empty() {
            Self::Child
        } else {
            Self::Timer
        }
    }
}

/// The metrics of one workflow.
#[derive(Debug)]
pub(crate) struct WorkMeter {
    labels: LabelSet,
    workflow: SharedString,
    queues: Arc<Names>,
    steps: Arc<Names>,
    claims: Arc<Names>,
    handles: Mutex<Handles>,
}

/// Names that the meters of all workflows of a store share.
#[derive(Debug, Clone)]
pub(super) struct SharedNames {
    pub(super) queues: Arc<Names>,
    pub(super) steps: Arc<Names>,
    pub(super) claims: Arc<Names>,
}

/// The registered metrics of a workflow.
#[derive(Debug)]
struct Handles {
    recorder: usize,
    started: Counter,
    completed: Counter,
    failed: Counter,
    cancelled: Counter,
    parked: Counter,
    waits: [Counter; 6],
    live_waits: [Gauge; 6],
    steps: HashMap<String, StepHandles>,
    claims: HashMap<String, Histogram>,
}

/// The registered metrics of a step.
#[derive(Debug)]
struct StepHandles {
    seconds: Histogram,
    completed: Counter,
    failed: Counter,
    timed_out: Counter,
    retries: Counter,
}

/// Identifies the recorder that is installed now. A program may install one after its engine started.
pub(super) fn recorder() -> usize {
    metrics::with_recorder(|recorder| ptr::from_ref(recorder).cast::<()>().addr())
}

impl WorkMeter {
    pub(super) fn new(labels: LabelSet, workflow: String, names: SharedNames) -> Self {
        let workflow = SharedString::from(workflow);
        let handles = Mutex::new(Handles::new(&labels, &workflow));
        let SharedNames { queues, steps, claims } = names;
        Self { labels, workflow, queues, steps, claims, handles }
    }

    /// The handles of the present recorder. Registers all counters with 0 if the recorder is new.
    fn handles(&self) -> MutexGuard<'_, Handles> {
        let mut handles = lock(&self.handles);
        if handles.recorder != recorder() {
            let known: Vec<String> = handles.steps.keys().cloned().collect();
            *handles = Handles::new(&self.labels, &self.workflow);
            for step in known {
                let registered = StepHandles::new(&self.labels, &self.workflow, &step);
                handles.steps.insert(step, registered);
            }
        }
        handles
    }

    /// Registers the counters of the workflow and of the steps that it declares, with 0.
    pub(super) fn announce<'a>(&self, steps: impl Iterator<Item = &'a str>) {
        let mut handles = self.handles();
        for step in steps {
            self.step(&mut handles, step);
        }
    }

    /// Counts the events of an append that landed.
    pub(crate) fn committed(&self, records: &[Recorded]) {
        let mut handles = self.handles();
        let mut timed_out: Option<&Path> = None;
        let mut queued = None;
        for recorded in records {
            match &recorded.event {
                Event::RunQueued(run) => {
                    handles.started.increment(1);
                    queued = Some(&run.queue);
                }
                Event::RunClaimed(_) => {
                    // Claimed by the engine that started it, in one append.
                    if let Some(queue) = queued.take() {
                        self.claim(&mut handles, queue.as_str()).record(0.0);
                    }
                }
                Event::RunCompleted { .. } => handles.completed.increment(1),
                Event::RunFailed { .. } => handles.failed.increment(1),
                Event::RunCancelled { .. } => handles.cancelled.increment(1),
                Event::RunParked { .. } => handles.parked.increment(1),
                Event::StepTimeout { path, .. } => timed_out = Some(path),
                Event::StepCompleted(step) => {
                    let found = self.step(&mut handles, step.path.name());
                    found.completed.increment(1);
                    found.seconds.record(recorded.at.since(step.began).as_secs_f64());
                }
                Event::StepFailed(step) => {
                    let found = self.step(&mut handles, step.path.name());
                    match timed_out.take() == Some(&step.path) {
                        true => found.timed_out.increment(1),
                        false => found.failed.increment(1),
                    }
                }
                Event::StepRetryScheduled { path, .. } => {
                    self.step(&mut handles, path.name()).retries.increment(1);
                    handles.wait(WaitKind::Retry);
                }
                Event::WaitStarted(wait) => handles.wait(WaitKind::of(wait)),
                Event::TimerSet { .. } => handles.wait(WaitKind::Timer),
                Event::StepStarted(step) if step.remote.is_some() => handles.wait(WaitKind::RemoteStep),
                _ => {}
            }
        }
    }

    /// Records how long a run's task was due before it was claimed.
    pub(crate) fn claimed(&self, task: &Task) {
        let waited = waited(task).as_secs_f64();
        self.claim(&mut self.handles(), task.queue.as_str()).record(waited);
    }

    /// The gauge of waits of this kind that are in memory.
    pub(crate) fn live_waits(&self, kind: WaitKind) -> Gauge {
        self.handles().live_waits[kind as usize].clone()
    }

    fn step<'a>(&self, handles: &'a mut Handles, step: &str) -> &'a StepHandles {
        let step = match handles.steps.contains_key(step) {
            true => step,
            false => self.steps.label_in(&self.workflow, step),
        };
        if !handles.steps.contains_key(step) {
            let registered = StepHandles::new(&self.labels, &self.workflow, step);
            handles.steps.insert(step.to_owned(), registered);
        }
        &handles.steps[step]
    }

    fn claim<'a>(&self, handles: &'a mut Handles, queue: &str) -> &'a Histogram {
        let queue = match handles.claims.contains_key(queue) {
            true => queue,
            false => self.claims.label_in(&self.workflow, self.queues.label(queue)),
        };
        if !handles.claims.contains_key(queue) {
            let registered = claim_histogram(&self.labels, "run", self.workflow.clone(), queue);
            handles.claims.insert(queue.to_owned(), registered);
        }
        &handles.claims[queue]
    }
}

impl Handles {
    fn new(labels: &LabelSet, workflow: &SharedString) -> Self {
        let of = || ("workflow", workflow.clone());
        let ended = |outcome: &'static str| {
            zero(&counter!(RUNS_ENDED, labels.with([of(), ("outcome", outcome.into())])))
        };
        let kind = |kind: WaitKind| labels.with([of(), ("kind", kind.as_str().into())]);
        Self {
            recorder: recorder(),
            started: zero(&counter!(RUNS_STARTED, labels.with([of()]))),
            completed: ended("completed"),
            failed: ended("failed"),
            cancelled: ended("cancelled"),
            parked: zero(&counter!(RUNS_PARKED, labels.with([of()]))),
            waits: WaitKind::ALL.map(|of| zero(&counter!(WAITS_STARTED, kind(of)))),
            live_waits: WaitKind::ALL.map(|of| {
                let registered = gauge!(LIVE_WAITS, kind(of));
                registered.increment(0.0);
                registered
            }),
            steps: HashMap::new(),
            claims: HashMap::new(),
        }
    }

    fn wait(&self, kind: WaitKind) {
        self.waits[kind as usize].increment(1);
    }
}

impl StepHandles {
    fn new(labels: &LabelSet, workflow: &SharedString, step: &str) -> Self {
        let step = SharedString::from(step.to_owned());
        let of = || [("workflow", workflow.clone()), ("step", step.clone())];
        let attempts = |outcome: &'static str| {
            let [workflow, step] = of();
            zero(&counter!(STEP_ATTEMPTS, labels.with([workflow, step, ("outcome", outcome.into())])))
        };
        Self {
            seconds: histogram!(STEP_SECONDS, labels.with(of())),
            completed: attempts("completed"),
            failed: attempts("failed"),
            timed_out: attempts("timed_out"),
            retries: zero(&counter!(STEP_RETRIES, labels.with(of()))),
        }
    }
}

/// Makes a counter exist with 0, in recorders that know a counter by its first increment.
fn zero(counter: &Counter) -> Counter {
    counter.increment(0);
    counter.clone()
}

/// How long tasks of users and of remote steps were due before they were claimed.
#[derive(Debug)]
pub(super) struct TaskClaims(Mutex<ClaimHandles>);

/// The recorder, and the registered histograms by kind and queue.
type ClaimHandles = (usize, HashMap<(&'static str, String), Histogram>);

impl Default for TaskClaims {
    fn default() -> Self {
        Self(Mutex::new((recorder(), HashMap::new())))
    }
}

impl TaskClaims {
    pub(super) fn claimed(&self, labels: &LabelSet, queues: &Names, task: &Task) {
        let kind = if task.step.is_some() { "remote_step" } else { "task" };
        let queue = queues.label(task.queue.as_str());
        let mut known = lock(&self.0);
        let recorder = recorder();
        if known.0 != recorder {
            *known = (recorder, HashMap::new());
        }
        let found = known.1.entry((kind, queue.to_owned()));
        let histogram = found.or_insert_with(|| claim_histogram(labels, kind, "".into(), queue));
        histogram.record(waited(task).as_secs_f64());
    }
}

fn claim_histogram(labels: &LabelSet, kind: &'static str, workflow: SharedString, queue: &str) -> Histogram {
    let queue = SharedString::from(queue.to_owned());
    let own = labels.with([("kind", kind.into()), ("workflow", workflow), ("queue", queue)]);
    histogram!(SCHEDULE_TO_START, own)
}

/// How long a claimed task was due before this claim. A reclaim makes a task due again, and leaves an audit entry.
fn waited(task: &Task) -> Duration {
    let reclaimed = task.audit.iter().map(|audit| audit.at).max().unwrap_or(Millis(0));
    let due = task.run_at.max(task.created_at).max(reclaimed);
    task.started_at.unwrap_or(task.changed_at).since(due)
}

impl Names {
    /// The label of `name` within `scope`. Each scope has its own [`OTHER`].
    fn label_in<'a>(&self, scope: &str, name: &'a str) -> &'a str {
        let pair = format!("{scope}\n{name}");
        if self.label(&pair) == OTHER { OTHER } else { name }
    }
}

#[cfg(test)]
mod tests;
