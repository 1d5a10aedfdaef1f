//! Lists of runs: filters are static pieces of SQL, values are always bound.
//!
//! Invariant: the order is (moment, run) in every store, so a cursor of one store works in another.

use std::cmp::Ordering;

use goldseam_core::{Millis, RunId, Status};
use goldseam_store::{Cursor, OrderKey, Page, RecordKind, Row, RunFilter, RunOrder, StoreError, Unreadable};
use tokio_postgres::types::Type;

use crate::connection::Connection;
use crate::fault::Fault;
use crate::rows::RawRow;
use crate::sql::{Query, column, run_id};

const SELECT: &str = "SELECT r.summary, r.task, r.updated_at, r.id, r.status, r.as_of, ";
const PLAIN: &str = " FROM goldseam.runs AS r WHERE r.summary IS NOT NULL";
const TAGGED: &str = " FROM goldseam.run_tags AS t JOIN goldseam.runs AS r ON r.rid = t.rid \
    WHERE r.summary IS NOT NULL AND t.tag = ";
/// The cost of finding lost rows must depend on the number of lost rows, not of all rows.
const ROWLESS: &str = "SELECT r.id FROM goldseam.runs AS r WHERE r.summary IS NULL AND r.id > $1 \
    ORDER BY r.id LIMIT $2";

const STATUS_GAP: &str = "SELECT r.id FROM goldseam.runs AS r WHERE r.status <> 'completed'";
/// Every row, including lost ones.
const EVERY: &str = "SELECT r.summary, r.task, r.updated_at, r.id, r.status, r.as_of, r.rid \
    FROM goldseam.runs AS r WHERE r.rid > $1 ORDER BY r.rid LIMIT $2";

struct Found {
    /// Its position in the list; none if it is unreadable.
    at: Option<i64>,
    id: String,
    row: RawRow,
}

impl Found {
    fn order(&self, other: &Self, order: RunOrder) -> Ordering {
        let earliest = (self.at, &self.id).cmp(&(other.at, &other.id));
        if order.is_latest_first() { earliest.reverse() } else { earliest }
    }
}

/// Whether the filter has its own index: few runs share an owner, a parent, a tag or a cause.
fn is_narrow(filter: &RunFilter) -> bool {
    filter.owner.is_some() || filter.parent.is_some() || filter.tag.is_some() || filter.cause.is_some()
}

/// The column of the order; with a tag, that of the index of tags.
fn order_column(filter: &RunFilter) -> &'static str {
    match (filter.order.key(), &filter.tag) {
        (OrderKey::Created, None) => "r.created_at",
        (OrderKey::Created, Some(_)) => "t.created_at",
        (OrderKey::Recovered, _) => "r.recovered_at",
    }
}

/// Returns one page of runs.
pub(crate) async fn runs(
    connection: &Connection,
    filter: &RunFilter,
    after: Option<&Cursor>,
) -> Result<Page<Row>, StoreError> {
    let limit = filter.limit as usize;
    let is_one_query = is_narrow(filter) || filter.order.key() == OrderKey::Recovered;
    let mut found = Vec::new();
    if is_one_query || filter.statuses.is_empty() || filter.statuses.contains(&Status::Completed) {
        find(connection, &query(filter, after, None), &mut found).await?;
    } else {
        // One ordered query per status, merged: an `IN` would sort all rows for every page. The queries are not of one
        // moment: a run that changes its status meanwhile may occur twice, and counts once.
        for status in &filter.statuses {
            find(connection, &query(filter, after, Some(*status)), &mut found).await?;
        }
        found.sort_by(|left, right| left.order(right, filter.order));
        found.dedup_by(|left, right| left.id == right.id);
    }
    let has_more = found.len() > limit;
    found.truncate(limit);
    let cursor = |found: &Found| {
        let run = RunId::new(found.id.as_str()).ok()?;
        Some(Cursor { by: filter.order.key(), at: Millis(found.at?), run })
    };
    let next = found.iter().rev().find_map(cursor).filter(|_| has_more).map(|cursor| cursor.to_string());
    let mut page = Page { next, ..Page::default() };
    for Found { id, row, .. } in found {
        match row.parse() {
            Ok(row) => page.items.push(row),
            Err(reason) => page.unreadable.push(Unreadable::new(RecordKind::Row, id, reason)),
        }
    }
    Ok(page)
}

/// Lists runs without a row, or with an unknown status, in order of id.
pub(crate) async fn rowless(
    connection: &Connection,
    after: Option<&RunId>,
    limit: u32,
) -> Result<Vec<RunId>, StoreError> {
    // The empty text sorts before every id.
    let after = after.map_or("", |run| run.as_str());
    let most = i64::from(limit);
    let mut found: Vec<RunId> = Vec::new();
    for sql in [ROWLESS, unknown_statuses().as_str()] {
        let rows = connection.read(sql, &[(&after as _, Type::TEXT), (&most as _, Type::INT8)]).await?;
        // `unreadable` reports names that are not valid run ids.
        found.extend(rows.iter().filter_map(|row| run_id(row, 0).ok()));
    }
    found.sort();
    found.dedup();
    found.truncate(limit as usize);
    Ok(found)
}

