//! What a sweep does about rows that cannot be read, and its slow walk over runs that rest.

use goldseam_core::planted::{self, Bug};
use goldseam_core::recovery::{Code, Diagnosis, Remedy};
use goldseam_core::{Millis, RunId, Seq};
use goldseam_store::{Row, RunFilter, StoreError, Unreadable};

use super::super::{Found, Liveness};
use super::{Fate, Stalled, SweepReport, Sweeper};
use crate::ledger::error::EngineError;

impl Sweeper {
    /// The rows of a page, and those of it that cannot be read: one that fails stops none of the others.
    pub(super) async fn look_at_page(
        &mut self,
        page: &goldseam_store::Page<Row>,
        liveness: &Liveness,
        report: &mut SweepReport,
    ) -> Result<(), EngineError> {
        stop_if_planted(page)?;
        for run in page.unreadable.iter().filter_map(Unreadable::run) {
            self.look_at_lost(&run, liveness, report).await?;
        }
        for row in &page.items {
            let looked = self.look(row, liveness, report).await;
            self.spare(&row.summary.run, looked, liveness, report)?;
        }
        Ok(())
    }

    /// A run whose row tells nothing.
    pub(super) async fn look_at_lost(
        &mut self,
        run: &RunId,
        liveness: &Liveness,
        report: &mut SweepReport,
    ) -> Result<(), EngineError> {
        let looked = self.look_deep(run, None, liveness, report).await;
        self.spare(run, looked, liveness, report)
    }

    /// What the store cannot read of one run is a finding of that run; a store that does not answer ends the tick.
    fn spare(
        &self,
        run: &RunId,
        looked: Result<(), EngineError>,
        liveness: &Liveness,
        report: &mut SweepReport,
    ) -> Result<(), EngineError> {
        let Err(EngineError::Store(StoreError::Damaged { detail })) = looked else { return looked };
        let hint = "goldseam store check reads all of the store".to_owned();
        let diagnosis = Diagnosis { rule: Code::U1, evidence: detail, remedy: Remedy::Tell { hint } };
        let found = Found { run: run.clone(), at: Seq::ZERO, diagnosis };
        report.stalled.push(Stalled { found, since: liveness.now, fate: Fate::NeedsHelp });
        Ok(())
    }

    /// Compares a few rows of runs that rest with their logs. Lists go by rows, so a false one hides its run for as
    /// long as nothing reads its log.
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
        stop_if_planted(&page)?;
        let mut seen = SweepReport::default();
        for run in page.unreadable.iter().filter_map(Unreadable::run) {
            self.look_at_lost(&run, liveness, &mut seen).await?;
        }
        for row in page.items.iter().filter(|row| !row.summary.status.is_active()) {
            self.look_at_lost(&row.summary.run, liveness, &mut seen).await?;
        }
        self.walked = page.next;
        report.rows_rewritten += seen.rows_rewritten;
        report.healed += seen.healed;
        // A run that was parked is a finding of the look for parked runs.
        let is_news =
            |stalled: &Stalled| stalled.found.diagnosis.rule == Code::K1 || stalled.fate == Fate::Healed;
        report.stalled.extend(seen.stalled.into_iter().filter(is_news));
        Ok(())
    }
}

/// Fails at what cannot be read; only where [`Bug::SweepStopsAtUnreadable`] is planted.
fn stop_if_planted(page: &goldseam_store::Page<Row>) -> Result<(), EngineError> {
    match page.unreadable.first().filter(|_| planted::is(Bug::SweepStopsAtUnreadable)) {
        Some(first) => {
            let detail = format!("{} {}: {}", first.kind.as_str(), first.key, first.reason);
            Err(StoreError::Damaged { detail }.into())
        }
        None => Ok(()),
    }
}

/// A row that a fix would write again.
pub(super) fn off_row(run: &RunId, at: Seq, evidence: String, since: Millis) -> Stalled {
    let hint = "write the row again from the log".to_owned();
    let diagnosis = Diagnosis { rule: Code::C1, evidence, remedy: Remedy::Tell { hint } };
    Stalled { found: Found { run: run.clone(), at, diagnosis }, since, fate: Fate::Told }
}
