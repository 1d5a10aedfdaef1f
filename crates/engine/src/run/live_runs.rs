//! What one process knows in memory: the runs it has, who waits for them, and when it was last sure to be alive.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use goldseam_core::decide::TaskMove;
use goldseam_core::planted::{self, Bug};
use goldseam_core::state::Outcome;
use goldseam_core::{Millis, NodeId, RunId, StepName, WorkflowName};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, oneshot};

use crate::ledger::clock::Clock;
use crate::ledger::config::Newest;
use crate::ledger::process::Process;
use crate::run::live_run::LiveRun;
use crate::run::registry::Registry;

/// How an execution in this process ended, for those who wait for the run.
#[derive(Debug, Clone)]
pub(crate) enum Ended {
    /// The run is over.
    Over(Outcome),
    /// It left this process; look at the store.
    Elsewhere,
}

/// Shared memory of one engine, or of a client that executes nothing.
pub(crate) struct LiveRuns {
    node: Option<NodeId>,
    registry: Registry,
    /// The newest versions that live nodes had, and when they were looked up.
    fleet: Mutex<Option<(Duration, Arc<Newest>)>>,
    started_at: Millis,
    sure_for: Duration,
    confirmed: Mutex<Confirmed>,
    leaving: AtomicBool,
    aborting: AtomicBool,
    /// Nothing new begins here: a run is let in alone.
    secluded: AtomicBool,
    hot: Mutex<Hot>,
    /// An execution has left memory, or a turn is over.
    left: Notify,
    /// Appends of this process that have landed.
    appends: AtomicU64,
    /// A task became ready here.
    pub(crate) ready: Notify,
    /// Sees user code begin.
    #[cfg(feature = "testing")]
    pub(crate) witness: Option<Arc<dyn crate::run::witness::Witness>>,
}

/// When the store last confirmed this node, and since when it has without a gap.
#[derive(Debug, Default)]
struct Confirmed {
    last: Duration,
    since: Duration,
    /// When the last beat that landed was sent.
    beat: Option<Duration>,
}

#[derive(Default)]
struct Hot {
    runs: BTreeMap<RunId, Arc<LiveRun>>,
    /// Runs that are being claimed and loaded, each by one task of this process.
    turns: BTreeSet<RunId>,
    waiters: BTreeMap<RunId, Vec<oneshot::Sender<Ended>>>,
}

impl LiveRuns {
    /// The live runs of a process that executes nothing.
    pub(crate) fn of_client() -> Self {
        Self::new(None, Registry::default(), Millis(0), Duration::MAX)
    }

    pub(crate) fn new(
        node: Option<NodeId>,
        registry: Registry,
        started_at: Millis,
        sure_for: Duration,
    ) -> Self {
        Self {
            node,
            registry,
            fleet: Mutex::default(),
            started_at,
            sure_for,
            confirmed: Mutex::default(),
            leaving: AtomicBool::new(false),
            aborting: AtomicBool::new(false),
            secluded: AtomicBool::new(false),
            hot: Mutex::default(),
            left: Notify::new(),
            appends: AtomicU64::new(0),
            ready: Notify::new(),
            #[cfg(feature = "testing")]
            witness: None,
        }
    }

    /// The same, with somebody who sees user code begin.
    #[cfg(feature = "testing")]
    pub(crate) fn watched_by(mut self, witness: Option<Arc<dyn crate::run::witness::Witness>>) -> Self {
        self.witness = witness;
        self
    }

    fn hot(&self) -> MutexGuard<'_, Hot> {
        self.hot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn started_at(&self) -> Millis {
        self.started_at
    }

    /// The newest version of a workflow that this process has.
    pub(crate) fn newest(&self, workflow: &WorkflowName) -> Option<u32> {
        self.registry.newest(workflow)
    }

    /// The newest versions that live nodes had at `since` or later, if that was looked up.
    pub(crate) fn fleet(&self, since: Duration) -> Option<Arc<Newest>> {
        let fleet = self.fleet.lock().unwrap_or_else(PoisonError::into_inner);
        fleet.as_ref().filter(|(at, _)| *at >= since).map(|(_, newest)| Arc::clone(newest))
    }

