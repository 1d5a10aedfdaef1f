//! Unproven runs: active runs that the columns of their row and their advance task do not prove to be well.
//!
//! Invariant: the query compares, it never diagnoses. Whatever it cannot prove is returned.

use std::collections::BTreeSet;

use goldseam_store::unproven::{UnprovenPart, UnprovenPlace};
use goldseam_store::{RecordKind, StoreError, Unproven, UnprovenFilter, Unreadable};
use tokio_postgres::types::Type;

use crate::connection::PgConnection;
use crate::fault::PgFault;
use crate::rows::PgColumns;
use crate::sql::column;

/// The condition of the index `runs_resting`, verbatim.
macro_rules! resting {
    () => {
        "r.status IN ('waiting', 'sleeping') AND r.rest[2] IS NOT NULL AND r.task IS NOT NULL AND r.rest[3] <= 1"
    };
}

/// The number and the last of the next $2 resting runs after $1.
const WINDOW: &str = concat!(
    "SELECT count(*), max(w.id) FROM (SELECT r.id FROM goldseam.runs AS r WHERE ",
    resting!(),
    " AND r.id > $1 ORDER BY r.id LIMIT $2) AS w"
);

/// Resting runs after $1 and up to $2 whose dormant task does not prove at once that they are well at time $3, apart from
/// the end of their log. The condition of the index `tasks_resting`, verbatim.
const RESTLESS: &str = concat!(
    "SELECT r.id FROM goldseam.runs AS r LEFT JOIN goldseam.tasks AS t ON t.run = r.id AND t.id = r.task \
    AND t.state = 'ready' AND NOT t.ripe AND t.kind >= 'advance:' AND t.kind < 'advance;' AND t.payload = 'null' \
    AND coalesce(t.owner, t.result, t.failure, t.step, t.lane, t.audit) IS NULL AND t.run > $1 AND t.run <= $2 WHERE ",
    resting!(),
    " AND r.id > $1 AND r.id <= $2 AND NOT coalesce(t.run_at > $3 AND t.run_at <= r.rest[2] AND r.rest[3] % 2 = 0 \
    AND (t.kind = 'advance:' || r.workflow || CASE r.rest[1] WHEN 0 THEN '' ELSE '@' || r.rest[1] END \
        OR t.kind = 'advance:' || r.workflow), false)"
);
/// Resting runs after $1 and up to $2 whose row is not as of the end of their log. In order of number, which is the order
/// of the index of events: a walk in order of id would read another page of it for every run.
const LATE: &str = concat!(
    "SELECT w.id FROM (SELECT r.id, r.rid, r.as_of FROM goldseam.runs AS r WHERE ",
    resting!(),
    " AND r.id > $1 AND r.id <= $2 ORDER BY r.rid OFFSET 0) AS w WHERE w.as_of IS DISTINCT FROM \
    (SELECT e.seq FROM goldseam.events AS e WHERE e.rid = w.rid ORDER BY e.seq DESC LIMIT 1)"
);

/// The next $4 runs in status $1 after creation time $2 and id $3.
const IN_STATUS: &str = "SELECT r.id, r.created_at FROM goldseam.runs AS r WHERE r.status = $1 \
    AND r.status <> 'completed' AND (r.created_at, r.id) > ($2, $3) ORDER BY r.created_at, r.id LIMIT $4";
/// The next $2 runs after id $1 that are awake: the condition of the index `runs_awake`, verbatim.
const AWAKE: &str = "SELECT r.id, NULL::bigint FROM goldseam.runs AS r WHERE ((r.status IN ('waiting', 'sleeping') \
        AND (r.rest[2] IS NULL OR r.task IS NULL OR r.rest[3] IS NULL OR r.rest[3] > 1)) \
        OR (r.created_at IS NULL AND r.status IN ('queued', 'running', 'compensating'))) \
    AND r.id > $1 ORDER BY r.id LIMIT $2";
