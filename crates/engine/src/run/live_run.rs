//! One run in memory: its derived state, what it has queued for the log, and who waits for what.
//!
//! The state changes only by events that are in the log. What a workflow does is queued here and
//! appended by the driver; a ticket tells when it is durable.

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use futures_util::future::BoxFuture;
use goldseam_core::decide::TooLong;
use goldseam_core::planted::{self, Bug};
use goldseam_core::state::Op;
use goldseam_core::{
    Doing, Fence, Hash, Millis, Owned, Path, Payload, RunId, Seq, State, StepName, Summary, TaskId,
};
use goldseam_store::TaskChange;

use crate::ledger::commit::Ledger;
use crate::ledger::config::Config;
use crate::ledger::copy_mark::closed_by_copy;
use crate::ledger::error::{EngineError, Error, Result};
use crate::run::append::Moved;
use crate::run::live_runs::LiveRuns;

/// Undoes one step, given its path and what it returned; or says how that does not fit the code.
pub(crate) type UndoFn =
    Arc<dyn Fn(&Path, &Payload) -> Result<BoxFuture<'static, Result<()>>, String> + Send + Sync>;

/// One run in memory.
pub(crate) struct LiveRun {
    pub(crate) run: RunId,
    pub(crate) ledger: Ledger,
    live_runs: Arc<LiveRuns>,
    pub(crate) config: Arc<Config>,
    pub(crate) task: TaskId,
    /// The claim under which it is executed.
    pub(crate) epoch: Seq,
    inner: Mutex<Inner>,
}

/// Why an execution ends before the workflow does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Stop {
    /// Replay asked for something else than the log has.
    Diverged(String),
    /// The claim is over.
    Fenced,
    /// The history is as long as it may be.
    TooLong(TooLong),
    /// The store failed for good.
    Store(String),
    /// A question whose form makes no sense.
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
    /// Go on.
    Run,
    /// Only replay what is recorded: the run is being undone, or a jump waits for its compensations.
    Replay,
    /// Undoing: cancellation no longer interrupts.
    Undo,
    /// A preflight: nothing is begun and nothing is written. See [`LiveRun::to_look_at`].
    Look,
}

impl Mode {
    /// Whether a request to cancel interrupts the code.
    pub(crate) fn heeds_cancel(self) -> bool {
        matches!(self, Self::Run | Self::Look)
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
    /// When the run was last surely ours.
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
}

/// A counter for each arm, so that paths do not depend on timing.
#[derive(Default)]
struct Arm {
    next: u32,
    counts: HashMap<(StepName, Option<StepName>), u32>,
    draws: u64,
    now: Option<Millis>,
    changes: HashMap<StepName, bool>,
}

/// Whether a wait may leave memory at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slow {
    /// A person or a distant time: nothing is gained by staying.
    Yes,
    /// Something may come any moment.
    No,
}

/// A new operation: where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Spot {
    pub(crate) path: Path,
    pub(crate) ord: u32,
}

