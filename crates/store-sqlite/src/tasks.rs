//! Tasks: one row each with typed columns, changed by compare-and-set or along with an append.
//!
//! Invariant: no two live tasks share a key and no two claimed ones a lane; the database itself
//! sees to it. A change that goes with an append never fails the append.

use std::time::Duration;

use goldseam_core::task::{Task, TaskState};
use goldseam_core::{Millis, TaskId};
use goldseam_store::{Expect, Page, RecordKind, TaskChange, TaskFilter, Unreadable, Written};
use rusqlite::types::Value;
use rusqlite::{CachedStatement, Connection, OptionalExtension, params, params_from_iter};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::append::sql_int;
use crate::fault::Fault;
use crate::rows::cell;
use crate::writer::Work;

const INSERT: &str = "INSERT OR IGNORE INTO tasks (id, pool, kind, queue, lane, priority, key, state, ripe, \
    run_at, run, owner, poked, version, fence, deliveries, attempts, attempts_max, started_at, heartbeat_at, \
    silence_max_ms, created_at, changed_at, payload, result, failure, audit, step) VALUES (?1, ?2, ?3, ?4, \
    ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, \
    ?27, ?28)";
const UPDATE: &str = "UPDATE OR IGNORE tasks SET pool = ?2, kind = ?3, queue = ?4, lane = ?5, priority = ?6, \
    key = ?7, state = ?8, ripe = ?9, run_at = ?10, run = ?11, owner = ?12, poked = ?13, version = ?14, \
    fence = ?15, deliveries = ?16, attempts = ?17, attempts_max = ?18, started_at = ?19, heartbeat_at = ?20, \
    silence_max_ms = ?21, created_at = ?22, changed_at = ?23, payload = ?24, result = ?25, failure = ?26, \
    audit = ?27, step = ?28 WHERE id = ?1 AND version = ?29";
const REST: &str = "UPDATE tasks SET state = 'ready', run_at = ?2, ripe = (?2 <= ?3), owner = NULL, \
    started_at = NULL, heartbeat_at = NULL, poked = 0, changed_at = MAX(changed_at, ?3), \
    version = version + 1 WHERE id = ?1 AND state IN ('ready', 'claimed')";
const WAKE: &str = "UPDATE tasks SET run_at = IIF(state = 'ready', ?2, run_at), \
    ripe = IIF(state = 'ready', ?2 <= ?3, ripe), poked = (state = 'claimed'), \
    changed_at = MAX(changed_at, ?3), version = version + 1 \
    WHERE id = COALESCE(?1, (SELECT task FROM runs WHERE rid = ?4)) \
    AND ((state = 'ready' AND run_at > ?2) OR (state = 'claimed' AND poked = 0))";
const CANCEL: &str = "UPDATE tasks SET state = 'cancelled', owner = NULL, started_at = NULL, \
    heartbeat_at = NULL, poked = 0, changed_at = MAX(changed_at, ?2), version = version + 1 \
    WHERE id = ?1 AND state IN ('ready', 'claimed')";
const REMOVE: &str = "DELETE FROM tasks WHERE id = ?1";
const EXISTS: &str = "SELECT 1 FROM tasks WHERE id = ?1";

/// The columns of a task, in the order that [`read_task`] takes them.
const SELECT: &str = "SELECT id, kind, queue, lane, priority, key, state, run_at, run, owner, poked, version, \
    fence, deliveries, attempts, attempts_max, started_at, heartbeat_at, silence_max_ms, created_at, \
    changed_at, payload, result, failure, audit, step FROM tasks";
const EVERY: &str = " WHERE tid > ?1 ORDER BY tid LIMIT ?2";
const BY_ID: &str = " WHERE id = ?1";
const BY_NUMBER: &str = " WHERE tid = ?1";
const BY_KEY: &str = " WHERE key = ?1 AND state IN ('ready', 'claimed') AND key IS NOT NULL";
const BY_LANE: &str = " WHERE lane = ?1 AND state = 'claimed' AND lane IS NOT NULL";

/// What is known of a run's own task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Own<'a> {
    /// The run; none while it is being made.
    pub(crate) rid: Option<i64>,
    /// The task that this append has already made its own.
    pub(crate) adopted: Option<&'a TaskId>,
}

