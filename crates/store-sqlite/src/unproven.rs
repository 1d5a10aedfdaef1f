//! Unproven runs: active runs that the columns of their row and their advance task do not prove to be well.
//!
//! Invariant: the query compares, it never diagnoses. Whatever it cannot prove is returned.

use goldseam_store::{RecordKind, Unproven, UnprovenFilter, UnprovenScope, Unreadable};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params};

use crate::fault::SqliteFault;
use crate::rows::SqliteColumns;
use crate::sql::text_of;

/// The condition of the indexes `runs_active` and `runs_watched`, verbatim.
macro_rules! active {
    () => {
        "status IN ('queued', 'running', 'waiting', 'sleeping', 'compensating')"
    };
}

/// The last run of a window of ?2 + 1 runs after ?1.
pub(crate) const WINDOW: &str = concat!(
    "SELECT id FROM runs INDEXED BY runs_active WHERE ",
    active!(),
    " AND id > ?1 ORDER BY id LIMIT 1 OFFSET ?2"
);
pub(crate) const COUNT: &str = concat!(
    "SELECT count(*) FROM runs INDEXED BY runs_active WHERE ",
    active!(),
    " AND id > ?1 AND id <= ?2"
);

/// Candidates of a sweep, after ?1: ?3 is the present time, ?4 the live nodes.
pub(crate) const WATCHED: &str = concat!(
    "SELECT id FROM runs INDEXED BY runs_watched WHERE ",
    active!(),
    " AND (rests_until IS NULL OR task IS NULL OR rests_on > 1) AND id > ?1 \
    UNION SELECT id FROM runs INDEXED BY runs_rest_ends \
    WHERE rests_until IS NOT NULL AND rests_until < 9223372036854775807 AND rests_until <= ?3 AND id > ?1 \
    UNION SELECT run FROM tasks INDEXED BY tasks_claimed WHERE state = 'claimed' AND kind >= 'advance:' \
    AND kind < 'advance;' AND (owner IS NULL OR owner NOT IN (SELECT value FROM json_each(?4))) AND run > ?1 \
    ORDER BY 1 LIMIT ?2"
);

/// The condition of the index `tasks_unproven`, verbatim.
macro_rules! unproven_task {
    () => {
        "NOT (state = 'ready' AND kind >= 'advance:' AND kind < 'advance;' AND payload = 'null' \
        AND owner IS NULL AND result IS NULL AND failure IS NULL AND step IS NULL AND lane IS NULL \
        AND started_at IS NULL AND heartbeat_at IS NULL AND silence_max_ms IS NULL \
        AND substr(id, 1, 2) = 't-' AND (audit IS NULL OR json_valid(audit)) \
        AND typeof(id) || typeof(run) || typeof(priority) || typeof(run_at) || typeof(poked) || \
        typeof(version) || typeof(fence) || typeof(deliveries) || typeof(attempts) || typeof(attempts_max) || \
        typeof(created_at) || typeof(changed_at) \
        = 'texttextintegerintegerintegerintegerintegerintegerintegerintegerintegerinteger')"
    };
}
pub(crate) use unproven_task;

/// Whether the row `r` and its advance task `t` prove the run to be well: ?3 is the present time, ?4 the live nodes, ?5
/// the kinds of tasks that they claim.
macro_rules! proven {
    () => {
        concat!("coalesce(CASE \
        WHEN r.needs IS NULL OR r.task IS NULL OR r.rests_on IS NULL THEN 0 \
        WHEN r.rests_on > 1 AND r.rests_on / 2 > (SELECT count(*) FROM tasks AS s WHERE s.run = r.id \
            AND s.id >= 's-' AND s.id < 's.' AND (s.state = 'ready' OR s.state = 'claimed' \
            AND (s.silence_max_ms IS NULL \
            OR coalesce(s.heartbeat_at, s.started_at, s.changed_at) + s.silence_max_ms >= ?3))) THEN 0 \
        WHEN r.owner IS NOT NULL THEN r.owner IN (SELECT value FROM json_each(?4)) \
        WHEN t.id IS NULL OR NOT (t.kind = r.needs OR t.kind || '@' = substr(r.needs, 1, length(t.kind) + 1)) THEN 0 \
        WHEN t.state = 'claimed' THEN t.owner IN (SELECT value FROM json_each(?4)) \
        WHEN EXISTS (SELECT 1 FROM tasks INDEXED BY tasks_unproven WHERE tid = t.tid AND ",
            unproven_task!(),
            ") THEN 0 \
        WHEN r.as_of IS NOT (SELECT max(e.seq) FROM events AS e WHERE e.rid = r.rid) THEN 0 \
        WHEN t.run_at <= ?3 THEN r.needs IN (SELECT value FROM json_each(?5)) \
        WHEN r.rests_until IS NULL OR t.run_at > r.rests_until THEN 0 \
        WHEN r.rests_on % 2 = 1 AND EXISTS (SELECT 1 FROM runs AS c INDEXED BY runs_parent WHERE c.parent = r.id \
            AND c.status IN ('completed', 'failed', 'cancelled')) THEN 0 \
        ELSE 1 END, 0)")
    };
}

