//! Lists of runs: filters are static pieces of SQL, values are always bound.
//!
//! Invariant: the order is (moment, run) in every store, so a cursor of one store works in another.

use goldseam_core::{RunId, Status, WorkflowName};
use goldseam_store::sql_list::{ListedRow, order_column, page, status_gaps, statuses_apart};
use goldseam_store::{Cursor, OrderKey, Page, RecordKind, Row, RunFilter, StoreError, Unreadable};
use tokio_postgres::types::Type;

use crate::connection::PgConnection;
use crate::fault::PgFault;
use crate::rows::PgColumns;
use crate::search;
use crate::sql::{PgQuery, column, run_id};

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

/// Every run by status. The completed ones are all that no index of others has, so that no row is read.
const STATUS_COUNTS: &str = "SELECT s.status, sum(s.runs)::bigint FROM ( \
    SELECT r.status, count(*) AS runs FROM goldseam.runs AS r WHERE r.status <> 'completed' GROUP BY r.status \
    UNION ALL SELECT r.status, -count(*) FROM goldseam.runs AS r WHERE r.summary IS NULL \
        AND r.status <> 'completed' GROUP BY r.status \
    UNION ALL SELECT 'completed', count(*) FROM goldseam.runs AS r \
    UNION ALL SELECT 'completed', -count(*) FROM goldseam.runs AS r WHERE r.status <> 'completed' \
    UNION ALL SELECT 'completed', -count(*) FROM goldseam.runs AS r WHERE r.summary IS NULL \
        AND (r.status IS NULL OR r.status = 'completed')) AS s GROUP BY s.status";
const STATUS_COUNTS_OF: &str = "SELECT r.status, count(*) FROM goldseam.runs AS r \
    WHERE r.workflow = $1 AND r.summary IS NOT NULL GROUP BY r.status";

/// Returns one page of runs.
pub(crate) async fn runs(
    connection: &PgConnection,
    filter: &RunFilter,
    after: Option<&Cursor>,
) -> Result<Page<Row>, StoreError> {
    if filter.condition.is_some() {
        return search::runs(connection, filter, after).await;
    }
    let mut found = Vec::new();
    match statuses_apart(filter) {
        [] => find(connection, &query(filter, after, None), &mut found).await?,
        statuses => {
            for status in statuses {
                find(connection, &query(filter, after, Some(*status)), &mut found).await?;
            }
        }
    }
    Ok(page(filter, found, PgColumns::parse))
}

/// Counts the runs of a workflow, or all, by status. Leaves out statuses that this build does not know.
pub(crate) async fn status_counts(
    connection: &PgConnection,
    workflow: Option<&WorkflowName>,
) -> Result<Vec<(Status, u64)>, StoreError> {
    let rows = match workflow.map(WorkflowName::as_str) {
        None => connection.read(STATUS_COUNTS, &[]).await?,
        Some(workflow) => connection.read(STATUS_COUNTS_OF, &[(&workflow as _, Type::TEXT)]).await?,
    };
    let mut counts = Vec::new();
    for row in &rows {
        let status: Option<String> = column(row, 0).map_err(|fault| fault.to_read_error())?;
        let count: i64 = column(row, 1).map_err(|fault| fault.to_read_error())?;
        let count = u64::try_from(count).unwrap_or_default();
        let status = status.and_then(|status| status.parse().ok());
        counts.extend(status.filter(|_| count > 0).map(|status| (status, count)));
    }
    Ok(counts)
}

/// Lists runs without a row, or with an unknown status, in order of id.
pub(crate) async fn rowless(
    connection: &PgConnection,
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
    let gaps = status_gaps("r.status");
    let all: Vec<String> = gaps.iter().map(|gap| [STATUS_GAP, " AND ", gap].concat()).collect();
    ["SELECT s.id FROM (", &all.join(" UNION ALL "), ") AS s WHERE s.id > $1 ORDER BY s.id LIMIT $2"].concat()
}

/// Reads the next rows in order of their numbers. Returns the unreadable ones.
pub(crate) async fn unreadable(
    connection: &PgConnection,
    after: i64,
    limit: u32,
) -> Result<Page<Unreadable>, StoreError> {
    let most = i64::from(limit);
    let rows = connection.read(EVERY, &[(&after as _, Type::INT8), (&most as _, Type::INT8)]).await?;
    let mut page = Page::default();
    let unreadable = |row: &tokio_postgres::Row| -> Result<Option<Unreadable>, PgFault> {
        let id: String = column(row, 3)?;
        if let Err(error) = RunId::new(id.as_str()) {
            return Ok(Some(Unreadable::new(RecordKind::Row, id, error)));
        }
        let raw = PgColumns::read(row, 0, Some(4))?;
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

async fn find(
    connection: &PgConnection,
    query: &PgQuery,
    found: &mut Vec<ListedRow<PgColumns>>,
) -> Result<(), StoreError> {
    let read = |row: &tokio_postgres::Row| -> Result<Option<ListedRow<PgColumns>>, PgFault> {
        let Some(columns) = PgColumns::read(row, 0, Some(4))? else { return Ok(None) };
        Ok(Some(ListedRow { id: column(row, 3)?, at: column(row, 6)?, columns }))
    };
    for row in connection.read(&query.sql, &query.values()).await? {
        found.extend(read(&row).map_err(|fault| fault.to_read_error())?);
    }
    Ok(())
}

fn query(filter: &RunFilter, after: Option<&Cursor>, status: Option<Status>) -> PgQuery {
    let mut query = PgQuery::new(SELECT);
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
fn add_range(query: &mut PgQuery, filter: &RunFilter, after: Option<&Cursor>) {
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
