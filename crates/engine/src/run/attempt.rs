//! One attempt at a step: user code under a timeout and a heartbeat limit, panics caught.
//!
//! The start of an attempt gets a separate append only once it has run for a while. Heartbeat details are kept in a
//! task record, so the next attempt can read them in any process.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, select};
use goldseam_core::event::StepStarted;
use goldseam_core::task::{NewTask, Task, TaskState};
use goldseam_core::{
    Failure, Hash, Limits as Bounds, Millis, Owned, Path, Payload, QueueName, RunId, TaskId,
};
use goldseam_store::{Expect, TaskChange, TaskFilter, Written};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::Span;

use crate::ledger::clock::pause;
use crate::ledger::config::QUEUE_DETAILS;
use crate::ledger::sync::lock;
use crate::ledger::workflow_error::Result;
use crate::run::driver::panicked;
use crate::run::live_run::LiveRun;
use crate::run::spans::OperationScope;

/// Minimum interval between two writes of heartbeat details.
const DETAILS_EVERY: Duration = Duration::from_secs(1);

/// The attempt of a step, as its body sees it.
///
/// ```
/// use goldseam::prelude::*;
///
/// async fn flaky(ctx: Context, _: ()) -> goldseam::Result<u32> {
///     let body = |attempt: Attempt| async move {
///         let done: Option<u32> = attempt.last_heartbeat();
///         match (attempt.number(), done) {
///             (1, _) => {
///                 attempt.heartbeat(&41);
///                 Err(Error::retryable(format!("key {} is busy", attempt.idempotency_key())))
///             }
///             (_, done) => Ok(done.unwrap_or(0) + 1),
///         }
///     };
///     let retry = Retry::fixed(Duration::ZERO);
///     ctx.step_with("copy", body).retry(retry).heartbeat_timeout(secs(30)).await
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
/// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
/// # let engine = Engine::open(&url).await?.workflow("flaky", flaky).start().await?;
/// # assert_eq!(engine.start(flaky, "f-1", &()).await?.result().await?, 42);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Attempt {
    number: u32,
    key: Arc<str>,
    beats: bool,
    pulse: Arc<Mutex<PulseState>>,
}

#[derive(Debug, Default)]
struct PulseState {
    beaten: bool,
    details: Option<Payload>,
    unsaved: bool,
    last: Option<Payload>,
}

impl Attempt {
    pub(crate) fn new(number: u32, key: String, beats: bool) -> Self {
        Self { number, key: key.into(), beats, pulse: Arc::default() }
    }

    /// Number of this attempt, from 1. Includes attempts that a crash interrupted, if their start was recorded.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// A key to pass to other systems; the same for every attempt at this step.
    pub fn idempotency_key(&self) -> &str {
        &self.key
    }

    /// Reports that the attempt is alive, with details of its progress.
    pub fn heartbeat(&self, details: &impl Serialize) {
        let mut pulse = self.pulse();
        pulse.beaten = true;
        if let Ok(payload) = Payload::of(details, &Bounds::default()) {
            pulse.details = Some(payload);
            pulse.unsaved = true;
        }
    }

    /// The details of the last heartbeat of an earlier attempt. For steps with
    /// [`Step::heartbeat_timeout`](crate::run::context::Step::heartbeat_timeout), whose details are durable.
    pub fn last_heartbeat<T: DeserializeOwned>(&self) -> Option<T> {
        self.pulse().last.as_ref().and_then(|details| details.read().ok())
    }

    fn pulse(&self) -> std::sync::MutexGuard<'_, PulseState> {
        lock(&self.pulse)
    }

    fn take_beat(&self) -> bool {
        std::mem::take(&mut self.pulse().beaten)
    }

    fn take_unsaved(&self) -> Option<Payload> {
        let mut pulse = self.pulse();
        std::mem::take(&mut pulse.unsaved).then(|| pulse.details.clone()).flatten()
    }
}

/// Limits of one attempt.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AttemptLimits {
    pub(crate) timeout: Option<Duration>,
    pub(crate) silence: Option<Duration>,
    /// Whether the default heartbeat timeout applies if there is no other limit.
    pub(crate) watched: bool,
    /// Whether its start is already in the log.
    pub(crate) marked: bool,
}