/// Applies a change that goes with an append. Whether it gave the run its own task.
pub(crate) fn apply(work: &Work<'_>, own: Own<'_>, change: &TaskChange) -> Result<bool, Fault> {
    let (conn, now) = (work.conn, work.now.0);
    match change {
        TaskChange::Create(task) => {
            let created = bind(conn.prepare_cached(INSERT)?, task, work.now, None)? == 1;
            return Ok(
                task.is_advance() && (created || conn.prepare_cached(EXISTS)?.exists([task.id.as_str()])?)
            );
        }
        TaskChange::Rest { task, run_at } => {
            conn.prepare_cached(REST)?.execute(params![task.as_str(), run_at.0, now])?;
        }
        TaskChange::Wake { at } => {
            let adopted = own.adopted.map(|id| id.as_str());
            conn.prepare_cached(WAKE)?.execute(params![adopted, at.0, now, own.rid])?;
        }
        TaskChange::Cancel { task } => {
            conn.prepare_cached(CANCEL)?.execute(params![task.as_str(), now])?;
        }
        TaskChange::Remove { task } => {
            conn.prepare_cached(REMOVE)?.execute([task.as_str()])?;
        }
    }
    Ok(false)
}

/// Writes a task if it is as expected, or says what is in its way.
pub(crate) fn put(work: &Work<'_>, task: &Task, expect: Expect) -> Result<Written<Task>, Fault> {
    let conn = work.conn;
    let written = match expect {
        Expect::Absent => bind(conn.prepare_cached(INSERT)?, task, work.now, None)?,
        Expect::Version(version) => bind(conn.prepare_cached(UPDATE)?, task, work.now, Some(version))?,
    };
    if written == 1 {
        return Ok(Written::Done);
    }
    let found = one(conn, BY_ID, task.id.as_str())?;
    let in_the_way = match (&found, expect) {
        (Some(found), Expect::Version(version)) => found.version == version,
        (Some(_), Expect::Absent) | (None, Expect::Version(_)) => false,
        (None, Expect::Absent) => true,
    };
    if !in_the_way {
        return Ok(Written::Lost(found));
    }
    let rival = match &task.key {
        Some(key) => one(conn, BY_KEY, key)?.filter(|rival| rival.id != task.id),
        None => None,
    };
    match (rival, &task.lane) {
        (None, Some(lane)) => Ok(Written::Lost(one(conn, BY_LANE, lane.as_str())?)),
        (rival, _) => Ok(Written::Lost(rival)),
    }
}

fn bind(
    mut statement: CachedStatement<'_>,
    task: &Task,
    now: Millis,
    expected: Option<u64>,
) -> Result<usize, Fault> {
    let fields = params![
        task.id.as_str(),
        task.pool(),
        task.kind,
        task.queue.as_str(),
        task.lane.as_ref().map(|lane| lane.as_str()),
        task.priority,
        task.key,
        task.state.as_str(),
        task.run_at <= now.max(task.changed_at),
        task.run_at.0,
        task.run.as_ref().map(|run| run.as_str()),
        task.owner,
        task.poked,
        sql_int(task.version),
        sql_int(task.fence),
        task.deliveries,
        task.attempts,
        task.attempts_max,
        task.started_at.map(|at| at.0),
        task.heartbeat_at.map(|at| at.0),
        task.silence_max.map(|span| i64::try_from(span.as_millis()).unwrap_or(i64::MAX)),
        task.created_at.0,
        task.changed_at.0,
        task.payload.as_str(),
        task.result.as_ref().map(|result| result.as_str()),
        json_text(task.failure.as_ref())?,
        json_text(Some(&task.audit).filter(|audit| !audit.is_empty()))?,
        json_text(task.step.as_ref())?,
    ];
    for (index, field) in fields.iter().enumerate() {
        statement.raw_bind_parameter(index + 1, field)?;
    }
    if let Some(version) = expected {
        statement.raw_bind_parameter(fields.len() + 1, sql_int(version))?;
    }
    Ok(statement.raw_execute()?)
}

/// A value as JSON text, or nothing.
pub(crate) fn json_text<T: Serialize>(value: Option<&T>) -> Result<Option<String>, Fault> {
    let text = value.map(serde_json::to_string).transpose();
    text.map_err(|error| Fault::Damaged(format!("cannot encode a record: {error}")))
}

/// A task that is there and can be read.
fn one(conn: &Connection, by: &'static str, value: &str) -> Result<Option<Task>, Fault> {
    let mut statement = conn.prepare_cached(&[SELECT, by].concat())?;
    match statement.query_row([value], read_task).optional() {
        Err(error) if is_unreadable(&error) => Ok(None),
        found => Ok(found?),
    }
}

