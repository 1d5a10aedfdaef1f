//! Moving everything to another store: logs byte for byte, tasks, locks; then the runs go on there.
//!
//! Invariants: nothing is written that is not in the source or follows from it, every write is a
//! compare-and-append or a compare-and-set, and at no moment are both stores open. So a copy may be killed
//! anywhere and begun again, any number of times, and ends as one that was never disturbed.
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | `mark` | what a store says about the copy it takes part in: who is closed, who is open |
//! | `session` | the begin and the end of a copy: nobody lives, marks, where it goes on |
//! | `side`, `crew` | one of the two stores; lists in pages, and many things done side by side |
//! | `survey` | one log read and judged: its end, its fingerprint, its row, its damage |
//! | `logs`, `tasks`, `locks` | what is carried, and how |
//! | `verify` | everything compared once more, and one digest for each store |
//! | `report` | what came of it |

mod crew;
mod locks;
mod logs;
mod report;
mod session;
mod side;
mod survey;
mod tasks;
mod verify;

use std::fmt;
use std::sync::Arc;

use tokio::sync::Mutex;

use goldseam_engine::client::Client;
use goldseam_engine::ledger::error::EngineError;

pub use goldseam_engine::ledger::copy_mark::{Mark, Role, closed_by_copy, mark_of};
pub use goldseam_engine::ledger::refusal::CopyRefusal;
pub use report::{CopyFinding, CopyReport, Counts, Digest, Digests, Progress, Stage};
pub use session::reopen;

use session::Session;
use side::Side;

/// What a copy may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyOptions {
    /// The destination may have runs, tasks and locks of its own. What both have under one name stays behind.
    pub merge: bool,
}

/// Moves everything of one store to another. Cheap to clone.
#[derive(Clone)]
pub struct Copier {
    from: Side,
    to: Side,
    options: CopyOptions,
    watcher: Arc<dyn Fn(Progress) + Send + Sync>,
    /// Deriving needs a whole history in memory: one at a time.
    deriving: Arc<Mutex<()>>,
}

impl fmt::Debug for Copier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, options, .. } = self;
        f.debug_struct("Copier")
            .field("from", from)
            .field("to", to)
            .field("options", options)
            .finish_non_exhaustive()
    }
}

impl Copier {
    /// From one store to another; each has a name that people see, in which no password stands.
    pub fn new(from: (&Client, &str), to: (&Client, &str), options: CopyOptions) -> Self {
        let side = |(client, name): (&Client, &str)| Side::new(client.ledger().clone(), name);
        let (from, to) = (side(from), side(to));
        Self { from, to, options, watcher: Arc::new(|_| {}), deriving: Arc::default() }
    }

    /// The same, telling somebody how far it is.
    #[must_use]
    pub fn watched_by(mut self, watcher: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        self.watcher = Arc::new(watcher);
        self
    }

    /// Reads everything, compares it with what is there, and says what a copy would do. Writes nothing.
    pub async fn plan(&self) -> Result<CopyReport, EngineError> {
        let begun = self.from.elapsed();
        let (session, refused) = self.foresee().await?;
        let mut report = CopyReport { dry_run: true, refused, ..CopyReport::default() };
        self.carry_all(&session, &mut report).await?;
        report.close(self.from.elapsed().saturating_sub(begun));
        Ok(report)
    }

    /// Copies everything that is not there yet, verifies all of it, and hands over: from then on the source
    /// is closed and the destination open.
    pub async fn copy(&self) -> Result<CopyReport, EngineError> {
        let begun = self.from.elapsed();
        let session = self.begin().await?;
        let mut report = CopyReport::default();
        self.carry_all(&session, &mut report).await?;
        self.verify(&session, &mut report).await?;
        let settled = report.may_be_handed_over();
        if !settled || report.left_behind() > 0 {
            Self::must_not_be_over(&session)?;
        }
        if settled {
            self.hand_over(&session).await?;
            report.finished = true;
        }
        report.close(self.from.elapsed().saturating_sub(begun));
        Ok(report)
    }

    async fn carry_all(&self, session: &Session, report: &mut CopyReport) -> Result<(), EngineError> {
        self.carry_logs(session, report).await?;
        self.carry_tasks(session, report).await?;
        self.carry_locks(session, report).await
    }

    fn tell(&self, progress: Progress) {
        (self.watcher)(progress);
    }
}

#[cfg(test)]
mod tests;
