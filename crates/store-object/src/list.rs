//! Lists of runs: markers give the order, rows the content. A marker that its row contradicts is ignored.

use std::time::Duration;

use futures_util::future::try_join_all;
use goldseam_core::{Millis, RunId, Seq, Summary};
use goldseam_store::{Cursor, Page, RecordKind, Row, RunFilter, RunOrder, StoreError, Unreadable};

use crate::bucket::{CONCURRENT_GETS, ListedObject};
use crate::full_scan::CHEAP_PAGES_MAX;
use crate::inner::BucketState;
use crate::keys::{self, ActiveMarker, RunMarker};
use crate::row_cache::{RowState, StoredRow};

/// Markers read at a time.
const CHUNK: usize = 1_000;
/// Most rows that one page of a search reads. A row costs a request unless it is cached.
pub(crate) const SEARCH_READS_MAX: usize = 1_000;
/// How long a marker without its run is kept: the run's first append may be under way.
const PENDING_MAX: Duration = Duration::from_secs(600);

/// How old the marker of a reactivated run is before its row counts as late: its append may be under way.
const LATE_MIN: Duration = Duration::from_secs(30);

/// A run of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ListedMarker {
    at: Millis,
    run: RunId,
    /// The position after which the run was reactivated, if it was a while ago.
    reactivated: Option<Seq>,
}

impl From<RunMarker> for ListedMarker {
    fn from(marker: RunMarker) -> Self {
        Self { at: marker.at, run: marker.run, reactivated: None }
    }
}

/// Runs in the order of a list, and where the next chunk begins.
struct Chunk {
    markers: Vec<ListedMarker>,
    /// The key after which the next chunk begins; none in the last chunk.
    next: Option<String>,
}

/// A run of a list; an error says why its row is unreadable.
struct ListedEntry {
    cursor: Cursor,
    row: Result<Row, String>,
}

impl BucketState {
    pub(crate) async fn list_runs(&self, filter: &RunFilter) -> Result<Page<Row>, StoreError> {
        let filter = &filter.narrowed();
        let after = filter.cursor()?;
        self.write_all_deferred().await?;
        let mut found: Vec<ListedEntry> = Vec::new();
        let mut reads_left = if filter.condition.is_some() { SEARCH_READS_MAX } else { usize::MAX };
        let mut stopped = None;
        let enough = filter.limit as usize + 1;
        let mut from = None;
        loop {
            let chunk = self.chunk(filter, after.as_ref(), from.take()).await?;
            let markers: Vec<&ListedMarker> =
                chunk.markers.iter().filter(|marker| is_after(marker, filter, after.as_ref())).collect();
            for markers in markers.chunks(CONCURRENT_GETS) {
                self.add_entries(filter, markers, &mut found).await?;
                if found.len() >= enough {
                    break;
                }
                reads_left = reads_left.saturating_sub(markers.len());
                if reads_left == 0 {
                    stopped = markers.last().map(|marker| Cursor {
                        by: filter.order.key(),
                        at: marker.at,
                        run: marker.run.clone(),
                    });
                    break;
                }
            }
            match chunk.next {
                Some(next) if found.len() < enough && stopped.is_none() => from = Some(next),
                _ => break,
            }
        }
        let has_more = found.len() >= enough;
        found.truncate(filter.limit as usize);
        let last = found.last().filter(|_| has_more).map(|entry| entry.cursor.clone());
        let next = last.or(stopped).map(|cursor| cursor.to_string());
        let mut page = Page { next, ..Page::default() };
        for ListedEntry { cursor, row } in found {
            match row {
                Ok(row) => page.items.push(row),
                Err(reason) => {
                    page.unreadable.push(Unreadable::new(RecordKind::Row, cursor.run.as_str(), reason));
                }
            }
        }
        Ok(page)
    }

