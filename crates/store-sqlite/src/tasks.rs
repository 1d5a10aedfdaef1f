//! Tasks: one row each with typed columns, changed by compare-and-set or with an append.
//!
//! Invariant: unique indexes ensure that no two live tasks share a key, and no two claimed tasks a lane. A change that
//! goes with an append never fails the append.

use std::time::Duration;

use goldseam_core::task::{Task, TaskState};
use goldseam_core::{Millis, TaskId};
use goldseam_store::{Expect, Page, RecordKind, TaskChange, TaskFilter, Unreadable, Written};
use rusqlite::types::Value;
use rusqlite::{CachedStatement, Connection, OptionalExtension, params, params_from_iter};

use crate::fault::SqliteFault;
use crate::sql::{id, is_unreadable, json, json_text, maybe_id, reason, sql_int, text_of, undecodable};
use crate::unproven::unproven_task;
use crate::writer::JobContext;

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
/// Gives an inserted task its audit, so that the trigger of updates copies heals into the audit of the store.
const AUDIT: &str = "UPDATE tasks SET audit = ?2 WHERE id = ?1";
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

/// The columns of a task, in the order of [`read_task`].
const SELECT: &str = "SELECT id, kind, queue, lane, priority, key, state, run_at, run, owner, poked, version, \
    fence, deliveries, attempts, attempts_max, started_at, heartbeat_at, silence_max_ms, created_at, \
    changed_at, payload, result, failure, audit, step FROM tasks";
/// Tasks that their columns do not prove readable. Repeats the condition of the index verbatim, so that SQLite uses it.
pub(crate) const UNPROVEN: &str =
    concat!(" INDEXED BY tasks_unproven WHERE ", unproven_task!(), " AND tid > ?1 ORDER BY tid LIMIT ?2");
const BY_ID: &str = " WHERE id = ?1";
const BY_NUMBER: &str = " WHERE tid = ?1";
const BY_KEY: &str = " WHERE key = ?1 AND state IN ('ready', 'claimed') AND key IS NOT NULL";
const BY_LANE: &str = " WHERE lane = ?1 AND state = 'claimed' AND lane IS NOT NULL";

/// A run's advance task while the changes of an append are applied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AppendedRun<'a> {
    /// The number of the run; none if the append creates it.
    pub(crate) rid: Option<i64>,
    /// The advance task that this append has created.
    pub(crate) adopted: Option<&'a TaskId>,
}

