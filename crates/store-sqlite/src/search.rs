//! Lists of runs by a condition: walks one index in the order of the list, and stops after many rows.

use goldseam_core::Status;
use goldseam_store::sql_search::{
    AttributeEntry, CreatedBounds, DECODE_MAX, Dialect, PROBE_MAX, Plan, RANGE_MAX, SCAN_MAX, SearchIndex,
    SqlPart, Walk, merged, place, plan,
};
use goldseam_store::{Cursor, OrderKey, Page, Row, RunFilter};
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use crate::fault::SqliteFault;
use crate::list::SqliteQuery;
use crate::rows::SqliteColumns;
use crate::sql::{cell, text_of};

const DIALECT: Dialect = Dialect { tags: "run_tags", attributes: "run_attributes", position: "instr" };

/// What the walk reads. The summary is read only if the check holds.
const CHECKED: &str = ") THEN r.summary END, r.task, r.updated_at, r.status, r.as_of, r.id, ";

/// Returns one page of the runs that a condition selects.
pub(crate) fn runs(
    conn: &Connection,
    filter: &RunFilter,
    after: Option<&Cursor>,
) -> Result<Page<Row>, SqliteFault> {
    let moment = conn.unchecked_transaction()?;
    let Plan { drivers, check, created } = plan(filter, DIALECT);
    let driver = choose(conn, drivers)?;
    let statuses: Vec<Option<Status>> = match &driver {
        SearchIndex::Status(statuses) => statuses.iter().copied().map(Some).collect(),
        _ => vec![None],
    };
    let share = statuses.len().max(1);
    let mut walks = Vec::new();
    for status in statuses {
        let scans = SCAN_MAX / share;
        let decodes = DECODE_MAX / share;
        let walker = SqliteWalker { conn, filter, after, created, status, scans, decodes };
        walks.push(walker.walk(&driver, check.as_deref())?);
    }
    moment.finish()?;
    Ok(merged(filter, walks))
}

/// Chooses the index with the fewest entries for this search.
fn choose(conn: &Connection, drivers: Vec<SearchIndex>) -> Result<SearchIndex, SqliteFault> {
    let is_alone = drivers.len() == 1;
    let mut best: Option<(usize, SearchIndex)> = None;
    for driver in drivers {
        let most = if driver.is_unordered() { RANGE_MAX } else { PROBE_MAX };
        if is_alone && !driver.is_unordered() {
            return Ok(driver);
        }
        let count = count(conn, &driver, most)?;
        if driver.is_unordered() && count > RANGE_MAX {
            continue;
        }
        if best.as_ref().is_none_or(|(fewest, _)| count < *fewest) {
            best = Some((count, driver));
        }
        if best.as_ref().is_some_and(|(fewest, _)| *fewest == 0) {
            break;
        }
    }
    Ok(best.map_or(SearchIndex::All, |(_, driver)| driver))
}

/// Counts the entries of an index, up to one more than `most`.
fn count(conn: &Connection, driver: &SearchIndex, most: usize) -> Result<usize, SqliteFault> {
    let mut query = SqliteQuery::new("SELECT count(*) FROM (SELECT 1");
    match driver {
        SearchIndex::Status(statuses) => {
            add_source(&mut query, driver, None);
            query.add(" AND r.status IN (SELECT value FROM json_each(?))", [status_list(statuses)]);
        }
        // The entries themselves: a count of distinct runs would read them all.
        SearchIndex::Named(name) => query.add(" FROM run_attributes AS a WHERE a.name = ?", [text(name)]),
        SearchIndex::Range { name, kind, low, high } => query.add(
            " FROM run_attributes AS a WHERE a.name = ? AND a.kind = ? AND a.text = '' AND a.number >= ? \
             AND a.number <= ?",
            [text(name), text(kind), Value::Real(*low), Value::Real(*high)],
        ),
        driver => add_source(&mut query, driver, None),
    }
    query.add(" LIMIT ?)", [integer(most + 1)]);
    let mut statement = conn.prepare_cached(&query.sql)?;
    let count: i64 = statement.query_row(params_from_iter(query.values), |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or_default())
}

fn status_list(statuses: &[Status]) -> Value {
    let words: Vec<&str> = statuses.iter().map(|status| status.as_str()).collect();
    Value::Text(serde_json::to_string(&words).unwrap_or_default())
}

