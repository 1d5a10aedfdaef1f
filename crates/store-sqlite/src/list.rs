//! Lists of runs: filters as static pieces of SQL, values always bound.
//!
//! Invariant: the order is (a moment, run), the same in every store, so a cursor is good anywhere.

use std::cmp::Ordering;

use goldseam_core::{RunId, Status};
use goldseam_store::{Cursor, Moment, Page, Row, RunFilter, RunOrder};
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

use crate::fault::Fault;
use crate::runs::RawRow;
use crate::tasks::id;

const SELECT: &str = "SELECT r.summary, r.task, r.updated_at, r.id, ";
const PLAIN: &str = " FROM runs AS r WHERE r.summary IS NOT NULL";
const RECOVERED: &str = " FROM runs AS r INDEXED BY runs_recovered WHERE r.summary IS NOT NULL";
const TAGGED: &str = " FROM run_tags AS t CROSS JOIN runs AS r ON r.rid = t.rid \
    WHERE r.summary IS NOT NULL AND t.tag = ? AND t.value = ?";
/// Few rows are ever lost: finding them must cost what was lost, not what is there.
pub(crate) const ROWLESS: &str = "SELECT id FROM runs INDEXED BY runs_rowless \
    WHERE summary IS NULL AND id > ?1 ORDER BY id LIMIT ?2";

/// A query under construction.
pub(crate) struct Query {
    pub(crate) sql: String,
    values: Vec<Value>,
}

impl Query {
    fn add(&mut self, piece: &'static str, values: impl IntoIterator<Item = Value>) {
        self.sql.push_str(piece);
        self.values.extend(values);
    }
}

struct Found {
    at: i64,
    id: String,
    row: RawRow,
}

impl Found {
    fn order(&self, other: &Self, order: RunOrder) -> Ordering {
        let earliest = (self.at, &self.id).cmp(&(other.at, &other.id));
        if order.is_latest_first() { earliest.reverse() } else { earliest }
    }
}

/// Few runs have the same owner, parent, tag or cause; their own index is better than any other.
fn is_narrow(filter: &RunFilter) -> bool {
    filter.owner.is_some() || filter.parent.is_some() || filter.tag.is_some() || filter.cause.is_some()
}

/// The column that the list goes by; with a tag the order is that of the tag's own index.
fn column(filter: &RunFilter) -> &'static str {
    match (filter.order.moment(), &filter.tag) {
        (Moment::Created, None) => "r.created_at",
        (Moment::Created, Some(_)) => "t.created_at",
        (Moment::Recovered, _) => "r.recovered_at",
    }
}

/// One page.
pub(crate) fn runs(
    conn: &Connection,
    filter: &RunFilter,
    after: Option<&Cursor>,
) -> Result<Page<Row>, Fault> {
    let limit = filter.limit as usize;
    let mut found = Vec::new();
    let one_walk = is_narrow(filter) || filter.order.moment() == Moment::Recovered;
    if one_walk || filter.statuses.is_empty() || filter.statuses.contains(&Status::Completed) {
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
    let next = items.last().filter(|_| more).and_then(|row| Cursor::of(row, filter.order));
    let next = next.map(|cursor| cursor.to_string());
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
        found.push(Found { id: row.get(3)?, at: row.get(4)?, row: RawRow::read(row)? });
    }
    Ok(())
}

pub(crate) fn query(filter: &RunFilter, after: Option<&Cursor>, status: Option<Status>) -> Query {
    let mut query = Query { sql: SELECT.to_owned(), values: Vec::new() };
    query.add(column(filter), []);
    match &filter.tag {
        Some((key, value)) => query.add(TAGGED, [text(key.as_str()), text(value)]),
        None if filter.order.moment() == Moment::Recovered && !is_narrow(filter) => query.add(RECOVERED, []),
        None => query.add(PLAIN, []),
    }
    if filter.order.moment() == Moment::Recovered {
        query.add(" AND r.recovered_at IS NOT NULL", []);
    }
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

/// Bounds, order and limit.
fn add_range(query: &mut Query, filter: &RunFilter, after: Option<&Cursor>) {
    let column = column(filter);
    let (less_or_more, direction) =
        if filter.order.is_latest_first() { (", r.id) < (?, ?)", " DESC") } else { (", r.id) > (?, ?)", "") };
    if let Some(since) = filter.since {
        let piece = if filter.tag.is_some() { " AND t.created_at >= ?" } else { " AND r.created_at >= ?" };
        query.add(piece, [Value::Integer(since.0)]);
    }
    if let Some(after) = after {
        query.add(" AND (", []);
        query.add(column, []);
        query.add(less_or_more, [Value::Integer(after.at.0), text(after.run.as_str())]);
    }
    for piece in [" ORDER BY ", column, direction, ", r.id", direction] {
        query.add(piece, []);
    }
    query.add(" LIMIT ?", [Value::Integer(i64::from(filter.limit) + 1)]);
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}
