//! Lists of runs by a condition: the lists and rows that a search reads.
//!
//! Invariant: a search reads one state of the database.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use goldseam_core::Status;
use goldseam_store::sql_search::{
    AttributeEntry, Dialect, ListEntry, SearchIndex, SearchSource, SearchedRow, SqlPart, SqlParts, TimeSpan,
    place, plan, search,
};
use goldseam_store::{Cursor, OrderKey, Page, Row, RunFilter};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, params_from_iter};

use crate::fault::SqliteFault;
use crate::list::SqliteQuery;
use crate::rows::SqliteColumns;
use crate::sql::{cell, text_of};

const DIALECT: Dialect = Dialect {
    tags: "run_tags AS c",
    attributes: "run_attributes AS c INDEXED BY run_attributes_run",
    attribute_name: "c.name",
    exists_end: ")",
    position: "instr",
};

/// What is read of a row. The summary is read only if the check holds.
const CHECKED: &str = ") THEN r.summary END, r.task, r.updated_at, r.status, r.as_of, r.id, ";

/// Returns one page of the runs that a condition selects.
pub(crate) fn runs(
    conn: &Connection,
    filter: &RunFilter,
    after: Option<&Cursor>,
) -> Result<Page<Row>, SqliteFault> {
    let moment = conn.unchecked_transaction()?;
    let mut plan = plan(filter, DIALECT);
    let source = SqliteSource { conn, filter, rows: rows_query(filter, plan.check.take()) };
    // No read of this source waits, so the search is ready at once.
    let searching = pin!(search(&source, filter, after, plan));
    let Poll::Ready(found) = searching.poll(&mut Context::from_waker(Waker::noop())) else {
        return Err(SqliteFault::Damaged("a search in a file waited".to_owned()));
    };
    moment.finish()?;
    found
}

/// The query that reads and checks a row; its last value is the number of the run.
fn rows_query(filter: &RunFilter, check: Option<SqlParts>) -> SqliteQuery {
    let mut query = SqliteQuery::new("SELECT CASE WHEN (");
    match check {
        None => query.add("1", []),
        Some(parts) => parts.into_iter().for_each(|part| match part {
            SqlPart::Sql(sql) => query.add(sql, []),
            SqlPart::Text(value) => query.add("?", [Value::Text(value)]),
            SqlPart::Integer(number) => query.add("?", [Value::Integer(number)]),
            SqlPart::Number(number) => query.add("?", [Value::Real(number)]),
        }),
    }
    query.add(CHECKED, []);
    query.add(
        match filter.order.key() {
            OrderKey::Recovered => "r.recovered_at",
            OrderKey::Created => "r.created_at",
        },
        [],
    );
    query.add(" FROM runs AS r WHERE r.summary IS NOT NULL AND r.rid = ?", []);
    query
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// The source of one search.
struct SqliteSource<'a> {
    conn: &'a Connection,
    filter: &'a RunFilter,
    rows: SqliteQuery,
}

impl SearchSource for SqliteSource<'_> {
    type Error = SqliteFault;

    fn entry_work(_: &SearchIndex) -> usize {
        1
    }

    async fn read(
        &self,
        list: &SearchIndex,
        span: TimeSpan,
        most: usize,
    ) -> Result<Vec<ListEntry>, SqliteFault> {
        let column = time_column(list);
        let mut query = SqliteQuery::new("SELECT ");
        query.add(column, []);
        query.add(", l.rid", []);
        add_list(&mut query, list);
        for (sign, bound) in [(" >= ?", span.low), (" <= ?", span.high)] {
            query.add(" AND ", []);
            query.add(column, []);
            query.add(sign, [Value::Integer(bound)]);
        }
        if !list.is_unordered() {
            query.add(" ORDER BY ", []);
            query.add(column, []);
            query.add(if self.filter.order.is_latest_first() { " DESC" } else { "" }, []);
        }
        query.add(" LIMIT ?", [Value::Integer(i64::try_from(most).unwrap_or(i64::MAX))]);
        let mut statement = self.conn.prepare_cached(&query.sql)?;
        let mut rows = statement.query(params_from_iter(query.values))?;
        let mut entries = Vec::new();
        while let Some(row) = rows.next()? {
            if let (ValueRef::Integer(at), ValueRef::Integer(rid)) = (row.get_ref(0)?, row.get_ref(1)?) {
                entries.push(ListEntry { at, rid });
            }
        }
        Ok(entries)
    }

    async fn look_up(
        &self,
        list: &SearchIndex,
        entries: &[ListEntry],
    ) -> Result<Option<Vec<ListEntry>>, SqliteFault> {
        let mut query = SqliteQuery::new("SELECT 1");
        add_list(&mut query, list);
        query.add(" AND ", []);
        query.add(time_column(list), []);
        query.add(" = ? AND l.rid = ?", []);
        let mut statement = self.conn.prepare_cached(&query.sql)?;
        let given = query.values.len();
        for (at, value) in query.values.iter().enumerate() {
            statement.raw_bind_parameter(at + 1, value)?;
        }
        let mut found = Vec::new();
        for entry in entries {
            statement.raw_bind_parameter(given + 1, entry.at)?;
            statement.raw_bind_parameter(given + 2, entry.rid)?;
            if statement.raw_query().next()?.is_some() {
                found.push(*entry);
            }
        }
        Ok(Some(found))
    }

    async fn rows(&self, entries: &[ListEntry]) -> Result<Vec<SearchedRow>, SqliteFault> {
        let mut statement = self.conn.prepare_cached(&self.rows.sql)?;
        let given = self.rows.values.len();
        for (at, value) in self.rows.values.iter().enumerate() {
            statement.raw_bind_parameter(at + 1, value)?;
        }
        let mut found = Vec::new();
        for entry in entries {
            statement.raw_bind_parameter(given + 1, entry.rid)?;
            let mut rows = statement.raw_query();
            let Some(row) = rows.next()? else { continue };
            let at = match cell(row, 6)? {
                Value::Integer(at) => Some(at),
                _ => None,
            };
            let Some(place) = place(self.filter, at, &text_of(row, 5)?.unwrap_or_default()) else { continue };
            let is_checked = row.get_ref(0)? != ValueRef::Null;
            let row = if is_checked { Some(SqliteColumns::read(row)?.parse()) } else { None };
            found.push(SearchedRow { place, row });
        }
        Ok(found)
    }
}

