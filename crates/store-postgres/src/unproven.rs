//! Unproven runs: active runs that the columns of their row and their advance task do not prove to be well.
//!
//! Invariant: the query compares, it never diagnoses. Whatever it cannot prove is returned.

use goldseam_store::{RecordKind, StoreError, Unproven, UnprovenFilter, UnprovenScope, Unreadable};
use tokio_postgres::types::{ToSql, Type};

use crate::connection::PgConnection;
use crate::fault::PgFault;
use crate::rows::PgColumns;
use crate::sql::column;

/// The condition of the indexes `runs_active` and `runs_watched`, verbatim.
macro_rules! active {
    () => {
        "r.status IN ('queued', 'running', 'waiting', 'sleeping', 'compensating')"
    };
}

/// The number and the last of the next $2 active runs after $1.
const WINDOW: &str = concat!(
    "SELECT count(*), max(w.id) FROM (SELECT r.id FROM goldseam.runs AS r WHERE ",
    active!(),
    " AND r.id > $1 ORDER BY r.id LIMIT $2) AS w"
);

/// Candidates of a sweep, after $1: $3 is the present time, $4 the live nodes.
const WATCHED: &str = concat!(
    "SELECT r.id FROM goldseam.runs AS r WHERE ",
    active!(),
    " AND (r.rest[2] IS NULL OR r.task IS NULL OR r.rest[3] > 1) AND r.id > $1 \
    UNION SELECT r.id FROM goldseam.runs AS r \
    WHERE r.rest[2] < 9223372036854775807 AND r.rest[2] <= $3 AND r.id > $1 \
    UNION SELECT t.run FROM goldseam.tasks AS t WHERE t.state = 'claimed' AND t.kind >= 'advance:' \
    AND t.kind < 'advance;' AND (t.owner IS NULL OR t.owner <> ALL ($4)) AND t.run > $1 \
    ORDER BY 1 LIMIT $2"
);

/// The kind of advance task that the run `r` needs.
macro_rules! needs {
    () => {
        "('advance:' || r.workflow || CASE r.rest[1] WHEN 0 THEN '' ELSE '@' || r.rest[1] END)"
    };
}

/// Unproven runs, by the range that follows. Whether the row `r` and its advance task `t` prove the run to be well: $2 is the
/// present time, $3 the live nodes, $4 the kinds of tasks that they claim.
const SELECT: &str = "SELECT r.summary, r.task, r.updated_at, r.id, r.status, r.as_of FROM goldseam.runs AS r \
    LEFT JOIN goldseam.tasks AS t ON t.id = r.task AND t.run = r.id AND t.state IN ('ready', 'claimed') \
    AND t.kind >= 'advance:' AND t.kind < 'advance;' AND t.payload = 'null' \
    AND coalesce(t.result, t.failure, t.step, t.lane) IS NULL \
    AND (t.audit IS NULL OR goldseam.read_json(t.audit) IS NOT NULL)";
/// The same range of tasks, so that the server reads it by an index.
const TASKS_BETWEEN: &str = " AND t.run > $1 AND t.run <= $5";
const NOT_PROVEN: &str = concat!(
    " WHERE ",
    active!(),
    " AND NOT coalesce(CASE \
    WHEN r.rest IS NULL OR r.task IS NULL THEN false \
    WHEN r.rest[3] > 1 AND r.rest[3] / 2 > (SELECT count(*) FROM goldseam.tasks AS s WHERE s.run = r.id \
        AND s.id >= 's-' AND s.id < 's.' AND (s.state = 'ready' OR s.state = 'claimed' \
        AND (s.silence_max_ms IS NULL \
        OR coalesce(s.heartbeat_at, s.started_at, s.changed_at) + s.silence_max_ms >= $2))) THEN false \
    WHEN r.owner IS NOT NULL THEN r.owner = ANY ($3) \
    WHEN t.id IS NULL OR t.kind NOT IN (",
    needs!(),
    ", 'advance:' || r.workflow) THEN false \
    WHEN t.state = 'claimed' THEN t.owner = ANY ($3) \
    WHEN r.as_of IS DISTINCT FROM (SELECT e.seq FROM goldseam.events AS e WHERE e.rid = r.rid \
        ORDER BY e.seq DESC LIMIT 1) THEN false \
    WHEN t.run_at <= $2 THEN ",
    needs!(),
    " = ANY ($4) \
    WHEN r.rest[2] IS NULL OR t.run_at > r.rest[2] THEN false \
    WHEN r.rest[3] % 2 = 1 AND (SELECT c.rid FROM goldseam.runs AS c WHERE c.parent = r.id \
        AND c.status IN ('completed', 'failed', 'cancelled') LIMIT 1) IS NOT NULL THEN false \
    ELSE true END, false)"
);
const BETWEEN: &str = " AND r.id > $1 AND r.id <= $5 ORDER BY r.id";
const AMONG: &str = " AND r.id = ANY ($1) ORDER BY r.id";