macro_rules! task {
    () => {
        " LEFT JOIN tasks AS t INDEXED BY tasks_advance ON t.run = r.id AND t.id = r.task \
        AND t.state IN ('ready', 'claimed') AND t.kind >= 'advance:' AND t.kind < 'advance;'"
    };
}

const SELECT: &str =
    "SELECT w.summary, w.task, w.updated_at, w.status, w.as_of, w.id FROM runs AS w WHERE w.rid IN (";

/// Unproven runs among the active runs after ?1 and up to ?2.
const EVERY: &str = concat!(
    "SELECT r.rid FROM runs AS r INDEXED BY runs_active",
    task!(),
    " WHERE r.",
    active!(),
    " AND r.id > ?1 AND r.id <= ?2 AND NOT ",
    proven!()
);
/// Unproven runs among the runs of the list ?1; ?2 is unused.
const AMONG: &str = concat!(
    "SELECT r.rid FROM json_each(?1) AS n CROSS JOIN runs AS r INDEXED BY runs_active ON r.id = n.value AND r.",
    active!(),
    task!(),
    " WHERE ?2 IS NULL AND NOT ",
    proven!()
);

/// Returns the statement that selects the unproven runs of a scope.
pub(crate) fn statement(scope: UnprovenScope) -> String {
    let inner = match scope {
        UnprovenScope::Every => EVERY,
        UnprovenScope::Watched => AMONG,
    };
    [SELECT, inner, ") ORDER BY w.id"].concat()
}

/// Reads the next runs. Returns those that are not proven to be well.
pub(crate) fn unproven(conn: &Connection, filter: &UnprovenFilter) -> Result<Unproven, SqliteFault> {
    if filter.limit == 0 {
        return Ok(Unproven::default());
    }
    // One moment: a run that begins to rest between two statements must be seen by one of them.
    let moment = conn.unchecked_transaction()?;
    let found = match filter.scope {
        UnprovenScope::Every => every(conn, filter)?,
        UnprovenScope::Watched => watched(conn, filter)?,
    };
    moment.finish()?;
    Ok(found)
}

fn every(conn: &Connection, filter: &UnprovenFilter) -> Result<Unproven, SqliteFault> {
    // The empty text sorts before every id.
    let after = filter.after.as_deref().unwrap_or_default();
    let window = conn.prepare_cached(WINDOW)?.query_row(params![after, filter.limit - 1], |row| row.get(0));
    let next: Option<String> = window.optional()?;
    // No id continues after the largest character.
    let end = next.clone().unwrap_or_else(|| "\u{10ffff}".to_owned());
    let read: u64 = match next {
        Some(_) => u64::from(filter.limit),
        None => conn
            .prepare_cached(COUNT)?
            .query_row(params![after, end], |row| row.get::<_, i64>(0))?
            .unsigned_abs(),
    };
    select(
        conn,
        filter,
        (Value::Text(after.to_owned()), Value::Text(end)),
        Unproven { skipped: read, next, ..Unproven::default() },
    )
}

fn watched(conn: &Connection, filter: &UnprovenFilter) -> Result<Unproven, SqliteFault> {
    let after = filter.after.as_deref().unwrap_or_default();
    let mut ids: Vec<String> = Vec::new();
    let mut statement = conn.prepare_cached(WATCHED)?;
    let mut rows = statement.query(params![after, filter.limit, filter.now.0, list(&filter.alive)])?;
    while let Some(row) = rows.next()? {
        ids.extend(text_of(row, 0)?);
    }
    let next = ids.last().filter(|_| ids.len() == filter.limit as usize).cloned();
    let read = Unproven { skipped: ids.len() as u64, next, ..Unproven::default() };
    select(conn, filter, (Value::Text(list(&ids)), Value::Null), read)
}

/// Adds the unproven runs of a range, which are not among the skipped runs.
fn select(
    conn: &Connection,
    filter: &UnprovenFilter,
    range: (Value, Value),
    mut found: Unproven,
) -> Result<Unproven, SqliteFault> {
    let mut statement = conn.prepare_cached(&statement(filter.scope))?;
    let (alive, kinds) = (list(&filter.alive), list(&filter.kinds));
    let mut rows = statement.query(params![range.0, range.1, filter.now.0, alive, kinds])?;
    while let Some(row) = rows.next()? {
        found.skipped = found.skipped.saturating_sub(1);
        match SqliteColumns::read(row)?.parse() {
            Ok(row) => found.rows.push(row),
            Err(reason) => {
                let id = text_of(row, 5)?.unwrap_or_default();
                found.unreadable.push(Unreadable::new(RecordKind::Row, id, reason));
            }
        }
    }
    Ok(found)
}

fn list(texts: &[String]) -> String {
    serde_json::to_string(texts).unwrap_or_default()
}
