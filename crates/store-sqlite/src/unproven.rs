//! Unproven runs: active runs that the columns of their row and their advance task do not prove to be well.
//!
//! Invariant: the query compares, it never diagnoses. Whatever it cannot prove is returned.

use std::collections::BTreeSet;

use goldseam_store::unproven::{UnprovenPart, UnprovenPlace};
use goldseam_store::{RecordKind, Unproven, UnprovenFilter, Unreadable};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params};

use crate::fault::SqliteFault;
use crate::rows::SqliteColumns;
use crate::sql::{cell, text_of};

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

/// The condition of the index `runs_resting`, verbatim.
macro_rules! resting {
    () => {
        "r.status IN ('waiting', 'sleeping') AND r.rests_until IS NOT NULL AND r.owner IS NULL \
        AND r.task IS NOT NULL AND r.rests_on <= 1"
    };
}

/// The next ?4 runs in status ?1 after creation time ?2 and number ?3.
pub(crate) const IN_STATUS: &str = "SELECT rid, created_at FROM runs INDEXED BY runs_status WHERE status = ?1 \
    AND status <> 'completed' AND created_at >= coalesce(?2, -9223372036854775808) \
    AND (created_at > ?2 OR rid > ?3) ORDER BY created_at, rid LIMIT ?4";
/// The same from the beginning, or after number ?3 of the rows without a creation time, which come first; ?2 is unused.
pub(crate) const IN_STATUS_FIRST: &str = "SELECT rid, created_at FROM runs INDEXED BY runs_status WHERE status = ?1 \
    AND status <> 'completed' AND ?2 IS NULL AND (created_at IS NOT NULL OR rid > ?3) ORDER BY created_at, rid LIMIT ?4";
/// The next ?4 waiting runs that do not rest, after number ?3; ?1 and ?2 are unused.
pub(crate) const AWAKE: &str = "SELECT rid, NULL FROM runs INDEXED BY runs_awake WHERE status IN ('waiting', 'sleeping') \
    AND (rests_until IS NULL OR owner IS NOT NULL OR task IS NULL OR rests_on IS NULL OR rests_on > 1) \
    AND ?1 IS NULL AND ?2 IS NULL AND rid > ?3 ORDER BY rid LIMIT ?4";
/// The next ?4 resting runs whose rest ended by ?1, after time ?2 and number ?3.
pub(crate) const ENDED: &str = "SELECT rid, rests_until FROM runs INDEXED BY runs_rest_ends \
    WHERE rests_until IS NOT NULL AND rests_until < 9223372036854775807 AND rests_until <= ?1 \
    AND rests_until >= coalesce(?2, -9223372036854775808) AND (?2 IS NULL OR rests_until > ?2 OR rid > ?3) \
    ORDER BY rests_until, rid LIMIT ?4";
/// The next ?4 resting runs whose task is claimed by none of the nodes ?1, after number ?3; ?2 is unused.
pub(crate) const LOST: &str = "SELECT r.rid, NULL FROM tasks AS t INDEXED BY tasks_claimed CROSS JOIN runs AS r ON r.id = t.run \
    WHERE t.state = 'claimed' AND t.kind >= 'advance:' AND t.kind < 'advance;' \
    AND (t.owner IS NULL OR t.owner NOT IN (SELECT value FROM json_each(?1))) AND ?2 IS NULL AND r.rid > ?3 \
    AND r.status IN ('waiting', 'sleeping') AND r.rests_until IS NOT NULL ORDER BY r.rid LIMIT ?4";

