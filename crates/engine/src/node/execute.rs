//! The execution of a claimed run until it ends, waits or is lost.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::decide::Refusal;
use goldseam_core::event::Release;
use goldseam_core::recovery::Code;
use goldseam_core::state::Outcome;
use goldseam_core::version::label;
use goldseam_core::{Command, Doing, Fence, Owned, Seq, State, Status, TaskId};

use super::Node;
use crate::ledger::clock::pause;
use crate::ledger::commit::With;
use crate::ledger::error::EngineError;
use crate::run::append::Moved;
use crate::run::compensation::cancel_child;
use crate::run::context::Context;
use crate::run::driver::{DriveEnd, drive};
use crate::run::live_run::{LiveRun, OwnedRun, Stop};
use crate::run::live_runs::{Ended, TableEntry, Turn};
use crate::run::registry::WorkflowFn;
use crate::run::spans;

/// First pause before a run is reloaded after a failure of the store.
const RELOAD: Duration = Duration::from_millis(50);

impl Node {
    /// Makes a run live that this node owned at `held_at`. An execution under an earlier claim ends first. If there
    /// is one under a later claim, none begins.
    pub(crate) async fn hold(&self, state: State, task: TaskId, held_at: Duration) -> Option<Arc<LiveRun>> {
        let live = Arc::new(LiveRun::new(
            self.ledger.clone(),
            Arc::clone(&self.live_runs),
            Arc::clone(&self.config),
            OwnedRun { state, task, held_at },
        ));
        loop {
            match self.live_runs().enter(&live) {
                TableEntry::In => return Some(live),
                TableEntry::Newer => {
                    tracing::debug!(run = %live.run, "not executing run: an execution under a later claim exists");
                    return None;
                }
                TableEntry::Older(older) => {
                    self.end(&older);
                    self.live_runs().until_left(&older).await;
                }
            }
        }
    }

    /// Ends an execution whose claim is over.
    fn end(&self, live: &Arc<LiveRun>) {
        tracing::info!(run = %live.run, "ending execution under an earlier claim");
        match &self.handoff {
            Some(handoff) => {
                self.live_runs().remove(live, &Ended::Elsewhere);
                handoff.remove(live);
            }
            None => live.end(Stop::Fenced),
        }
    }

    /// Executes a run while this node owns it.
    pub(crate) async fn execute(self: &Arc<Self>, mut live: Arc<LiveRun>) {
        if let Some(handoff) = &self.handoff {
            return self.offer(handoff, live).await;
        }
        let mut reload = RELOAD;
        loop {
            let end = match self.function(&live).await {
                Some(function) => self.drive(&live, function).await,
                None => DriveEnd::Released,
            };
            let mut turn = None;
            let again = match end {
                DriveEnd::Finished => {
                    self.finish(&live).await;
                    return;
                }
                DriveEnd::Continued => {
                    turn = self.turn_at(&live);
                    self.reload_continued(&live, &turn).await
                }
                DriveEnd::Dropped(Stop::Store(reason)) => {
                    tracing::warn!(run = %live.run, reason, "store failed; reloading run");
                    pause(reload).await;
                    reload = (reload * 2).min(Duration::from_secs(5));
                    turn = self.turn_at(&live);
                    self.reclaim_own(&live, &turn).await
                }
                DriveEnd::Dropped(stop) => {
                    self.park_or_drop(&live, stop).await;
                    None
                }
                DriveEnd::Released => None,
            };
            self.live_runs().remove(&live, &Ended::Elsewhere);
            let Some((state, held_at)) = again else { return };
            let Some(next) = self.hold(state, live.task.clone(), held_at).await else { return };
            drop(turn);
            live = next;
        }
    }

