//! A node: one incarnation of an engine process. It claims runs, executes them, beats, and takes over from dead
//! nodes.
//!
//! Recovery executes nothing: it only makes a run claimable. Dispatch, start-up and takeover all use the claim path
//! in `dispatch`.

mod child_notice;
mod claims;
mod dispatch;
mod execute;
mod handoff;
mod quarantine;
mod sweep;
mod takeover;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use goldseam_core::recovery::Reason;
use goldseam_core::{NodeId, RunId};
use goldseam_store::{NodeRecord, NodeState, StoreError, StorePace, Timing};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::heal::claims::Claims;
use crate::heal::{Healer, Liveness, Rules};
use crate::ledger::clock::{StoreTime, pause};
use crate::ledger::commit::Ledger;
use crate::ledger::config::Config;
use crate::ledger::copy_mark::{CLOSED, closed_by_copy};
use crate::ledger::error::EngineError;
use crate::ledger::liveness::Verdict;
use crate::ledger::spawn::{spawn, spawn_apart};
use crate::ledger::sync::lock;
use crate::run::live_runs::LiveRuns;
use crate::run::registry::Registry;

pub(crate) use handoff::{Handoff, OfferedRun};

/// Pauses at least this long end on a shared tick.
const COARSE_MIN: Duration = Duration::from_millis(500);
/// Time between two ticks.
const TICK: Duration = Duration::from_millis(50);
/// Consecutive beats that must fail with a damaged store before this node closes.
const DAMAGED_MAX: u32 = 2;

/// A running node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) ledger: Ledger,
    pub(crate) live_runs: Arc<LiveRuns>,
    pub(crate) claims: Claims,
    /// Already slowed down to the store's pace.
    pub(crate) config: Arc<Config>,
    pace: StorePace,
    pub(crate) registry: Registry,
    /// Where claimed runs wait for a remote worker; none: this process executes them.
    pub(crate) handoff: Option<Arc<Handoff>>,
    name: String,
    time: Arc<StoreTime>,
    seen: Mutex<HashMap<NodeId, NodeSight>>,
    /// Runs between the claim of their task and their entry into memory, and whether they were poked meanwhile.
    taking: Mutex<BTreeMap<RunId, bool>>,
    /// Runs suspected of crashing their process.
    quarantine: Mutex<quarantine::Quarantine>,
    /// The last reading of all nodes, and when.
    nodes_seen: Mutex<Option<(Duration, Arc<Liveness>)>>,
    /// Runs whose logs only a newer release can read.
    newer: Mutex<HashSet<RunId>>,
    /// Grows while the runtime makes progress.
    ticks: AtomicU32,
    /// Grows while the node polls its queue.
    polls: AtomicU32,
    closed: AtomicBool,
    /// Notified when the node closes.
    closing: Notify,
    /// Notified when a suspect is held back.
    suspects: Notify,
    /// Set once all runs are handed over, so no takeover is needed.
    left: AtomicBool,
    /// Why the node closed without a request.
    failure: Mutex<Option<EngineError>>,
    failed: Notify,
    work: Mutex<NodeWork>,
}

/// The parts that a node is made of.
pub(crate) struct NodeSetup {
    pub(crate) ledger: Ledger,
    pub(crate) live_runs: Arc<LiveRuns>,
    pub(crate) config: Arc<Config>,
    pub(crate) registry: Registry,
    pub(crate) id: NodeId,
    pub(crate) time: Arc<StoreTime>,
    pub(crate) handoff: Option<Arc<Handoff>>,
}

/// The tasks that work for this node.
#[derive(Debug, Default)]
struct NodeWork {
    all: Vec<JoinHandle<()>>,
    /// Number of handles above which finished ones are removed.
    handles_max: usize,
}

impl NodeWork {
    /// Removes finished handles only when the list has doubled: with ten thousand live runs, a scan for each new one
    /// would cost more than the runs.
    fn adopt(&mut self, work: JoinHandle<()>) {
        if self.all.len() >= self.handles_max {
            self.all.retain(|work| !work.is_finished());
            self.handles_max = (self.all.len() * 2).max(64);
        }
        self.all.push(work);
    }
}

/// For how many beats a counter has not changed.
#[derive(Debug, Default)]
struct Unchanged {
    seen: u32,
    beats: u32,
}

impl Unchanged {
    fn observe(&mut self, now: u32) {
        self.beats = if now == self.seen { self.beats.saturating_add(1) } else { 0 };
        self.seen = now;
    }
}

/// What this node knows of another, by its own observation only, never by comparing clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeSight {
    beats: u64,
    since: Duration,
    suspect_since: Option<Duration>,
    verdict: Verdict,
}

