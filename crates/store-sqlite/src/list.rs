//! Lists of runs: filters are static pieces of SQL, values are always bound.
//!
//! Invariant: the order is (moment, run) in every store, so a cursor of one store works in another.

use goldseam_core::{RunId, Status, WorkflowName};
use goldseam_store::sql_list::{ListedRow, is_narrow, order_column, page, status_gaps, statuses_apart};
use goldseam_store::{Cursor, OrderKey, Page, RecordKind, Row, RunFilter, Unreadable};
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

use crate::fault::SqliteFault;
use crate::rows::SqliteColumns;
use crate::search;
use crate::sql::{cell, text_of};

const SELECT: &str = "SELECT r.summary, r.task, r.updated_at, r.status, r.as_of, r.id, ";
const PLAIN: &str = " FROM runs AS r WHERE r.summary IS NOT NULL";
const RECOVERED: &str = " FROM runs AS r INDEXED BY runs_recovered WHERE r.summary IS NOT NULL";
const TAGGED: &str = " FROM run_tags AS t CROSS JOIN runs AS r ON r.rid = t.rid \
    WHERE r.summary IS NOT NULL AND t.tag = ? AND t.value = ?";
/// The cost of finding lost rows must depend on the number of lost rows, not of all rows.
pub(crate) const ROWLESS: &str = "SELECT id FROM runs INDEXED BY runs_rowless \
    WHERE summary IS NULL AND id > ?1 ORDER BY id LIMIT ?2";

const STATUS_GAP: &str = "SELECT id FROM runs INDEXED BY runs_status WHERE status <> 'completed'";
/// Every row, including lost ones.
const EVERY: &str = "SELECT summary, task, updated_at, status, as_of, id, rid FROM runs WHERE rid > ?1 \
    ORDER BY rid LIMIT ?2";

/// Every run by status. The completed ones are all that no index of others has, so that no row is read.
const STATUS_COUNTS: &str = "SELECT status, sum(runs) FROM ( \
    SELECT status, count(*) AS runs FROM runs INDEXED BY runs_status WHERE status <> 'completed' GROUP BY status \
    UNION ALL SELECT status, -count(*) FROM runs INDEXED BY runs_rowless WHERE summary IS NULL \
        AND status <> 'completed' GROUP BY status \
    UNION ALL SELECT 'completed', count(*) FROM runs \
    UNION ALL SELECT 'completed', -count(*) FROM runs INDEXED BY runs_status WHERE status <> 'completed' \
    UNION ALL SELECT 'completed', -count(*) FROM runs INDEXED BY runs_rowless WHERE summary IS NULL \
        AND (status IS NULL OR status = 'completed')) GROUP BY status";
const STATUS_COUNTS_OF: &str = "SELECT status, count(*) FROM runs INDEXED BY runs_workflow \
    WHERE workflow = ?1 AND summary IS NOT NULL GROUP BY status";

/// A query under construction.
pub(crate) struct SqliteQuery {
    pub(crate) sql: String,
    pub(crate) values: Vec<Value>,
}

impl SqliteQuery {
    pub(crate) fn new(begin: &'static str) -> Self {
        Self { sql: begin.to_owned(), values: Vec::new() }
    }

    pub(crate) fn add(&mut self, piece: &'static str, values: impl IntoIterator<Item = Value>) {
        self.sql.push_str(piece);
        self.values.extend(values);
    }
}

/// Returns one page of runs.
pub(crate) fn runs(
    conn: &Connection,
    filter: &RunFilter,
    after: Option<&Cursor>,
) -> Result<Page<Row>, SqliteFault> {
    if filter.condition.is_some() {
        return search::runs(conn, filter, after);
    }
    let mut found = Vec::new();
    match statuses_apart(filter) {
        [] => find(conn, query(filter, after, None), &mut found)?,
        statuses => {
            let moment = conn.unchecked_transaction()?;
            for status in statuses {
                find(conn, query(filter, after, Some(*status)), &mut found)?;
            }
            moment.finish()?;
        }
    }
    Ok(page(filter, found, SqliteColumns::parse))
}

/// Counts the runs of a workflow, or all, by status. Leaves out statuses that this build does not know.
pub(crate) fn status_counts(
    conn: &Connection,
    workflow: Option<&WorkflowName>,
) -> Result<Vec<(Status, u64)>, SqliteFault> {
    let mut statement = match workflow {
        None => conn.prepare_cached(STATUS_COUNTS)?,
        Some(_) => conn.prepare_cached(STATUS_COUNTS_OF)?,
    };
    let mut rows = statement.query(params_from_iter(workflow.map(WorkflowName::as_str)))?;
    let mut counts = Vec::new();
    while let Some(row) = rows.next()? {
        let status = text_of(row, 0)?.and_then(|status| status.parse().ok());
        let count = u64::try_from(row.get::<_, i64>(1)?).unwrap_or_default();
        counts.extend(status.filter(|_| count > 0).map(|status| (status, count)));
    }
    Ok(counts)
}

