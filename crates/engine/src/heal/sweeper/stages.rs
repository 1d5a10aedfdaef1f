//! The stages of a sweep: runs without rows, then watched runs or all active runs, then the other records.

use std::sync::Arc;

use goldseam_core::{RunId, Status};
use goldseam_store::unproven::ACTIVE;
use goldseam_store::{
    Head, Page, Row, RunFilter, RunOrder, StoreError, Unproven, UnprovenFilter, UnprovenScope,
};

use super::super::Liveness;
use super::cursor::{self, WalkCursor};
use super::{PAGE, SweepReport, Sweeper, WalkSlice};
use crate::ledger::error::EngineError;

/// Runs per tick that are examined one by one.
const BATCH: u32 = 1_000;
/// Runs per read of a store that leaves out runs which are proven to be well.
const WINDOW: u32 = 50_000;
/// A complete sweep examines the runs that a store proves to be well, too, and reads their logs, if they are not more
/// than this: damage to a log is not in its row. Beyond it, the walk and a deep sweep read them.
const PROVEN_READ_MAX: u64 = 2_000;
/// Paused and parked runs that one sweep of an engine reads, to find those whose deadline has passed.
const STOPPED: u32 = 1_000;
/// Watched runs per read of the store.
const WATCHED: u32 = 2_000;

/// The progress of a sweep.
#[derive(Debug)]
pub(super) enum Stage {
    /// Runs whose cached row is lost, after this one.
    Rowless(Option<RunId>),
    /// Active runs that the store watches by indexes, from this cursor on.
    Watched(Option<String>),
    /// Active runs, from this cursor on; or one slice of them.
    Active(Option<String>),
    /// Runs with a finding of an earlier sweep.
    Known,
    /// Paused and parked runs, from this cursor on: only their deadlines matter.
    Stopped(Option<String>),
    /// Runs by their status, from this cursor on: parked and paused ones, or all of them.
    Listed(Option<String>),
    /// Foreign states, from this cursor on.
    Foreign(Option<String>),
}

impl Default for Stage {
    fn default() -> Self {
        Self::Rowless(None)
    }
}

impl Stage {
    /// The stage as text, for a caller that continues the sweep with another sweeper.
    fn text(&self) -> String {
        let (word, at) = match self {
            Self::Rowless(after) => ("rowless", after.as_ref().map(|run| run.as_str().to_owned())),
            Self::Watched(after) => ("watched", after.clone()),
            Self::Active(after) => ("active", after.clone()),
            Self::Known => ("known", None),
            Self::Stopped(after) => ("stopped", after.clone()),
            Self::Listed(after) => ("listed", after.clone()),
            Self::Foreign(after) => ("foreign", after.clone()),
        };
        [word, ":", at.as_deref().unwrap_or_default()].concat()
    }

    fn parse(text: &str) -> Option<Self> {
        let (word, at) = text.split_once(':')?;
        let at = (!at.is_empty()).then(|| at.to_owned());
        Some(match word {
            "rowless" => Self::Rowless(at.map(RunId::new).transpose().ok()?),
            "active" => Self::Active(at),
            "listed" => Self::Listed(at),
            "foreign" => Self::Foreign(at),
            _ => return None,
        })
    }
}

impl Sweeper {
    /// Where the sweep continues, as text.
    pub(crate) fn place(&self) -> String {
        self.stage.text()
    }

    /// Continues a sweep at the place of another sweeper. Returns whether it is a place.
    pub(crate) fn continue_at(&mut self, place: &str) -> bool {
        let stage = Stage::parse(place);
        let is_place = stage.is_some();
        self.stage = stage.unwrap_or_default();
        is_place
    }

    /// Examines the next batch of runs.
    pub async fn tick(&mut self) -> Result<SweepReport, EngineError> {
        let liveness = self.healer.liveness().await?;
        let mut report = SweepReport::default();
        let mut left = BATCH;
        while left > 0 {
            let before = report.scanned;
            let next = match std::mem::take(&mut self.stage) {
                Stage::Rowless(after) => Some(self.sweep_rowless(after, &liveness, &mut report).await?),
                Stage::Watched(after) => {
                    let filter = self.unproven(UnprovenScope::Watched, after, WATCHED, &liveness);
                    let found = self.healer.ledger.store.unproven(filter).await?;
                    self.examine_unproven(&found, &liveness, &mut report).await?;
                    Some(found.next.map_or(Stage::Active(None), |next| Stage::Watched(Some(next))))
                }
                Stage::Active(after) => Some(self.sweep_active(after, &liveness, &mut report).await?),
                Stage::Known => {
                    self.sweep_known(&liveness, &mut report).await?;
                    Some(self.after_active())
                }
                Stage::Stopped(after) => {
                    left = left.saturating_sub(STOPPED);
                    Some(self.sweep_stopped(after, &liveness).await?)
                }
                Stage::Listed(after) => {
                    let page = self.page(after, PAGE).await?;
                    left = left.saturating_sub(PAGE);
                    self.examine_page(&page, &liveness, &mut report).await?;
                    Some(page.next.map_or(Stage::Foreign(None), |next| Stage::Listed(Some(next))))
                }
                Stage::Foreign(after) => {
                    if after.is_none() {
                        self.walk(&liveness, &mut report).await?;
                    }
                    left = left.saturating_sub(PAGE);
                    match self.wants_foreign() {
                        true => self.sweep_foreign(after, &liveness, &mut report).await?,
                        false => None,
                    }
                    .map(|next| Stage::Foreign(Some(next)))
                }
            };
            let Some(next) = next else { return Ok(self.end_of_sweep(report)) };
            self.stage = next;
            left = left.saturating_sub(u32::try_from(report.scanned - before).unwrap_or(u32::MAX));
        }
        report.more = true;
        Ok(report)
    }

