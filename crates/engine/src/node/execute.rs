//! From a claimed run to its end, its rest or its loss.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::decide::Refusal;
use goldseam_core::event::Release;
use goldseam_core::planted::{self, Bug};
use goldseam_core::recovery::Code;
use goldseam_core::state::Outcome;
use goldseam_core::version::label;
use goldseam_core::{Command, Doing, Fence, Owned, Seq, State, Status, TaskId};

use super::hub::Turn;
use super::{Ended, Entry, Node};
use crate::append::Moved;
use crate::cell::{Cell, Stop};
use crate::clock::pause;
use crate::commit::With;
use crate::context::Context;
use crate::driver::{End, drive};
use crate::error::EngineError;
use crate::registry::WorkflowFn;
use crate::undo::cancel_child;

/// First pause before a run is loaded again after the store failed.
const RELOAD: Duration = Duration::from_millis(50);

impl Node {
    /// Takes a run that this node owned at `held_at` into memory. An execution under an earlier claim ends first; if
    /// there is one under a later claim, none begins here.
    pub(crate) async fn hold(&self, state: State, task: TaskId, held_at: Duration) -> Option<Arc<Cell>> {
        let cell = Arc::new(Cell::new(self.ledger.clone(), Arc::clone(&self.config), (state, task), held_at));
        loop {
            match self.hub().enter(&cell) {
                Entry::In => return Some(cell),
                Entry::Newer => {
                    tracing::debug!(run = %cell.run, "an execution under a later claim is here already");
                    return None;
                }
                Entry::Older(older) => {
                    self.end(&older);
                    self.hub().until_left(&older).await;
                }
            }
        }
    }

    /// Ends an execution whose claim is over.
    fn end(&self, cell: &Arc<Cell>) {
        tracing::info!(run = %cell.run, "an execution under an earlier claim is ended");
        match &self.desk {
            Some(desk) => {
                self.hub().remove(cell, &Ended::Elsewhere);
                desk.drop_cell(cell);
            }
            None => cell.end(Stop::Fenced),
        }
    }

    /// Executes a run that this node owns, for as long as it does.
    pub(crate) async fn execute(self: &Arc<Self>, mut cell: Arc<Cell>) {
        if let Some(desk) = &self.desk {
            return self.lay(desk, cell).await;
        }
        let mut reload = RELOAD;
        loop {
            let end = match self.function(&cell).await {
                Some(function) => self.drive(&cell, function).await,
                None => End::Released,
            };
            let mut turn = None;
            let again = match end {
                End::Finished => {
                    self.finish(&cell).await;
                    return;
                }
                End::Continued => {
                    turn = self.turn_at(&cell);
                    self.go_on(&cell, &turn).await
                }
                End::Dropped(Stop::Store(reason)) => {
                    tracing::warn!(run = %cell.run, reason, "an execution was dropped and is loaded again");
                    pause(reload).await;
                    reload = (reload * 2).min(Duration::from_secs(5));
                    turn = self.turn_at(&cell);
                    self.reclaim_own(&cell, &turn).await
                }
                End::Dropped(stop) => {
                    self.settle(&cell, stop).await;
                    None
                }
                End::Released => None,
            };
            self.hub().remove(&cell, &Ended::Elsewhere);
            let Some((state, held_at)) = again else { return };
            let Some(next) = self.hold(state, cell.task.clone(), held_at).await else { return };
            drop(turn);
            cell = next;
        }
    }