    /// Remembers the newest versions that live nodes had at `at`.
    pub(crate) fn remember_fleet(&self, at: Duration, newest: Arc<Newest>) {
        *self.fleet.lock().unwrap_or_else(PoisonError::into_inner) = Some((at, newest));
    }

    /// The steps that the workflow declared.
    pub(crate) fn plan(&self, workflow: &WorkflowName) -> Vec<StepName> {
        self.registry.plan(workflow)
    }

    fn confirmed(&self) -> MutexGuard<'_, Confirmed> {
        self.confirmed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store answered something that was sent at `sent`.
    pub(crate) fn confirm(&self, sent: Duration) {
        let mut confirmed = self.confirmed();
        if sent.saturating_sub(confirmed.last) >= self.sure_for {
            confirmed.since = sent;
        }
        confirmed.last = confirmed.last.max(sent);
    }

    /// A beat that was sent at `sent` has landed.
    pub(crate) fn told_alive_at(&self, sent: Duration) {
        self.confirm(sent);
        self.confirmed().beat = Some(sent);
    }

    /// When the last beat that landed was sent.
    pub(crate) fn told_alive(&self) -> Duration {
        self.confirmed().beat.unwrap_or_default()
    }

    /// Whether no beat has landed yet, or none for so long that others may have taken this node for gone: a store may
    /// have been copied meanwhile, which no append finds out.
    pub(crate) fn is_out_of_sight(&self, now: Duration) -> bool {
        self.confirmed().beat.is_none_or(|beat| now.saturating_sub(beat) >= self.sure_for)
    }

    /// Whether nobody can have taken over a run that was surely ours at `held_at`: the store has confirmed
    /// this node ever since, without a gap that a takeover fits into, and lately.
    pub(crate) fn is_sure(&self, held_at: Duration, clock: &dyn Clock) -> bool {
        let confirmed = self.confirmed();
        clock.elapsed().saturating_sub(confirmed.last) < self.sure_for && held_at >= confirmed.since
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    pub(crate) fn is_aborting(&self) -> bool {
        self.aborting.load(Ordering::Relaxed)
    }

    /// Whether nothing new may begin here: a run is let in alone.
    pub(crate) fn is_secluded(&self) -> bool {
        self.secluded.load(Ordering::Relaxed)
    }

    pub(crate) fn seclude(&self, secluded: bool) {
        self.secluded.store(secluded, Ordering::Relaxed);
        if secluded {
            self.nudge_all();
        }
    }

    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    pub(crate) fn abort(&self) {
        self.aborting.store(true, Ordering::Relaxed);
    }

    /// Appends of this process that have landed so far.
    pub(crate) fn appends(&self) -> u64 {
        self.appends.load(Ordering::Relaxed)
    }

    /// Takes an execution into memory, unless another execution of its run is there. The only way in, so that one
    /// process never has two of them.
    pub(crate) fn enter(&self, live: &Arc<LiveRun>) -> Entry {
        let mut hot = self.hot();
        let blind = planted::is(Bug::TwoAtOnce) || planted::is(Bug::AnyClaimIsOwn);
        match hot.runs.get(&live.run).filter(|_| !blind) {
            Some(other) if other.epoch < live.epoch => return Entry::Older(Arc::clone(other)),
            Some(_) => return Entry::Newer,
            None => {}
        }
        hot.runs.insert(live.run.clone(), Arc::clone(live));
        Entry::In
    }

    /// Returns once an execution or a turn of this process has ended. It counts from the call on, not from the first poll.
    fn left(&self) -> Notified<'_> {
        self.left.notified()
    }

    /// Returns once this execution is not in memory any more.
    pub(crate) async fn until_left(&self, live: &Arc<LiveRun>) {
        loop {
            let left = self.left();
            if !self.has(live) {
                return;
            }
            left.await;
        }
    }

