//! A node whose workflows run elsewhere: what it claims is laid on a desk, and a worker in another process, of any
//! language, takes it from there.
//!
//! Everything else is as for any node: it beats, claims, takes over, holds suspects back. It beats for as long as its
//! worker gives signs of life, and says that it is gone once the worker has fallen silent.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

use goldseam_core::event::Release;
use goldseam_core::{Fence, Owned, RunId};
use tokio::sync::{Notify, watch};

use super::Node;
use crate::ledger::copy_mark::CLOSED;
use crate::ledger::error::EngineError;
use crate::ledger::spawn::spawn;
use crate::run::append::{append_as, read_on};
use crate::run::compensation::cancel_child;
use crate::run::live_run::{LiveRun, Stop};
use crate::run::live_runs::{Ended, LiveRuns};

/// Looks at pokes are no closer together than this: one process may speak for many workers.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// What lies between a node and its worker.
pub(crate) struct Desk {
    /// Who alone may speak for the worker, if anybody said so.
    pub(crate) holder: Option<String>,
    /// How long the worker may be silent.
    pub(crate) lease: Duration,
    lying: Mutex<BTreeMap<RunId, Arc<Lying>>>,
    /// Executions that somebody waits for.
    demand: AtomicU32,
    /// When the worker last gave a sign of life.
    seen: Mutex<Duration>,
    /// An execution has come.
    pub(crate) arrived: Notify,
    /// One at a time asks for executions.
    pub(crate) asking: tokio::sync::Mutex<()>,
    /// Rings when a log has grown, or an execution is lost.
    bell: Arc<Bell>,
}

/// A run that the worker has, or is to take.
pub(crate) struct Lying {
    pub(crate) live: Arc<LiveRun>,
    /// Who reads on or appends has it for himself.
    pub(crate) turn: tokio::sync::Mutex<()>,
    /// Since when it has lain here without the worker knowing of it; none: the worker has it.
    offered: Mutex<Option<Duration>>,
}

impl Lying {
    pub(crate) fn fence(&self) -> Fence {
        self.live.lock().fence
    }

    /// The worker has it.
    pub(crate) fn take(&self) {
        *self.offered() = None;
    }

    fn offered(&self) -> MutexGuard<'_, Option<Duration>> {
        self.offered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Bell(watch::Sender<u64>);

impl Bell {
    fn ring(&self) {
        self.0.send_modify(|rung| *rung = rung.wrapping_add(1));
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }
}

/// Counts as demand until dropped.
pub(crate) struct Asking<'a> {
    desk: &'a Desk,
    count: u32,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.desk.demand.fetch_sub(self.count, Ordering::Relaxed);
    }
}

impl Desk {
    /// The desk of a worker that gave a sign of life at `now`.
    pub(crate) fn new(holder: Option<String>, lease: Duration, now: Duration) -> Self {
        Self {
            holder,
            lease,
            lying: Mutex::default(),
            demand: AtomicU32::new(0),
            seen: Mutex::new(now),
            arrived: Notify::new(),
            asking: tokio::sync::Mutex::default(),
            bell: Arc::new(Bell(watch::Sender::new(0))),
        }
    }

