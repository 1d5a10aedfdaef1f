//! Cached rows: written with an append or by compare-and-set, listed by their content.

use std::ops::Bound;

use goldseam_core::{Millis, RunId, Summary, TaskId};

use super::MemoryState;
use super::queue::is_as_expected;
use crate::api::{Expect, Page, RecordKind, Row, RunFilter, Unreadable, Written};
use crate::cursor::Cursor;
use crate::error::StoreError;

impl MemoryState {
    /// Writes a row. Only the store sets `updated_at`: the present time, or one more than before if that is not
    /// later.
    pub(super) fn write_row(&mut self, summary: Summary, task: Option<TaskId>) {
        let now = self.now;
        let Some(run) = self.runs.get_mut(&summary.run) else { return };
        let before = run.garbled.take().or(run.row.take());
        let least = before.map_or(Millis(1), |row| Millis(row.updated_at.0 + 1));
        run.row = Some(Row { summary, task, updated_at: now.max(least) });
    }

    /// Writes a row by compare-and-set. A run without a log gets no row.
    pub(super) fn put_row(&mut self, row: Row, expect: Expect) -> Written<Row> {
        let Some(run) = self.runs.get(&row.summary.run) else { return Written::Lost(None) };
        if !is_as_expected(run.row.as_ref().map(Row::version), expect) {
            return Written::Lost(run.row.clone());
        }
        self.write_row(row.summary, row.task);
        Written::Done
    }

    pub(super) fn list_runs(&self, filter: &RunFilter) -> Result<Page<Row>, StoreError> {
        let after = filter.cursor()?;
        let latest_first = filter.order.is_latest_first();
        let readable = self.runs.values().filter_map(|run| Some((run.row.as_ref()?, true)));
        let garbled = self.runs.values().filter_map(|run| Some((run.garbled.as_ref()?, false)));
        let listed = readable.chain(garbled).filter(|(row, _)| filter.selects(row));
        let mut found: Vec<(Cursor, (&Row, bool))> =
            listed.filter_map(|(row, is)| Some((Cursor::of(row, filter.order)?, (row, is)))).collect();
        found.sort_by(|(left, _), (right, _)| left.cmp(right));
        if latest_first {
            found.reverse();
        }
        found.retain(|(place, _)| match &after {
            None => true,
            Some(after) if latest_first => place < after,
            Some(after) => place > after,
        });
        let more = found.len() > filter.limit as usize;
        found.truncate(filter.limit as usize);
        let next = found.last().filter(|_| more).map(|(place, _)| place.to_string());
        let (items, garbled): (Vec<_>, Vec<_>) =
            found.into_iter().map(|(_, found)| found).partition(|(_, is_readable)| *is_readable);
        let name = |(row, _): (&Row, bool)| {
            Unreadable::new(RecordKind::Row, row.summary.run.as_str(), super::damage::REASON)
        };
        Ok(Page {
            items: items.into_iter().map(|(row, _)| row.clone()).collect(),
            next,
            unreadable: garbled.into_iter().map(name).collect(),
        })
    }

    pub(super) fn rowless(&self, after: Option<&RunId>, limit: u32) -> Vec<RunId> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.runs.range::<RunId, _>((from, Bound::Unbounded));
        let lost =
            rest.filter(|(_, run)| run.row.is_none() && run.garbled.is_none()).map(|(id, _)| id.clone());
        lost.take(limit as usize).collect()
    }
}