    /// Reads the rows of these markers, and adds those that the filter selects.
    async fn add_entries(
        &self,
        filter: &RunFilter,
        markers: &[&ListedMarker],
        found: &mut Vec<ListedEntry>,
    ) -> Result<(), StoreError> {
        // Only a sweep lists active runs from the oldest to the newest; other callers get the current rows.
        let rows = markers.iter().map(async |marker| match filter.order {
            RunOrder::Oldest if wants_active_only(filter) => self.row_for_sweep(&marker.run).await,
            _ => self.read_row(&marker.run).await,
        });
        for (marker, state) in markers.iter().zip(try_join_all(rows).await?) {
            match state {
                RowState::None => {}
                RowState::Row(stored) if is_late(marker, &stored) => {
                    let cursor = Cursor { by: filter.order.key(), at: marker.at, run: marker.run.clone() };
                    let Summary { status, as_of, .. } = &stored.row.summary;
                    let reason = format!("it says {status} as of event {as_of}, but the run was continued");
                    found.push(ListedEntry { cursor, row: Err(reason) });
                }
                RowState::Row(stored) => {
                    let Some(cursor) = Cursor::of(&stored.row, filter.order) else { continue };
                    if cursor.at == marker.at && filter.selects(&stored.row) {
                        found.push(ListedEntry { cursor, row: Ok(stored.row) });
                    }
                }
                // Only the marker describes the run.
                RowState::Unreadable(reason) => {
                    let cursor = Cursor { by: filter.order.key(), at: marker.at, run: marker.run.clone() };
                    found.push(ListedEntry { cursor, row: Err(reason) });
                }
            }
        }
        Ok(())
    }

    /// Returns the remembered row if the scan at the beginning of the sweep saw it unchanged, else reads it.
    async fn row_for_sweep(&self, run: &RunId) -> Result<RowState, StoreError> {
        match self.rows.last_seen(run).filter(|row| self.scans.saw_recently(run, &row.tag)) {
            Some(row) => Ok(RowState::Row(Box::new(row))),
            None => self.read_row(run).await,
        }
    }

    /// The next runs that may be in the list, in its order.
    async fn chunk(
        &self,
        filter: &RunFilter,
        after: Option<&Cursor>,
        from: Option<String>,
    ) -> Result<Chunk, StoreError> {
        let is_active_only = wants_active_only(filter);
        match filter.order {
            RunOrder::Oldest if is_active_only => {
                self.active_runs(from.or(after.map(|after| ActiveMarker::prefix_at(after.at)))).await
            }
            RunOrder::Newest if is_active_only => {
                let mut all = Vec::new();
                let mut from = None;
                loop {
                    let chunk = self.active_runs(from.take()).await?;
                    all.extend(chunk.markers);
                    from = chunk.next;
                    if from.is_none() {
                        break;
                    }
                }
                all.reverse();
                Ok(Chunk { markers: all, next: None })
            }
            RunOrder::Oldest => {
                let listed = self.bucket.list(keys::RUNS, None, usize::MAX).await?;
                let parse = |entry: &ListedObject| RunMarker::parse(keys::RUNS, &entry.key);
                let mut markers: Vec<ListedMarker> =
                    listed.iter().filter_map(parse).map(ListedMarker::from).collect();
                markers.sort_by(|a, b| (a.at, &a.run).cmp(&(b.at, &b.run)));
                Ok(Chunk { markers, next: None })
            }
            RunOrder::Newest => self.latest_runs(keys::RUNS, from, after).await,
            RunOrder::Recovered => self.latest_runs(keys::RECOVERED, from, after).await,
        }
    }

    /// Active runs, the earliest first.
    async fn active_runs(&self, from: Option<String>) -> Result<Chunk, StoreError> {
        let now = self.clock.now();
        let parse = |entry: &ListedObject| {
            let ActiveMarker { created, run, after } = ActiveMarker::parse(&entry.key)?;
            let is_reactivated = after > Seq::ZERO && now.since(entry.modified) > LATE_MIN;
            Some(ListedMarker { at: created, run, reactivated: is_reactivated.then_some(after) })
        };
        let (mut markers, last) = self.whole_moments(keys::ACTIVE, from, parse).await?;
        // Of several markers of a run, the one of its latest reactivation.
        markers.sort_by(|a, b| (a.at, &a.run, b.reactivated).cmp(&(b.at, &b.run, a.reactivated)));
        markers.dedup_by(|a, b| (a.at, &a.run) == (b.at, &b.run));
        Ok(Chunk { markers, next: last.map(|at| ActiveMarker::prefix_at(Millis(at.0 + 1))) })
    }

    /// Runs of a folder whose markers begin with the latest.
    async fn latest_runs(
        &self,
        folder: &str,
        from: Option<String>,
        after: Option<&Cursor>,
    ) -> Result<Chunk, StoreError> {
        let from = from.or(after.map(|after| RunMarker::prefix_at(folder, after.at)));
        let parse = |entry: &ListedObject| RunMarker::parse(folder, &entry.key).map(ListedMarker::from);
        let (mut markers, last) = self.whole_moments(folder, from, parse).await?;
        markers.sort_by(|a, b| (b.at, &b.run).cmp(&(a.at, &a.run)));
        Ok(Chunk { markers, next: last.map(|at| RunMarker::prefix_at(folder, Millis(at.0 - 1))) })
    }