/// How an attempt ended.
pub(crate) enum Outcome<T> {
    Done(T),
    Failed(Failure),
    TimedOut(&'static str, Failure),
}

type Body<'b, 'a, T> = &'b mut (dyn FnMut(Attempt) -> BoxFuture<'a, Result<T>> + Send + 'a);

/// The code of a step, and the span in which it runs.
pub(crate) struct SpannedBody<'b, 'a, T> {
    pub(crate) span: &'b Span,
    pub(crate) body: Body<'b, 'a, T>,
}

/// One call of the code of a step.
struct BodyCall<'c, 'b, 'a, T> {
    record: &'c mut Details<'b>,
    scope: OperationScope,
    body: Body<'c, 'a, T>,
}

/// Makes one attempt in the span of its step. If it fails, its heartbeat details are kept for the next one, and the id
/// of their record is returned.
pub(crate) async fn run<'a, T>(
    live: &Arc<LiveRun>,
    started: &StepStarted,
    attempt: Attempt,
    limits: AttemptLimits,
    spanned: SpannedBody<'_, 'a, T>,
) -> (Outcome<T>, Option<TaskId>) {
    let mut record = Details::new(live, &started.path, attempt.beats);
    let scope = OperationScope::attempt(live, spanned.span, attempt.number, Arc::clone(&attempt.key));
    let call = BodyCall { record: &mut record, scope, body: spanned.body };
    let outcome = outcome(live, started, &attempt, limits, call).await;
    match outcome {
        Outcome::Done(_) => record.forget(),
        Outcome::Failed(_) | Outcome::TimedOut(..) => record.keep(attempt.take_unsaved()).await,
    }
    (outcome, record.id.filter(|_| record.task.is_some()))
}

async fn outcome<'a, T>(
    live: &Arc<LiveRun>,
    started: &StepStarted,
    attempt: &Attempt,
    limits: AttemptLimits,
    call: BodyCall<'_, '_, 'a, T>,
) -> Outcome<T> {
    let BodyCall { record, scope, body } = call;
    let failed = |failure| Outcome::Failed(live.ledger.secrets.out_of(failure));
    if attempt.beats && attempt.number > 1 {
        attempt.pulse().last = record.read().await;
    }
    #[cfg(feature = "testing")]
    live.begins(&started.path, &attempt.key, crate::run::witness::Work::Step);
    let made = std::panic::catch_unwind(AssertUnwindSafe(|| scope.call(|| body(attempt.clone()))));
    let work = match made {
        Ok(work) => work,
        Err(panic) => return failed(panicked(&*panic)),
    };
    let mut work = std::pin::pin!(AssertUnwindSafe(scope.wrap(work)).catch_unwind());
    // Most steps complete at the first poll and need no timer.
    let first = std::future::poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await;
    let ended = match first {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    };
    let result = match ended {
        Some(result) => result,
        None => {
            let mut watch = Watch::new(live, limits, attempt.beats);
            loop {
                let next = watch.next();
                match select(work.as_mut(), std::pin::pin!(pause(next))).await {
                    Either::Left((result, _)) => break result,
                    Either::Right(_) => {
                        if let Some(code) = watch.check(started, attempt) {
                            return Outcome::TimedOut(code, late(code));
                        }
                        if let Some(details) = attempt.take_unsaved() {
                            record.write(details).await;
                        }
                    }
                }
            }
        }
    };
    match result {
        Ok(Ok(value)) => Outcome::Done(value),
        Ok(Err(error)) => failed(error.failure().clone()),
        Err(panic) => failed(panicked(&*panic)),
    }
}

fn late(code: &'static str) -> Failure {
    match code {
        "timeout" => Failure::retryable("the attempt took longer than its timeout").with_code(code),
        _ => Failure::silent(),
    }
}

/// Deadlines of an attempt that did not end at once.
struct Watch<'a> {
    live: &'a Arc<LiveRun>,
    limits: AttemptLimits,
    began: Duration,
    beat: Duration,
    marked: bool,
    beats: bool,
}

impl<'a> Watch<'a> {
    fn new(live: &'a Arc<LiveRun>, limits: AttemptLimits, beats: bool) -> Self {
        let now = live.ledger.clock.elapsed();
        let is_open = limits.watched && limits.timeout.is_none() && limits.silence.is_none();
        let default = is_open.then(|| live.default_heartbeat_timeout()).flatten();
        let limits = AttemptLimits { silence: limits.silence.or(default), ..limits };
        Self { live, limits, began: now, beat: now, marked: beats || limits.marked, beats }
    }

