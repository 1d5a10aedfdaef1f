//! Copying a store: logs byte for byte, tasks and locks. The runs then continue at the destination.
//!
//! Invariants: everything that is written is in the source or derived from it, every write is a compare-and-append or
//! a compare-and-set, and the two stores are never open at the same time. So a copy may be killed at any point and
//! started again, any number of times, with the same result as an undisturbed copy.
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | `mark` | the record in which a store says which copy it takes part in, and whether it is closed |
//! | `session` | the start and the end of a copy: no live nodes, marks, where it resumes |
//! | `side`, `concurrent` | one of the two stores; paged lists, and bounded concurrency |
//! | `survey` | one log read and checked: its end, its fingerprint, its row, its damage |
//! | `logs`, `tasks`, `locks` | the copying of each |
//! | `verify` | the final comparison, and one digest for each store |
//! | `backup` | the same for a store in use, whose copy is a backup, and for a restore |
//! | `contents` | counts and digests of one store, to compare a backup with its manifest |
//! | `report` | the result |

mod backup;
mod concurrent;
mod contents;
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

pub use contents::{StoreContents, contents_of};
pub use goldseam_engine::ledger::copy_mark::{Mark, Role, closed_by_copy, mark_of};
pub use goldseam_engine::ledger::refusal::CopyRefusal;
pub use report::{CopyCounts, CopyFinding, CopyProgress, CopyReport, CopyStage, Digest, Digests};
pub use session::reopen;

use session::Session;
use side::Side;

/// Options of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyOptions {
    /// The destination may already have runs, tasks and locks. Records that exist in both under one name are left
    /// behind.
    pub merge: bool,
}

/// Copies one store to another. Cheap to clone.
#[derive(Clone)]
pub struct Copier {
    from: Side,
    to: Side,
    options: CopyOptions,
    watcher: Arc<dyn Fn(CopyProgress) + Send + Sync>,
    /// Held while deriving a state, which needs a whole history in memory.
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
    /// Creates a copier; each store has a display name without a password.
    pub fn new(from: (&Client, &str), to: (&Client, &str), options: CopyOptions) -> Self {
        let side = |(client, name): (&Client, &str)| Side::new(client.ledger().clone(), name);
        let from = side(from);
        let to = side(to);
        Self { from, to, options, watcher: Arc::new(|_| {}), deriving: Arc::default() }
    }

    /// Sets a callback for progress.
    #[must_use]
    pub fn watched_by(mut self, watcher: impl Fn(CopyProgress) + Send + Sync + 'static) -> Self {
        self.watcher = Arc::new(watcher);
        self
    }

    /// Reads and compares everything, and reports what a copy would do. Writes nothing.
    pub async fn plan(&self) -> Result<CopyReport, EngineError> {
        let begun = self.from.elapsed();
        let (session, refused) = self.preview().await?;
        let mut report = CopyReport { dry_run: true, refused, ..CopyReport::default() };
        self.carry_all(&session, &mut report).await?;
        report.close(self.from.elapsed().saturating_sub(begun));
        Ok(report)
    }

    /// Copies everything that is missing, verifies all of it, and hands over: then the source is closed and the
    /// destination open.
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

    fn report_progress(&self, progress: CopyProgress) {
        (self.watcher)(progress);
    }
}

#[cfg(test)]
mod tests;
