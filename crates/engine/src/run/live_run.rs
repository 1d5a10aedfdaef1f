//! A live run: a run loaded into memory, with its derived state, its queued doings, and the wakers of its waits.
//!
//! The state changes only by events that are in the log. The workflow queues doings here, and the driver appends
//! them; a ticket tells when a doing is durable.

mod defaults;
mod replay;
mod waiting;

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::Duration;

use futures_util::future::BoxFuture;
use goldseam_core::decide::TooLong;
use goldseam_core::id::{IdLiteral, kind};
use goldseam_core::state::{Op, OpKind, WaitOp};
use goldseam_core::{
    Doing, Fence, Hash, Millis, Owned, Path, Payload, RunId, Seq, State, StepName, Summary, TaskId,
    TraceContext,
};
use goldseam_store::TaskChange;

use crate::ledger::commit::Ledger;
use crate::ledger::config::Config;
use crate::ledger::copy_mark::closed_by_copy;
use crate::ledger::error::EngineError;
use crate::ledger::meter::{WaitKind, WorkMeter};
use crate::ledger::start_options::QueueTerms;
use crate::ledger::sync::lock;
use crate::ledger::workflow_error::{Error, Result};
use crate::run::append::Moved;
use crate::run::live_runs::LiveRuns;
pub(crate) use waiting::Waiting;

/// Compensates one step, given its path and output; the error says why the output does not fit the code.
pub(crate) type UndoFn =
    Arc<dyn Fn(&Path, &Payload) -> Result<BoxFuture<'static, Result<()>>, String> + Send + Sync>;

/// A run loaded into memory.
pub(crate) struct LiveRun {
    pub(crate) run: RunId,
    pub(crate) ledger: Ledger,
    live_runs: Arc<LiveRuns>,
    pub(crate) config: Arc<Config>,
    pub(crate) task: TaskId,
    /// The claim under which it executes.
    pub(crate) epoch: Seq,
    /// The place of the run's starter in a distributed trace.
    pub(crate) trace: Option<TraceContext>,
    /// The metrics of its workflow.
    pub(crate) work: Arc<WorkMeter>,
    inner: Mutex<Inner>,
}

/// Why an execution ends before the workflow does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Stop {
    /// Replay and log differ.
    Diverged(String),
    /// The claim has ended.
    Fenced,
    /// The history has reached its maximum length.
    TooLong(TooLong),
    /// The store failed permanently.
    Store(String),
    /// A question has an invalid form.
    Form(String),
}

impl From<EngineError> for Stop {
    fn from(error: EngineError) -> Self {
        Self::Store(error.to_string())
    }
}

/// Whether new effects may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Normal execution.
    Run,
    /// Only replay recorded operations: the run is being compensated, or a jump waits for its compensations.
    Replay,
    /// Compensating: cancellation no longer interrupts.
    Undo,
    /// A preflight: nothing begins and nothing is written. See [`LiveRun::for_preflight`].
    Preflight,
}

impl Mode {
    /// Whether a request to cancel interrupts the code.
    pub(crate) fn heeds_cancel(self) -> bool {
        matches!(self, Self::Run | Self::Preflight)
    }
}

pub(crate) struct Inner {
    pub(crate) state: State,
    pub(crate) fence: Fence,
    pub(crate) mode: Mode,
    pub(crate) queue: Vec<Doing>,
    pub(crate) extra: Vec<TaskChange>,
    pub(crate) stop: Option<Stop>,
    pub(crate) poked: bool,
    pub(crate) polling: bool,
    pub(crate) driver: Option<Waker>,
    pub(crate) undo: HashMap<Path, UndoFn>,
    pub(crate) continue_with: Option<Payload>,
    pub(crate) moved: Moved,
    /// When this node last surely owned the run.
    held_at: Duration,
    issued: u64,
    durable: u64,
    revision: u64,
    wakers: Vec<Waker>,
    arms: HashMap<Path, Arm>,
    busy: u32,
    gates: u32,
    waits: BTreeMap<u64, Slow>,
    waits_made: u64,
    /// Whether all code of this execution only replays: it compensates, or is a preflight.
    only_replays: bool,
}

