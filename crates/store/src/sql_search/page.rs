//! The page of a search.

use goldseam_core::RunId;

use crate::cursor::Cursor;
use crate::types::{Page, RecordKind, Row, RunFilter, Unreadable};

/// What a search found, and where it stopped.
#[derive(Debug)]
pub(super) struct SearchFound {
    /// The rows that match and the unreadable ones.
    pub(super) rows: Vec<(Cursor, Result<Row, String>)>,
    /// The place up to which every run was examined, if there may be more.
    pub(super) stopped: Option<Cursor>,
}

/// Returns the page from what a search found.
pub(super) fn page(filter: &RunFilter, found: SearchFound) -> Page<Row> {
    let is_latest_first = filter.order.is_latest_first();
    let mut rows = found.rows;
    rows.sort_by(|(left, _), (right, _)| if is_latest_first { right.cmp(left) } else { left.cmp(right) });
    rows.dedup_by(|(left, _), (right, _)| left.run == right.run);
    let limit = filter.limit as usize;
    let next = if rows.len() > limit {
        rows.truncate(limit);
        rows.last().map(|(place, _)| place.clone())
    } else {
        found.stopped
    };
    let mut page = Page { next: next.map(|place| place.to_string()), ..Page::default() };
    for (place, row) in rows {
        match row {
            Ok(row) => page.items.push(row),
            Err(reason) => page.unreadable.push(Unreadable::new(RecordKind::Row, place.run.as_str(), reason)),
        }
    }
    page
}

/// Returns the place of a row in the list.
pub fn place(filter: &RunFilter, at: Option<i64>, id: &str) -> Option<Cursor> {
    Some(Cursor { by: filter.order.key(), at: goldseam_core::Millis(at?), run: RunId::new(id).ok()? })
}
