//! Cached rows: written with an append or by compare-and-set.
//!
//! Invariant: `updated_at` strictly grows with every write of a row. A lost row is a null `summary`.

use goldseam_core::codec::{ROW_BYTES, to_json};
use goldseam_core::{Millis, RunId, Summary, TaskId};
use goldseam_store::unproven::Rest;
use goldseam_store::{Expect, Row, StoreError, Written};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params};

use crate::fault::SqliteFault;
use crate::sql::{cell, sql_int};
use crate::writer::JobContext;

const INSERT: &str = "INSERT INTO runs (id, workflow, status, owner, parent, cause, created_at, updated_at, \
    as_of, task, summary, recovered_at, needs, rests_on, rests_until) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";
const INSERT_BARE: &str = "INSERT INTO runs (id) VALUES (?1)";
/// Leaves out columns that never change: setting them would rewrite their indexes.
const UPDATE: &str = "UPDATE runs SET status = ?2, owner = ?3, cause = ?4, \
    updated_at = MAX(updated_at + 1, ?5), as_of = ?6, task = COALESCE(?7, task), summary = ?8, \
    recovered_at = ?9, needs = ?10, rests_on = ?11, rests_until = ?12 WHERE rid = ?1 AND summary IS NOT NULL";
const REPLACE: &str = "UPDATE runs SET workflow = ?2, status = ?3, owner = ?4, parent = ?5, cause = ?6, \
    created_at = ?7, updated_at = MAX(updated_at + 1, ?8), as_of = ?9, task = ?10, summary = ?11, \
    recovered_at = ?12, needs = ?13, rests_on = ?14, rests_until = ?15 WHERE rid = ?1";
const SET_TASK: &str = "UPDATE runs SET task = ?2, updated_at = MAX(updated_at + 1, ?3) \
    WHERE rid = ?1 AND summary IS NOT NULL";
const FIND: &str = "SELECT summary, task, updated_at, status, as_of FROM runs WHERE rid = ?1 \
    AND summary IS NOT NULL";
const TAG: &str = "INSERT OR IGNORE INTO run_tags (tag, value, created_at, rid) VALUES (?1, ?2, ?3, ?4)";
/// Whether the entries of the attributes would not change: the row ?1 has this creation time ?2 and summary ?3.
const SAME_ATTRIBUTES: &str = "SELECT 1 FROM runs WHERE rid = ?1 AND created_at IS ?2 \
    AND CASE WHEN json_valid(summary) THEN json_extract(summary, '$.attributes') IS json_extract(?3, '$.attributes') END";
const REMOVE_ATTRIBUTES: &str = "DELETE FROM run_attributes WHERE rid = ?1";
/// Entries of the attributes: one per value.
const INSERT_VALUES: &str = "INSERT OR IGNORE INTO run_attributes (name, kind, text, number, created_at, rid) \
    SELECT a.key, \
        CASE a.type WHEN 'text' THEN 't' WHEN 'integer' THEN 'n' WHEN 'real' THEN 'n' WHEN 'true' THEN 'b' \
            WHEN 'false' THEN 'b' WHEN 'object' THEN 'd' ELSE 'e' END, \
        CASE a.type WHEN 'text' THEN a.value ELSE '' END, \
        CASE a.type WHEN 'integer' THEN a.value WHEN 'real' THEN a.value WHEN 'true' THEN 1 \
            WHEN 'object' THEN coalesce(json_extract(a.value, '$.time'), 0) ELSE 0 END, \
        ?2, ?1 \
    FROM json_each(?3, '$.attributes') AS a WHERE a.type <> 'array' OR json_array_length(a.value) = 0";
/// Entries of the attributes that are lists: one per text.
const INSERT_LISTS: &str = "INSERT OR IGNORE INTO run_attributes (name, kind, text, number, created_at, rid) \
    SELECT a.key, 't', e.value, 0, ?2, ?1 FROM json_each(?3, '$.attributes') AS a, json_each(a.value) AS e \
    WHERE a.type = 'array' AND e.type = 'text'";
const UNTAG: &str = "DELETE FROM run_tags WHERE tag = ?1 AND value = ?2 AND created_at = ?3 AND rid = ?4";

/// A summary and its JSON text.
#[derive(Debug)]
pub(crate) struct SqliteRowText {
    summary: Box<Summary>,
    text: String,
    rest: Option<Rest>,
}

impl SqliteRowText {
    pub(crate) fn new(summary: Box<Summary>) -> Result<Self, StoreError> {
        match to_json(&summary, ROW_BYTES) {
            Ok(text) => {
                let rest = Rest::of(&summary);
                Ok(Self { summary, text, rest })
            }
            Err(error) => Err(StoreError::Damaged { detail: format!("cannot encode a row: {error}") }),
        }
    }