/// The time of an entry in the order of its list.
fn time_column(list: &SearchIndex) -> &'static str {
    match list {
        SearchIndex::Recovered => "l.recovered_at",
        _ => "l.created_at",
    }
}

/// Adds the table or the index of a list as `l`, and the condition under which it has a run.
fn add_list(query: &mut SqliteQuery, list: &SearchIndex) {
    const ATTRIBUTES: &str = " FROM run_attributes AS l WHERE l.name = ?";
    match list {
        SearchIndex::All => query.add(" FROM runs AS l INDEXED BY runs_created WHERE true", []),
        SearchIndex::Recovered => {
            query.add(" FROM runs AS l INDEXED BY runs_recovered WHERE l.recovered_at IS NOT NULL", []);
        }
        SearchIndex::Workflow(name) => {
            query.add(" FROM runs AS l INDEXED BY runs_workflow WHERE l.workflow = ?", [text(name)]);
        }
        SearchIndex::Status(status) => query.add(
            " FROM runs AS l INDEXED BY runs_status WHERE l.status <> 'completed' AND l.status = ?",
            [text(Status::as_str(*status))],
        ),
        SearchIndex::Cause(cause) => query.add(
            " FROM runs AS l INDEXED BY runs_cause WHERE l.cause IS NOT NULL AND l.cause = ?",
            [text(cause)],
        ),
        SearchIndex::Tag(key, value) => {
            query.add(" FROM run_tags AS l WHERE l.tag = ? AND l.value = ?", [text(key), text(value)]);
        }
        SearchIndex::Attribute(AttributeEntry { name, kind, text: value, number }) => {
            query.add(ATTRIBUTES, [text(name)]);
            let values = [text(kind), text(value), Value::Real(*number)];
            query.add(" AND l.kind = ? AND l.text = ? AND l.number = ?", values);
        }
        SearchIndex::Id(id) => query.add(" FROM runs AS l WHERE l.id = ?", [text(id)]),
        SearchIndex::Owner(owner) => query.add(
            " FROM runs AS l INDEXED BY runs_owner WHERE l.owner IS NOT NULL AND l.owner = ?",
            [text(owner)],
        ),
        SearchIndex::Parent(parent) => query.add(
            " FROM runs AS l INDEXED BY runs_parent WHERE l.parent IS NOT NULL AND l.parent = ?",
            [text(parent)],
        ),
        SearchIndex::Named(name) => query.add(ATTRIBUTES, [text(name)]),
        SearchIndex::Texts { name, low, end } => {
            query.add(ATTRIBUTES, [text(name)]);
            query.add(" AND l.kind = 't' AND l.text >= ?", [text(low)]);
            if let Some(end) = end {
                query.add(" AND l.text < ?", [text(end)]);
            }
        }
        SearchIndex::Range { name, kind, low, high } => {
            query.add(ATTRIBUTES, [text(name)]);
            let values = [text(kind), Value::Real(*low), Value::Real(*high)];
            query.add(" AND l.kind = ? AND l.text = '' AND l.number >= ? AND l.number <= ?", values);
        }
    }
}