    /// Time until the next deadline.
    fn next(&self) -> Duration {
        let now = self.live.ledger.clock.elapsed();
        let long = (!self.marked).then(|| self.began + self.live.config.long_step);
        let timeout = self.limits.timeout.map(|span| self.began + span);
        let silence = self.limits.silence.map(|span| self.beat + span);
        let details = self.beats.then(|| now + DETAILS_EVERY.max(self.live.ledger.store.pace().beat));
        let due = [long, timeout, silence, details].into_iter().flatten().min();
        let due = due.unwrap_or(now + Duration::from_secs(3600));
        due.saturating_sub(now).max(Duration::from_millis(1))
    }

    /// Records the start of a long attempt; returns the code of the limit that was exceeded, if any.
    fn check(&mut self, started: &StepStarted, attempt: &Attempt) -> Option<&'static str> {
        let now = self.live.ledger.clock.elapsed();
        if !self.marked && now >= self.began + self.live.config.long_step {
            self.marked = true;
            self.live.queue(Owned::StepStarted(started.clone()));
        }
        if attempt.take_beat() {
            self.beat = now;
        }
        if self.limits.timeout.is_some_and(|span| now >= self.began + span) {
            return Some("timeout");
        }
        self.limits.silence.is_some_and(|span| now >= self.beat + span).then_some("heartbeat-timeout")
    }
}

/// The record of a step's heartbeat details, claimed by the node during the attempt.
struct Details<'a> {
    live: &'a Arc<LiveRun>,
    id: Option<TaskId>,
    task: Option<Task>,
    path: Path,
}

pub(crate) fn details_id(run: &RunId, path: &Path) -> Option<TaskId> {
    TaskId::new(format!("h-{}", Hash::of_parts(&["heartbeat", run.as_str(), path.as_str()]))).ok()
}

impl<'a> Details<'a> {
    fn new(live: &'a Arc<LiveRun>, path: &Path, wanted: bool) -> Self {
        let id = wanted.then(|| details_id(&live.run, path)).flatten();
        Self { live, id, task: None, path: path.clone() }
    }

    async fn read(&mut self) -> Option<Payload> {
        let filter = TaskFilter { id: self.id.clone(), limit: 1, ..TaskFilter::default() };
        self.task = self.live.ledger.store.tasks(filter).await.ok()?.into_iter().next();
        self.task.as_ref().map(|task| task.payload.clone())
    }

    /// Writes the details. Best effort: if the store fails, only the details are lost.
    async fn write(&mut self, details: Payload) {
        let (Some(id), Some(node)) = (self.id.clone(), self.live.ledger.process.node().cloned()) else {
            return;
        };
        let now = self.live.now();
        let details = self.live.ledger.secrets.out_of_details(details, &self.live.ledger.limits);
        let (next, expect) = match self.task.take() {
            Some(task) => {
                let expect = Expect::Version(task.version);
                // The record of an earlier attempt has no owner.
                let held = match task.state {
                    TaskState::Claimed => Task { version: task.version + 1, ..task },
                    _ => task.claimed(node.as_str(), now),
                };
                (Task { payload: details, heartbeat_at: Some(now), ..held }, expect)
            }
            None => {
                let Ok(queue) = QueueName::new(QUEUE_DETAILS) else { return };
                let new = NewTask {
                    id,
                    kind: format!("heartbeat:{}", self.path),
                    queue,
                    lane: None,
                    priority: 0,
                    key: None,
                    run_at: now,
                    payload: details,
                    attempts_max: 1,
                    silence_max: None,
                };
                let task = new.into_task(now).claimed(node.as_str(), now);
                (Task { run: Some(self.live.run.clone()), ..task }, Expect::Absent)
            }
        };
        self.put(next, expect).await;
    }

    async fn put(&mut self, next: Task, expect: Expect) {
        self.task = match self.live.ledger.store.put_task(next.clone(), expect).await {
            Ok(Written::Done) => Some(next),
            Ok(Written::Lost(other)) => other,
            Err(_) => None,
        };
    }

    /// Writes the last details and releases the record, so that the next attempt can read it in any process.
    async fn keep(&mut self, unsaved: Option<Payload>) {
        if let Some(details) = unsaved.filter(|_| self.id.is_some()) {
            self.write(details).await;
        }
        if let Some(task) = self.task.take().filter(|task| task.state == TaskState::Claimed) {
            let expect = Expect::Version(task.version);
            self.put(task.returned(Millis::NEVER, self.live.now()), expect).await;
        }
    }

    /// Removes the record by the append that completes the step.
    fn forget(&mut self) {
        if let (Some(id), Some(_)) = (self.id.take(), self.task.take()) {
            self.live.lock().extra.push(TaskChange::Remove { task: id });
        }
    }
}