/// The next $4 resting runs whose rest ended by $1, after time $2 and id $3.
const ENDED: &str = "SELECT r.id, r.rest[2] FROM goldseam.runs AS r WHERE r.rest[2] < 9223372036854775807 \
    AND r.rest[2] <= $1 AND (r.rest[2], r.id) > ($2, $3) ORDER BY r.rest[2], r.id LIMIT $4";
/// The next $3 resting runs after id $2 whose task is claimed by none of the nodes $1.
const LOST: &str = "SELECT r.id, NULL::bigint FROM goldseam.tasks AS t JOIN goldseam.runs AS r ON r.id = t.run \
    WHERE t.state = 'claimed' AND t.kind >= 'advance:' AND t.kind < 'advance;' \
    AND (t.owner IS NULL OR t.owner <> ALL ($1)) AND t.run > $2 \
    AND r.status IN ('waiting', 'sleeping') AND r.rest[2] IS NOT NULL ORDER BY r.id LIMIT $3";

/// The kind of advance task that the run `r` needs.
macro_rules! needs {
    () => {
        "('advance:' || r.workflow || CASE x.rest[1] WHEN 0 THEN '' ELSE '@' || x.rest[1] END)"
    };
}

/// Unproven runs. Whether the row `r` and its advance task `t` prove the run to be well: $2 is the
/// present time, $3 the live nodes, $4 the kinds of tasks that they claim.
const SELECT: &str =
    "SELECT r.summary, r.task, r.updated_at, r.id, r.status, r.as_of FROM goldseam.runs AS r";
/// The proof of a row that the table does not keep. Computed once, because of the offset.
const PROOF: &str = " CROSS JOIN LATERAL (SELECT coalesce(r.rest, goldseam.rest_of(r.summary, r.id, r.status, \
    r.as_of, r.workflow, r.owner)) AS rest OFFSET 0) AS x";
const TASK: &str = " LEFT JOIN goldseam.tasks AS t ON t.id = r.task AND t.run = r.id AND t.state IN ('ready', 'claimed') \
    AND t.kind >= 'advance:' AND t.kind < 'advance;' AND t.payload = 'null' \
    AND coalesce(t.result, t.failure, t.step, t.lane) IS NULL \
    AND (t.audit IS NULL OR goldseam.read_json(t.audit) IS NOT NULL)";
const NOT_PROVEN: &str = concat!(
    " AND NOT coalesce(CASE \
    WHEN x.rest IS NULL OR r.task IS NULL THEN false \
    WHEN x.rest[3] > 1 AND x.rest[3] / 2 > (SELECT count(*) FROM goldseam.tasks AS s WHERE s.run = r.id \
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
    " = ANY ($4) OR t.queue || '/' || ",
    needs!(),
    " = ANY ($4) \
    WHEN x.rest[2] IS NULL OR t.run_at > x.rest[2] THEN false \
    WHEN x.rest[3] % 2 = 1 AND (SELECT c.rid FROM goldseam.runs AS c WHERE c.parent = r.id \
        AND c.status IN ('completed', 'failed', 'cancelled') LIMIT 1) IS NOT NULL THEN false \
    ELSE true END, false)"
);
const AMONG: &str =
    " WHERE r.status IN ('queued', 'running', 'waiting', 'sleeping', 'compensating') AND r.id = ANY ($1)";
const ORDER: &str = " ORDER BY r.id";