/// Lists runs without a row, or with an unknown status, in order of id.
pub(crate) fn rowless(
    conn: &Connection,
    after: Option<&RunId>,
    limit: u32,
) -> Result<Vec<RunId>, SqliteFault> {
    // The empty text sorts before every id.
    let after = after.map_or("", |run| run.as_str());
    let mut found: Vec<RunId> = Vec::new();
    for sql in [ROWLESS, unknown_statuses().as_str()] {
        let mut statement = conn.prepare_cached(sql)?;
        let mut rows = statement.query(params![after, limit])?;
        while let Some(row) = rows.next()? {
            // `unreadable` reports names that are not valid run ids.
            found.extend(text_of(row, 0)?.and_then(|id| RunId::new(id).ok()));
        }
    }
    found.sort();
    found.dedup();
    found.truncate(limit as usize);
    Ok(found)
}

/// Builds a query for rows with a status that this build does not know: the gaps between known statuses in the index.
pub(crate) fn unknown_statuses() -> String {
    let gaps = status_gaps("status");
    let all: Vec<String> = gaps.iter().map(|gap| [STATUS_GAP, " AND ", gap].concat()).collect();
    ["SELECT id FROM (", &all.join(" UNION ALL "), ") WHERE id > ?1 ORDER BY id LIMIT ?2"].concat()
}

/// Reads the next rows in order of their numbers. Returns the unreadable ones.
pub(crate) fn unreadable(conn: &Connection, after: i64, limit: u32) -> Result<Page<Unreadable>, SqliteFault> {
    let mut statement = conn.prepare_cached(EVERY)?;
    let mut rows = statement.query(params![after, limit])?;
    let mut page = Page::default();
    let mut read = 0;
    let mut last = after;
    while let Some(row) = rows.next()? {
        read += 1;
        last = row.get(6)?;
        let id = text_of(row, 5)?;
        let Some(run) = id.as_deref().and_then(|id| RunId::new(id).ok()) else {
            let key = id.unwrap_or_else(|| format!("row {last} of table runs"));
            page.unreadable.push(Unreadable::new(RecordKind::Row, key, "the id is not a valid run id"));
            continue;
        };
        if row.get_ref(0)? == rusqlite::types::ValueRef::Null {
            continue;
        }
        if let Err(reason) = SqliteColumns::read(row)?.parse() {
            page.unreadable.push(Unreadable::new(RecordKind::Row, run.as_str(), reason));
        }
    }
    page.items = std::mem::take(&mut page.unreadable);
    page.next = (read == limit && limit > 0).then(|| last.to_string());
    Ok(page)
}

fn find(
    conn: &Connection,
    query: SqliteQuery,
    found: &mut Vec<ListedRow<SqliteColumns>>,
) -> Result<(), SqliteFault> {
    let mut statement = conn.prepare_cached(&query.sql)?;
    let mut rows = statement.query(params_from_iter(query.values))?;
    while let Some(row) = rows.next()? {
        let at = match cell(row, 6)? {
            Value::Integer(at) => Some(at),
            _ => None,
        };
        let id = text_of(row, 5)?.unwrap_or_default();
        found.push(ListedRow { id, at, columns: SqliteColumns::read(row)? });
    }
    Ok(())
}

pub(crate) fn query(filter: &RunFilter, after: Option<&Cursor>, status: Option<Status>) -> SqliteQuery {
    let mut query = SqliteQuery::new(SELECT);
    query.add(order_column(filter), []);
    match &filter.tag {
        Some((key, value)) => query.add(TAGGED, [text(key.as_str()), text(value)]),
        None if filter.order.key() == OrderKey::Recovered && !is_narrow(filter) => query.add(RECOVERED, []),
        None => query.add(PLAIN, []),
    }
    if filter.order.key() == OrderKey::Recovered {
        query.add(" AND r.recovered_at IS NOT NULL", []);
    }
    if let Some(status) = status {
        query.add(" AND r.status = ? AND r.status <> 'completed'", [text(status.as_str())]);
    } else if !filter.statuses.is_empty() {
        let statuses: Vec<&str> = filter.statuses.iter().map(|status| status.as_str()).collect();
        let list = serde_json::to_string(&statuses).unwrap_or_default();
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

/// Adds bounds, order and limit.
fn add_range(query: &mut SqliteQuery, filter: &RunFilter, after: Option<&Cursor>) {
    let column = order_column(filter);
    let (comparison, direction) =
        if filter.order.is_latest_first() { (", r.id) < (?, ?)", " DESC") } else { (", r.id) > (?, ?)", "") };
    if let Some(since) = filter.since {
        let piece = if filter.tag.is_some() { " AND t.created_at >= ?" } else { " AND r.created_at >= ?" };
        query.add(piece, [Value::Integer(since.0)]);
    }
    if let Some(after) = after {
        query.add(" AND (", []);
        query.add(column, []);
        query.add(comparison, [Value::Integer(after.at.0), text(after.run.as_str())]);
    }
    for piece in [" ORDER BY ", column, direction, ", r.id", direction] {
        query.add(piece, []);
    }
    query.add(" LIMIT ?", [Value::Integer(i64::from(filter.limit) + 1)]);
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}
