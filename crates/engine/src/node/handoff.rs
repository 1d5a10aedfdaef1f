//! The handoff of claimed runs to a remote worker: a process of any language that executes the workflows of this
//! node.
//!
//! In all other respects it is an ordinary node: it beats, claims, takes over, holds suspects back. It beats while
//! its worker gives signs of life, and publishes that it is gone once the worker is silent for its lease.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Wake, Waker};
use std::time::Duration;

use goldseam_core::event::Release;
use goldseam_core::{Fence, Millis, Owned, RunId};
use tokio::sync::{Notify, watch};

use super::Node;
use crate::ledger::copy_mark::CLOSED;
use crate::ledger::error::EngineError;
use crate::ledger::spawn::spawn;
use crate::ledger::sync::lock;
use crate::run::append::{append_as, read_on};
use crate::run::compensation::cancel_child;
use crate::run::driver::time_out;
use crate::run::live_run::{LiveRun, Stop};
use crate::run::live_runs::{Ended, LiveRuns};

/// Minimum pause between two checks for pokes: one server process may serve many workers.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// The runs of a node that a worker executes, or that wait for the worker.
pub(crate) struct Handoff {
    /// The credential that alone may act for the worker, if the worker registered with one.
    pub(crate) holder: Option<String>,
    /// How long the worker may be silent.
    pub(crate) lease: Duration,
    runs: Mutex<BTreeMap<RunId, Arc<OfferedRun>>>,
    /// Number of executions that requests wait for.
    demand: AtomicU32,
    /// When the worker last gave a sign of life.
    last_seen: Mutex<Duration>,
    /// Claims that the worker itself ended by an append. A request that was sent before may still list them.
    given_up: Mutex<Vec<(RunId, Fence)>>,
    /// Notified when a run is offered.
    pub(crate) arrived: Notify,
    /// Held by the one request for executions at a time.
    pub(crate) requesting: tokio::sync::Mutex<()>,
    /// Signals that a log has grown, or an execution is lost.
    changes: Arc<ChangeSignal>,
}

/// A run that the worker has, or that is offered to it.
pub(crate) struct OfferedRun {
    pub(crate) live: Arc<LiveRun>,
    /// Held while reading or appending.
    pub(crate) turn: tokio::sync::Mutex<()>,
    /// Since when the run waits for the worker; none: the worker has it.
    offered_since: Mutex<Option<Duration>>,
}

impl OfferedRun {
    pub(crate) fn fence(&self) -> Fence {
        self.live.lock().fence
    }

    /// Marks the run as taken by the worker.
    pub(crate) fn take(&self) {
        *self.offered_since() = None;
    }

    fn offered_since(&self) -> MutexGuard<'_, Option<Duration>> {
        lock(&self.offered_since)
    }
}

struct ChangeSignal(watch::Sender<u64>);

impl ChangeSignal {
    fn notify(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }
}

impl Wake for ChangeSignal {
    fn wake(self: Arc<Self>) {
        self.notify();
    }
}

/// A request for executions; counts as demand until dropped.
pub(crate) struct Demand<'a> {
    handoff: &'a Handoff,
    count: u32,
}

impl Drop for Demand<'_> {
    fn drop(&mut self) {
        self.handoff.demand.fetch_sub(self.count, Ordering::Relaxed);
    }
}

impl Handoff {
    /// Creates the handoff of a worker that gave a sign of life at `now`.
    pub(crate) fn new(holder: Option<String>, lease: Duration, now: Duration) -> Self {
        Self {
            holder,
            lease,
            runs: Mutex::default(),
            demand: AtomicU32::new(0),
            last_seen: Mutex::new(now),
            given_up: Mutex::default(),
            arrived: Notify::new(),
            requesting: tokio::sync::Mutex::default(),
            changes: Arc::new(ChangeSignal(watch::Sender::new(0))),
        }
    }