    async fn drive(&self, cell: &Arc<Cell>, function: WorkflowFn) -> End {
        let (strays, input) = {
            let inner = cell.lock();
            (inner.state.stray_children(), inner.state.queued.input.clone())
        };
        for stray in strays {
            cancel_child(cell, &stray).await;
        }
        let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            function(Context::new(Arc::clone(cell)), input)
        }));
        let work = made.unwrap_or_else(|panic| {
            let failure = crate::driver::panicked(&*panic);
            Box::pin(async move { Err(failure.into()) })
        });
        drive(Arc::clone(cell), work).await
    }

    /// The code for the run's version. A run whose version is not here is given back: a node that has it takes it,
    /// and only a healer may change its version or park it (E2).
    pub(super) async fn function(&self, cell: &Arc<Cell>) -> Option<WorkflowFn> {
        let (workflow, version) = {
            let inner = cell.lock();
            (inner.state.summary.workflow.clone(), inner.state.summary.version)
        };
        if let Some(function) = self.registry.get(&workflow, version) {
            return Some(function);
        }
        let needs = label(&workflow, version);
        tracing::info!(run = %cell.run, needs, "released a run: its version is not here");
        cell.queue(match planted::is(Bug::ParksUnknownVersion) {
            true => Owned::Park { code: Code::E2.as_str(), reason: format!("{needs} is not known here") },
            false => Owned::Release(Release::Unfit),
        });
        if let Err(stop) = crate::append::append_queued(Arc::clone(cell)).await {
            tracing::warn!(run = %cell.run, ?stop, "failed to release a run whose version is not here");
        }
        None
    }

    pub(super) async fn finish(&self, cell: &Arc<Cell>) {
        let (outcome, parent) = {
            let inner = cell.lock();
            (inner.state.outcome.clone(), inner.state.summary.parent.clone())
        };
        let outcome = outcome.unwrap_or_else(|| Outcome::Cancelled(String::new()));
        self.hub().remove(cell, &Ended::Over(outcome.clone()));
        if let Some(parent) = parent {
            self.tell_parent(&parent, &cell.run, outcome).await;
        }
    }

    /// Parks what only a person can mend; anything else was lost to another owner.
    async fn settle(&self, cell: &Arc<Cell>, stop: Stop) {
        let (code, reason) = match stop {
            Stop::Fenced | Stop::Store(_) => {
                tracing::info!(run = %cell.run, "the run was taken over; this execution is dropped");
                return;
            }
            Stop::Diverged(detail) => (Code::V1.as_str(), detail),
            Stop::TooLong(excess) => ("GS0112", format!("its history has {excess}; use continue_as_new")),
            Stop::Form(detail) => ("GS0115", detail),
        };
        let fence = cell.lock().fence;
        let fence = Fence { epoch: fence.epoch, branch: fence.branch };
        let park = Doing { at: self.ledger.clock.now(), what: Owned::Park { code, reason } };
        if let Err(error) = self.ledger.commit(&cell.run, &Command::Owned(fence, vec![park])).await {
            tracing::warn!(run = %cell.run, %error, "the run could not be parked");
        }
    }

    /// The run that began anew, if it is still ours.
    pub(super) async fn go_on(&self, cell: &Arc<Cell>, turn: &Option<Turn<'_>>) -> Option<(State, Duration)> {
        let Moved::Continued(claim) = cell.lock().moved else { return None };
        if !self.is_at_it(turn) {
            return None;
        }
        self.reload(cell, claim).await
    }

    /// The run as it is now, if it is ours by the claim that was there at `end`, and when it was asked for. Under a later
    /// claim of this node somebody else executes it here: two of them would do everything twice.
    async fn reload(&self, cell: &Arc<Cell>, end: Seq) -> Option<(State, Duration)> {
        let asked = self.ledger.clock.elapsed();
        match self.ledger.load_surely(&cell.run).await {
            Ok(loaded) => Some((loaded.state, asked)).filter(|(state, _)| self.owns(state, end)),
            Err(error) => {
                tracing::error!(run = %cell.run, %error, "a run could not be loaded again");
                None
            }
        }
    }

    /// Whether the run is this node's, and nobody has claimed it after `end`, as far as its log or this node's memory says:
    /// what was read may be older than what another execution here has done since.
    pub(super) fn owns(&self, state: &State, end: Seq) -> bool {
        let summary = &state.summary;
        let newer = |cell: Arc<Cell>| cell.lock().fence.epoch > summary.epoch;
        let is_here = self.hub().cell(&summary.run).is_some_and(newer);
        let by_this_claim = summary.epoch <= end && !is_here || planted::is(Bug::AnyClaimIsOwn);
        summary.owner.as_ref() == Some(&self.id) && by_this_claim
    }

    /// The right to load the run again, unless another task of this process has taken the run, or is about to: while one
    /// execution waits for a store that does not answer, the run's task may come back and begin another.
    pub(super) fn turn_at(&self, cell: &Arc<Cell>) -> Option<Turn<'_>> {
        self.hub().try_turn(&cell.run).filter(|_| self.hub().has_cell(cell))
    }

    fn is_at_it(&self, turn: &Option<Turn<'_>>) -> bool {
        turn.is_some() || planted::is(Bug::AnyClaimIsOwn)
    }

    /// Claims the run again under a new epoch, so that nothing still on its way can land.
    async fn reclaim_own(&self, cell: &Arc<Cell>, turn: &Option<Turn<'_>>) -> Option<(State, Duration)> {
        if !self.is_at_it(turn) {
            return None;
        }
        loop {
            let claim = goldseam_core::command::Claim::by(self.id.clone());
            let with = With { task: Some(&cell.task), ..With::default() };
            let error = match self.ledger.commit_on(None, &cell.run, &Command::Claim(claim), with).await {
                Ok(claimed) => return self.reload(cell, claimed.end).await,
                Err(error) => error,
            };
            let refusal = Refusal::NotClaimable { status: Status::Paused };
            let paused = matches!(&error, EngineError::Refused { refusal: found, .. } if *found == refusal);
            // Nobody else may have a run while it has an owner: whoever resumes it must find it free.
            if !paused || self.let_go_paused(cell).await == Paused::Still {
                tracing::warn!(run = %cell.run, %error, "the run is not executed here any more");
                return None;
            }
        }
    }

    async fn let_go_paused(&self, cell: &Arc<Cell>) -> Paused {
        let fence = cell.lock().fence;
        let fence = Fence { epoch: fence.epoch, branch: fence.branch };
        let release = Doing { at: self.ledger.clock.now(), what: Owned::Release(Release::Paused) };
        match self.ledger.commit(&cell.run, &Command::Owned(fence, vec![release])).await {
            Ok(done) if done.records.is_empty() => Paused::NoMore,
            Ok(_) => Paused::Still,
            Err(error) => {
                tracing::warn!(run = %cell.run, %error, "a paused run could not be released");
                Paused::Still
            }
        }
    }
}

/// Whether a run that was found paused still is.
#[derive(PartialEq, Eq)]
enum Paused {
    Still,
    NoMore,
}
