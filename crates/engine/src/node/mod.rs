//! One incarnation of an engine process: it claims runs, executes them, beats, and takes over from the dead.
//!
//! Recovery never executes anything by itself: it only makes a run claimable again. Dispatch,
//! start-up and takeover all go through the one claim path in `dispatch`.

mod claims;
mod desk;
mod dispatch;
mod execute;
mod keeper;
mod mail;
mod quarantine;
mod sweep;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goldseam_core::recovery::Reason;
use goldseam_core::{NodeId, RunId};
use goldseam_store::{NodeRecord, NodeState, Pace, StoreError};
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
use crate::ledger::spawn::{spawn, spawn_apart};
use crate::run::live_runs::LiveRuns;
use crate::run::registry::Registry;

pub(crate) use desk::{Desk, Lying};

/// Pauses at least this long end on a tick.
const COARSE_MIN: Duration = Duration::from_millis(500);
/// Time between two ticks.
const TICK: Duration = Duration::from_millis(50);
/// Beats in a row that the store must call itself damaged at before this node believes it.
const DAMAGED_MAX: u32 = 2;

/// A running node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: NodeId,
    pub(crate) ledger: Ledger,
    pub(crate) live_runs: Arc<LiveRuns>,
    pub(crate) claims: Claims,
    /// Slowed down to the store's pace already.
    pub(crate) config: Arc<Config>,
    pace: Pace,
    pub(crate) registry: Registry,
    /// Where its runs are laid for a worker in another process; none: they are executed here.
    pub(crate) desk: Option<Arc<Desk>>,
    name: String,
    time: Arc<StoreTime>,
    seen: Mutex<HashMap<NodeId, Sight>>,
    /// Runs between the claim of their task and their place in memory, and whether they were poked meanwhile.
    taking: Mutex<BTreeMap<RunId, bool>>,
    /// Suspects of crashing their process.
    quarantine: Mutex<quarantine::Quarantine>,
    /// All nodes as they were seen lately, and when.
    nodes_seen: Mutex<Option<(Duration, Arc<Liveness>)>>,
    /// Runs whose logs only a newer release can read.
    newer: Mutex<HashSet<RunId>>,
    /// Grows for as long as the runtime moves.
    moves: AtomicU32,
    /// Grows for as long as somebody looks at the queue.
    looks: AtomicU32,
    closed: AtomicBool,
    /// Notified when the node closes.
    closing: Notify,
    /// Notified when a suspect is held back.
    suspects: Notify,
    /// Everything was handed over, so there is nothing to take over.
    left: AtomicBool,
    /// Why the node closed by itself, for whoever runs it.
    failure: Mutex<Option<EngineError>>,
    failed: Notify,
    work: Mutex<Work>,
}

/// What runs in this node's name.
#[derive(Debug, Default)]
struct Work {
    all: Vec<JoinHandle<()>>,
    /// How many there may be before those that are over are let go.
    most: usize,
}

impl Work {
    /// Lets go of what is over only once it may be half of all: with ten thousand runs in memory, a look at all
    /// of them for each new one would cost more than the runs.
    fn adopt(&mut self, work: JoinHandle<()>) {
        if self.all.len() >= self.most {
            self.all.retain(|work| !work.is_finished());
            self.most = (self.all.len() * 2).max(64);
        }
        self.all.push(work);
    }
}

/// For how many beats something has not moved.
#[derive(Debug, Default)]
struct Still {
    seen: u32,
    beats: u32,
}

impl Still {
    fn look(&mut self, now: u32) {
        self.beats = if now == self.seen { self.beats.saturating_add(1) } else { 0 };
        self.seen = now;
    }
}

/// What this node remembers of another: judged by its own observation only, never by comparing clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sight {
    beats: u64,
    since: Duration,
    suspect_since: Option<Duration>,
    silent: bool,
    gone: bool,
}