    fn runs(&self) -> MutexGuard<'_, BTreeMap<RunId, Arc<OfferedRun>>> {
        lock(&self.runs)
    }

    /// Records a sign of life of the worker.
    pub(crate) fn worker_seen(&self, now: Duration) {
        let mut last_seen = lock(&self.last_seen);
        *last_seen = now.max(*last_seen);
    }

    fn is_silent(&self, now: Duration) -> bool {
        let last_seen = *lock(&self.last_seen);
        now.saturating_sub(last_seen) >= self.lease
    }

    /// Registers demand for `count` executions.
    pub(crate) fn request(&self, count: u32) -> Demand<'_> {
        self.demand.fetch_add(count, Ordering::Relaxed);
        Demand { handoff: self, count }
    }

    /// Number of executions that requests wait for and that are not offered yet.
    pub(super) fn missing(&self) -> u32 {
        let here = self.runs().values().filter(|offer| offer.offered_since().is_some()).count();
        self.demand.load(Ordering::Relaxed).saturating_sub(u32::try_from(here).unwrap_or(u32::MAX))
    }

    /// Subscribes to changes: a log has grown, or an execution is lost.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.0.subscribe()
    }

    /// Wakes all requests that wait here.
    pub(crate) fn wake_all(&self) {
        self.changes.notify();
        self.arrived.notify_waiters();
    }

    /// The run, if the worker has it under this fence.
    pub(crate) fn find(&self, run: &RunId, fence: Fence) -> Option<Arc<OfferedRun>> {
        self.runs().get(run).filter(|offer| offer.fence() == fence).cloned()
    }

    /// The run, under any fence.
    pub(crate) fn of_run(&self, run: &RunId) -> Option<Arc<OfferedRun>> {
        self.runs().get(run).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<OfferedRun>> {
        self.runs().values().cloned().collect()
    }

    /// Adds an execution, unless it has ended meanwhile.
    fn insert(
        &self,
        live_runs: &LiveRuns,
        live: Arc<LiveRun>,
        offered_since: Option<Duration>,
    ) -> Option<Arc<OfferedRun>> {
        live.lock().driver = Some(Waker::from(Arc::clone(&self.changes)));
        let run = live.run.clone();
        let offer = Arc::new(OfferedRun {
            live,
            turn: tokio::sync::Mutex::default(),
            offered_since: Mutex::new(offered_since),
        });
        let mut all = self.runs();
        live_runs.has(&offer.live).then(|| {
            all.insert(run, Arc::clone(&offer));
            offer
        })
    }

    /// Removes an execution whose claim is over. Its worker learns of it by its next heartbeat.
    pub(super) fn remove(&self, live: &Arc<LiveRun>) {
        {
            let mut all = self.runs();
            if all.get(&live.run).is_some_and(|now| Arc::ptr_eq(&now.live, live)) {
                all.remove(&live.run);
            }
        }
        self.changes.notify();
    }

    /// Compares the runs with the executions that the worker reports. A run that the worker does not know is offered
    /// again.
    pub(crate) fn reconcile(&self, held: &[(RunId, Fence)], now: Duration) {
        for offer in self.all() {
            let known = held.iter().any(|(run, fence)| *run == offer.live.run && *fence == offer.fence());
            let mut since = offer.offered_since();
            *since = if known { None } else { Some(since.unwrap_or(now)) };
        }
    }

    /// Records that the worker ended a claim by its own append: the worker has stopped that execution.
    pub(crate) fn gave_up(&self, run: RunId, fence: Fence) {
        lock(&self.given_up).push((run, fence));
    }

    /// Forgets ended claims that the worker no longer lists.
    pub(crate) fn listed(&self, held: &[(RunId, Fence)]) {
        lock(&self.given_up).retain(|claim| held.contains(claim));
    }

    /// Takes offered runs for the worker. A run that the worker still `held` under an earlier claim waits until the
    /// worker has dropped that execution: a worker never has two executions of one run.
    pub(crate) fn take_offered(&self, held: &[(RunId, Fence)], limit: usize) -> Vec<Arc<OfferedRun>> {
        let mut all = self.all();
        let given_up = lock(&self.given_up).clone();
        let is_held = |offer: &OfferedRun| {
            held.iter().any(|claim| claim.0 == offer.live.run && !given_up.contains(claim))
        };
        all.retain(|offer| offer.offered_since().is_some() && !is_held(offer));
        all.truncate(limit);
        for offer in &all {
            offer.take();
        }
        all
    }
}

