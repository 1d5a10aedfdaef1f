//! Unreadable rows in a sweep, and the slow walk that compares rows with their logs.

use std::time::Duration;

use goldseam_core::recovery::{Code, unreadable, wrong_row};
use goldseam_core::{Millis, RunId, Seq};
use goldseam_store::{Row, RunFilter, StoreError, Unreadable};

use super::super::{Found, Liveness};
use super::cursor::{self, WalkCursor};
use super::{Fate, Stalled, SweepReport, Sweeper};
use crate::ledger::error::EngineError;

/// Time in which the walk over logs should reach every run.
const LOGS_EVERY: Duration = Duration::from_secs(24 * 3600);
/// Most logs per sweep, unless the configuration sets more.
const LOGS_MAX: u32 = 500;

impl Sweeper {
    /// Examines the rows of a page and its unreadable rows. A damaged record does not stop the page.
    pub(super) async fn examine_page(
        &mut self,
        page: &goldseam_store::Page<Row>,
        liveness: &Liveness,
        report: &mut SweepReport,
    ) -> Result<(), EngineError> {
        self.examine_rows(&page.items, &page.unreadable, liveness, report).await
    }

    /// Examines rows and unreadable rows. A damaged record does not stop the others.
    pub(super) async fn examine_rows(
        &mut self,
        rows: &[Row],
        unreadable: &[Unreadable],
        liveness: &Liveness,
        report: &mut SweepReport,
    ) -> Result<(), EngineError> {
        for run in unreadable.iter().filter_map(Unreadable::run) {
            self.examine_without_row(&run, liveness, report).await?;
        }
        for row in rows {
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

    /// Compares a few rows with their logs. Lists and sweeps use rows, so a wrong row hides its run until its log is
    /// read. An engine shares the walk with the other engines of the store.
    pub(super) async fn walk(
        &mut self,
        liveness: &Liveness,
        report: &mut SweepReport,
    ) -> Result<(), EngineError> {
        let limit = self.options.walk;
        if limit == 0 || self.options.deep || self.options.rule.is_some() {
            return Ok(());
        }
        let Some(page) = self.next_logs(limit, liveness).await? else { return Ok(()) };
        let mut seen = SweepReport::default();
        for run in page.unreadable.iter().filter_map(Unreadable::run) {
            self.examine_without_row(&run, liveness, &mut seen).await?;
        }
        let is_read = |row: &&Row| {
            let owner = row.summary.owner.as_ref();
            !self.healer.ledger.store.watches() && row.summary.status.is_active()
                || liveness.owner(owner, None).is_alive()
        };
        let unread: Vec<&Row> = page.items.iter().filter(|row| !is_read(row)).collect();
        for row in unread {
            self.examine_without_row(&row.summary.run, liveness, &mut seen).await?;
        }
        report.rows_rewritten += seen.rows_rewritten;
        report.healed += seen.healed;
        // A parked run is reported by the option `parked`, not by the walk.
        let is_news =
            |stalled: &Stalled| stalled.found.diagnosis.rule == Code::K1 || stalled.fate == Fate::Healed;
        report.stalled.extend(seen.stalled.into_iter().filter(is_news));
        Ok(())
    }

    /// The next page of the walk over logs; none if another engine reads it, or if it is not due yet.
    async fn next_logs(
        &mut self,
        limit: u32,
        liveness: &Liveness,
    ) -> Result<Option<goldseam_store::Page<Row>>, EngineError> {
        let store = &self.healer.ledger.store;
        let Some(slice) = self.options.slice.clone().filter(|_| store.watches()) else {
            let filter = RunFilter { after: self.walked.take(), limit, ..RunFilter::default() };
            let page = store.runs(filter).await?;
            self.walked.clone_from(&page.next);
            return Ok(Some(page));
        };
        let (at, lock) = cursor::read(&**store, cursor::logs()).await?;
        if liveness.now < at.next_at {
            return Ok(None);
        }
        let share = slice.sweep.as_secs_f64() / LOGS_EVERY.as_secs_f64();
        let wanted = (at.total.max(self.active) as f64 * share).ceil() as u32;
        let limit = wanted.clamp(limit, LOGS_MAX.max(limit));
        let filter = RunFilter { after: at.after.clone(), limit, ..RunFilter::default() };
        let page = match store.runs(filter).await {
            // A cursor of another release: begin again.
            Err(StoreError::Refused { .. }) if at.after.is_some() => {
                cursor::write(&**store, cursor::logs(), &WalkCursor::default(), lock, liveness.now).await?;
                return Ok(None);
            }
            page => page?,
        };
        let read = (page.items.len() + page.unreadable.len()) as u64;
        let next = at.advanced(page.next.clone(), read, liveness.now + slice.sweep);
        let is_whole = at.after.is_none() && page.next.is_none();
        let is_ours = is_whole || cursor::write(&**store, cursor::logs(), &next, lock, liveness.now).await?;
        Ok(is_ours.then_some(page))
    }
}

/// The finding of a row that a fix would rewrite.
pub(super) fn off_row(run: &RunId, at: Seq, evidence: String, since: Millis) -> Stalled {
    let found = Found { run: run.clone(), at, diagnosis: wrong_row(evidence) };
    Stalled { found, since, fate: Fate::Reported }
}