/// The last run of a window of ?2 + 1 resting runs after ?1.
pub(crate) const WINDOW: &str = concat!(
    "SELECT r.id FROM runs AS r INDEXED BY runs_resting WHERE ",
    resting!(),
    " AND r.id > ?1 ORDER BY r.id LIMIT 1 OFFSET ?2"
);
pub(crate) const COUNT: &str = concat!(
    "SELECT count(*) FROM runs AS r INDEXED BY runs_resting WHERE ",
    resting!(),
    " AND r.id > ?1 AND r.id <= ?2"
);
/// Resting runs after ?1 and up to ?2 whose dormant task does not prove at once that they are well at time ?3, apart from
/// the end of their log.
pub(crate) const RESTLESS: &str = concat!(
    "SELECT r.rid FROM runs AS r INDEXED BY runs_resting LEFT JOIN tasks AS t INDEXED BY tasks_resting \
    ON t.run = r.id AND t.id = r.task AND t.state = 'ready' AND t.ripe = 0 AND t.kind >= 'advance:' \
    AND t.kind < 'advance;' WHERE ",
    resting!(),
    " AND r.id > ?1 AND r.id <= ?2 AND NOT coalesce(CASE WHEN r.needs IS NULL OR t.id IS NULL \
        OR NOT (t.kind = r.needs OR t.kind || '@' = substr(r.needs, 1, length(t.kind) + 1)) \
        OR t.run_at <= ?3 OR t.run_at > r.rests_until OR r.rests_on % 2 = 1 THEN 0 \
        WHEN EXISTS (SELECT 1 FROM tasks INDEXED BY tasks_unproven WHERE tid = t.tid AND ",
    unproven_task!(),
    ") THEN 0 ELSE 1 END, 0)"
);
/// Resting runs after ?1 and up to ?2 whose row is not as of the end of their log. In order of number, which is the order
/// of the index of events: a walk in order of id would read another page of it for every run.
pub(crate) const LATE: &str = concat!(
    "SELECT w.rid FROM (SELECT r.rid, r.as_of FROM runs AS r INDEXED BY runs_resting WHERE ",
    resting!(),
    " AND r.id > ?1 AND r.id <= ?2 ORDER BY r.rid LIMIT -1) AS w \
    WHERE w.as_of IS NOT (SELECT max(e.seq) FROM events AS e WHERE e.rid = w.rid)"
);

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
            OR t.queue || '/' || r.needs IN (SELECT value FROM json_each(?5)) \
        WHEN r.rests_until IS NULL OR t.run_at > r.rests_until THEN 0 \
        WHEN r.rests_on % 2 = 1 AND EXISTS (SELECT 1 FROM runs AS c INDEXED BY runs_parent WHERE c.parent = r.id \
            AND c.status IN ('completed', 'failed', 'cancelled')) THEN 0 \
        ELSE 1 END, 0)")
    };
}

/// Unproven runs among the runs with the numbers of the list ?1.
pub(crate) const AMONG: &str = concat!(
    "SELECT r.summary, r.task, r.updated_at, r.status, r.as_of, r.id \
    FROM json_each(?1) AS n CROSS JOIN runs AS r ON r.rid = n.value \
    LEFT JOIN tasks AS t ON t.id = r.task AND t.run = r.id \
    AND t.state IN ('ready', 'claimed') AND t.kind >= 'advance:' AND t.kind < 'advance;' \
    WHERE ?2 IS NULL AND r.status IN ('queued', 'running', 'waiting', 'sleeping', 'compensating') AND NOT ",
    proven!(),
    " ORDER BY r.id"
);

/// Reads the next runs. Returns those that are not proven to be well.
pub(crate) fn unproven(
    conn: &Connection,
    filter: &UnprovenFilter,
    mut place: UnprovenPlace,
) -> Result<Unproven, SqliteFault> {
    if filter.limit == 0 {
        return Ok(Unproven::default());
    }
    // One moment: a run that begins to rest between two statements must be seen by one of them.
    let moment = conn.unchecked_transaction()?;
    let mut found = Unproven::default();
    let mut left = filter.limit;
    loop {
        let group = filter.group(place.part, left);
        let read = match place.part {
            UnprovenPart::Resting => read_resting(conn, filter, &mut place, group, &mut found)?,
            _ => read_part(conn, filter, &mut place, group, &mut found)?,
        };
        left -= read.min(left);
        if left == 0 || filter.is_full(&found) {
            found.next = Some(place.text());
            break;
        }
        if read >= group {
            continue;
        }
        match place.next(filter.scope) {
            Some(next) => place = next,
            None => break,
        }
    }
    moment.finish()?;
    Ok(found)
}