fn integer(number: usize) -> Value {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// Adds the table and the index, and the condition under which it has the run.
fn add_source(query: &mut SqliteQuery, driver: &SearchIndex, status: Option<Status>) {
    match driver {
        SearchIndex::All => query.add(" FROM runs AS r WHERE r.summary IS NOT NULL", []),
        SearchIndex::Id(id) => query.add(" FROM runs AS r WHERE r.summary IS NOT NULL AND r.id = ?", [text(id)]),
        SearchIndex::Workflow(name) => query.add(
            " FROM runs AS r INDEXED BY runs_workflow WHERE r.summary IS NOT NULL AND r.workflow = ?",
            [text(name)],
        ),
        SearchIndex::Status(_) => {
            query.add(" FROM runs AS r INDEXED BY runs_status WHERE r.summary IS NOT NULL AND r.status <> 'completed'", []);
            if let Some(status) = status {
                query.add(" AND r.status = ?", [text(status.as_str())]);
            }
        }
        SearchIndex::Cause(cause) => query.add(
            " FROM runs AS r INDEXED BY runs_cause WHERE r.summary IS NOT NULL AND r.cause IS NOT NULL AND r.cause = ?",
            [text(cause)],
        ),
        SearchIndex::Owner(owner) => query.add(
            " FROM runs AS r INDEXED BY runs_owner WHERE r.summary IS NOT NULL AND r.owner IS NOT NULL AND r.owner = ?",
            [text(owner)],
        ),
        SearchIndex::Parent(parent) => query.add(
            " FROM runs AS r INDEXED BY runs_parent WHERE r.summary IS NOT NULL AND r.parent IS NOT NULL AND r.parent = ?",
            [text(parent)],
        ),
        SearchIndex::Tag(key, value) => query.add(
            " FROM run_tags AS t CROSS JOIN runs AS r ON r.rid = t.rid \
             WHERE r.summary IS NOT NULL AND t.tag = ? AND t.value = ?",
            [text(key), text(value)],
        ),
        SearchIndex::Attribute(AttributeEntry { name, kind, text: value, number }) => query.add(
            " FROM run_attributes AS t CROSS JOIN runs AS r ON r.rid = t.rid WHERE r.summary IS NOT NULL \
             AND t.name = ? AND t.kind = ? AND t.text = ? AND t.number = ?",
            [text(name), text(kind), text(value), Value::Real(*number)],
        ),
        SearchIndex::Named(name) => query.add(
            " FROM (SELECT DISTINCT a.rid FROM run_attributes AS a WHERE a.name = ?) AS t \
             CROSS JOIN runs AS r ON r.rid = t.rid WHERE r.summary IS NOT NULL",
            [text(name)],
        ),
        SearchIndex::Range { name, kind, low, high } => query.add(
            " FROM (SELECT DISTINCT a.rid FROM run_attributes AS a WHERE a.name = ? AND a.kind = ? AND a.text = '' \
             AND a.number >= ? AND a.number <= ?) AS t CROSS JOIN runs AS r ON r.rid = t.rid \
             WHERE r.summary IS NOT NULL",
            [text(name), text(kind), Value::Real(*low), Value::Real(*high)],
        ),
    }
}

/// One walk over an index.
struct SqliteWalker<'a> {
    conn: &'a Connection,
    filter: &'a RunFilter,
    after: Option<&'a Cursor>,
    created: CreatedBounds,
    status: Option<Status>,
    /// Rows left to look at, and to decode.
    scans: usize,
    decodes: usize,
}

impl SqliteWalker<'_> {
    fn walk(mut self, driver: &SearchIndex, check: Option<&[SqlPart]>) -> Result<Walk, SqliteFault> {
        let query = self.query(driver, check);
        let mut statement = self.conn.prepare_cached(&query.sql)?;
        let mut rows = statement.query(params_from_iter(query.values))?;
        let enough = self.filter.limit as usize + 1;
        let mut walk = Walk { found: Vec::new(), stopped: None };
        while let Some(row) = rows.next()? {
            let at = match cell(row, 6)? {
                Value::Integer(at) => Some(at),
                _ => None,
            };
            let Some(here) = place(self.filter, at, &text_of(row, 5)?.unwrap_or_default()) else { continue };
            self.scans = self.scans.saturating_sub(1);
            if row.get_ref(0)? != rusqlite::types::ValueRef::Null {
                self.decodes = self.decodes.saturating_sub(1);
                match SqliteColumns::read(row)?.parse() {
                    Ok(found) if !self.filter.selects(&found) => {}
                    found => walk.found.push((here.clone(), found)),
                }
            }
            if walk.found.len() >= enough || self.scans == 0 || self.decodes == 0 {
                walk.stopped = Some(here);
                break;
            }
        }
        Ok(walk)
    }

    fn query(&self, driver: &SearchIndex, check: Option<&[SqlPart]>) -> SqliteQuery {
        let mut query = SqliteQuery::new("SELECT CASE WHEN (");
        match check {
            None => query.add("1", []),
            Some(parts) => parts.iter().for_each(|part| match part {
                SqlPart::Sql(sql) => query.add(sql, []),
                SqlPart::Text(value) => query.add("?", [text(value)]),
                SqlPart::Integer(number) => query.add("?", [Value::Integer(*number)]),
                SqlPart::Number(number) => query.add("?", [Value::Real(*number)]),
            }),
        }
        query.add(CHECKED, []);
        let column = match (self.filter.order.key(), driver) {
            (OrderKey::Recovered, _) => "r.recovered_at",
            (OrderKey::Created, SearchIndex::Tag(..) | SearchIndex::Attribute(_)) => "t.created_at",
            (OrderKey::Created, _) => "r.created_at",
        };
        query.add(column, []);
        match self.filter.order.key() {
            OrderKey::Recovered => query.add(
                " FROM runs AS r INDEXED BY runs_recovered WHERE r.summary IS NOT NULL AND r.recovered_at IS NOT NULL",
                [],
            ),
            OrderKey::Created => add_source(&mut query, driver, self.status),
        }
        if self.filter.order.key() == OrderKey::Created {
            for (sign, bound) in [(" >= ?", self.created.low), (" <= ?", self.created.high)] {
                if let Some(bound) = bound {
                    query.add(" AND ", []);
                    query.add(column, []);
                    query.add(sign, [Value::Integer(bound)]);
                }
            }
        }
        let is_latest_first = self.filter.order.is_latest_first();
        if let Some(after) = self.after {
            query.add(" AND (", []);
            query.add(column, []);
            let sign = if is_latest_first { ", r.id) < (?, ?)" } else { ", r.id) > (?, ?)" };
            query.add(sign, [Value::Integer(after.at.0), text(after.run.as_str())]);
        }
        let direction = if is_latest_first { " DESC" } else { "" };
        for piece in [" ORDER BY ", column, direction, ", r.id", direction] {
            query.add(piece, []);
        }
        query
    }
}