/// Applies a change that goes with an append. Returns whether it created the run's advance task.
pub(crate) fn apply(
    work: &JobContext<'_>,
    own: AppendedRun<'_>,
    change: &TaskChange,
) -> Result<bool, SqliteFault> {
    let conn = work.conn;
    let now = work.now.0;
    match change {
        TaskChange::Create(task) => {
            let created = insert(conn, task, work.now)? == 1;
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

/// Writes a task if it is as expected, else returns the task that prevents it.
pub(crate) fn put(work: &JobContext<'_>, task: &Task, expect: Expect) -> Result<Written<Task>, SqliteFault> {
    let conn = work.conn;
    let written = match expect {
        Expect::Absent => insert(conn, task, work.now)?,
        Expect::Version(version) => bind(conn.prepare_cached(UPDATE)?, task, work.now, Some(version))?,
    };
    if written == 1 {
        return Ok(Written::Done);
    }
    let found = one(conn, BY_ID, task.id.as_str())?;
    let has_rival = match (&found, expect) {
        (Some(found), Expect::Version(version)) => found.version == version,
        (Some(_), Expect::Absent) | (None, Expect::Version(_)) => false,
        (None, Expect::Absent) => true,
    };
    if !has_rival {
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

/// Inserts a task unless one exists with its id, its key or its lane. Returns the number of inserted tasks.
fn insert(conn: &Connection, task: &Task, now: Millis) -> Result<usize, SqliteFault> {
    if task.audit.iter().all(|entry| entry.heal.is_none()) {
        return bind(conn.prepare_cached(INSERT)?, task, now, None);
    }
    let without_audit = Task { audit: Vec::new(), ..task.clone() };
    let inserted = bind(conn.prepare_cached(INSERT)?, &without_audit, now, None)?;
    if inserted == 1 {
        conn.prepare_cached(AUDIT)?.execute(params![task.id.as_str(), json_text(Some(&task.audit))?])?;
    }
    Ok(inserted)
}

fn bind(
    mut statement: CachedStatement<'_>,
    task: &Task,
    now: Millis,
    expected: Option<u64>,
) -> Result<usize, SqliteFault> {
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

/// Returns a task, if it exists and is readable.
fn one(conn: &Connection, by: &'static str, value: &str) -> Result<Option<Task>, SqliteFault> {
    let mut statement = conn.prepare_cached(&[SELECT, by].concat())?;
    match statement.query_row([value], read_task).optional() {
        Err(error) if is_unreadable(&error) => Ok(None),
        found => Ok(found?),
    }
}

/// The task with this number.
pub(crate) fn by_number(conn: &Connection, tid: i64) -> rusqlite::Result<Task> {
    conn.prepare_cached(&[SELECT, BY_NUMBER].concat())?.query_row([tid], read_task)
}

fn read_task(row: &rusqlite::Row<'_>) -> rusqlite::Result<Task> {
    let state: String = row.get(6)?;
    let unknown_state = || undecodable(6, format!("unknown task state {state:?}"));
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
        payload: json(row, 21)?.ok_or_else(|| undecodable(21, "the payload is missing".to_owned()))?,
        result: json(row, 22)?,
        failure: json(row, 23)?,
        audit: json(row, 24)?.unwrap_or_default(),
        step: json(row, 25)?,
    })
}

/// Lists tasks in order of id. Skips unreadable tasks, which do not count toward the limit.
pub(crate) fn list(conn: &Connection, filter: &TaskFilter) -> Result<Vec<Task>, SqliteFault> {
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

/// Reads the next tasks that are not provably readable, in order of their numbers. Returns the unreadable ones.
pub(crate) fn unreadable(conn: &Connection, after: i64, limit: u32) -> Result<Page<Unreadable>, SqliteFault> {
    let sql = [SELECT, UNPROVEN].concat();
    let mut statement = conn.prepare_cached(&sql.replacen(" FROM", ", tid FROM", 1))?;
    let mut rows = statement.query(params![after, limit])?;
    let mut page = Page::default();
    let mut read = 0;
    let mut last = after;
    while let Some(row) = rows.next()? {
        read += 1;
        last = row.get(26)?;
        let Err(error) = read_task(row) else { continue };
        if !is_unreadable(&error) {
            return Err(error.into());
        }
        let key = text_of(row, 0)?.unwrap_or_else(|| format!("row {last} of table tasks"));
        let advance = text_of(row, 1)?.is_some_and(|kind| kind.starts_with("advance:"));
        page.items.push(Unreadable { advance, ..Unreadable::new(RecordKind::Task, key, reason(&error)) });
    }
    page.next = (read == limit && limit > 0).then(|| last.to_string());
    Ok(page)
}

/// The index of a list. Few tasks are claimed, fewer are poked or silent, so their indexes are always the best.
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

/// Builds the statement of a list with its values. Repeats the condition of a partial index verbatim, so that SQLite
/// uses the index.
pub(crate) fn query(filter: &TaskFilter) -> Result<(String, Vec<Value>), SqliteFault> {
    let mut sql = [SELECT, index(filter), " WHERE 1"].concat();
    let mut values: Vec<Value> = Vec::new();
    let mut add = |piece: &'static str, value: Option<Value>| {
        if value.is_some() {
            sql.push_str(piece);
            values.extend(value);
        }
    };
    let text = |text: &str| Value::Text(text.to_owned());
    let if_set = |set: bool| set.then_some(Value::Integer(1));
    add(" AND id = ?", filter.id.as_ref().map(|id| text(id.as_str())));
    add(" AND run = ?", filter.run.as_ref().map(|run| text(run.as_str())));
    add(" AND state IN ('ready', 'claimed') AND key = ?", filter.key.as_deref().map(text));
    add(" AND state = ?", filter.state.map(|state| text(state.as_str())));
    add(" AND state = 'claimed' AND 1 = ?", if_set(is_about_claims(filter)));
    add(" AND owner = ?", filter.owner.as_deref().map(text));
    add(" AND queue = ?", filter.queue.as_deref().map(text));
    let advance = match filter.advance {
        Some(true) => " AND kind >= 'advance:' AND kind < 'advance;' AND 1 = ?",
        _ => " AND NOT (kind >= 'advance:' AND kind < 'advance;') AND 1 = ?",
    };
    add(advance, if_set(filter.advance.is_some()));
    add(" AND poked = 1 AND 1 = ?", if_set(filter.poked));
    add(" AND state IN ('ready', 'claimed', 'dead') AND 1 = ?", if_set(filter.open));
    add(
        " AND state = 'claimed' AND silence_max_ms IS NOT NULL \
        AND COALESCE(heartbeat_at, started_at, changed_at) + silence_max_ms <= ?",
        filter.silent_at.map(|at| Value::Integer(at.0)),
    );
    add(
        " AND silence_max_ms IS NULL AND COALESCE(heartbeat_at, started_at, changed_at) <= ?",
        filter.quiet_since.map(|since| Value::Integer(since.0)),
    );
    // A range, so that SQLite uses the index; no name continues after the largest character.
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
    // No limit: unreadable tasks do not count, and the reader stops when it has enough.
    sql.push_str(" ORDER BY id");
    Ok((sql, values))
}