/// Reads the next runs. Returns those that are not proven to be well.
pub(crate) async fn unproven(
    connection: &PgConnection,
    filter: &UnprovenFilter,
) -> Result<Unproven, StoreError> {
    if filter.limit == 0 {
        return Ok(Unproven::default());
    }
    // The empty text sorts before every id.
    let after = filter.after.as_deref().unwrap_or_default();
    let limit = i64::from(filter.limit);
    match filter.scope {
        UnprovenScope::Every => {
            let values = [(&after as _, Type::TEXT), (&limit as _, Type::INT8)];
            let rows = connection.read(WINDOW, &values).await?;
            let window = |row: &tokio_postgres::Row| -> Result<(i64, Option<String>), PgFault> {
                Ok((column(row, 0)?, column(row, 1)?))
            };
            let window = rows.first().map(window).transpose().map_err(|fault| fault.to_read_error())?;
            let Some((read, Some(end))) = window else { return Ok(Unproven::default()) };
            let next = (read >= limit).then(|| end.clone());
            let read = Unproven { skipped: read.unsigned_abs(), next, ..Unproven::default() };
            select(connection, filter, (&after, Type::TEXT), Some(&end), read).await
        }
        UnprovenScope::Watched => {
            let alive = &filter.alive;
            let values = [
                (&after as _, Type::TEXT),
                (&limit as _, Type::INT8),
                (&filter.now.0 as _, Type::INT8),
                (alive as _, Type::TEXT_ARRAY),
            ];
            let rows = connection.read(WATCHED, &values).await?;
            let ids: Result<Vec<String>, PgFault> = rows.iter().map(|row| column(row, 0)).collect();
            let ids = ids.map_err(|fault| fault.to_read_error())?;
            let next = ids.last().filter(|_| ids.len() >= filter.limit as usize).cloned();
            let read = Unproven { skipped: ids.len() as u64, next, ..Unproven::default() };
            select(connection, filter, (&ids, Type::TEXT_ARRAY), None, read).await
        }
    }
}

/// Adds the unproven runs of a range, which are not among the skipped runs.
async fn select(
    connection: &PgConnection,
    filter: &UnprovenFilter,
    from: (&(dyn ToSql + Sync), Type),
    end: Option<&String>,
    mut found: Unproven,
) -> Result<Unproven, StoreError> {
    let sql = match end {
        Some(_) => [SELECT, TASKS_BETWEEN, NOT_PROVEN, BETWEEN].concat(),
        None => [SELECT, NOT_PROVEN, AMONG].concat(),
    };
    let mut values = vec![
        from,
        (&filter.now.0 as _, Type::INT8),
        (&filter.alive as _, Type::TEXT_ARRAY),
        (&filter.kinds as _, Type::TEXT_ARRAY),
    ];
    values.extend(end.map(|end| (end as _, Type::TEXT)));
    let read = |row: &tokio_postgres::Row| -> Result<Option<(String, PgColumns)>, PgFault> {
        let id: String = column(row, 3)?;
        Ok(PgColumns::read(row, 0, Some(4))?.map(|columns| (id, columns)))
    };
    for row in connection.read(&sql, &values).await? {
        let Some((id, columns)) = read(&row).map_err(|fault| fault.to_read_error())? else { continue };
        found.skipped = found.skipped.saturating_sub(1);
        match columns.parse() {
            Ok(row) => found.rows.push(row),
            Err(reason) => found.unreadable.push(Unreadable::new(RecordKind::Row, id, reason)),
        }
    }
    Ok(found)
}