impl fmt::Debug for Handoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handoff").field("runs", &self.runs().len()).finish_non_exhaustive()
    }
}

impl Node {
    /// Joins the store on behalf of a worker.
    pub(crate) async fn start_for_worker(
        self: &Arc<Self>,
        handoff: &Arc<Handoff>,
    ) -> Result<(), EngineError> {
        self.beat().await?;
        self.recover_first().await;
        let node = Arc::clone(self);
        let beating = Arc::clone(handoff);
        self.adopt(spawn(async move { node.beat_for_worker(&beating).await }));
        let node = Arc::clone(self);
        self.adopt(spawn(async move { node.keep_watch().await }));
        let node = Arc::clone(self);
        self.adopt(spawn(async move { node.keep_claiming().await }));
        let node = Arc::clone(self);
        self.adopt(spawn(async move { node.keep_listening().await }));
        Ok(())
    }

    /// Beats while the worker gives signs of life. Then the node is gone, and others take over.
    async fn beat_for_worker(&self, handoff: &Handoff) {
        while !self.is_closed() {
            if handoff.is_silent(self.ledger.clock.elapsed()) {
                tracing::warn!(node = %self.id, name = self.name, "worker is silent; other nodes take over its runs");
                break;
            }
            self.release_untaken(handoff).await;
            let deadline = self.time_out_overdue(handoff).await;
            match self.beat().await {
                Ok(()) => {}
                Err(error) if error.code() == CLOSED => {
                    tracing::error!(node = %self.id, %error, "store was closed by a copy");
                    break;
                }
                Err(error) => tracing::warn!(node = %self.id, %error, "beat for a worker failed"),
            }
            let pause = self.config.beat.min(handoff.lease / 4);
            let until = deadline.map(|at| at.since(self.ledger.clock.now()).max(LOOK_EVERY));
            self.rest(until.map_or(pause, |until| until.min(pause))).await;
        }
        self.sign_off().await;
        self.close();
    }

    /// Releases runs that were offered for a whole lease and not taken.
    async fn release_untaken(&self, handoff: &Handoff) {
        let now = self.ledger.clock.elapsed();
        for offer in handoff.all() {
            let stale = offer.offered_since().is_some_and(|since| now.saturating_sub(since) >= handoff.lease);
            if stale {
                self.hand_over(&offer).await;
            }
        }
    }

    /// Requests the end of the worker's runs whose deadline has passed: the worker learns of it as of any request to
    /// cancel. Returns the next deadline.
    async fn time_out_overdue(&self, handoff: &Handoff) -> Option<Millis> {
        let mut next = None;
        for offer in handoff.all() {
            let due = offer.live.lock().state.summary.times_out_at();
            match due {
                Some(due) if due <= self.ledger.clock.now() => {
                    let _turn = offer.turn.lock().await;
                    if let Err(stop) = time_out(Arc::clone(&offer.live)).await {
                        tracing::warn!(run = %offer.live.run, ?stop, "failed to time out a worker's run");
                    }
                    handoff.changes.notify();
                }
                Some(due) => next = Some(next.map_or(due, |next: Millis| next.min(due))),
                None => {}
            }
        }
        next
    }

    /// Offers a run that this node owns to the worker.
    pub(super) async fn offer(self: &Arc<Self>, handoff: &Handoff, live: Arc<LiveRun>) {
        if self.function(&live).await.is_none() {
            return self.live_runs().remove(&live, &Ended::Elsewhere);
        }
        let strays = live.lock().state.stray_children();
        for stray in strays {
            cancel_child(&live, &stray).await;
        }
        if handoff.insert(self.live_runs(), live, Some(self.ledger.clock.elapsed())).is_some() {
            handoff.arrived.notify_waiters();
        }
    }