    async fn sweep_rowless(
        &mut self,
        after: Option<RunId>,
        liveness: &Liveness,
        report: &mut SweepReport,
    ) -> Result<Stage, EngineError> {
        let lost = self.healer.ledger.store.rowless(after.as_ref(), PAGE).await?;
        for run in &lost {
            self.examine_without_row(run, liveness, report).await?;
        }
        // Runs that could not be healed stay in the list and must not hide later ones.
        Ok(match lost.last() {
            Some(last) => Stage::Rowless(Some(last.clone())),
            None if self.options.deep => Stage::Listed(None),
            None if self.options.slice.is_some() && self.healer.ledger.store.watches() => {
                Stage::Watched(None)
            }
            None => Stage::Active(None),
        })
    }

    /// Examines the next active runs, or one slice of them.
    async fn sweep_active(
        &mut self,
        after: Option<String>,
        liveness: &Liveness,
        report: &mut SweepReport,
    ) -> Result<Stage, EngineError> {
        if let Some(slice) = self.options.slice.clone() {
            if let Some(found) = self.next_slice(&slice, liveness).await? {
                self.examine_unproven(&found, liveness, report).await?;
            }
            return Ok(Stage::Known);
        }
        let limit = if self.healer.ledger.store.watches() { WINDOW } else { PAGE };
        // After a crash of many runs, nearly all are unproven: examine them in batches, so that the sweep leaves the
        // store to the nodes that claim them.
        let filter = UnprovenFilter {
            found_max: Some(BATCH),
            ..self.unproven(UnprovenScope::Every, after, limit, liveness)
        };
        let is_first = filter.after.is_none();
        let found = self.healer.ledger.store.unproven(filter).await?;
        if is_first && found.next.is_none() && (1..=PROVEN_READ_MAX).contains(&found.skipped) {
            return self.sweep_every_active(liveness, report).await;
        }
        self.counted += found.skipped + (found.rows.len() + found.unreadable.len()) as u64;
        self.examine_unproven(&found, liveness, report).await?;
        Ok(found.next.map_or_else(|| self.after_active(), |next| Stage::Active(Some(next))))
    }