impl LiveRun {
    /// A run that was ours at `held_at`.
    pub(crate) fn new(
        ledger: Ledger,
        live_runs: Arc<LiveRuns>,
        config: Arc<Config>,
        (state, task): (State, TaskId),
        held_at: Duration,
    ) -> Self {
        let fence = Fence { epoch: state.summary.epoch, branch: state.summary.branch };
        let mode = if turns_back(&state) { Mode::Replay } else { Mode::Run };
        Self {
            run: state.summary.run.clone(),
            ledger,
            live_runs,
            config,
            task,
            epoch: fence.epoch,
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
            }),
        }
    }

    /// A run that is only looked at: its code is called, and stops at the first thing that the log does not have.
    ///
    /// Invariant: no effect begins and nothing is written. Steps, waits, sleeps, questions, children and lines for
    /// people pass [`LiveRun::gate`], which stays shut in this mode; a child that the log has is not created again; what
    /// is queued stays in the queue, as there is no driver. `ledger` must be one whose store refuses everything.
    pub(crate) fn to_look_at(ledger: Ledger, config: Arc<Config>, state: State) -> Self {
        let nothing = TaskId::new("preflight").unwrap_or_else(|_| unreachable!("a literal that is an id"));
        let live_runs = Arc::new(LiveRuns::of_client());
        let live = Self::new(ledger, live_runs, config, (state, nothing), Duration::ZERO);
        {
            let mut inner = live.lock();
            inner.mode = Mode::Look;
            // A pause stops no replay.
            inner.state.summary.paused = false;
        }
        live
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn live_runs(&self) -> &LiveRuns {
        &self.live_runs
    }

    pub(crate) fn now(&self) -> Millis {
        self.ledger.clock.now()
    }

    /// Queues something for the log; the ticket says when it is durable.
    pub(crate) fn queue(&self, what: Owned) -> u64 {
        let at = self.now();
        let mut inner = self.lock();
        let ticket = inner.push(Doing { at, what });
        inner.nudge();
        ticket
    }

    /// Queues the end of an operation and hands its time to the operation's arm.
    pub(crate) fn queue_seen(&self, spot: &Spot, what: Owned) {
        let at = self.now();
        let mut inner = self.lock();
        inner.push(Doing { at, what });
        inner.see(spot.path.arm(), at);
        inner.nudge();
    }

    /// Returns once everything up to `ticket` is in the log. Never returns if the execution is over.
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

    /// Returns once a new effect may begin: everything before it is durable, and nobody paused the run.
    pub(crate) async fn gate(&self) -> Result<()> {
        let _gate = Counted::new(self, |inner| &mut inner.gates);
        let ticket = self.lock().issued;
        poll_fn(|cx| {
            let mut inner = self.lock();
            let looks = inner.mode == Mode::Look;
            let settled = inner.durable >= ticket || looks;
            let open = inner.stop.is_none() && settled && !inner.state.summary.paused;
            if open && inner.mode.heeds_cancel() && inner.state.summary.cancel.is_some() {
                return Poll::Ready(Err(Error::cancelled()));
            }
            if open && inner.mode != Mode::Replay && !looks {
                return Poll::Ready(Ok(()));
            }
            inner.wakers.push(cx.waker().clone());
            Poll::Pending
        })
        .await?;
        let (held_at, clock) = (self.lock().held_at, &*self.ledger.clock);
        if !self.live_runs().is_sure(held_at, clock) || self.live_runs().is_out_of_sight(clock.elapsed()) {
            self.revalidate().await;
        }
        Ok(())
    }

    /// The node was not confirmed alive lately: asks the store whether the claim still stands, and whether the run
    /// goes on in another store.
    async fn revalidate(&self) {
        let sent = self.ledger.clock.elapsed();
        let mut patience = crate::ledger::commit::Patience::new(&self.ledger, "a look at a claim");
        let epoch = self.lock().fence.epoch;
        let look = || async {
            let closed = closed_by_copy(&*self.ledger.store).await?;
            Ok(self.ledger.summary(&self.run).await?.filter(|_| closed.is_none()))
        };
        match patience.insist(&self.ledger, look).await {
            Ok(Some(summary)) if summary.epoch == epoch && summary.owner.is_some() => self.holds_at(sent),
            Ok(_) => self.stop_and_hang(Stop::Fenced).await,
            Err(error) => self.stop_and_hang(Stop::Store(error.to_string())).await,
        }
    }

    /// The store showed, in answer to something sent at `sent`, that the run is ours.
    pub(crate) fn holds_at(&self, sent: Duration) {
        self.live_runs().confirm(sent);
        let mut inner = self.lock();
        inner.held_at = inner.held_at.max(sent);
    }

    /// Whether the run is still under the claim of this execution, as its row says.
    pub(crate) fn stands_in(&self, summary: &Summary) -> bool {
        let branch = self.lock().fence.branch;
        summary.owner.is_some() && summary.epoch == self.epoch && summary.branch == branch
    }

    /// Ends the execution from outside: its driver drops the user's code at its next turn.
    pub(crate) fn end(&self, stop: Stop) {
        let mut inner = self.lock();
        inner.stop.get_or_insert(stop);
        inner.nudge();
    }

    /// Ends the execution; user code never sees why.
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

    /// Never returns while only what is recorded is replayed: for what is recorded without passing the gate.
    pub(crate) async fn unless_replaying(&self) {
        if self.lock().mode == Mode::Replay {
            std::future::pending::<()>().await;
        }
    }

    /// Tells the driver that the log may have grown.
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
    pub(crate) fn waiting(&self, slow: Slow) -> Waiting<'_> {
        let mut inner = self.lock();
        inner.waits_made += 1;
        let key = inner.waits_made;
        inner.waits.insert(key, slow);
        Waiting { live: self, key }
    }
}