/// Builds a query for rows with a status that this build does not know: the gaps between known statuses in the index.
fn unknown_statuses() -> String {
    let mut known: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
    known.sort_unstable();
    let quoted = |word: &str| ["'", word, "'"].concat();
    let first = known.first().map(|word| [STATUS_GAP, " AND r.status < ", &quoted(word)].concat());
    let between = known.windows(2).map(|pair| {
        [STATUS_GAP, " AND r.status > ", &quoted(pair[0]), " AND r.status < ", &quoted(pair[1])].concat()
    });
    let last = known.last().map(|word| [STATUS_GAP, " AND r.status > ", &quoted(word)].concat());
    let all: Vec<String> = first.into_iter().chain(between).chain(last).collect();
    ["SELECT s.id FROM (", &all.join(" UNION ALL "), ") AS s WHERE s.id > $1 ORDER BY s.id LIMIT $2"].concat()
}

/// Reads the next rows in order of their numbers. Returns the unreadable ones.
pub(crate) async fn unreadable(
    connection: &Connection,
    after: i64,
    limit: u32,
) -> Result<Page<Unreadable>, StoreError> {
    let most = i64::from(limit);
    let rows = connection.read(EVERY, &[(&after as _, Type::INT8), (&most as _, Type::INT8)]).await?;
    let mut page = Page::default();
    let unreadable = |row: &tokio_postgres::Row| -> Result<Option<Unreadable>, Fault> {
        let id: String = column(row, 3)?;
        if let Err(error) = RunId::new(id.as_str()) {
            return Ok(Some(Unreadable::new(RecordKind::Row, id, error)));
        }
        let raw = RawRow::read(row, 0, Some(4))?;
        let reason = raw.and_then(|raw| raw.parse().err());
        Ok(reason.map(|reason| Unreadable::new(RecordKind::Row, id, reason)))
    };
    for row in &rows {
        page.items.extend(unreadable(row).map_err(|fault| fault.to_read_error())?);
    }
    let last: Option<i64> = rows.last().and_then(|row| column(row, 6).ok());
    page.next = last.filter(|_| rows.len() == limit as usize).map(|last| last.to_string());
    Ok(page)
}

async fn find(connection: &Connection, query: &Query, found: &mut Vec<Found>) -> Result<(), StoreError> {
    let read = |row: &tokio_postgres::Row| -> Result<Option<Found>, Fault> {
        let Some(raw) = RawRow::read(row, 0, Some(4))? else { return Ok(None) };
        Ok(Some(Found { id: column(row, 3)?, at: column(row, 6)?, row: raw }))
    };
    for row in connection.read(&query.sql, &query.values()).await? {
        found.extend(read(&row).map_err(|fault| fault.to_read_error())?);
    }
    Ok(())
}

fn query(filter: &RunFilter, after: Option<&Cursor>, status: Option<Status>) -> Query {
    let mut query = Query::new(SELECT);
    query.add_if(order_column(filter), true);
    match &filter.tag {
        Some((key, value)) => {
            query.add_text(TAGGED, Some(key.as_str()));
            query.add_text(" AND t.value = ", Some(value));
        }
        None => query.add_if(PLAIN, true),
    }
    query.add_if(" AND r.recovered_at IS NOT NULL", filter.order.key() == OrderKey::Recovered);
    if let Some(status) = status {
        query.add_text(" AND r.status <> 'completed' AND r.status = ", Some(status.as_str()));
    } else if !filter.statuses.is_empty() {
        let statuses: Vec<String> = filter.statuses.iter().map(|status| status.as_str().to_owned()).collect();
        query.add_texts(" AND r.status = ANY ", Some(&statuses));
    }
    query.add_text(" AND r.workflow = ", filter.workflow.as_ref().map(|name| name.as_str()));
    query.add_text(" AND r.cause IS NOT NULL AND r.cause = ", filter.cause.as_deref());
    query.add_text(" AND r.owner IS NOT NULL AND r.owner = ", filter.owner.as_ref().map(|id| id.as_str()));
    query.add_text(" AND r.parent IS NOT NULL AND r.parent = ", filter.parent.as_ref().map(|id| id.as_str()));
    add_range(&mut query, filter, after);
    query
}

/// Adds bounds, order and limit.
fn add_range(query: &mut Query, filter: &RunFilter, after: Option<&Cursor>) {
    let column = order_column(filter);
    let latest_first = filter.order.is_latest_first();
    let piece = if filter.tag.is_some() { " AND t.created_at >= " } else { " AND r.created_at >= " };
    query.add_number(piece, filter.since.map(|since| since.0));
    if let Some(after) = after {
        query.add_if(" AND (", true);
        query.add_if(column, true);
        query.add_number(if latest_first { ", r.id) < (" } else { ", r.id) > (" }, Some(after.at.0));
        query.add_text(", ", Some(after.run.as_str()));
        query.add_if(")", true);
    }
    let direction = if latest_first { " DESC" } else { "" };
    for piece in [" ORDER BY ", column, direction, ", r.id", direction] {
        query.add_if(piece, true);
    }
    query.add_number(" LIMIT ", Some(i64::from(filter.limit) + 1));
}