/// Why a record could not be made sense of.
pub(crate) fn reason(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::FromSqlConversionFailure(_, _, inner) => inner.to_string(),
        rusqlite::Error::InvalidColumnType(_, column, kind) => format!("{column} holds {kind}"),
        other => other.to_string(),
    }
}

/// Whether a record could not be made sense of, as opposed to a database that fails.
pub(crate) fn is_unreadable(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code().is_none() && !matches!(error, rusqlite::Error::QueryReturnedNoRows)
}

/// The task with this number.
pub(crate) fn by_number(conn: &Connection, tid: i64) -> rusqlite::Result<Task> {
    conn.prepare_cached(&[SELECT, BY_NUMBER].concat())?.query_row([tid], read_task)
}

fn read_task(row: &rusqlite::Row<'_>) -> rusqlite::Result<Task> {
    let state: String = row.get(6)?;
    let unknown_state = || damaged(6, format!("unknown task state {state:?}"));
    Ok(Task {
        id: id(row, 0)?,
        kind: row.get(1)?,
        queue: id(row, 2)?,
        lane: maybe_id(row, 3)?,
        priority: row.get(4)?,
        key: row.get(5)?,
        state: TaskState::parse(&state).ok_or_else(unknown_state)?,
        run_at: Millis(row.get(7)?),
        run: maybe_id(row, 8)?,
        owner: row.get(9)?,
        poked: row.get(10)?,
        version: row.get::<_, i64>(11)?.unsigned_abs(),
        fence: row.get::<_, i64>(12)?.unsigned_abs(),
        deliveries: row.get(13)?,
        attempts: row.get(14)?,
        attempts_max: row.get(15)?,
        started_at: row.get::<_, Option<i64>>(16)?.map(Millis),
        heartbeat_at: row.get::<_, Option<i64>>(17)?.map(Millis),
        silence_max: row.get::<_, Option<i64>>(18)?.map(|ms| Duration::from_millis(ms.unsigned_abs())),
        created_at: Millis(row.get(19)?),
        changed_at: Millis(row.get(20)?),
        payload: json(row, 21)?.ok_or_else(|| damaged(21, "the payload is missing".to_owned()))?,
        result: json(row, 22)?,
        failure: json(row, 23)?,
        audit: json(row, 24)?.unwrap_or_default(),
        step: json(row, 25)?,
    })
}

fn damaged(column: usize, what: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, what.into())
}

