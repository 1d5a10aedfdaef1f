//! The feed: events in the order of the transactions that appended them.
//!
//! Invariant: the feed shows only events of transactions that are older than every running one. So no event can appear
//! before a place that was already returned, whichever transaction ends first.

use async_trait::async_trait;
use goldseam_core::{RunId, Seq};
use goldseam_store::feed::{place_beyond_end, unknown_place};
use goldseam_store::{ChangedRuns, Feed, FeedEvent, Record, StoreError};
use tokio_postgres::types::Type;

use crate::PostgresStore;
use crate::connection::PgConnection;
use crate::fault::PgFault;
use crate::sql::{column, run_id};

const EVENTS_AFTER: &str = "SELECT e.xid, e.rid, e.seq, r.id, e.body FROM goldseam.events AS e \
    JOIN goldseam.runs AS r ON r.rid = e.rid \
    WHERE e.xid >= $1 AND (e.xid, e.rid, e.seq) > ($1, $2, $3) \
    AND e.xid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint \
    ORDER BY e.xid, e.rid, e.seq LIMIT $4";
const LATEST: &str = "SELECT e.xid, e.rid, e.seq FROM goldseam.events AS e \
    WHERE e.xid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint \
    ORDER BY e.xid DESC, e.rid DESC, e.seq DESC LIMIT 1";
const MARK: &str = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint";
/// Repeats events of transactions that were running when the mark was made; a hint may come twice.
const CHANGED: &str = "SELECT DISTINCT r.id FROM goldseam.events AS e JOIN goldseam.runs AS r ON r.rid = e.rid \
    WHERE e.xid >= $1";

/// Whether this database has never begun such a transaction. A standby may not have received it yet.
const BEYOND: &str =
    "SELECT $1 >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint AND NOT pg_is_in_recovery()";

/// Transaction, run and position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct FeedPlace(i64, i64, i64);

impl FeedPlace {
    fn of(place: Option<&str>) -> Result<Self, StoreError> {
        let Some(text) = place else { return Ok(Self::default()) };
        let mut parts = text.split('.').map(|part| part.parse().ok().filter(|number: &i64| *number >= 0));
        match (parts.next().flatten(), parts.next().flatten(), parts.next().flatten(), parts.next()) {
            (Some(xid), Some(rid), Some(seq), None) => Ok(Self(xid, rid, seq)),
            _ => Err(unknown_place(text)),
        }
    }

    fn read(row: &tokio_postgres::Row) -> Result<Self, PgFault> {
        Ok(Self(column(row, 0)?, column(row, 1)?, column(row, 2)?))
    }

    fn text(self) -> String {
        format!("{}.{}.{}", self.0, self.1, self.2)
    }
}

async fn events(
    connection: &PgConnection,
    after: FeedPlace,
    limit: u32,
) -> Result<Vec<FeedEvent>, StoreError> {
    let limit = i64::from(limit);
    let values = [&after.0, &after.1, &after.2, &limit].map(|value| (value as _, Type::INT8));
    let rows = connection.read(EVENTS_AFTER, &values).await?;
    let event = |row: &tokio_postgres::Row| {
        let place = FeedPlace::read(row)?;
        let record = Record { seq: Seq(place.2.unsigned_abs()), body: column(row, 4)? };
        Ok(FeedEvent { place: place.text(), run: run_id(row, 3)?, record })
    };
    rows.iter().map(event).collect::<Result<_, PgFault>>().map_err(|fault| fault.to_read_error())
}

/// Whether no event of this database can be behind the place, now or later.
async fn is_beyond(connection: &PgConnection, FeedPlace(xid, ..): FeedPlace) -> Result<bool, StoreError> {
    let rows = connection.read(BEYOND, &[(&xid as _, Type::INT8)]).await?;
    let beyond: Result<bool, PgFault> = rows.first().map_or(Ok(false), |row| column(row, 0));
    beyond.map_err(|fault| fault.to_read_error())
}

#[async_trait]
impl Feed for PostgresStore {
    async fn events_after(&self, place: Option<&str>, limit: u32) -> Result<Vec<FeedEvent>, StoreError> {
        let after = FeedPlace::of(place)?;
        let found = events(self.reader(), after, limit).await?;
        match place {
            Some(text) if found.is_empty() && is_beyond(self.reader(), after).await? => {
                Err(place_beyond_end(text))
            }
            _ => Ok(found),
        }
    }

    async fn latest(&self) -> Result<Option<String>, StoreError> {
        let rows = self.reader().read(LATEST, &[]).await?;
        let place = rows.first().map(FeedPlace::read).transpose().map_err(|fault| fault.to_read_error())?;
        Ok(place.map(FeedPlace::text))
    }

    async fn changed_runs(&self, mark: Option<&str>) -> Result<ChangedRuns, StoreError> {
        let since: Option<i64> =
            mark.map(|mark| mark.parse().map_err(|_| unknown_place(mark))).transpose()?;
        // The mark first: an event that is appended between the two queries is returned now and next time.
        let rows = self.reader().read(MARK, &[]).await?;
        let mark: Result<i64, PgFault> = rows.first().map_or(Ok(0), |row| column(row, 0));
        let mark = mark.map_err(|fault| fault.to_read_error())?.to_string();
        let Some(since) = since else { return Ok(ChangedRuns { runs: Vec::new(), mark }) };
        let rows = self.reader().read(CHANGED, &[(&since as _, Type::INT8)]).await?;
        let runs: Result<Vec<RunId>, PgFault> = rows.iter().map(|row| run_id(row, 0)).collect();
        Ok(ChangedRuns { runs: runs.map_err(|fault| fault.to_read_error())?, mark })
    }
}
