//! The table of live runs of a process, the futures that wait for their ends, and the node's last confirmed liveness.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use goldseam_core::decide::TaskMove;
use goldseam_core::state::Outcome;
use goldseam_core::{Millis, NodeId, RunId, StepName, WorkflowName};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, oneshot};

use crate::ledger::clock::Clock;
use crate::ledger::config::Newest;
use crate::ledger::error::EngineError;
use crate::ledger::process::Process;
use crate::ledger::sync::lock;
use crate::run::live_run::LiveRun;
use crate::run::registry::Registry;
use crate::run::workflow_ref::WorkflowTarget;

/// How an execution in this process ended.
#[derive(Debug, Clone)]
pub(crate) enum Ended {
    /// The run has ended.
    Over(Outcome),
    /// The run left this process; read the store.
    Elsewhere,
}

/// The live runs of one engine; empty in a client, which executes no runs.
pub(crate) struct LiveRuns {
    node: Option<NodeId>,
    registry: Registry,
    /// The newest versions of live nodes, and when they were read.
    fleet: Mutex<Option<(Duration, Arc<Newest>)>>,
    started_at: Millis,
    sure_for: Duration,
    confirmed: Mutex<Confirmed>,
    leaving: AtomicBool,
    aborting: AtomicBool,
    /// Set while a run must be alone: nothing new begins.
    secluded: AtomicBool,
    table: Mutex<Table>,
    /// Notified when an execution leaves memory, or a turn ends.
    left: Notify,
    /// Number of successful appends of this process.
    appends: AtomicU64,
    /// Notified when a task is ready.
    pub(crate) ready: Notify,
    /// Observes the start of user code.
    #[cfg(feature = "testing")]
    pub(crate) witness: Option<Arc<dyn crate::run::witness::Witness>>,
}

/// When the store last confirmed this node, and since when without a gap.
#[derive(Debug, Default)]
struct Confirmed {
    last: Duration,
    since: Duration,
    /// When the last successful beat was sent.
    beat: Option<Duration>,
}

#[derive(Default)]
struct Table {
    runs: BTreeMap<RunId, Arc<LiveRun>>,
    /// Runs that are being claimed and loaded, each by one task of this process.
    turns: BTreeSet<RunId>,
    waiters: BTreeMap<RunId, Vec<oneshot::Sender<Ended>>>,
}