/// A checked name from a column.
pub(crate) fn id<T: TryFrom<String>>(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<T>
where
    T::Error: std::fmt::Display,
{
    T::try_from(row.get(column)?).map_err(|error| damaged(column, error.to_string()))
}

fn maybe_id<T: TryFrom<String>>(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Option<T>>
where
    T::Error: std::fmt::Display,
{
    let text: Option<String> = row.get(column)?;
    text.map(T::try_from).transpose().map_err(|error| damaged(column, error.to_string()))
}

/// JSON from a column, if it has any.
pub(crate) fn json<T: DeserializeOwned>(
    row: &rusqlite::Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<T>> {
    let text = row.get_ref(column)?.as_str_or_null().map_err(|error| damaged(column, error.to_string()))?;
    let value = text.map(serde_json::from_str).transpose();
    value.map_err(|error| damaged(column, error.to_string()))
}

/// Lists tasks in order of id. What cannot be read is passed over, and takes no place in a page.
pub(crate) fn list(conn: &Connection, filter: &TaskFilter) -> Result<Vec<Task>, Fault> {
    let (sql, values) = query(filter)?;
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut tasks = Vec::new();
    while tasks.len() < filter.limit as usize
        && let Some(row) = rows.next()?
    {
        match read_task(row) {
            Ok(task) => tasks.push(task),
            Err(error) if is_unreadable(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(tasks)
}

/// The next tasks in order of their number, and which of them cannot be read.
pub(crate) fn unreadable(conn: &Connection, after: i64, limit: u32) -> Result<Page<Unreadable>, Fault> {
    let sql = [SELECT, EVERY].concat();
    let mut statement = conn.prepare_cached(&sql.replacen(" FROM", ", tid FROM", 1))?;
    let mut rows = statement.query(params![after, limit])?;
    let (mut page, mut read, mut last) = (Page::default(), 0, after);
    while let Some(row) = rows.next()? {
        (read, last) = (read + 1, row.get(26)?);
        let Err(error) = read_task(row) else { continue };
        if !is_unreadable(&error) {
            return Err(error.into());
        }
        let word = |column| match cell(row, column) {
            Ok(Value::Text(text)) => Some(text),
            _ => None,
        };
        let key = word(0).unwrap_or_else(|| format!("row {last} of table tasks"));
        let advance = word(1).is_some_and(|kind| kind.starts_with("advance:"));
        page.items.push(Unreadable { advance, ..Unreadable::new(RecordKind::Task, key, reason(&error)) });
    }
    page.next = (read == limit && limit > 0).then(|| last.to_string());
    Ok(page)
}

/// The index for a list. Few are claimed, fewer poked or silent, whatever else there is: theirs are always the best.
fn index(filter: &TaskFilter) -> &'static str {
    match filter {
        TaskFilter { id: Some(_), .. } => "",
        TaskFilter { poked: true, owner: Some(_), .. } => " INDEXED BY tasks_poked",
        TaskFilter { silent_at: Some(_), .. } => " INDEXED BY tasks_silent",
        TaskFilter { quiet_since: Some(_), advance: Some(false), .. } => " INDEXED BY tasks_quiet",
        _ if is_about_claims(filter) => " INDEXED BY tasks_claimed",
        _ => "",
    }
}

fn is_about_claims(filter: &TaskFilter) -> bool {
    filter.state == Some(TaskState::Claimed)
        || filter.owner.is_some()
        || filter.quiet_since.is_some()
        || filter.owner_prefix.is_some()
        || filter.owner_none_of.is_some()
}

/// The statement of a list, with its values. The words of an index's own condition stand in it as they are there.
pub(crate) fn query(filter: &TaskFilter) -> Result<(String, Vec<Value>), Fault> {
    let mut sql = [SELECT, index(filter), " WHERE 1"].concat();
    let mut values: Vec<Value> = Vec::new();
    let mut add = |piece: &'static str, value: Option<Value>| {
        if value.is_some() {
            sql.push_str(piece);
            values.extend(value);
        }
    };
    let text = |text: &str| Value::Text(text.to_owned());
    let yes = |yes: bool| yes.then_some(Value::Integer(1));
    add(" AND id = ?", filter.id.as_ref().map(|id| text(id.as_str())));
    add(" AND run = ?", filter.run.as_ref().map(|run| text(run.as_str())));
    add(" AND state IN ('ready', 'claimed') AND key = ?", filter.key.as_deref().map(text));
    add(" AND state = ?", filter.state.map(|state| text(state.as_str())));
    add(" AND state = 'claimed' AND 1 = ?", yes(is_about_claims(filter)));
    add(" AND owner = ?", filter.owner.as_deref().map(text));
    add(" AND queue = ?", filter.queue.as_deref().map(text));
    let advance = match filter.advance {
        Some(true) => " AND kind >= 'advance:' AND kind < 'advance;' AND 1 = ?",
        _ => " AND NOT (kind >= 'advance:' AND kind < 'advance;') AND 1 = ?",
    };
    add(advance, yes(filter.advance.is_some()));
    add(" AND poked = 1 AND 1 = ?", yes(filter.poked));
    add(" AND state IN ('ready', 'claimed', 'dead') AND 1 = ?", yes(filter.open));
    add(
        " AND state = 'claimed' AND silence_max_ms IS NOT NULL \
        AND COALESCE(heartbeat_at, started_at, changed_at) + silence_max_ms <= ?",
        filter.silent_at.map(|at| Value::Integer(at.0)),
    );
    add(
        " AND silence_max_ms IS NULL AND COALESCE(heartbeat_at, started_at, changed_at) <= ?",
        filter.quiet_since.map(|since| Value::Integer(since.0)),
    );
    // A range, so that the index serves it; no name goes on after the largest character.
    add(" AND owner >= ?", filter.owner_prefix.as_deref().map(text));
    add(
        " AND owner < ?",
        filter.owner_prefix.as_deref().map(|prefix| Value::Text(format!("{prefix}\u{10ffff}"))),
    );
    add(
        " AND (owner IS NULL OR owner NOT IN (SELECT value FROM json_each(?)))",
        json_text(filter.owner_none_of.as_ref())?.map(Value::Text),
    );
    add(" AND id > ?", filter.after.as_ref().map(|id| text(id.as_str())));
    // No limit: what cannot be read takes no place, and the reader stops when it has enough.
    sql.push_str(" ORDER BY id");
    Ok((sql, values))
}