/// Reads the next runs. Returns those that are not proven to be well.
pub(crate) async fn unproven(
    connection: &PgConnection,
    filter: &UnprovenFilter,
) -> Result<Unproven, StoreError> {
    let mut place = UnprovenPlace::of(filter)?;
    let mut found = Unproven::default();
    let mut left = filter.limit;
    while left > 0 {
        let group = filter.group(place.part, left);
        let read = match place.part {
            UnprovenPart::Resting => read_resting(connection, filter, &mut place, group, &mut found).await?,
            _ => read_part(connection, filter, &mut place, group, &mut found).await?,
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
    Ok(found)
}

/// Reads the next runs of a part. Returns their number.
async fn read_part(
    connection: &PgConnection,
    filter: &UnprovenFilter,
    place: &mut UnprovenPlace,
    limit: u32,
    found: &mut Unproven,
) -> Result<u32, StoreError> {
    let limit = i64::from(limit);
    let at = place.at.unwrap_or(i64::MIN);
    let key = place.key.clone();
    let at = (&at as _, Type::INT8);
    let key = (&key as _, Type::TEXT);
    let limit = (&limit as _, Type::INT8);
    let rows = match place.part {
        UnprovenPart::Plain(status) => {
            let status = status.as_str();
            connection.read(IN_STATUS, &[(&status as _, Type::TEXT), at, key, limit]).await?
        }
        UnprovenPart::Awake | UnprovenPart::Resting => connection.read(AWAKE, &[key, limit]).await?,
        UnprovenPart::Ended => {
            connection.read(ENDED, &[(&filter.now.0 as _, Type::INT8), at, key, limit]).await?
        }
        UnprovenPart::Lost => {
            connection.read(LOST, &[(&filter.alive as _, Type::TEXT_ARRAY), key, limit]).await?
        }
    };
    let read = |row: &tokio_postgres::Row| -> Result<(String, Option<i64>), PgFault> {
        Ok((column(row, 0)?, column(row, 1)?))
    };
    let runs: Result<Vec<(String, Option<i64>)>, PgFault> = rows.iter().map(read).collect();
    let runs = runs.map_err(|fault| fault.to_read_error())?;
    let Some((last, at)) = runs.last() else { return Ok(0) };
    (place.at, place.key) = (*at, last.clone());
    let ids: Vec<&str> = runs.iter().map(|(id, _)| id.as_str()).collect();
    found.skipped += ids.len() as u64;
    select(connection, filter, &ids, found).await?;
    Ok(u32::try_from(ids.len()).unwrap_or(u32::MAX))
}

/// Reads the next resting runs. Returns their number.
async fn read_resting(
    connection: &PgConnection,
    filter: &UnprovenFilter,
    place: &mut UnprovenPlace,
    limit: u32,
    found: &mut Unproven,
) -> Result<u32, StoreError> {
    let limit = i64::from(limit);
    let after = place.key.clone();
    let rows = connection.read(WINDOW, &[(&after as _, Type::TEXT), (&limit as _, Type::INT8)]).await?;
    let window = |row: &tokio_postgres::Row| -> Result<(i64, Option<String>), PgFault> {
        Ok((column(row, 0)?, column(row, 1)?))
    };
    let window = rows.first().map(window).transpose().map_err(|fault| fault.to_read_error())?;
    let Some((read, Some(end))) = window else { return Ok(0) };
    found.skipped += read.unsigned_abs();
    let mut rows = connection.read(LATE, &[(&after as _, Type::TEXT), (&end as _, Type::TEXT)]).await?;
    let values = [(&after as _, Type::TEXT), (&end as _, Type::TEXT), (&filter.now.0 as _, Type::INT8)];
    rows.extend(connection.read(RESTLESS, &values).await?);
    let ids: Result<BTreeSet<String>, PgFault> = rows.iter().map(|row| column(row, 0)).collect();
    let ids = ids.map_err(|fault| fault.to_read_error())?;
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    select(connection, filter, &ids, found).await?;
    place.key = end;
    Ok(u32::try_from(read).unwrap_or(u32::MAX))
}

/// Adds the unproven ones of these runs, which are not among the skipped runs.
async fn select(
    connection: &PgConnection,
    filter: &UnprovenFilter,
    ids: &[&str],
    found: &mut Unproven,
) -> Result<(), StoreError> {
    if ids.is_empty() {
        return Ok(());
    }
    let sql = [SELECT, PROOF, TASK, AMONG, NOT_PROVEN, ORDER].concat();
    let values = [
        (&ids as _, Type::TEXT_ARRAY),
        (&filter.now.0 as _, Type::INT8),
        (&filter.alive as _, Type::TEXT_ARRAY),
        (&filter.kinds as _, Type::TEXT_ARRAY),
    ];
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
    Ok(())
}