    async fn drive(&self, live: &Arc<LiveRun>, function: WorkflowFn) -> DriveEnd {
        let (strays, input) = {
            let inner = live.lock();
            (inner.state.stray_children(), inner.state.queued.input.clone())
        };
        for stray in strays {
            cancel_child(live, &stray).await;
        }
        let span = spans::run(live);
        let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            span.in_scope(|| function(Context::new(Arc::clone(live)), input))
        }));
        let work = made.unwrap_or_else(|panic| {
            let failure = crate::run::driver::panicked(&*panic);
            Box::pin(async move { Err(failure.into()) })
        });
        drive(Arc::clone(live), work, span).await
    }

    /// The code of the run's version. A run whose version this node lacks is released: a node that has it claims it,
    /// and only a healer changes its version or parks it (E2).
    pub(super) async fn function(&self, live: &Arc<LiveRun>) -> Option<WorkflowFn> {
        let (workflow, version) = {
            let inner = live.lock();
            (inner.state.summary.workflow.clone(), inner.state.summary.version)
        };
        if let Some(function) = self.registry.get(&workflow, version) {
            return Some(function);
        }
        let needs = label(&workflow, version);
        tracing::info!(run = %live.run, needs, "releasing run: this node lacks its version");
        live.queue(Owned::Release(Release::Unfit));
        if let Err(stop) = crate::run::append::append_queued(Arc::clone(live)).await {
            tracing::warn!(run = %live.run, ?stop, "failed to release a run whose version this node lacks");
        }
        None
    }

    pub(super) async fn finish(&self, live: &Arc<LiveRun>) {
        let (outcome, parent) = {
            let inner = live.lock();
            (inner.state.outcome.clone(), inner.state.summary.parent.clone())
        };
        let outcome = outcome.unwrap_or_else(|| Outcome::Cancelled(String::new()));
        self.live_runs().remove(live, &Ended::Over(outcome.clone()));
        if let Some(parent) = parent {
            self.notify_parent(&parent, &live.run, outcome).await;
        }
    }

    /// Parks a run that only an operator can repair. Any other stop means that another node has taken the run over.
    async fn park_or_drop(&self, live: &Arc<LiveRun>, stop: Stop) {
        let (code, reason) = match stop {
            Stop::Fenced | Stop::Store(_) => {
                tracing::info!(run = %live.run, "run was taken over; dropping this execution");
                return;
            }
            Stop::Diverged(detail) => (Code::V1.as_str(), detail),
            Stop::TooLong(excess) => ("GS0112", format!("its history has {excess}; use continue_as_new")),
            Stop::Form(detail) => ("GS0115", detail),
        };
        let fence = live.lock().fence;
        let fence = Fence { epoch: fence.epoch, branch: fence.branch };
        let park = Doing { at: self.ledger.clock.now(), what: Owned::Park { code, reason } };
        if let Err(error) = self.ledger.commit(&live.run, &Command::Owned(fence, vec![park])).await {
            tracing::warn!(run = %live.run, %error, "failed to park run");
        }
    }

    /// Reloads a run that continued as new, if this node still owns it.
    pub(super) async fn reload_continued(
        &self,
        live: &Arc<LiveRun>,
        turn: &Option<Turn<'_>>,
    ) -> Option<(State, Duration)> {
        let Moved::Continued(claim) = live.lock().moved else { return None };
        if turn.is_none() {
            return None;
        }
        self.reload(live, claim).await
    }

    /// Loads the run and the time of the request, if this node owns it by the claim at `end`. Under a later claim,
    /// another execution in this node has it: two executions would do everything twice.
    async fn reload(&self, live: &Arc<LiveRun>, end: Seq) -> Option<(State, Duration)> {
        let asked = self.ledger.clock.elapsed();
        match self.ledger.load_surely(&live.run).await {
            Ok(loaded) => Some((loaded.state, asked)).filter(|(state, _)| self.owns(state, end)),
            Err(error) => {
                tracing::error!(run = %live.run, %error, "failed to reload run");
                None
            }
        }
    }

    /// Whether this node owns the run and no claim followed `end`, according to the log and to this node's memory:
    /// the log that was read may be older than what another execution here has done since.
    pub(super) fn owns(&self, state: &State, end: Seq) -> bool {
        let summary = &state.summary;
        let newer = |live: Arc<LiveRun>| live.lock().fence.epoch > summary.epoch;
        let is_here = self.live_runs().live(&summary.run).is_some_and(newer);
        summary.owner.as_ref() == Some(&self.id) && summary.epoch <= end && !is_here
    }

    /// The right to reload the run, unless another task of this process has the run or is loading it: while one
    /// execution waits for the store, the run's task may come back and start another.
    pub(super) fn turn_at(&self, live: &Arc<LiveRun>) -> Option<Turn<'_>> {
        self.live_runs().try_turn(&live.run).filter(|_| self.live_runs().has(live))
    }

    /// Claims the run again under a new epoch, so that no write in flight can succeed.
    async fn reclaim_own(&self, live: &Arc<LiveRun>, turn: &Option<Turn<'_>>) -> Option<(State, Duration)> {
        if turn.is_none() {
            return None;
        }
        loop {
            let claim = goldseam_core::command::Claim::by(self.id.clone());
            let with = With { task: Some(&live.task), ..With::default() };
            let error = match self.ledger.commit_on(None, &live.run, &Command::Claim(claim), with).await {
                Ok(claimed) => return self.reload(live, claimed.end).await,
                Err(error) => error,
            };
            let refusal = Refusal::NotClaimable { status: Status::Paused };
            let paused = matches!(&error, EngineError::Refused { refusal: found, .. } if *found == refusal);
            // No other node may claim an owned run, so a paused run must be released for its resume.
            if !paused || self.release_paused(live).await == Paused::Still {
                tracing::warn!(run = %live.run, %error, "no longer executing run");
                return None;
            }
        }
    }

    async fn release_paused(&self, live: &Arc<LiveRun>) -> Paused {
        let fence = live.lock().fence;
        let fence = Fence { epoch: fence.epoch, branch: fence.branch };
        let release = Doing { at: self.ledger.clock.now(), what: Owned::Release(Release::Paused) };
        match self.ledger.commit(&live.run, &Command::Owned(fence, vec![release])).await {
            Ok(done) if done.records.is_empty() => Paused::NoMore,
            Ok(_) => Paused::Still,
            Err(error) => {
                tracing::warn!(run = %live.run, %error, "failed to release a paused run");
                Paused::Still
            }
        }
    }
}

/// Whether a run is still paused.
#[derive(PartialEq, Eq)]
enum Paused {
    Still,
    NoMore,
}