    /// Examines every active run of a small store, those that are proven to be well as well.
    async fn sweep_every_active(
        &mut self,
        liveness: &Liveness,
        report: &mut SweepReport,
    ) -> Result<Stage, EngineError> {
        let mut after = None;
        loop {
            let statuses = ACTIVE.to_vec();
            let order = RunOrder::Oldest;
            let filter = RunFilter { statuses, order, after, limit: PAGE, ..RunFilter::default() };
            let page = self.healer.ledger.store.runs(filter).await?;
            self.counted += (page.items.len() + page.unreadable.len()) as u64;
            self.examine_page(&page, liveness, report).await?;
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(self.after_active()),
            }
        }
    }

    /// Reads the next slice of the shared walk; none if another engine reads it, or if it is not due yet.
    async fn next_slice(
        &mut self,
        slice: &WalkSlice,
        liveness: &Liveness,
    ) -> Result<Option<Unproven>, EngineError> {
        let store = Arc::clone(&self.healer.ledger.store);
        if !self.shares_walk {
            let rows = slice.rows(self.active);
            let found = store.unproven(self.unproven(UnprovenScope::Every, None, rows, liveness)).await?;
            // A store that fits into one slice needs no shared cursor.
            if found.next.is_none() {
                return Ok(Some(found));
            }
            self.shares_walk = true;
        }
        let (at, lock) = cursor::read(&*store, cursor::rows()).await?;
        if liveness.now < at.next_at {
            return Ok(None);
        }
        let rows = slice.rows(at.total.max(self.active));
        let filter = self.unproven(UnprovenScope::Every, at.after.clone(), rows, liveness);
        let found = match store.unproven(filter).await {
            Ok(found) => found,
            // A cursor of another release: begin again.
            Err(StoreError::Refused { .. }) if at.after.is_some() => {
                cursor::write(&*store, cursor::rows(), &WalkCursor::default(), lock, liveness.now).await?;
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let read = found.skipped + (found.rows.len() + found.unreadable.len()) as u64;
        let next = at.advanced(found.next.clone(), read, liveness.now + slice.sweep);
        self.shares_walk = at.after.is_some() || found.next.is_some();
        let is_ours = cursor::write(&*store, cursor::rows(), &next, lock, liveness.now).await?;
        Ok(is_ours.then_some(found))
    }

    fn unproven(
        &self,
        scope: UnprovenScope,
        after: Option<String>,
        limit: u32,
        liveness: &Liveness,
    ) -> UnprovenFilter {
        UnprovenFilter {
            scope,
            now: liveness.now,
            alive: liveness.alive(),
            kinds: liveness.kinds(),
            after,
            limit,
            found_max: None,
        }
    }

    /// Examines unproven runs, and counts the runs that the store left out as healthy.
    async fn examine_unproven(
        &mut self,
        found: &Unproven,
        liveness: &Liveness,
        report: &mut SweepReport,
    ) -> Result<(), EngineError> {
        report.scanned += found.skipped;
        report.healthy += found.skipped;
        let is_stopped = |row: &Row| !row.summary.status.is_active();
        if !found.rows.iter().any(is_stopped) {
            return self.examine_rows(&found.rows, &found.unreadable, liveness, report).await;
        }
        let (stopped, active): (Vec<Row>, Vec<Row>) = found.rows.iter().cloned().partition(is_stopped);
        for row in &stopped {
            self.time_out_stopped(&row.summary, liveness).await?;
        }
        self.examine_rows(&active, &found.unreadable, liveness, report).await
    }

    /// Examines runs with earlier findings again: they may be old enough to be healed now.
    async fn sweep_known(
        &mut self,
        liveness: &Liveness,
        report: &mut SweepReport,
    ) -> Result<(), EngineError> {
        let known: Vec<RunId> =
            self.sightings.keys().filter(|run| !self.reported.contains(*run)).cloned().collect();
        for run in known {
            match self.healer.ledger.store.head(&run).await? {
                Some(Head { row: Some(row), .. }) if row.summary.status.is_active() => {
                    self.examine_rows(std::slice::from_ref(&row), &[], liveness, report).await?;
                }
                Some(Head { row: None, .. }) => self.examine_without_row(&run, liveness, report).await?,
                Some(_) | None => {
                    self.sightings.remove(&run);
                }
            }
        }
        Ok(())
    }

    /// The stage after all active runs. A store without indexes returns stopped runs that time out with the active ones.
    fn after_active(&mut self) -> Stage {
        let acts = !self.options.dry_run && self.options.rule.is_none();
        match self.options.parked {
            true => Stage::Listed(None),
            false if acts && self.healer.ledger.store.watches() => Stage::Stopped(self.stopped.take()),
            false => Stage::Foreign(None),
        }
    }

    /// Requests the end of paused and parked runs whose deadline has passed. An engine's regular sweep reads one page,
    /// and the next sweep continues after it.
    async fn sweep_stopped(
        &mut self,
        after: Option<String>,
        liveness: &Liveness,
    ) -> Result<Stage, EngineError> {
        let page = self.page(after, STOPPED).await?;
        for row in &page.items {
            self.time_out_stopped(&row.summary, liveness).await?;
        }
        Ok(match page.next {
            Some(next) if self.options.slice.is_none() => Stage::Stopped(Some(next)),
            next => {
                self.stopped = next;
                Stage::Foreign(None)
            }
        })
    }

    async fn page(&self, after: Option<String>, limit: u32) -> Result<Page<Row>, EngineError> {
        // A paused run is a finding if its log is damaged.
        let statuses = if self.options.deep { Vec::new() } else { vec![Status::Parked, Status::Paused] };
        let filter = RunFilter { statuses, order: RunOrder::Oldest, after, limit, ..RunFilter::default() };
        Ok(self.healer.ledger.store.runs(filter).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_back_and_other_text_is_refused() {
        for place in ["rowless:", "rowless:r-1", "active:", "active:a:b", "listed:x", "foreign:"] {
            assert_eq!(Stage::parse(place).map(|stage| stage.text()).as_deref(), Some(place));
        }
        for other in ["", "rowless", "rowless:not a run", "known:", "watched:x", "stopped:x", "elsewhere:x"] {
            assert!(Stage::parse(other).is_none(), "{other}");
        }
    }
}