    fn needs(&self) -> Option<&str> {
        self.rest.as_ref().map(|rest| rest.needs.as_str())
    }

    fn rests_on(&self) -> Option<i64> {
        self.rest.as_ref().map(|rest| rest.on)
    }

    fn rests_until(&self) -> Option<i64> {
        self.rest.as_ref()?.until.map(|until| until.0)
    }

    /// Whether the run has attributes, or had some. A run without them costs no further statement.
    fn knows_attributes(&self) -> bool {
        !self.summary.attributes.is_empty() || self.summary.attributes_at.is_some()
    }

    fn cause(&self) -> Option<&str> {
        self.summary.trouble.as_ref().map(|trouble| trouble.cause.as_str())
    }
}

/// Inserts a run, with its row if there is one. A run without a row names no task.
pub(crate) fn insert(
    work: &JobContext<'_>,
    run: &RunId,
    row: Option<&SqliteRowText>,
    task: Option<&TaskId>,
) -> Result<i64, SqliteFault> {
    let Some(row) = row else {
        work.conn.prepare_cached(INSERT_BARE)?.execute([run.as_str()])?;
        return Ok(work.conn.last_insert_rowid());
    };
    let summary = &row.summary;
    work.conn.prepare_cached(INSERT)?.execute(params![
        run.as_str(),
        summary.workflow.as_str(),
        summary.status.as_str(),
        summary.owner.as_ref().map(|id| id.as_str()),
        summary.parent.as_ref().map(|id| id.as_str()),
        row.cause(),
        summary.created_at.0,
        work.now.0.max(1),
        sql_int(summary.as_of.0),
        task.map(|id| id.as_str()),
        row.text,
        summary.recovered_at.map(|at| at.0),
        row.needs(),
        row.rests_on(),
        row.rests_until(),
    ])?;
    let rid = work.conn.last_insert_rowid();
    tag(work.conn, rid, summary)?;
    if row.knows_attributes() {
        insert_attributes(work.conn, rid, row)?;
    }
    Ok(rid)
}

/// Updates the row with an append.
pub(crate) fn update(
    work: &JobContext<'_>,
    rid: i64,
    row: &SqliteRowText,
    task: Option<&TaskId>,
) -> Result<(), SqliteFault> {
    let summary = &row.summary;
    if row.knows_attributes() {
        change_attributes(work.conn, rid, row)?;
    }
    let updated = work.conn.prepare_cached(UPDATE)?.execute(params![
        rid,
        summary.status.as_str(),
        summary.owner.as_ref().map(|id| id.as_str()),
        row.cause(),
        work.now.0,
        sql_int(summary.as_of.0),
        task.map(|id| id.as_str()),
        row.text,
        summary.recovered_at.map(|at| at.0),
        row.needs(),
        row.rests_on(),
        row.rests_until(),
    ])?;
    if updated == 0 { replace(work, rid, row, task) } else { Ok(()) }
}

/// Writes all columns of the row.
fn replace(
    work: &JobContext<'_>,
    rid: i64,
    row: &SqliteRowText,
    task: Option<&TaskId>,
) -> Result<(), SqliteFault> {
    let summary = &row.summary;
    if row.knows_attributes() {
        change_attributes(work.conn, rid, row)?;
    }
    work.conn.prepare_cached(REPLACE)?.execute(params![
        rid,
        summary.workflow.as_str(),
        summary.status.as_str(),
        summary.owner.as_ref().map(|id| id.as_str()),
        summary.parent.as_ref().map(|id| id.as_str()),
        row.cause(),
        summary.created_at.0,
        work.now.0,
        sql_int(summary.as_of.0),
        task.map(|id| id.as_str()),
        row.text,
        summary.recovered_at.map(|at| at.0),
        row.needs(),
        row.rests_on(),
        row.rests_until(),
    ])?;
    tag(work.conn, rid, summary)
}

/// Writes the entries of the attributes of a run that had none, or other ones.
fn insert_attributes(conn: &Connection, rid: i64, row: &SqliteRowText) -> Result<(), SqliteFault> {
    for sql in [INSERT_VALUES, INSERT_LISTS] {
        conn.prepare_cached(sql)?.execute(params![rid, row.summary.created_at.0, row.text])?;
    }
    Ok(())
}

/// Brings the entries of the attributes up to date, before the row is written.
fn change_attributes(conn: &Connection, rid: i64, row: &SqliteRowText) -> Result<(), SqliteFault> {
    if conn.prepare_cached(SAME_ATTRIBUTES)?.exists(params![rid, row.summary.created_at.0, row.text])? {
        return Ok(());
    }
    conn.prepare_cached(REMOVE_ATTRIBUTES)?.execute([rid])?;
    insert_attributes(conn, rid, row)
}

