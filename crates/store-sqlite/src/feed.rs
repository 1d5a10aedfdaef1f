//! The feed: one writer at a time numbers the events, so a new number is always behind all numbers that were read.

use async_trait::async_trait;
use goldseam_core::Seq;
use goldseam_store::feed::{place_beyond_end, unknown_place};
use goldseam_store::{ChangedRuns, Feed, FeedEvent, Record, StoreError};
use rusqlite::{Connection, OptionalExtension, params};

use crate::SqliteStore;
use crate::fault::SqliteFault;
use crate::sql::id;

const EVENTS_AFTER: &str = "SELECT e.gseq, r.id, e.seq, e.body FROM events AS e JOIN runs AS r ON r.rid = e.rid \
    WHERE e.gseq > ?1 ORDER BY e.gseq LIMIT ?2";
const LATEST: &str = "SELECT MAX(gseq) FROM events";
const CHANGED: &str = "SELECT DISTINCT r.id FROM events AS e JOIN runs AS r ON r.rid = e.rid \
    WHERE e.gseq > ?1 AND e.gseq <= ?2";

fn number(place: Option<&str>) -> Result<i64, StoreError> {
    let number = |place: &str| place.parse().ok().filter(|number: &i64| *number >= 0);
    place.map_or(Ok(0), |place| number(place).ok_or_else(|| unknown_place(place)))
}

fn events(conn: &Connection, after: i64, limit: u32) -> Result<Vec<FeedEvent>, SqliteFault> {
    let mut statement = conn.prepare_cached(EVENTS_AFTER)?;
    let found = statement.query_map(params![after, limit], |row| {
        let place: i64 = row.get(0)?;
        let seq: i64 = row.get(2)?;
        let record = Record { seq: Seq(seq.unsigned_abs()), body: row.get(3)? };
        Ok(FeedEvent { place: place.to_string(), run: id(row, 1)?, record })
    })?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

fn latest(conn: &Connection) -> Result<Option<i64>, SqliteFault> {
    let found = conn.prepare_cached(LATEST)?.query_row([], |row| row.get(0)).optional()?;
    Ok(found.flatten())
}

fn changed_runs(conn: &Connection, after: Option<i64>) -> Result<ChangedRuns, SqliteFault> {
    let end = latest(conn)?.unwrap_or(0);
    let mut statement = conn.prepare_cached(CHANGED)?;
    let found = statement.query_map(params![after.unwrap_or(end), end], |row| id(row, 0))?;
    Ok(ChangedRuns { runs: found.collect::<rusqlite::Result<_>>()?, mark: end.to_string() })
}

#[async_trait]
impl Feed for SqliteStore {
    async fn events_after(&self, place: Option<&str>, limit: u32) -> Result<Vec<FeedEvent>, StoreError> {
        let after = number(place)?;
        let read = move |conn: &Connection| {
            let found = events(conn, after, limit)?;
            // Numbers are never reused: a tombstone keeps the last number of its run.
            let beyond = found.is_empty() && after > 0 && latest(conn)?.unwrap_or(0) < after;
            Ok((found, beyond))
        };
        match self.readers.read(read).await? {
            (_, true) => Err(place_beyond_end(place.unwrap_or_default())),
            (found, false) => Ok(found),
        }
    }

    async fn latest(&self) -> Result<Option<String>, StoreError> {
        Ok(self.readers.read(latest).await?.map(|number| number.to_string()))
    }

    async fn changed_runs(&self, mark: Option<&str>) -> Result<ChangedRuns, StoreError> {
        let after = mark.map(|mark| number(Some(mark))).transpose()?;
        self.readers.read(move |conn| changed_runs(conn, after)).await
    }
}