    /// The next markers of a folder, with all markers of each moment: within a moment, keys are not in the order of the
    /// list. Also returns the last moment, if there may be more.
    async fn whole_moments(
        &self,
        folder: &str,
        from: Option<String>,
        parse: impl Fn(&ListedObject) -> Option<ListedMarker>,
    ) -> Result<(Vec<ListedMarker>, Option<Millis>), StoreError> {
        let mut limit = CHUNK;
        loop {
            let listed = self.bucket.list(folder, from.as_deref(), limit).await?;
            let is_full = listed.len() >= limit;
            let mut markers: Vec<ListedMarker> = listed.iter().filter_map(&parse).collect();
            if !is_full {
                return Ok((markers, None));
            }
            let last = markers.last().map(|marker| marker.at);
            markers.retain(|marker| Some(marker.at) != last);
            match markers.last().map(|marker| marker.at) {
                Some(last) => return Ok((markers, Some(last))),
                None => limit *= 4,
            }
        }
    }

    /// Runs with a log and without a row, in order of id.
    pub(crate) async fn rowless(&self, after: Option<&RunId>, limit: u32) -> Result<Vec<RunId>, StoreError> {
        self.write_all_deferred().await?;
        let scan = self.scans.scan(&self.bucket).await?;
        let mut rowless = Vec::new();
        for run in scan.rowless.iter().filter(|run| after.is_none_or(|after| *run > after)) {
            if rowless.len() >= limit as usize {
                break;
            }
            // An expensive scan may be old.
            if scan.pages <= CHEAP_PAGES_MAX || self.row(run).await?.is_none() {
                rowless.push(run.clone());
            }
        }
        if after.is_none() {
            self.remove_stale_active_markers().await?;
        }
        Ok(rowless)
    }

    /// Removes markers of ended runs, of earlier lives, and of runs that never began or were never reactivated.
    async fn remove_stale_active_markers(&self) -> Result<(), StoreError> {
        let listed = self.bucket.list(keys::ACTIVE, None, usize::MAX).await?;
        let now = self.clock.now();
        let old: Vec<(ActiveMarker, &ListedObject)> = listed
            .iter()
            .filter(|entry| now.since(entry.modified) > PENDING_MAX)
            .filter_map(|entry| Some((ActiveMarker::parse(&entry.key)?, entry)))
            .collect();
        for markers in old.chunks(CONCURRENT_GETS) {
            let rows =
                try_join_all(markers.iter().map(|(marker, _)| self.row_for_sweep(&marker.run))).await?;
            for ((marker, entry), state) in markers.iter().zip(rows) {
                let is_stale = match state {
                    RowState::Unreadable(_) => false,
                    RowState::Row(stored) => {
                        stored.row.summary.created_at != marker.created
                            || stored.is_over() && stored.row.summary.as_of > marker.after
                            || stored.active > marker.after
                            || stored.active != marker.after && self.stopped_there(marker, &stored).await?
                    }
                    RowState::None => self.logs.find(&self.bucket, &marker.run, 0).await?.is_none(),
                };
                if is_stale {
                    self.bucket.delete(&entry.key).await?;
                }
            }
        }
        Ok(())
    }

    /// Whether the log of a stopped run ends where its row says: it was marked, but never reactivated.
    async fn stopped_there(&self, marker: &ActiveMarker, stored: &StoredRow) -> Result<bool, StoreError> {
        if !stored.is_stopped() {
            return Ok(false);
        }
        let log = self.logs.find(&self.bucket, &marker.run, stored.batch).await?;
        Ok(log.is_none_or(|log| log.end <= stored.row.summary.as_of))
    }
}

/// Whether a row says that a run is stopped which was reactivated since: a process was killed after it had appended to
/// the log and before it wrote the row.
fn is_late(marker: &ListedMarker, stored: &StoredRow) -> bool {
    stored.is_stopped() && marker.reactivated.is_some_and(|after| stored.row.summary.as_of <= after)
}

/// Whether the filter selects only active runs, which have markers in a folder of their own.
fn wants_active_only(filter: &RunFilter) -> bool {
    !filter.statuses.is_empty() && filter.statuses.iter().all(|status| !status.is_terminal())
}

fn is_after(marker: &ListedMarker, filter: &RunFilter, after: Option<&Cursor>) -> bool {
    let Some(after) = after else { return true };
    let here = (marker.at, &marker.run);
    let there = (after.at, &after.run);
    if filter.order.is_latest_first() { here < there } else { here > there }
}