/// The counters of an arm, which make paths independent of timing.
#[derive(Default)]
struct Arm {
    next: u32,
    counts: HashMap<(StepName, Option<StepName>), u32>,
    draws: u64,
    now: Option<Millis>,
    changes: HashMap<StepName, bool>,
    /// Whether its code has requested an operation whose end the log did not have.
    live: bool,
    /// The last position of the recorded operations that its code has requested.
    seen: Seq,
}

/// Whether a run that waits may leave memory at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slow {
    /// Waits for a person or a distant time: staying in memory gains nothing.
    Yes,
    /// The wait may resolve at any moment.
    No,
}

/// The position of an operation.
#[derive(Debug, Clone)]
pub(crate) struct Spot {
    pub(crate) path: Path,
    pub(crate) ord: u32,
}

/// A run that this node owned at `held_at`, with its advance task.
pub(crate) struct OwnedRun {
    pub(crate) state: State,
    pub(crate) task: TaskId,
    pub(crate) held_at: Duration,
}

impl LiveRun {
    /// Creates a live run that this node owns.
    pub(crate) fn new(
        ledger: Ledger,
        live_runs: Arc<LiveRuns>,
        config: Arc<Config>,
        owned: OwnedRun,
    ) -> Self {
        let OwnedRun { state, task, held_at } = owned;
        let fence = Fence { epoch: state.summary.epoch, branch: state.summary.branch };
        let mode = if must_compensate(&state) { Mode::Replay } else { Mode::Run };
        let work = ledger.meter.work(state.summary.workflow.as_str());
        Self {
            run: state.summary.run.clone(),
            work,
            ledger,
            live_runs,
            config,
            task,
            epoch: fence.epoch,
            trace: state.queued.trace.clone(),
            inner: Mutex::new(Inner {
                state,
                fence,
                mode,
                queue: Vec::new(),
                extra: Vec::new(),
                stop: None,
                poked: false,
                polling: false,
                driver: None,
                undo: HashMap::new(),
                continue_with: None,
                moved: Moved::No,
                held_at,
                issued: 0,
                durable: 0,
                revision: 0,
                wakers: Vec::new(),
                arms: HashMap::new(),
                busy: 0,
                gates: 0,
                waits: BTreeMap::new(),
                waits_made: 0,
                only_replays: Inner::replay_only(mode),
            }),
        }
    }

    /// Creates a live run for a preflight: its code runs until the first operation that the log does not have.
    ///
    /// Invariant: no effect begins and nothing is written. Steps, waits, sleeps, questions, children and progress
    /// messages pass [`LiveRun::gate`], which stays closed in this mode; a child in the log is not created again;
    /// queued doings stay in the queue, because nothing drives the run. The store of `ledger` must refuse everything.
    pub(crate) fn for_preflight(ledger: Ledger, config: Arc<Config>, state: State) -> Self {
        const TASK: IdLiteral<kind::Task> = IdLiteral::new("preflight");
        let task = TASK.id();
        let live_runs = Arc::new(LiveRuns::of_client());
        let live = Self::new(ledger, live_runs, config, OwnedRun { state, task, held_at: Duration::ZERO });
        {
            let mut inner = live.lock();
            inner.mode = Mode::Preflight;
            inner.only_replays = Inner::replay_only(inner.mode);
            // A pause does not stop a replay.
            inner.state.summary.paused = false;
        }
        live
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    pub(crate) fn live_runs(&self) -> &Arc<LiveRuns> {
        &self.live_runs
    }

    pub(crate) fn now(&self) -> Millis {
        self.ledger.clock.now()
    }

    /// Returns the terms of a child that starts now.
    pub(crate) fn terms(&self) -> QueueTerms<'_> {
        QueueTerms { now: self.now(), limits: &self.ledger.limits }
    }

    /// Queues a doing; the ticket tells when it is durable.
    pub(crate) fn queue(&self, what: Owned) -> u64 {
        let at = self.now();
        let mut inner = self.lock();
        let ticket = inner.push(Doing { at, what });
        inner.nudge();
        ticket
    }