impl LiveRuns {
    /// Creates the table of a client.
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
            table: Mutex::default(),
            left: Notify::new(),
            appends: AtomicU64::new(0),
            ready: Notify::new(),
            #[cfg(feature = "testing")]
            witness: None,
        }
    }

    /// Sets a witness that observes the start of user code.
    #[cfg(feature = "testing")]
    pub(crate) fn watched_by(mut self, witness: Option<Arc<dyn crate::run::witness::Witness>>) -> Self {
        self.witness = witness;
        self
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    pub(crate) fn started_at(&self) -> Millis {
        self.started_at
    }

    /// Resolves a reference to a workflow.
    pub(crate) fn resolve(
        &self,
        target: WorkflowTarget<'_>,
    ) -> Result<(WorkflowName, Option<u32>), EngineError> {
        self.registry.resolve(target)
    }

    /// The newest version of a workflow that this process has.
    pub(crate) fn newest(&self, workflow: &WorkflowName) -> Option<u32> {
        self.registry.newest(workflow)
    }

    /// The newest versions of live nodes, if they were read at `since` or later.
    pub(crate) fn fleet(&self, since: Duration) -> Option<Arc<Newest>> {
        let fleet = lock(&self.fleet);
        fleet.as_ref().filter(|(at, _)| *at >= since).map(|(_, newest)| Arc::clone(newest))
    }

    /// Stores the newest versions of live nodes, read at `at`.
    pub(crate) fn remember_fleet(&self, at: Duration, newest: Arc<Newest>) {
        *lock(&self.fleet) = Some((at, newest));
    }

    /// The steps that the workflow declared.
    pub(crate) fn plan(&self, workflow: &WorkflowName) -> Vec<StepName> {
        self.registry.plan(workflow)
    }

    fn confirmed(&self) -> MutexGuard<'_, Confirmed> {
        lock(&self.confirmed)
    }

    /// Records a reply of the store to a request sent at `sent`.
    pub(crate) fn confirm(&self, sent: Duration) {
        let mut confirmed = self.confirmed();
        if sent.saturating_sub(confirmed.last) >= self.sure_for {
            confirmed.since = sent;
        }
        confirmed.last = confirmed.last.max(sent);
    }

    /// Records a successful beat that was sent at `sent`.
    pub(crate) fn record_beat(&self, sent: Duration) {
        self.confirm(sent);
        self.confirmed().beat = Some(sent);
    }

    /// When the last successful beat was sent.
    pub(crate) fn last_beat(&self) -> Duration {
        self.confirmed().beat.unwrap_or_default()
    }

    /// Whether no beat has succeeded yet, or not for so long that other nodes may count this one as gone. The store
    /// may have been copied meanwhile, which no append notices.
    pub(crate) fn is_out_of_sight(&self, now: Duration) -> bool {
        self.confirmed().beat.is_none_or(|beat| now.saturating_sub(beat) >= self.sure_for)
    }

    /// Whether no other node can have taken over a run that this node owned at `held_at`: the store has confirmed
    /// this node ever since, without a gap long enough for a takeover, and recently.
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

    /// Whether nothing new may begin because a run must be alone.
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

    /// Number of successful appends of this process.
    pub(crate) fn appends(&self) -> u64 {
        self.appends.load(Ordering::Relaxed)
    }

    /// Adds an execution, unless another execution of its run is live. No other function adds one, so a process never
    /// executes a run twice.
    pub(crate) fn enter(&self, live: &Arc<LiveRun>) -> TableEntry {
        let mut table = self.table();
        match table.runs.get(&live.run) {
            Some(other) if other.epoch < live.epoch => return TableEntry::Older(Arc::clone(other)),
            Some(_) => return TableEntry::Newer,
            None => {}
        }
        table.runs.insert(live.run.clone(), Arc::clone(live));
        TableEntry::In
    }

    /// Waits for the end of any execution or turn of this process. Counts from the call on, not from the first poll.
    fn left(&self) -> Notified<'_> {
        self.left.notified()
    }

    /// Waits until this execution has left memory.
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

    /// Takes the right to claim and load the run, if no other task of this process has it.
    pub(crate) fn try_turn(&self, run: &RunId) -> Option<Turn<'_>> {
        self.table().turns.insert(run.clone()).then(|| Turn { live_runs: self, run: run.clone() })
    }

    pub(crate) fn live(&self, run: &RunId) -> Option<Arc<LiveRun>> {
        self.table().runs.get(run).cloned()
    }

    pub(crate) fn holds(&self, run: &RunId) -> bool {
        self.table().runs.contains_key(run)
    }

    /// Whether this execution is the live one of its run.
    pub(crate) fn has(&self, live: &Arc<LiveRun>) -> bool {
        self.table().runs.get(&live.run).is_some_and(|now| Arc::ptr_eq(now, live))
    }

    /// The ids of the live runs.
    pub(crate) fn run_ids(&self) -> BTreeSet<RunId> {
        self.table().runs.keys().cloned().collect()
    }

    pub(crate) fn live_count(&self) -> usize {
        self.table().runs.len()
    }

    /// Removes an execution and reports its end to all waiters.
    pub(crate) fn remove(&self, live: &Arc<LiveRun>, ended: &Ended) {
        let mut table = self.table();
        if table.runs.get(&live.run).is_some_and(|now| Arc::ptr_eq(now, live)) {
            table.runs.remove(&live.run);
        }
        let waiters = table.waiters.remove(&live.run).unwrap_or_default();
        drop(table);
        self.left.notify_waiters();
        for waiter in waiters {
            let _ = waiter.send(ended.clone());
        }
        self.ready.notify_one();
    }

    /// Returns a receiver of the execution's end, if the run is live.
    pub(crate) fn wait_for(&self, run: &RunId) -> Option<oneshot::Receiver<Ended>> {
        let mut table = self.table();
        if !table.runs.contains_key(run) {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        table.waiters.entry(run.clone()).or_default().push(sender);
        Some(receiver)
    }

    pub(crate) fn nudge_all(&self) {
        let runs: Vec<Arc<LiveRun>> = self.table().runs.values().cloned().collect();
        for live in runs {
            live.lock().nudge();
        }
    }

    pub(crate) fn clear(&self) {
        let mut table = self.table();
        table.runs.clear();
        table.waiters.clear();
        drop(table);
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
        let live = self.table().runs.get(run).cloned();
        if let Some(live) = live {
            live.poke();
        }
    }

    fn is_idle(&self) -> bool {
        self.live_count() == 0
    }
}

/// The result of adding an execution.
pub(crate) enum TableEntry {
    /// Added.
    In,
    /// An execution under the same or a later claim is live: this one must not begin.
    Newer,
    /// An execution under an earlier claim is live: it must end first.
    Older(Arc<LiveRun>),
}

/// The right to claim and load a run. Released when dropped.
pub(crate) struct Turn<'a> {
    live_runs: &'a LiveRuns,
    run: RunId,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.live_runs.table().turns.remove(&self.run);
        self.live_runs.left.notify_waiters();
    }
}

impl fmt::Debug for LiveRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveRuns")
            .field("node", &self.node)
            .field("live", &self.live_count())
            .finish_non_exhaustive()
    }
}
