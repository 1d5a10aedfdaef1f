//! The one loop that changes a run: prepare an append, append it, and settle what became of it.
//!
//! Every append carries a write id, and a retry of the same write keeps it. So a source finds out whether an append landed
//! whose reply was lost: it reads on from the position where the append was tried first.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::decide::Decision;
use goldseam_core::seal::Sealed;
use goldseam_core::{Seq, TaskId};
use goldseam_store::{Append, StoreError};

use super::Ledger;
use super::announce::Announcement;
use super::error::EngineError;
use super::meter::WorkMeter;
use super::retry::RetryWindow;

/// What a source keeps of an append while the store has it.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// Its events, without their texts, which are in the append.
    pub(crate) sealed: Sealed,
    pub(crate) decision: Decision,
    /// The new advance task, if the append creates one.
    pub(crate) task: Option<TaskId>,
    /// What to log once it has landed.
    pub(crate) about: Option<Announcement>,
    /// The metrics of the run's workflow.
    pub(crate) work: Arc<WorkMeter>,
}

/// The result of a preparation.
pub(crate) enum Next<D> {
    /// Append this.
    Append(Box<Append>, Box<Prepared>),
    /// Nothing is left to append.
    Done(D),
    /// The run moved while the append was prepared: prepare again.
    Again,
}

/// The appends of this write that were tried so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tried {
    /// Number of appends.
    pub(crate) appends: u32,
    /// Those that another append overtook.
    pub(crate) conflicts: u32,
    /// The end of the log when the first append was sent whose reply was lost.
    pub(crate) doubt: Option<Seq>,
}

/// A write: where its view of the run comes from, and what it does with the outcome.
pub(crate) trait Source {
    /// What is written, in words.
    const DOING: &'static str;
    /// Conflicts after which the write is given up.
    const CONFLICTS_MAX: u32;
    /// The result of the write.
    type Done;
    /// Why the write ended without a result.
    type Error: From<EngineError>;

    /// Prepares an append to the log as the source knows it. If appends were tried before, reads on first: others may have
    /// appended, and an append whose reply was lost may have landed. The source counts such an append; this loop counts
    /// all others.
    async fn prepare(
        &mut self,
        window: &mut RetryWindow,
        tried: Tried,
    ) -> Result<Next<Self::Done>, Self::Error>;

    /// Takes the events of an append that landed, which was sent at `sent`.
    fn landed(&mut self, prepared: Prepared, end: Seq, sent: Duration) -> Result<Self::Done, Self::Error>;

    /// Lets other writers go first after a number of lost races.
    async fn give_way(&self, _conflicts: u32, _sent: Duration) {}
}

impl Ledger {
    /// Writes what `source` wants to write, once, no matter how often the store fails on the way.
    pub(crate) async fn write<S: Source>(
        &self,
        source: &mut S,
        window: &mut RetryWindow,
    ) -> Result<S::Done, S::Error> {
        let mut tried = Tried::default();
        while tried.conflicts < S::CONFLICTS_MAX {
            let (append, prepared) = match source.prepare(window, tried).await? {
                Next::Append(append, prepared) => (append, prepared),
                Next::Done(done) => return Ok(done),
                Next::Again => {
                    tried.conflicts += 1;
                    continue;
                }
            };
            let after = append.after;
            let sent = self.clock.elapsed();
            let appended = self.store.append(*append).await;
            tried.appends += 1;
            match appended {
                Ok(end) => {
                    prepared.work.committed(&prepared.sealed.records);
                    self.process.committed(prepared.decision.task, self.clock.now());
                    if let Some(about) = &prepared.about {
                        about.announce(&prepared.sealed.records);
                    }
                    return source.landed(*prepared, end, sent);
                }
                Err(StoreError::Conflict { .. }) => {
                    tried.conflicts += 1;
                    source.give_way(tried.conflicts, sent).await;
                }
                Err(error @ StoreError::Busy { .. }) => window.pause(self, error).await?,
                Err(error @ StoreError::Unknown { .. }) => {
                    tried.doubt.get_or_insert(after);
                    window.pause(self, error).await?;
                }
                Err(error) => return Err(EngineError::from(error).into()),
            }
        }
        Err(EngineError::Contended { doing: S::DOING }.into())
    }
}
