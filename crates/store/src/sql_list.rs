//! Lists of runs in a database: which queries a page needs, and the page from the rows that they found.

use std::cmp::Ordering;

use goldseam_core::{Millis, RunId, Status};

use crate::cursor::{Cursor, OrderKey};
use crate::types::{Page, RecordKind, Row, RunFilter, RunOrder, Unreadable};

/// A row that a query found, with its columns as `C`.
#[derive(Debug)]
pub struct ListedRow<C> {
    /// Its time in the order of the list; none if it is unreadable.
    pub at: Option<i64>,
    /// The id of the run.
    pub id: String,
    /// Its columns, not decoded.
    pub columns: C,
}

impl<C> ListedRow<C> {
    fn order(&self, other: &Self, order: RunOrder) -> Ordering {
        let earliest = (self.at, &self.id).cmp(&(other.at, &other.id));
        if order.is_latest_first() { earliest.reverse() } else { earliest }
    }
}

/// Returns whether the filter has its own index: few runs share an owner, a parent, a tag or a cause.
pub fn is_narrow(filter: &RunFilter) -> bool {
    filter.owner.is_some() || filter.parent.is_some() || filter.tag.is_some() || filter.cause.is_some()
}

/// Returns the column of the order; with a tag, that of the index of tags.
pub fn order_column(filter: &RunFilter) -> &'static str {
    match (filter.order.key(), &filter.tag) {
        (OrderKey::Created, None) => "r.created_at",
        (OrderKey::Created, Some(_)) => "t.created_at",
        (OrderKey::Recovered, _) => "r.recovered_at",
    }
}

/// Returns the statuses that need a query each; empty if one query suffices. Ordered queries, merged, are cheaper than
/// an `IN`, which would sort all rows for every page.
pub fn statuses_apart(filter: &RunFilter) -> &[Status] {
    let is_one_query = is_narrow(filter) || filter.order.key() == OrderKey::Recovered;
    if is_one_query || filter.statuses.contains(&Status::Completed) { &[] } else { &filter.statuses }
}

/// Returns the page from all rows that the queries found. A run that changed its status between two queries may have
/// been found twice, and counts once.
pub fn page<C>(
    filter: &RunFilter,
    mut found: Vec<ListedRow<C>>,
    decode: impl Fn(C) -> Result<Row, String>,
) -> Page<Row> {
    if !statuses_apart(filter).is_empty() {
        found.sort_by(|left, right| left.order(right, filter.order));
        found.dedup_by(|left, right| left.id == right.id);
    }
    let limit = filter.limit as usize;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let cursor = |found: &ListedRow<C>| {
        let run = RunId::new(found.id.as_str()).ok()?;
        Some(Cursor { by: filter.order.key(), at: Millis(found.at?), run })
    };
    let next = found.iter().rev().find_map(cursor).filter(|_| has_more).map(|cursor| cursor.to_string());
    let mut page = Page { next, ..Page::default() };
    for ListedRow { id, columns, .. } in found {
        match decode(columns) {
            Ok(row) => page.items.push(row),
            Err(reason) => page.unreadable.push(Unreadable::new(RecordKind::Row, id, reason)),
        }
    }
    page
}

/// Returns the conditions under which the column has a status that this build does not know: the gaps between known
/// statuses in the index.
pub fn status_gaps(column: &str) -> Vec<String> {
    let mut known: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
    known.sort_unstable();
    let first = known.first().map(|word| format!("{column} < '{word}'"));
    let between =
        known.windows(2).map(|pair| format!("{column} > '{}' AND {column} < '{}'", pair[0], pair[1]));
    let last = known.last().map(|word| format!("{column} > '{word}'"));
    first.into_iter().chain(between).chain(last).collect()
}