/// Whether the log says that steps are to be undone, so that nothing new may begin.
fn turns_back(state: &State) -> bool {
    state.jump.is_some() || state.is_being_undone() && !planted::is(Bug::BeginsWhileUndoing)
}

impl Inner {
    /// Whether every step that is to be undone has its compensation: replay need not go further.
    pub(crate) fn knows_compensations(&self) -> bool {
        let left = self.state.to_undo(crate::run::compensation::cutoff(&self.state));
        left.iter().all(|path| self.undo.contains_key(path))
    }

    /// Queues something for the log. The only way in: what is not counted here would count as durable later.
    /// The ticket says when it is durable.
    pub(crate) fn push(&mut self, doing: Doing) -> u64 {
        self.queue.push(doing);
        self.issued += 1;
        self.issued
    }

    /// Wakes the driver unless it is polling the workflow right now and will look anyway.
    pub(crate) fn nudge(&mut self) {
        if !self.polling
            && let Some(driver) = &self.driver
        {
            driver.wake_by_ref();
        }
    }

    /// The state changed, and `count` queued doings are in the log.
    pub(crate) fn advanced(&mut self, count: u64) {
        self.durable += count;
        debug_assert!(self.durable <= self.issued, "more is durable than was ever queued");
        self.revision += 1;
        if self.mode == Mode::Run && turns_back(&self.state) {
            self.mode = Mode::Replay;
        }
        for waker in self.wakers.drain(..) {
            waker.wake();
        }
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Whether nothing runs here and something is waited for.
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

    /// Whether the run is paused and no user code runs any more.
    pub(crate) fn rests(&self) -> bool {
        self.state.summary.paused && self.busy == 0 && self.queue.is_empty()
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.busy == 0 && self.queue.is_empty()
    }

    /// The place of the next operation called `name` in `arm`.
    pub(crate) fn spot(&mut self, arm: &Path, name: &StepName, key: Option<&StepName>) -> Spot {
        let counter = self.arms.entry(arm.clone()).or_default();
        let ord = counter.next;
        counter.next += 1;
        let count = counter.counts.entry((name.clone(), key.cloned())).or_default();
        *count += 1;
        Spot { path: arm.child(name, key, *count), ord }
    }

    /// Whether nothing more can happen in a look without something from outside of the context.
    pub(crate) fn is_at_the_frontier(&self) -> bool {
        self.gates > 0 || !self.waits.is_empty() || !self.queue.is_empty()
    }

    /// Whether this lineage has the change called `name` in `arm`: as it was first answered in this replay, else as the
    /// log says. None: the log ends here, and the question is open.
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

    /// The answer holds for the rest of this replay.
    pub(crate) fn answer_change(&mut self, arm: &Path, name: &StepName, answer: bool) {
        self.arms.entry(arm.clone()).or_default().changes.insert(name.clone(), answer);
    }

    /// The recorded operation at `spot`, if replay has not passed the log; or how the two differ.
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
        let Some(op) = self.state.ops.get(path) else { return Ok(None) };
        if op.ord != *ord {
            let (then, here) = (op.ord + 1, ord + 1);
            return Err(Stop::Diverged(format!(
                "{path} is operation {then} in the log, and {here} in the code"
            )));
        }
        if let (Some(then), Some(here)) = (op.input, input)
            && then != here
            && op.first > other_until
        {
            return Err(Stop::Diverged(format!("{path} has other input in the code than in the log")));
        }
        let now = op.at;
        if let Some(arm) = self.arms.get_mut(path.arm()) {
            arm.now = Some(now);
        }
        Ok(Some(op))
    }

    /// How many operations the code has asked for in each arm.
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

    /// The next number that `arm` draws: the same in every replay.
    pub(crate) fn draw(&mut self, arm: &Path) -> Hash {
        let counter = self.arms.entry(arm.clone()).or_default();
        counter.draws += 1;
        let draws = counter.draws.to_string();
        Hash::of_parts(&["random", self.state.summary.run.as_str(), arm.as_str(), &draws])
    }
}

/// Counts something up until dropped.
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

/// An open wait, until dropped.
pub(crate) struct Waiting<'a> {
    live: &'a LiveRun,
    key: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.live.lock().waits.remove(&self.key);
    }
}