impl Node {
    pub(crate) fn new(
        (ledger, live_runs): (Ledger, Arc<LiveRuns>),
        config: Arc<Config>,
        registry: Registry,
        (id, time): (NodeId, Arc<StoreTime>),
        desk: Option<Arc<Desk>>,
    ) -> Arc<Self> {
        let name = config.name.clone().unwrap_or_else(|| format!("{}:{}", host(), std::process::id()));
        let pace = ledger.store.pace();
        let quarantine = Mutex::new(quarantine::Quarantine::new(ledger.clock.elapsed()));
        Arc::new(Self {
            id,
            claims: Claims::new(ledger.clone(), config.claim_rules()),
            ledger,
            live_runs,
            config,
            pace,
            registry,
            desk,
            name,
            time,
            seen: Mutex::default(),
            taking: Mutex::default(),
            quarantine,
            nodes_seen: Mutex::default(),
            newer: Mutex::default(),
            moves: AtomicU32::new(0),
            looks: AtomicU32::new(0),
            closed: AtomicBool::new(false),
            closing: Notify::new(),
            suspects: Notify::new(),
            left: AtomicBool::new(false),
            failure: Mutex::default(),
            failed: Notify::new(),
            work: Mutex::default(),
        })
    }

    /// Joins the store, recovers what dead nodes left, then begins to take work.
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
        self.adopt(spawn(async move { node.keep_moving().await }));
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

    /// Nobody executes runs in a store that was copied elsewhere. After a beat: a copy that begins now sees this
    /// node.
    async fn must_be_open(&self) -> Result<(), EngineError> {
        let closed = match closed_by_copy(&*self.ledger.store).await {
            Ok(None) => return Ok(()),
            Ok(Some(closed)) => closed.into(),
            Err(error) => error,
        };
        if let Err(error) = self.ledger.store.forget(&self.id).await {
            tracing::warn!(node = %self.id, %error, "could not sign off");
        }
        Err(EngineError::Store(closed))
    }

    /// Somebody who mends runs in this node's name.
    pub(crate) fn healer(&self, reason: Reason) -> Healer {
        Healer::new(self.ledger.clone(), Rules::of(&self.config), reason)
    }

    pub(crate) fn live_runs(&self) -> &LiveRuns {
        &self.live_runs
    }

    /// Whether this node has the run, or is about to.
    pub(crate) fn has(&self, run: &RunId) -> bool {
        self.live_runs().holds(run) || self.taking().contains_key(run)
    }

    fn taking(&self) -> std::sync::MutexGuard<'_, BTreeMap<RunId, bool>> {
        self.taking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn adopt(&self, work: JoinHandle<()>) {
        self.work.lock().unwrap_or_else(PoisonError::into_inner).adopt(work);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn record(&self, state: NodeState) -> NodeRecord {
        NodeRecord {
            id: self.id.clone(),
            name: self.name.clone(),
            started_at: self.live_runs().started_at(),
            workflows: self.registry.labels(),
            slots: self.config.slots,
            state,
        }
    }

    async fn beat(&self) -> Result<(), EngineError> {
        let sent = self.ledger.clock.elapsed();
        let state = if self.live_runs().is_leaving() { NodeState::Leaving } else { NodeState::Up };
        let told = self.ledger.store.beat(&self.record(state)).await?;
        self.time.set(told, sent);
        if self.live_runs().is_out_of_sight(sent) {
            self.must_be_open().await?;
        }
        self.live_runs().told_alive_at(sent);
        self.ledger.meter.beaten();
        Ok(())
    }

    /// Beats from a thread of its own, for as long as the node can do its work: who beats and does nothing else keeps
    /// others from doing it.
    async fn keep_beating(&self) {
        let (mut runtime, mut queue) = (Still::default(), Still::default());
        let (mut known, mut damaged) = (None, 0);
        while !self.is_closed() {
            runtime.look(self.moves.load(Ordering::Relaxed));
            queue.look(self.looks.load(Ordering::Relaxed));
            let lame = self.lame(&runtime, &queue);
            if let Some(why) = lame.filter(|_| known != lame) {
                tracing::error!(node = %self.id, why, "this node cannot work; letting go");
            }
            known = lame;
            let told = if lame.is_some() { self.let_go().await } else { self.beat().await };
            match told {
                Ok(()) => damaged = 0,
                Err(error) if error.code() == CLOSED => {
                    tracing::error!(node = %self.id, %error, "the store was closed while this node was out of sight");
                    self.fail(error);
                }
                Err(error @ EngineError::Store(StoreError::Damaged { .. })) if damaged + 1 >= DAMAGED_MAX => {
                    tracing::error!(node = %self.id, %error, "the store cannot be written any more");
                    self.fail(error);
                }
                Err(error) => {
                    damaged += u32::from(matches!(error, EngineError::Store(StoreError::Damaged { .. })));
                    tracing::warn!(node = %self.id, %error, "a beat failed");
                }
            }
            self.rest(self.config.beat).await;
        }
        self.sign_off().await;
    }

    /// Why this node cannot work any more: nothing has moved for so many beats that it never will. Counted in beats,
    /// so that a process that was frozen whole is not taken for one.
    fn lame(&self, runtime: &Still, queue: &Still) -> Option<&'static str> {
        let after = self.config.wedged_after;
        let deaf = self.config.beat * queue.beats >= after.max(self.config.poll * 4);
        if !self.config.beat_on_thread {
            None
        } else if self.config.beat * runtime.beats >= after {
            Some("nothing moves on this runtime: all its threads are busy with code that never yields")
        } else if deaf && !self.live_runs().is_leaving() {
            Some("nobody looks at the queue any more")
        } else {
            None
        }
    }