    fn lying(&self) -> MutexGuard<'_, BTreeMap<RunId, Arc<Lying>>> {
        self.lying.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The worker gave a sign of life.
    pub(crate) fn hear(&self, now: Duration) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = now.max(*seen);
    }

    fn is_silent(&self, now: Duration) -> bool {
        let seen = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        now.saturating_sub(seen) >= self.lease
    }

    /// Somebody waits for so many executions.
    pub(crate) fn ask(&self, count: u32) -> Asking<'_> {
        self.demand.fetch_add(count, Ordering::Relaxed);
        Asking { desk: self, count }
    }

    /// Executions that are waited for and not here yet.
    pub(super) fn wanted(&self) -> u32 {
        let here = self.lying().values().filter(|lying| lying.offered().is_some()).count();
        self.demand.load(Ordering::Relaxed).saturating_sub(u32::try_from(here).unwrap_or(u32::MAX))
    }

    /// Told whenever a log has grown, or an execution is lost.
    pub(crate) fn listen(&self) -> watch::Receiver<u64> {
        self.bell.0.subscribe()
    }

    /// Whoever waits here looks again.
    pub(crate) fn tell_all(&self) {
        self.bell.ring();
        self.arrived.notify_waiters();
    }

    /// What lies here under this fence.
    pub(crate) fn find(&self, run: &RunId, fence: Fence) -> Option<Arc<Lying>> {
        self.lying().get(run).filter(|lying| lying.fence() == fence).cloned()
    }

    /// What lies here of this run, under whatever fence.
    pub(crate) fn of_run(&self, run: &RunId) -> Option<Arc<Lying>> {
        self.lying().get(run).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Lying>> {
        self.lying().values().cloned().collect()
    }

    /// Lays an execution here, unless it was ended meanwhile.
    fn put(&self, live_runs: &LiveRuns, live: Arc<LiveRun>, offered: Option<Duration>) -> Option<Arc<Lying>> {
        live.lock().driver = Some(Waker::from(Arc::clone(&self.bell)));
        let run = live.run.clone();
        let lying =
            Arc::new(Lying { live, turn: tokio::sync::Mutex::default(), offered: Mutex::new(offered) });
        let mut all = self.lying();
        live_runs.has(&lying.live).then(|| {
            all.insert(run, Arc::clone(&lying));
            lying
        })
    }

    /// Takes an execution away whose claim is over; its worker learns of it by its next heartbeat.
    pub(super) fn drop_cell(&self, live: &Arc<LiveRun>) {
        {
            let mut all = self.lying();
            if all.get(&live.run).is_some_and(|now| Arc::ptr_eq(&now.live, live)) {
                all.remove(&live.run);
            }
        }
        self.bell.ring();
    }

    /// The worker told which executions it has: whatever it does not know of is offered again.
    pub(crate) fn compare(&self, held: &[(RunId, Fence)], now: Duration) {
        for lying in self.all() {
            let known = held.iter().any(|(run, fence)| *run == lying.live.run && *fence == lying.fence());
            let mut offered = lying.offered();
            *offered = if known { None } else { Some(offered.unwrap_or(now)) };
        }
    }

    /// What is offered; the worker has it from now on, unless it says otherwise. A run that the worker still `held` under
    /// an earlier claim waits until the worker has dropped that execution: no worker has two of one run.
    pub(crate) fn take_offered(&self, held: &[(RunId, Fence)], limit: usize) -> Vec<Arc<Lying>> {
        let mut all = self.all();
        let twice = |lying: &Lying| held.iter().any(|(run, _)| *run == lying.live.run);
        all.retain(|lying| lying.offered().is_some() && !twice(lying));
        all.truncate(limit);
        for lying in &all {
            lying.take();
        }
        all
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("lying", &self.lying().len()).finish_non_exhaustive()
    }
}

impl Node {
    /// Joins the store in the name of a worker.
    pub(crate) async fn start_for(self: &Arc<Self>, desk: &Arc<Desk>) -> Result<(), EngineError> {
        self.beat().await?;
        self.recover_first().await;
        let (node, heard) = (Arc::clone(self), Arc::clone(desk));
        self.adopt(spawn(async move { node.keep_speaking(&heard).await }));
        let node = Arc::clone(self);
        self.adopt(spawn(async move { node.keep_watch().await }));
        let node = Arc::clone(self);
        self.adopt(spawn(async move { node.keep_claiming().await }));
        let node = Arc::clone(self);
        self.adopt(spawn(async move { node.keep_listening().await }));
        Ok(())
    }

    /// Beats for as long as the worker gives signs of life; then the node is gone, and others take over.
    async fn keep_speaking(&self, desk: &Desk) {
        while !self.is_closed() {
            if desk.is_silent(self.ledger.clock.elapsed()) {
                tracing::warn!(node = %self.id, name = self.name, "a worker fell silent; its runs are taken over");
                break;
            }
            self.take_back(desk).await;
            match self.beat().await {
                Ok(()) => {}
                Err(error) if error.code() == CLOSED => {
                    tracing::error!(node = %self.id, %error, "the store was closed");
                    break;
                }
                Err(error) => tracing::warn!(node = %self.id, %error, "a beat for a worker failed"),
            }
            self.rest(self.config.beat.min(desk.lease / 4)).await;
        }
        self.sign_off().await;
        self.close();
    }

    /// Gives back what the worker was offered and has not taken for a whole lease.
    async fn take_back(&self, desk: &Desk) {
        let now = self.ledger.clock.elapsed();
        for lying in desk.all() {
            let stale = lying.offered().is_some_and(|since| now.saturating_sub(since) >= desk.lease);
            if stale {
                self.hand_over(&lying).await;
            }
        }
    }

