//! Lists of runs: filters as static pieces of SQL, values always bound.
//!
//! Invariant: the order is (`created_at`, run), the same in every store, so a cursor is good anywhere.

use std::cmp::Ordering;

use goldseam_core::{RunId, Status};
use goldseam_store::{Cursor, Page, Row, RunFilter, RunOrder, StoreError};
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

use crate::fault::Fault;
use crate::runs::RawRow;
use crate::tasks::id;

const PLAIN: &str = "SELECT r.summary, r.task, r.updated_at, r.created_at, r.id FROM runs AS r \
    WHERE r.summary IS NOT NULL";
const TAGGED: &str = "SELECT r.summary, r.task, r.updated_at, t.created_at, r.id \
    FROM run_tags AS t CROSS JOIN runs AS r ON r.rid = t.rid \
    WHERE r.summary IS NOT NULL AND t.tag = ? AND t.value = ?";
/// Few rows are ever lost: finding them must cost what was lost, not what is there.
pub(crate) const ROWLESS: &str = "SELECT id FROM runs INDEXED BY runs_rowless \
    WHERE summary IS NULL AND id > ?1 ORDER BY id LIMIT ?2";

/// A query under construction.
struct Query {
    sql: String,
    values: Vec<Value>,
}

impl Query {
    fn add(&mut self, piece: &'static str, values: impl IntoIterator<Item = Value>) {
        self.sql.push_str(piece);
        self.values.extend(values);
    }
}

struct Found {
    created_at: i64,
    id: String,
    row: RawRow,
}

impl Found {
    fn order(&self, other: &Self, order: RunOrder) -> Ordering {
        let oldest = (self.created_at, &self.id).cmp(&(other.created_at, &other.id));
        if order == RunOrder::Newest { oldest.reverse() } else { oldest }
    }
}

/// A cursor that this list can begin behind.
pub(crate) fn parse_cursor(filter: &RunFilter) -> Result<Option<Cursor>, StoreError> {
    filter.after.as_deref().map(str::parse).transpose()
}

/// One page.
pub(crate) fn runs(
    conn: &Connection,
    filter: &RunFilter,
    after: Option<&Cursor>,
) -> Result<Page<Row>, Fault> {
    let limit = filter.limit as usize;
    let mut found = Vec::new();
    // Few runs have the same owner, parent, tag or cause; their own index is better than any status's.
    let narrow =
        filter.owner.is_some() || filter.parent.is_some() || filter.tag.is_some() || filter.cause.is_some();
    if narrow || filter.statuses.is_empty() || filter.statuses.contains(&Status::Completed) {
        find(conn, query(filter, after, None), &mut found)?;
    } else {
        // One ordered walk per status, merged: an `IN` would sort all of them for every page.
        let moment = conn.unchecked_transaction()?;
        for status in &filter.statuses {
            find(conn, query(filter, after, Some(*status)), &mut found)?;
        }
        moment.finish()?;
        found.sort_by(|left, right| left.order(right, filter.order));
        found.dedup_by(|left, right| left.id == right.id);
    }
    let more = found.len() > limit;
    found.truncate(limit);
    let items = found.into_iter().map(|found| found.row.parse()).collect::<Result<Vec<Row>, Fault>>()?;
    let next = items.last().filter(|_| more).map(|row| Cursor::of(row).to_string());
    Ok(Page { items, next })
}

/// Runs without a row, in order of id.
pub(crate) fn rowless(conn: &Connection, after: Option<&RunId>, limit: u32) -> Result<Vec<RunId>, Fault> {
    let mut statement = conn.prepare_cached(ROWLESS)?;
    // Every id comes after the empty text.
    let found =
        statement.query_map(params![after.map_or("", |run| run.as_str()), limit], |row| id(row, 0))?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

fn find(conn: &Connection, query: Query, found: &mut Vec<Found>) -> Result<(), Fault> {
    let mut statement = conn.prepare_cached(&query.sql)?;
    let mut rows = statement.query(params_from_iter(query.values))?;
    while let Some(row) = rows.next()? {
        found.push(Found { created_at: row.get(3)?, id: row.get(4)?, row: RawRow::read(row)? });
    }
    Ok(())
}

fn query(filter: &RunFilter, after: Option<&Cursor>, status: Option<Status>) -> Query {
    let mut query = match &filter.tag {
        None => Query { sql: PLAIN.to_owned(), values: Vec::new() },
        Some((key, value)) => Query { sql: TAGGED.to_owned(), values: vec![text(key.as_str()), text(value)] },
    };
    if let Some(status) = status {
        query.add(" AND r.status = ? AND r.status <> 'completed'", [text(status.as_str())]);
    } else if !filter.statuses.is_empty() {
        let words: Vec<&str> = filter.statuses.iter().map(|status| status.as_str()).collect();
        let list = serde_json::to_string(&words).unwrap_or_default();
        query.add(" AND r.status IN (SELECT value FROM json_each(?))", [Value::Text(list)]);
    }
    if let Some(workflow) = &filter.workflow {
        query.add(" AND r.workflow = ?", [text(workflow.as_str())]);
    }
    if let Some(cause) = &filter.cause {
        query.add(" AND r.cause = ?", [text(cause)]);
    }
    if let Some(owner) = &filter.owner {
        query.add(" AND r.owner = ?", [text(owner.as_str())]);
    }
    if let Some(parent) = &filter.parent {
        query.add(" AND r.parent = ?", [text(parent.as_str())]);
    }
    add_range(&mut query, filter, after);
    query
}

/// Bounds, order and limit; with a tag the order is that of the tag's own index.
fn add_range(query: &mut Query, filter: &RunFilter, after: Option<&Cursor>) {
    let tagged = filter.tag.is_some();
    if let Some(since) = filter.since {
        query.add(
            if tagged { " AND t.created_at >= ?" } else { " AND r.created_at >= ?" },
            [Value::Integer(since.0)],
        );
    }
    if let Some(after) = after {
        let piece = match (tagged, filter.order) {
            (true, RunOrder::Newest) => " AND (t.created_at, r.id) < (?, ?)",
            (true, RunOrder::Oldest) => " AND (t.created_at, r.id) > (?, ?)",
            (false, RunOrder::Newest) => " AND (r.created_at, r.id) < (?, ?)",
            (false, RunOrder::Oldest) => " AND (r.created_at, r.id) > (?, ?)",
        };
        query.add(piece, [Value::Integer(after.created_at.0), text(after.run.as_str())]);
    }
    let piece = match (tagged, filter.order) {
        (true, RunOrder::Newest) => " ORDER BY t.created_at DESC, r.id DESC LIMIT ?",
        (true, RunOrder::Oldest) => " ORDER BY t.created_at, r.id LIMIT ?",
        (false, RunOrder::Newest) => " ORDER BY r.created_at DESC, r.id DESC LIMIT ?",
        (false, RunOrder::Oldest) => " ORDER BY r.created_at, r.id LIMIT ?",
    };
    query.add(piece, [Value::Integer(i64::from(filter.limit) + 1)]);
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}