/// Reads the next runs of a part. Returns their number.
fn read_part(
    conn: &Connection,
    filter: &UnprovenFilter,
    place: &mut UnprovenPlace,
    limit: u32,
    found: &mut Unproven,
) -> Result<u32, SqliteFault> {
    // The key of this store is the number of the run; 0 is before all.
    let after: i64 = place.key.parse().unwrap_or_default();
    let (sql, with) = match place.part {
        UnprovenPart::Plain(status) if place.at.is_none() => {
            (IN_STATUS_FIRST, Value::Text(status.as_str().to_owned()))
        }
        UnprovenPart::Plain(status) => (IN_STATUS, Value::Text(status.as_str().to_owned())),
        UnprovenPart::Awake | UnprovenPart::Resting => (AWAKE, Value::Null),
        UnprovenPart::Ended => (ENDED, Value::Integer(filter.now.0)),
        UnprovenPart::Lost => (LOST, Value::Text(list(&filter.alive))),
    };
    let mut rids: Vec<i64> = Vec::new();
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![with, place.at, after, limit])?;
    let mut last = None;
    while let Some(row) = rows.next()? {
        rids.push(row.get(0)?);
        last = match cell(row, 1)? {
            Value::Integer(at) => Some(at),
            _ => None,
        };
    }
    drop(rows);
    if let Some(rid) = rids.last() {
        (place.at, place.key) = (last, rid.to_string());
    }
    found.skipped += rids.len() as u64;
    select(conn, filter, &rids, found)?;
    Ok(u32::try_from(rids.len()).unwrap_or(u32::MAX))
}

/// Reads the next resting runs. Most of them are proven to be well by two indexes. Returns the number of runs.
fn read_resting(
    conn: &Connection,
    filter: &UnprovenFilter,
    place: &mut UnprovenPlace,
    limit: u32,
    found: &mut Unproven,
) -> Result<u32, SqliteFault> {
    let window = conn.prepare_cached(WINDOW)?.query_row(params![place.key, limit - 1], |row| row.get(0));
    let last: Option<String> = window.optional()?;
    // No id continues after the largest character.
    let end = last.clone().unwrap_or_else(|| "\u{10ffff}".to_owned());
    let read: u32 = match last {
        Some(_) => limit,
        None => conn.prepare_cached(COUNT)?.query_row(params![place.key, end], |row| row.get(0))?,
    };
    let mut rids: BTreeSet<i64> = BTreeSet::new();
    let mut statement = conn.prepare_cached(RESTLESS)?;
    for rid in statement.query_map(params![place.key, end, filter.now.0], |row| row.get(0))? {
        rids.insert(rid?);
    }
    let mut statement = conn.prepare_cached(LATE)?;
    for rid in statement.query_map(params![place.key, end], |row| row.get(0))? {
        rids.insert(rid?);
    }
    let rids: Vec<i64> = rids.into_iter().collect();
    place.key = end;
    found.skipped += u64::from(read);
    select(conn, filter, &rids, found)?;
    Ok(read)
}

/// Adds the unproven ones of these runs, which are not among the skipped runs.
fn select(
    conn: &Connection,
    filter: &UnprovenFilter,
    rids: &[i64],
    found: &mut Unproven,
) -> Result<(), SqliteFault> {
    if rids.is_empty() {
        return Ok(());
    }
    let mut statement = conn.prepare_cached(AMONG)?;
    let rids = serde_json::to_string(rids).unwrap_or_default();
    let alive = list(&filter.alive);
    let kinds = list(&filter.kinds);
    let mut rows = statement.query(params![rids, Value::Null, filter.now.0, alive, kinds])?;
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
    Ok(())
}

fn list(texts: &[String]) -> String {
    serde_json::to_string(texts).unwrap_or_default()
}