    /// Lays a run that this node owns on the desk.
    pub(super) async fn lay(self: &Arc<Self>, desk: &Desk, live: Arc<LiveRun>) {
        if self.function(&live).await.is_none() {
            return self.live_runs().remove(&live, &Ended::Elsewhere);
        }
        let strays = live.lock().state.stray_children();
        for stray in strays {
            cancel_child(&live, &stray).await;
        }
        if desk.put(self.live_runs(), live, Some(self.ledger.clock.elapsed())).is_some() {
            desk.arrived.notify_waiters();
        }
    }

    /// The run began anew and is still the worker's: it goes on under the new claim.
    pub(crate) async fn carry_on(&self, desk: &Desk, lying: &Lying) -> Option<Arc<Lying>> {
        let turn = self.turn_at(&lying.live);
        let again = self.go_on(&lying.live, &turn).await;
        self.live_runs().remove(&lying.live, &Ended::Elsewhere);
        let (state, held_at) = again?;
        let live = self.hold(state, lying.live.task.clone(), held_at).await?;
        desk.put(self.live_runs(), live, None)
    }

    /// The run is not the worker's any more: it ended, was given back, or was lost.
    pub(crate) async fn clear_away(&self, desk: &Desk, lying: &Lying) {
        desk.drop_cell(&lying.live);
        let over = lying.live.lock().state.summary.status.is_terminal();
        match over {
            true => self.finish(&lying.live).await,
            false => self.live_runs().remove(&lying.live, &Ended::Elsewhere),
        }
    }

    /// Gives a run back without prejudice: no attempt is counted.
    pub(crate) async fn hand_over(&self, lying: &Lying) {
        let Some(desk) = &self.desk else { return };
        let _turn = lying.turn.lock().await;
        lying.live.queue(Owned::Release(Release::HandOver));
        let write = self.ledger.entropy.write_id();
        if let Err(stop) = append_as(Arc::clone(&lying.live), write).await {
            tracing::debug!(run = %lying.live.run, ?stop, "a worker's run was not given back");
        }
        self.clear_away(desk, lying).await;
    }

    /// Reads on if somebody else wrote to the log. Says whether the run is still the worker's.
    pub(crate) async fn look(&self, lying: &Lying) -> Result<bool, EngineError> {
        let _turn = lying.turn.lock().await;
        let nobody = self.ledger.entropy.write_id();
        let poked = std::mem::take(&mut lying.live.lock().poked);
        if !poked {
            return Ok(lying.stands());
        }
        match read_on(&lying.live, nobody).await {
            Ok(_) => Ok(lying.stands()),
            Err(Stop::Store(reason)) => {
                lying.live.lock().poked = true;
                tracing::warn!(run = %lying.live.run, reason, "a log could not be read on");
                Err(EngineError::Patience { doing: "reading on", seconds: 0 })
            }
            Err(_) => Ok(false),
        }
    }

    /// The worker goes, or the server does: everything is given back.
    pub(crate) async fn send_off(&self) {
        self.live_runs().leave();
        self.send_away().await;
        if let Some(desk) = &self.desk {
            for lying in desk.all() {
                self.hand_over(&lying).await;
            }
        }
        self.left.store(true, Ordering::Relaxed);
        self.close();
        if let Err(error) = self.ledger.store.forget(&self.id).await {
            tracing::warn!(node = %self.id, %error, "could not sign off");
        }
    }

    /// Whether nothing can be poked: there is a desk, and nothing lies on it or is on its way there.
    pub(super) fn is_idle_desk(&self) -> bool {
        self.desk.is_some() && self.live_runs().hot_count() == 0 && self.taking().is_empty()
    }

    /// The least pause between two looks at what others wrote.
    pub(super) fn look_every(&self) -> Duration {
        if self.desk.is_some() { self.pace.look_every.max(LOOK_EVERY) } else { self.pace.look_every }
    }
}

impl Lying {
    /// Whether the log, as far as it was read, says that the run is still under this claim.
    pub(crate) fn stands(&self) -> bool {
        let inner = self.live.lock();
        let summary = &inner.state.summary;
        let same = summary.epoch == inner.fence.epoch && summary.branch == inner.fence.branch;
        same && summary.owner.is_some() && inner.moved == crate::run::append::Moved::No
    }
}