    /// Queues the end of an operation and sets the time of its arm.
    pub(crate) fn queue_seen(&self, spot: &Spot, what: Owned) {
        let at = self.now();
        let mut inner = self.lock();
        inner.push(Doing { at, what });
        inner.see(spot.path.arm(), at);
        inner.nudge();
    }

    /// Returns once everything up to `ticket` is in the log. Never returns if the execution has ended.
    pub(crate) async fn durable(&self, ticket: u64) {
        poll_fn(|cx| {
            let mut inner = self.lock();
            if inner.stop.is_none() && inner.durable >= ticket {
                return Poll::Ready(());
            }
            inner.wakers.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Returns once everything queued so far is in the log.
    pub(crate) async fn settled(&self) {
        let ticket = self.lock().issued;
        self.durable(ticket).await;
    }

    /// Returns once a new effect may begin: everything before it is durable, and the run is not paused.
    pub(crate) async fn gate(&self) -> Result<()> {
        let _gate = Counted::new(self, |inner| &mut inner.gates);
        let ticket = self.lock().issued;
        poll_fn(|cx| {
            let mut inner = self.lock();
            let preflight = inner.mode == Mode::Preflight;
            let settled = inner.durable >= ticket || preflight;
            let open = inner.stop.is_none() && settled && !inner.state.summary.paused;
            if open && inner.mode.heeds_cancel() && inner.state.summary.cancel.is_some() {
                return Poll::Ready(Err(Error::cancelled()));
            }
            if open && inner.mode != Mode::Replay && !preflight {
                return Poll::Ready(Ok(()));
            }
            inner.wakers.push(cx.waker().clone());
            Poll::Pending
        })
        .await?;
        let held_at = self.lock().held_at;
        let clock = &*self.ledger.clock;
        if !self.live_runs().is_sure(held_at, clock) || self.live_runs().is_out_of_sight(clock.elapsed()) {
            self.revalidate().await;
        }
        Ok(())
    }

    /// Asks the store whether the claim is still current and the store is not closed, because the node was not
    /// confirmed alive recently.
    async fn revalidate(&self) {
        let sent = self.ledger.clock.elapsed();
        let mut window = crate::ledger::retry::RetryWindow::new(&self.ledger, "reading a claim");
        let epoch = self.lock().fence.epoch;
        let read = || async {
            let closed = closed_by_copy(&*self.ledger.store).await?;
            Ok(self.ledger.summary(&self.run).await?.filter(|_| closed.is_none()))
        };
        match window.retry(&self.ledger, read).await {
            Ok(Some(summary)) if summary.epoch == epoch && summary.owner.is_some() => self.holds_at(sent),
            Ok(_) => self.stop_and_hang(Stop::Fenced).await,
            Err(error) => self.stop_and_hang(Stop::Store(error.to_string())).await,
        }
    }

    /// Records that a reply to a request sent at `sent` proved the ownership.
    pub(crate) fn holds_at(&self, sent: Duration) {
        self.live_runs().confirm(sent);
        let mut inner = self.lock();
        inner.held_at = inner.held_at.max(sent);
    }

    /// Whether the claim of this execution is current according to the row.
    pub(crate) fn is_current_in(&self, summary: &Summary) -> bool {
        let branch = self.lock().fence.branch;
        summary.owner.is_some() && summary.epoch == self.epoch && summary.branch == branch
    }

    /// Ends the execution from outside. Its driver drops the user's code at its next poll.
    pub(crate) fn end(&self, stop: Stop) {
        let mut inner = self.lock();
        inner.stop.get_or_insert(stop);
        inner.nudge();
    }

    /// Ends the execution and never returns, so user code does not see the reason.
    pub(crate) async fn stop_and_hang<T>(&self, stop: Stop) -> T {
        self.end(stop);
        std::future::pending().await
    }

    /// Returns once the state has changed since `revision`, with the new revision.
    pub(crate) async fn changed(&self, revision: u64) -> u64 {
        poll_fn(|cx| {
            let mut inner = self.lock();
            if inner.stop.is_none() && inner.revision != revision {
                return Poll::Ready(inner.revision);
            }
            inner.wakers.push(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Never returns during a replay of recorded operations only. For operations that do not pass the gate.
    pub(crate) async fn unless_replaying(&self) {
        if self.lock().mode == Mode::Replay {
            std::future::pending::<()>().await;
        }
    }

    /// Signals the driver that the log may have grown.
    pub(crate) fn poke(&self) {
        let mut inner = self.lock();
        inner.poked = true;
        inner.nudge();
    }

    /// Marks user code as running until the guard is dropped.
    pub(crate) fn busy(&self) -> Counted<'_> {
        Counted::new(self, |inner| &mut inner.busy)
    }

    /// Marks a wait as open until the guard is dropped.
    pub(crate) fn waiting(&self, kind: WaitKind, slow: Slow) -> Waiting<'_> {
        let open = self.work.live_waits(kind);
        open.increment(1.0);
        let mut inner = self.lock();
        inner.waits_made += 1;
        let key = inner.waits_made;
        inner.waits.insert(key, slow);
        Waiting { live: self, key, open }
    }
}

/// Whether the code that requested the operation waits for its end. The code that starts a child goes on.
fn is_open(op: &Op) -> bool {
    match &op.kind {
        OpKind::Step(step) => step.is_open(),
        OpKind::Wait(WaitOp { found, child, .. }) => found.is_none() && child.is_none(),
        OpKind::Progress | OpKind::Attributes | OpKind::Published | OpKind::Answered => false,
    }
}

/// Whether the log requires compensations, so nothing new may begin.
fn must_compensate(state: &State) -> bool {
    state.jump.is_some() || state.is_being_undone()
}

impl Inner {
    /// Whether all steps to compensate have their compensation, so replay can end.
    pub(crate) fn knows_compensations(&self) -> bool {
        let left = self.state.to_undo(crate::run::compensation::cutoff(&self.state));
        left.iter().all(|path| self.undo.contains_key(path))
    }

    /// Queues a doing. All doings must pass here, or the count of durable doings would be wrong. The ticket tells
    /// when it is durable.
    pub(crate) fn push(&mut self, doing: Doing) -> u64 {
        self.queue.push(doing);
        self.issued += 1;
        self.issued
    }

    /// Wakes the driver, unless it is polling the workflow and will check the state afterwards.
    pub(crate) fn nudge(&mut self) {
        if !self.polling
            && let Some(driver) = &self.driver
        {
            driver.wake_by_ref();
        }
    }

    /// Records that the state changed and `count` queued doings are in the log.
    pub(crate) fn advanced(&mut self, count: u64) {
        self.durable += count;
        debug_assert!(self.durable <= self.issued, "more is durable than was ever queued");
        self.revision += 1;
        if self.mode == Mode::Run && must_compensate(&self.state) {
            self.mode = Mode::Replay;
        }
        for waker in self.wakers.drain(..) {
            waker.wake();
        }
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Whether no user code runs and at least one wait is open.
    pub(crate) fn idle(&self) -> Option<Slow> {
        if self.busy > 0 || self.gates > 0 || self.waits.is_empty() {
            return None;
        }
        Some(if self.waits.values().all(|slow| *slow == Slow::Yes) { Slow::Yes } else { Slow::No })
    }

    /// Whether the run was recovered from a crash and has not progressed since.
    pub(crate) fn is_suspect(&self) -> bool {
        self.state.summary.lived_ms.is_some()
    }

    /// Whether the run is paused and no user code runs.
    pub(crate) fn is_paused_and_quiet(&self) -> bool {
        self.state.summary.paused && self.busy == 0 && self.queue.is_empty()
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.busy == 0 && self.queue.is_empty()
    }

    /// The position of the next operation called `name` in `arm`.
    pub(crate) fn spot(&mut self, arm: &Path, name: &StepName, key: Option<&StepName>) -> Spot {
        let counter = self.arms.entry(arm.clone()).or_default();
        let ord = counter.next;
        counter.next += 1;
        let count = counter.counts.entry((name.clone(), key.cloned())).or_default();
        *count += 1;
        Spot { path: arm.child(name, key, *count), ord }
    }

    /// Whether a preflight cannot continue without input from outside the context.
    pub(crate) fn is_at_the_frontier(&self) -> bool {
        self.gates > 0 || !self.waits.is_empty() || !self.queue.is_empty()
    }

    /// Whether this lineage has the change `name` in `arm`: as first answered in this replay, otherwise as the log
    /// says. None: the log ends here, and the answer is open.
    pub(crate) fn has_change(&mut self, arm: &Path, name: &StepName) -> (Path, u32, Option<bool>) {
        let path = arm.child(name, None, 1);
        let counter = self.arms.entry(arm.clone()).or_default();
        let ord = counter.next;
        let known = match counter.changes.get(name) {
            Some(answer) => Some(*answer),
            None if self.state.changes.contains(&path) => Some(true),
            None => self.state.goes_on(arm.as_str(), ord).then_some(false),
        };
        (path, ord, known)
    }

    /// Keeps the answer for the rest of this replay.
    pub(crate) fn answer_change(&mut self, arm: &Path, name: &StepName, answer: bool) {
        self.arms.entry(arm.clone()).or_default().changes.insert(name.clone(), answer);
    }

    /// The recorded operation at `spot`, if the log has one, or how log and code differ.
    pub(crate) fn look(&mut self, spot: &Spot, input: Option<Hash>) -> Result<Option<&Op>, Stop> {
        let Spot { path, ord } = spot;
        if let Some(recorded) = self.state.nth(path.arm(), *ord)
            && recorded != path
        {
            let place = if path.arm().is_empty() { "the workflow" } else { path.arm() };
            let nth = ord + 1;
            return Err(Stop::Diverged(format!(
                "operation {nth} of {place} is {recorded} in the log, and {path} in the code"
            )));
        }
        let other_until = self.state.other_input_until;
        let Some(op) = self.state.ops.get(path) else {
            if let Some(arm) = self.arms.get_mut(path.arm()) {
                arm.live = true;
            }
            return Ok(None);
        };
        if op.ord != *ord {
            let then = op.ord + 1;
            let here = ord + 1;
            return Err(Stop::Diverged(format!(
                "{path} is operation {then} in the log, and {here} in the code"
            )));
        }
        if let (Some(then), Some(here)) = (op.input, input)
            && then != here
            && op.first > other_until
        {
            return Err(Stop::Diverged(format!("{path} has different input in the code and in the log")));
        }
        if let Some(arm) = self.arms.get_mut(path.arm()) {
            arm.now = Some(op.at);
            arm.live |= is_open(op);
            arm.seen = arm.seen.max(op.last);
        }
        Ok(Some(op))
    }

    /// Number of operations that the code has requested in each arm.
    pub(crate) fn arm_counts(&self) -> HashMap<String, u32> {
        self.arms.iter().map(|(path, arm)| (path.as_str().to_owned(), arm.next)).collect()
    }

    /// The time of the last event that `arm` has seen.
    pub(crate) fn arm_now(&self, arm: &Path) -> Millis {
        self.arms.get(arm).and_then(|arm| arm.now).unwrap_or(self.state.summary.created_at)
    }

    pub(crate) fn see(&mut self, arm: &str, at: Millis) {
        if let Some(arm) = self.arms.get_mut(arm) {
            arm.now = Some(at);
        }
    }

    /// The next random value of `arm`, the same in every replay.
    pub(crate) fn draw(&mut self, arm: &Path) -> Hash {
        let counter = self.arms.entry(arm.clone()).or_default();
        counter.draws += 1;
        let draws = counter.draws.to_string();
        Hash::of_parts(&["random", self.state.summary.run.as_str(), arm.as_str(), &draws])
    }
}

/// Increments a counter until dropped.
pub(crate) struct Counted<'a> {
    live: &'a LiveRun,
    field: fn(&mut Inner) -> &mut u32,
}

impl<'a> Counted<'a> {
    fn new(live: &'a LiveRun, field: fn(&mut Inner) -> &mut u32) -> Self {
        *field(&mut live.lock()) += 1;
        Self { live, field }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let mut inner = self.live.lock();
        *(self.field)(&mut inner) -= 1;
        inner.nudge();
    }
}