impl Node {
    pub(crate) fn new(setup: NodeSetup) -> Arc<Self> {
        let NodeSetup { ledger, live_runs, config, registry, id, time, handoff } = setup;
        let name = config.name.clone().unwrap_or_else(|| format!("{}:{}", host(), std::process::id()));
        let pace = ledger.store.pace();
        for workflow in registry.names() {
            let steps = registry.plan(workflow);
            ledger.meter.expect(workflow.as_str(), steps.iter().map(|step| step.as_str()));
        }
        ledger.meter.announce();
        let quarantine = Mutex::new(quarantine::Quarantine::new(ledger.clock.elapsed()));
        Arc::new(Self {
            id,
            claims: Claims::new(ledger.clone(), config.claim_rules()),
            ledger,
            live_runs,
            config,
            pace,
            registry,
            handoff,
            name,
            time,
            seen: Mutex::default(),
            taking: Mutex::default(),
            quarantine,
            nodes_seen: Mutex::default(),
            newer: Mutex::default(),
            ticks: AtomicU32::new(0),
            polls: AtomicU32::new(0),
            closed: AtomicBool::new(false),
            closing: Notify::new(),
            suspects: Notify::new(),
            left: AtomicBool::new(false),
            failure: Mutex::default(),
            failed: Notify::new(),
            work: Mutex::default(),
        })
    }

    /// Joins the store, recovers runs of dead nodes, then starts to claim work.
    pub(crate) async fn start(self: &Arc<Self>) -> Result<(), EngineError> {
        self.beat().await?;
        self.recover_first().await;
        let node = Arc::clone(self);
        if self.config.beat_on_thread {
            let runs = spawn_apart(async move { node.keep_beating().await });
            runs.map_err(|error| StoreError::Busy { doing: "starting a thread", source: error.into() })?;
        } else {
            self.adopt(spawn(async move { node.keep_beating().await }));
        }
        let node = Arc::clone(self);
        self.adopt(spawn(async move { node.keep_ticking().await }));
        let node = Arc::clone(self);
        self.adopt(spawn(async move { node.keep_watch().await }));
        let node = Arc::clone(self);
        self.adopt(spawn(async move { node.keep_claims().await }));
        let node = Arc::clone(self);
        self.adopt(spawn(async move { node.keep_claiming().await }));
        let node = Arc::clone(self);
        self.adopt(spawn(async move { node.keep_listening().await }));
        let node = Arc::clone(self);
        self.adopt(spawn(async move { node.keep_sweeping().await }));
        let node = Arc::clone(self);
        self.adopt(spawn(async move { node.keep_monitoring().await }));
        Ok(())
    }

    /// Refuses to run on a store that a copy closed. Called after a beat, so a copy that begins now sees this node.
    async fn must_be_open(&self) -> Result<(), EngineError> {
        let closed = match closed_by_copy(&*self.ledger.store).await {
            Ok(None) => return Ok(()),
            Ok(Some(closed)) => closed.into(),
            Err(error) => error,
        };
        if let Err(error) = self.ledger.store.forget(&self.id).await {
            tracing::warn!(node = %self.id, %error, "failed to remove node record");
        }
        Err(EngineError::Store(closed))
    }

    /// Returns a healer that acts for this node.
    pub(crate) fn healer(&self, reason: Reason) -> Healer {
        Healer::new(self.ledger.clone(), Rules::of(&self.config), reason)
    }

    pub(crate) fn live_runs(&self) -> &LiveRuns {
        &self.live_runs
    }

    /// Whether this node has the run in memory, or is loading it.
    pub(crate) fn has(&self, run: &RunId) -> bool {
        self.live_runs().holds(run) || self.taking().contains_key(run)
    }