/// Whether the run has a row.
pub(crate) fn has_row(work: &JobContext<'_>, rid: Option<i64>) -> Result<bool, SqliteFault> {
    Ok(work.conn.prepare_cached(FIND)?.exists([rid])?)
}

/// Sets the run's advance task.
pub(crate) fn set_task(work: &JobContext<'_>, rid: i64, task: &TaskId) -> Result<(), SqliteFault> {
    work.conn.prepare_cached(SET_TASK)?.execute(params![rid, task.as_str(), work.now.0])?;
    Ok(())
}

fn tag(conn: &Connection, rid: i64, summary: &Summary) -> Result<(), SqliteFault> {
    for (key, value) in &summary.tags {
        conn.prepare_cached(TAG)?.execute(params![key.as_str(), value, summary.created_at.0, rid])?;
    }
    Ok(())
}

fn untag(conn: &Connection, rid: i64, summary: &Summary) -> Result<(), SqliteFault> {
    for (key, value) in &summary.tags {
        conn.prepare_cached(UNTAG)?.execute(params![key.as_str(), value, summary.created_at.0, rid])?;
    }
    Ok(())
}

/// A row to be written by compare-and-set.
#[derive(Debug)]
pub(crate) struct PutRowJob {
    row: SqliteRowText,
    task: Option<TaskId>,
    expect: Expect,
}

impl PutRowJob {
    pub(crate) fn new(row: Row, expect: Expect) -> Result<Self, StoreError> {
        Ok(Self { row: SqliteRowText::new(Box::new(row.summary))?, task: row.task, expect })
    }

    /// Writes the row, or returns the stored one if it is not as expected. A run without a log gets no row.
    pub(crate) fn run(&self, work: &mut JobContext<'_>) -> Result<Written<Row>, SqliteFault> {
        let Some(rid) = work.run_numbers.find(work.conn, &self.row.summary.run)? else {
            return Ok(Written::Lost(None));
        };
        let found = find(work.conn, rid)?;
        let is_expected = match self.expect {
            Expect::Absent => found.is_none(),
            Expect::Version(version) => found.as_ref().is_some_and(|row| row.version() == version),
        };
        if !is_expected {
            return Ok(Written::Lost(found));
        }
        if let Some(found) = &found {
            untag(work.conn, rid, &found.summary)?;
        }
        replace(work, rid, &self.row, self.task.as_ref())?;
        Ok(Written::Done)
    }
}

/// Returns the row; none if it is lost or unreadable.
fn find(conn: &Connection, rid: i64) -> Result<Option<Row>, SqliteFault> {
    let raw = conn.prepare_cached(FIND)?.query_row([rid], SqliteColumns::read).optional()?;
    Ok(raw.and_then(|raw| raw.parse().ok()))
}

/// The columns of a row, not decoded.
#[derive(Debug)]
pub(crate) struct SqliteColumns {
    summary: Value,
    task: Value,
    updated_at: Value,
    status: Value,
    as_of: Value,
}

impl SqliteColumns {
    /// Reads the columns summary, task, `updated_at`, status and `as_of`. Accepts any content.
    pub(crate) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            summary: cell(row, 0)?,
            task: cell(row, 1)?,
            updated_at: cell(row, 2)?,
            status: cell(row, 3)?,
            as_of: cell(row, 4)?,
        })
    }

    /// Decodes the row; the error says why it is unreadable. The columns that lists use must agree with the summary: a
    /// row that contradicts itself is unreadable.
    pub(crate) fn parse(self) -> Result<Row, String> {
        let summary = text(self.summary, "summary")?.ok_or("the summary is missing")?;
        let summary: Summary = serde_json::from_str(&summary).map_err(|error| error.to_string())?;
        let task = text(self.task, "task")?.map(TaskId::try_from).transpose();
        let task = task.map_err(|error| error.to_string())?;
        let Value::Integer(updated_at) = self.updated_at else {
            return Err("updated_at is not a number".to_owned());
        };
        let status = text(self.status, "status")?.unwrap_or_default();
        if status != summary.status.as_str() {
            return Err(format!("column status is {status:?}, but the summary says {}", summary.status));
        }
        if self.as_of != Value::Integer(sql_int(summary.as_of.0)) {
            return Err(format!("column as_of differs from the summary, which says {}", summary.as_of));
        }
        Ok(Row { summary, task, updated_at: Millis(updated_at) })
    }
}

fn text(value: Value, column: &str) -> Result<Option<String>, String> {
    match value {
        Value::Text(text) => Ok(Some(text)),
        Value::Null => Ok(None),
        Value::Blob(_) => Err(format!("{column} is not UTF-8 text")),
        Value::Integer(_) | Value::Real(_) => Err(format!("{column} is a number, not text")),
    }
}
