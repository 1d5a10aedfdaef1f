//! Copies of a store in use, and back.
//!
//! A backup by reading logs has a *cut*: a time after its beginning. It holds each run as it was at the cut, by the
//! times of the appends in its log. Tasks and locks have no log: they are as they were when they were read.

use goldseam_core::Millis;

use super::Copier;
use super::report::CopyReport;
use goldseam_engine::ledger::copy_mark::{Mark, Marked, Role};
use goldseam_engine::ledger::error::EngineError;

impl Copier {
    /// Copies everything up to the cut to an empty destination that no other process uses. The source stays open.
    pub async fn back_up(&self, cut: Millis) -> Result<CopyReport, EngineError> {
        let begun = self.from.elapsed();
        let session = self.begin_backup(cut).await?;
        let mut report = CopyReport::default();
        self.carry_all(&session, &mut report).await?;
        report.close(self.from.elapsed().saturating_sub(begun));
        Ok(report)
    }

    /// Marks the source as the backup `id` of another store: engines refuse to start on it.
    pub async fn mark_backup(&self, id: &str, of: &str) -> Result<(), EngineError> {
        let from = &self.from;
        let marked = Marked::of(&**from.store()).await?;
        let since = from.ask("asking the time", || from.store().now()).await?;
        let mark = Mark { role: Role::BackupOf, other: of.to_owned(), copy: id.to_owned(), since };
        self.put_mark(from, &marked, Some(&mark)).await.map(drop)
    }

    /// Copies the backup `id`, which is the source, to an empty destination, verifies all of it, and opens the
    /// destination. An interrupted restore continues.
    pub async fn restore(&self, id: &str) -> Result<CopyReport, EngineError> {
        let begun = self.from.elapsed();
        let session = self.begin_restore(id).await?;
        let mut report = CopyReport::default();
        self.carry_all(&session, &mut report).await?;
        self.verify(&session, &mut report).await?;
        if report.may_be_handed_over() {
            self.hand_over(&session).await?;
            report.finished = true;
        }
        report.close(self.from.elapsed().saturating_sub(begun));
        Ok(report)
    }
}
