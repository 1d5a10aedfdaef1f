//! Unreadable rows in a sweep, and the slow walk over ended, paused and parked runs.

use goldseam_core::recovery::{Code, unreadable, wrong_row};
use goldseam_core::{Millis, RunId, Seq};
use goldseam_store::{Row, RunFilter, StoreError, Unreadable};

use super::super::{Found, Liveness};
use super::{Fate, Stalled, SweepReport, Sweeper};
use crate::ledger::error::EngineError;

impl Sweeper {
    /// Examines the rows of a page and its unreadable rows. A damaged record does not stop the page.
    pub(super) async fn examine_page(
        &mut self,
        page: &goldseam_store::Page<Row>,
        liveness: &Liveness,
        report: &mut SweepReport,
    ) -> Result<(), EngineError> {
        for run in page.unreadable.iter().filter_map(Unreadable::run) {
            self.examine_without_row(&run, liveness, report).await?;
        }
        for row in &page.items {
            let examined = self.examine_row(row, liveness, report).await;
            self.report_damage(&row.summary.run, examined, liveness, report)?;
        }
        Ok(())
    }

    /// Examines a run without a usable row.
    pub(super) async fn examine_without_row(
        &mut self,
        run: &RunId,
        liveness: &Liveness,
        report: &mut SweepReport,
    ) -> Result<(), EngineError> {
        let examined = self.examine_log(run, None, liveness, report).await;
        self.report_damage(run, examined, liveness, report)
    }

    /// Turns a damaged record of one run into a finding of that run. Any other error ends the tick.
    fn report_damage(
        &self,
        run: &RunId,
        examined: Result<(), EngineError>,
        liveness: &Liveness,
        report: &mut SweepReport,
    ) -> Result<(), EngineError> {
        let Err(EngineError::Store(StoreError::Damaged { detail })) = examined else { return examined };
        let found = Found { run: run.clone(), at: Seq::ZERO, diagnosis: unreadable(detail) };
        report.stalled.push(Stalled { found, since: liveness.now, fate: Fate::NeedsHelp });
        Ok(())
    }

    /// Compares a few rows of ended, paused or parked runs with their logs. Lists use rows, so a wrong row hides its
    /// run until its log is read.
    pub(super) async fn walk(
        &mut self,
        liveness: &Liveness,
        report: &mut SweepReport,
    ) -> Result<(), EngineError> {
        let limit = self.options.walk;
        if limit == 0 || self.options.deep || self.options.rule.is_some() {
            return Ok(());
        }
        let filter = RunFilter { after: self.walked.take(), limit, ..RunFilter::default() };
        let page = self.healer.ledger.store.runs(filter).await?;
        let mut seen = SweepReport::default();
        for run in page.unreadable.iter().filter_map(Unreadable::run) {
            self.examine_without_row(&run, liveness, &mut seen).await?;
        }
        for row in page.items.iter().filter(|row| !row.summary.status.is_active()) {
            self.examine_without_row(&row.summary.run, liveness, &mut seen).await?;
        }
        self.walked = page.next;
        report.rows_rewritten += seen.rows_rewritten;
        report.healed += seen.healed;
        // A parked run is reported by the option `parked`, not by the walk.
        let is_news =
            |stalled: &Stalled| stalled.found.diagnosis.rule == Code::K1 || stalled.fate == Fate::Healed;
        report.stalled.extend(seen.stalled.into_iter().filter(is_news));
        Ok(())
    }
}

/// The finding of a row that a fix would rewrite.
pub(super) fn off_row(run: &RunId, at: Seq, evidence: String, since: Millis) -> Stalled {
    let found = Found { run: run.clone(), at, diagnosis: wrong_row(evidence) };
    Stalled { found, since, fate: Fate::Reported }
}
