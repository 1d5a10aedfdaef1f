//! Reads logs and heads.

use goldseam_core::{RunId, Seq};
use goldseam_store::{Head, Record, StoreError};
use tokio_postgres::types::Type;

use crate::connection::PgConnection;
use crate::fault::PgFault;
use crate::rows::PgColumns;
use crate::sql::{column, sql_int};

const READ: &str = "SELECT e.seq, e.body FROM goldseam.events AS e \
    WHERE e.rid = (SELECT r.rid FROM goldseam.runs AS r WHERE r.id = $1) AND e.seq > $2 ORDER BY e.seq LIMIT $3";
/// One statement, so that row and end are of one moment.
const HEAD: &str = "SELECT r.summary, r.task, r.updated_at, \
    coalesce((SELECT max(e.seq) FROM goldseam.events AS e WHERE e.rid = r.rid), 0), r.status, r.as_of \
    FROM goldseam.runs AS r WHERE r.id = $1";

/// Reads up to `limit` records after `after`.
pub(crate) async fn records(
    connection: &PgConnection,
    run: &RunId,
    after: Seq,
    limit: u32,
) -> Result<Vec<Record>, StoreError> {
    let run = run.as_str();
    let after = sql_int(after.0);
    let limit = i64::from(limit);
    let values = [(&run as _, Type::TEXT), (&after as _, Type::INT8), (&limit as _, Type::INT8)];
    let rows = connection.read(READ, &values).await?;
    let record = |row: &tokio_postgres::Row| {
        let seq: i64 = column(row, 0)?;
        Ok(Record { seq: Seq(seq.unsigned_abs()), body: column(row, 1)? })
    };
    rows.iter().map(record).collect::<Result<_, PgFault>>().map_err(|fault| fault.to_read_error())
}

/// Reads the end of the log and the cached row at one moment.
pub(crate) async fn head(connection: &PgConnection, run: &RunId) -> Result<Option<Head>, StoreError> {
    let rows = connection.read(HEAD, &[(&run.as_str() as _, Type::TEXT)]).await?;
    let head = |row: &tokio_postgres::Row| -> Result<Head, PgFault> {
        let end: i64 = column(row, 3)?;
        let (row, unreadable) = match PgColumns::read(row, 0, Some(4))?.map(PgColumns::parse) {
            None => (None, None),
            Some(Ok(row)) => (Some(row), None),
            Some(Err(reason)) => (None, Some(reason)),
        };
        Ok(Head { end: Seq(end.unsigned_abs()), row, unreadable })
    };
    rows.first().map(head).transpose().map_err(|fault| fault.to_read_error())
}