    /// Others take over what this node cannot move any more. Should it move again, its next beat joins anew, and
    /// the log refuses whatever was taken over meanwhile.
    async fn let_go(&self) -> Result<(), EngineError> {
        self.ledger.store.beat(&self.record(NodeState::Gone)).await?;
        Ok(())
    }

    /// Shows that the runtime moves.
    async fn keep_moving(&self) {
        while !self.is_closed() {
            self.moves.fetch_add(1, Ordering::Relaxed);
            self.rest(self.config.beat / 2).await;
        }
    }

    /// The last word of a node. It comes after every beat, so that none of them can revive what is over: a
    /// node in a process that lives on would else hold its lock, and be missed only for its silence.
    async fn sign_off(&self) {
        let told = match self.left.load(Ordering::Relaxed) {
            true => self.ledger.store.forget(&self.id).await,
            false => self.ledger.store.beat(&self.record(NodeState::Gone)).await.map(drop),
        };
        if let Err(error) = told {
            tracing::debug!(node = %self.id, %error, "a closed node could not say so");
        }
    }

    /// Lets `span` pass, or less if the node closes.
    async fn rest(&self, span: Duration) {
        let closing = self.closing.notified();
        if !self.is_closed() {
            let _ = timeout(coarse(self.ledger.clock.elapsed(), span), closing).await;
        }
    }

    /// Hands everything over and leaves: no attempt is counted for what was running.
    pub(crate) async fn leave(&self) {
        self.live_runs().leave();
        self.send_away().await;
        let deadline = self.ledger.clock.elapsed() + self.config.drain;
        while self.live_runs().hot_count() > 0 && self.ledger.clock.elapsed() < deadline {
            self.live_runs().nudge_all();
            pause(Duration::from_millis(5)).await;
        }
        self.live_runs().abort();
        let deadline = self.ledger.clock.elapsed() + Duration::from_secs(5);
        while self.live_runs().hot_count() > 0 && self.ledger.clock.elapsed() < deadline {
            self.live_runs().nudge_all();
            pause(Duration::from_millis(5)).await;
        }
        self.left.store(true, Ordering::Relaxed);
        self.close();
        if let Err(error) = self.ledger.store.forget(&self.id).await {
            tracing::warn!(node = %self.id, %error, "could not sign off");
        }
    }

    /// Stops because it cannot go on, and says why.
    fn fail(&self, error: EngineError) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        self.close();
        self.failed.notify_one();
    }

    /// Waits until the node has closed by itself.
    pub(crate) async fn failure(&self) -> EngineError {
        loop {
            self.failed.notified().await;
            let told = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(error) = told {
                return error;
            }
        }
    }

    /// Stops at once, like a crash: nothing is handed over. Beating ends with a last word of its own.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.closing.notify_waiters();
        for work in self.work.lock().unwrap_or_else(PoisonError::into_inner).all.drain(..) {
            work.abort();
        }
        self.live_runs().clear();
    }
}

/// A long pause, made to end on a tick that all nodes of a process share: one wake-up then serves many of them.
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