    /// Waits for the right to claim and load the run, which one task of this process has at a time.
    pub(crate) async fn turn(&self, run: &RunId) -> Turn<'_> {
        loop {
            let left = self.left();
            if let Some(turn) = self.try_turn(run) {
                return turn;
            }
            left.await;
        }
    }

    /// The same, if no other task of this process has it.
    pub(crate) fn try_turn(&self, run: &RunId) -> Option<Turn<'_>> {
        self.hot().turns.insert(run.clone()).then(|| Turn { live_runs: self, run: run.clone() })
    }

    pub(crate) fn live(&self, run: &RunId) -> Option<Arc<LiveRun>> {
        self.hot().runs.get(run).cloned()
    }

    pub(crate) fn holds(&self, run: &RunId) -> bool {
        self.hot().runs.contains_key(run)
    }

    /// Whether this execution of its run is the one in memory.
    pub(crate) fn has(&self, live: &Arc<LiveRun>) -> bool {
        self.hot().runs.get(&live.run).is_some_and(|now| Arc::ptr_eq(now, live))
    }

    /// The runs in memory.
    pub(crate) fn hot_runs(&self) -> BTreeSet<RunId> {
        self.hot().runs.keys().cloned().collect()
    }

    pub(crate) fn hot_count(&self) -> usize {
        self.hot().runs.len()
    }

    /// The execution of this live is over; whoever waits is told.
    pub(crate) fn remove(&self, live: &Arc<LiveRun>, ended: &Ended) {
        let mut hot = self.hot();
        if hot.runs.get(&live.run).is_some_and(|now| Arc::ptr_eq(now, live)) {
            hot.runs.remove(&live.run);
        }
        let waiters = hot.waiters.remove(&live.run).unwrap_or_default();
        drop(hot);
        self.left.notify_waiters();
        for waiter in waiters {
            let _ = waiter.send(ended.clone());
        }
        self.ready.notify_one();
    }

    /// A way to learn how the execution ends, if the run is in memory here.
    pub(crate) fn wait_for(&self, run: &RunId) -> Option<oneshot::Receiver<Ended>> {
        let mut hot = self.hot();
        if !hot.runs.contains_key(run) {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        hot.waiters.entry(run.clone()).or_default().push(sender);
        Some(receiver)
    }

    pub(crate) fn nudge_all(&self) {
        let runs: Vec<Arc<LiveRun>> = self.hot().runs.values().cloned().collect();
        for live in runs {
            live.lock().nudge();
        }
    }

    pub(crate) fn clear(&self) {
        let mut hot = self.hot();
        hot.runs.clear();
        hot.waiters.clear();
        drop(hot);
        self.left.notify_waiters();
    }
}

impl Process for LiveRuns {
    fn node(&self) -> Option<&NodeId> {
        self.node.as_ref()
    }

    fn committed(&self, task: TaskMove, now: Millis) {
        self.appends.fetch_add(1, Ordering::Relaxed);
        match task {
            TaskMove::Wake | TaskMove::Ready => self.task_ready(),
            TaskMove::Rest(due) | TaskMove::Renew(due) if due <= now => self.task_ready(),
            TaskMove::Rest(_) | TaskMove::Renew(_) | TaskMove::Keep | TaskMove::Held | TaskMove::Remove => {}
        }
    }

    fn task_ready(&self) {
        self.ready.notify_one();
    }

    fn poke(&self, run: &RunId) {
        let live = self.hot().runs.get(run).cloned();
        if let Some(live) = live {
            live.poke();
        }
    }

    fn is_idle(&self) -> bool {
        self.hot_count() == 0
    }
}

/// What becomes of an execution that comes into memory.
pub(crate) enum Entry {
    /// It is there.
    In,
    /// One under the same claim or a later one is there: this one must not begin.
    Newer,
    /// One under an earlier claim is there: it must have ended before this one begins.
    Older(Arc<LiveRun>),
}

/// The right to claim and load a run, until dropped.
pub(crate) struct Turn<'a> {
    live_runs: &'a LiveRuns,
    run: RunId,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.live_runs.hot().turns.remove(&self.run);
        self.live_runs.left.notify_waiters();
    }
}

impl fmt::Debug for LiveRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveRuns")
            .field("node", &self.node)
            .field("hot", &self.hot_count())
            .finish_non_exhaustive()
    }
}