    fn taking(&self) -> std::sync::MutexGuard<'_, BTreeMap<RunId, bool>> {
        lock(&self.taking)
    }

    pub(crate) fn adopt(&self, work: JoinHandle<()>) {
        lock(&self.work).adopt(work);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn record(&self, state: NodeState) -> NodeRecord {
        let mut workflows = self.registry.labels();
        workflows.push(NodeRecord::release_label(env!("CARGO_PKG_VERSION")));
        workflows.extend(NodeRecord::queue_labels(&self.config.queues));
        NodeRecord {
            id: self.id.clone(),
            name: self.name.clone(),
            started_at: self.live_runs().started_at(),
            workflows,
            slots: self.config.slots,
            timing: Some(Timing { beat: self.config.beat, silence_max: self.config.silence_max }),
            state,
        }
    }

    async fn beat(&self) -> Result<(), EngineError> {
        let sent = self.ledger.clock.elapsed();
        let state = if self.live_runs().is_leaving() { NodeState::Leaving } else { NodeState::Up };
        let now = self.ledger.store.beat(&self.record(state)).await?;
        self.time.set(now, sent);
        if self.live_runs().is_out_of_sight(sent) {
            self.must_be_open().await?;
        }
        self.live_runs().record_beat(sent);
        self.ledger.meter.beaten();
        Ok(())
    }

    /// Beats while the node can work. A node that beats but does not work would keep others from taking over.
    async fn keep_beating(&self) {
        let mut runtime = Unchanged::default();
        let mut queue = Unchanged::default();
        let mut known = None;
        let mut damaged = 0;
        while !self.is_closed() {
            runtime.observe(self.ticks.load(Ordering::Relaxed));
            queue.observe(self.polls.load(Ordering::Relaxed));
            let lame = self.lame(&runtime, &queue);
            if let Some(why) = lame.filter(|_| known != lame) {
                tracing::error!(node = %self.id, why, "node cannot work; giving up its runs");
            }
            known = lame;
            let sent = if lame.is_some() { self.beat_as_gone().await } else { self.beat().await };
            match sent {
                Ok(()) => damaged = 0,
                Err(error) if error.code() == CLOSED => {
                    tracing::error!(node = %self.id, %error, "store was closed by a copy while this node did not beat");
                    self.fail(error);
                }
                Err(error @ EngineError::Store(StoreError::Damaged { .. })) if damaged + 1 >= DAMAGED_MAX => {
                    tracing::error!(node = %self.id, %error, "store refuses writes as damaged");
                    self.fail(error);
                }
                Err(error) => {
                    damaged += u32::from(matches!(error, EngineError::Store(StoreError::Damaged { .. })));
                    tracing::warn!(node = %self.id, %error, "beat failed");
                }
            }
            self.rest(self.config.beat).await;
        }
        self.sign_off().await;
    }

    /// Why this node cannot work: a counter has not changed for so long that it never will. Counted in beats, so a
    /// process that was frozen as a whole does not count.
    fn lame(&self, runtime: &Unchanged, queue: &Unchanged) -> Option<&'static str> {
        let after = self.config.wedged_after;
        let is_not_polling = self.config.beat * queue.beats >= after.max(self.config.poll * 4);
        if !self.config.beat_on_thread {
            None
        } else if self.config.beat * runtime.beats >= after {
            Some("the runtime makes no progress: code that never yields occupies all its threads")
        } else if is_not_polling && !self.live_runs().is_leaving() {
            Some("the node no longer polls its queue")
        } else {
            None
        }
    }

    /// Lets other nodes take over the runs of this node. If it recovers, its next beat joins again, and the log
    /// refuses writes to runs that were taken over.
    async fn beat_as_gone(&self) -> Result<(), EngineError> {
        self.ledger.store.beat(&self.record(NodeState::Gone)).await?;
        Ok(())
    }

    /// Proves that the runtime makes progress.
    async fn keep_ticking(&self) {
        while !self.is_closed() {
            self.ticks.fetch_add(1, Ordering::Relaxed);
            self.rest(self.config.beat / 2).await;
        }
    }

    /// Writes the final state of a node. It comes after every beat, so no beat can revive the record: a closed node
    /// in a live process would keep its lock, and only its silence would show its end.
    async fn sign_off(&self) {
        let written = match self.left.load(Ordering::Relaxed) {
            true => self.ledger.store.forget(&self.id).await,
            false => self.ledger.store.beat(&self.record(NodeState::Gone)).await.map(drop),
        };
        if let Err(error) = written {
            tracing::debug!(node = %self.id, %error, "failed to publish final node state");
        }
    }

    /// Sleeps for `span`, or until the node closes.
    async fn rest(&self, span: Duration) {
        let closing = self.closing.notified();
        if !self.is_closed() {
            let _ = timeout(coarse(self.ledger.clock.elapsed(), span), closing).await;
        }
    }

    /// Hands all runs over and leaves. Counts no attempt for running steps.
    pub(crate) async fn leave(&self) {
        self.live_runs().leave();
        self.release_suspects().await;
        let deadline = self.ledger.clock.elapsed().saturating_add(self.config.drain);
        while self.live_runs().live_count() > 0 && self.ledger.clock.elapsed() < deadline {
            self.live_runs().nudge_all();
            pause(Duration::from_millis(5)).await;
        }
        self.live_runs().abort();
        let deadline = self.ledger.clock.elapsed() + Duration::from_secs(5);
        while self.live_runs().live_count() > 0 && self.ledger.clock.elapsed() < deadline {
            self.live_runs().nudge_all();
            pause(Duration::from_millis(5)).await;
        }
        self.left.store(true, Ordering::Relaxed);
        self.close();
        if let Err(error) = self.ledger.store.forget(&self.id).await {
            tracing::warn!(node = %self.id, %error, "failed to remove node record");
        }
    }

    /// Closes the node because of an error.
    fn fail(&self, error: EngineError) {
        *lock(&self.failure) = Some(error);
        self.close();
        self.failed.notify_one();
    }

    /// Waits until the node closes because of an error.
    pub(crate) async fn failure(&self) -> EngineError {
        loop {
            self.failed.notified().await;
            let error = lock(&self.failure).take();
            if let Some(error) = error {
                return error;
            }
        }
    }

    /// Closes the node at once, like a crash: nothing is handed over. The beating task then publishes the final
    /// state.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.closing.notify_waiters();
        for work in lock(&self.work).all.drain(..) {
            work.abort();
        }
        self.live_runs().clear();
    }
}

/// Extends a long pause to a tick that all nodes of a process share, so one wake-up serves many of them.
fn coarse(now: Duration, span: Duration) -> Duration {
    if span < COARSE_MIN {
        return span;
    }
    let past = (now + span).as_nanos() % TICK.as_nanos();
    span + Duration::from_nanos(u64::try_from((TICK.as_nanos() - past) % TICK.as_nanos()).unwrap_or(0))
}

fn host() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