    /// Continues a run under its new claim after it continued as new; the worker keeps it.
    pub(crate) async fn continue_run(
        &self,
        handoff: &Handoff,
        offer: &OfferedRun,
    ) -> Option<Arc<OfferedRun>> {
        let turn = self.turn_at(&offer.live);
        let again = self.reload_continued(&offer.live, &turn).await;
        self.live_runs().remove(&offer.live, &Ended::Elsewhere);
        let (state, held_at) = again?;
        let live = self.hold(state, offer.live.task.clone(), held_at).await?;
        handoff.insert(self.live_runs(), live, None)
    }

    /// Removes a run that the worker no longer has: it ended, was released, or was lost.
    pub(crate) async fn clear(&self, handoff: &Handoff, offer: &OfferedRun) {
        handoff.remove(&offer.live);
        let over = offer.live.lock().state.summary.status.is_terminal();
        match over {
            true => self.finish(&offer.live).await,
            false => self.live_runs().remove(&offer.live, &Ended::Elsewhere),
        }
    }

    /// Releases a run without counting an attempt.
    pub(crate) async fn hand_over(&self, offer: &OfferedRun) {
        let Some(handoff) = &self.handoff else { return };
        let _turn = offer.turn.lock().await;
        offer.live.queue(Owned::Release(Release::HandOver));
        let write = self.ledger.entropy.write_id();
        if let Err(stop) = append_as(Arc::clone(&offer.live), write).await {
            tracing::debug!(run = %offer.live.run, ?stop, "failed to release a worker's run");
        }
        self.clear(handoff, offer).await;
    }

    /// Reads new events of the log. Returns whether the worker still has the run.
    pub(crate) async fn refresh(&self, offer: &OfferedRun) -> Result<bool, EngineError> {
        let _turn = offer.turn.lock().await;
        let unused = self.ledger.entropy.write_id();
        let poked = std::mem::take(&mut offer.live.lock().poked);
        if !poked {
            return Ok(offer.is_current());
        }
        match read_on(&offer.live, unused).await {
            Ok(_) => Ok(offer.is_current()),
            Err(Stop::Store(reason)) => {
                offer.live.lock().poked = true;
                tracing::warn!(run = %offer.live.run, reason, "failed to read new events");
                Err(EngineError::TimedOut {
                    doing: "reading on",
                    seconds: self.ledger.limits.store_patience.as_secs(),
                })
            }
            Err(_) => Ok(false),
        }
    }

    /// Releases all runs because the worker or the server leaves.
    pub(crate) async fn leave_for_worker(&self) {
        self.live_runs().leave();
        self.release_suspects().await;
        if let Some(handoff) = &self.handoff {
            for offer in handoff.all() {
                self.hand_over(&offer).await;
            }
        }
        self.left.store(true, Ordering::Relaxed);
        self.close();
        if let Err(error) = self.ledger.store.forget(&self.id).await {
            tracing::warn!(node = %self.id, %error, "failed to remove node record");
        }
    }

    /// Ends like a crash of the worker's process: releases nothing, and other nodes take over at once.
    pub(crate) async fn crash_for_worker(&self) {
        self.close();
        self.sign_off().await;
    }

    /// Whether no run can be poked: the node serves a worker, and has no runs and loads none.
    pub(super) fn is_idle_handoff(&self) -> bool {
        self.handoff.is_some() && self.live_runs().live_count() == 0 && self.taking().is_empty()
    }

    /// Minimum pause between two checks of what other processes wrote.
    pub(super) fn look_every(&self) -> Duration {
        if self.handoff.is_some() { self.pace.look_every.max(LOOK_EVERY) } else { self.pace.look_every }
    }
}

impl OfferedRun {
    /// Whether the run is still under this claim, according to the log as far as it was read.
    pub(crate) fn is_current(&self) -> bool {
        let inner = self.live.lock();
        let summary = &inner.state.summary;
        let same = summary.epoch == inner.fence.epoch && summary.branch == inner.fence.branch;
        same && summary.owner.is_some() && inner.moved == crate::run::append::Moved::No
    }
}
