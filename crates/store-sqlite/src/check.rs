//! Checks and migrates a database, for `goldseam store`.

use std::path::Path;

use goldseam_store::check::{Fact, Migrated, StoreReport};
use goldseam_store::{OpenMode, StoreError};
use rusqlite::Connection;

use crate::fault::refused;
use crate::files::{beside, cannot_open, preflight, size};
use crate::migrate;
use crate::open;
use crate::url::SqliteOptions;

/// Most complaints that are reported.
const COMPLAINTS_MAX: u32 = 100;

/// Checks a database. Reads all of it, and changes nothing.
pub fn check(path: &Path, options: &SqliteOptions) -> Result<StoreReport, StoreError> {
    must_exist(path)?;
    preflight(path)?;
    let conn = open::reader(path, options)?;
    let schema = migrate::identify(&conn, path)?;
    report(&conn, path, schema, options).map_err(|error| cannot_open(path, &error))
}

/// Migrates a database, or creates it.
pub fn migrate(path: &Path, options: &SqliteOptions) -> Result<Migrated, StoreError> {
    let from = match size(path) {
        Ok(Some(1..)) => {
            preflight(path)?;
            migrate::identify(&open::reader(path, options)?, path)?
        }
        _ => 0,
    };
    open::writer(path, options, OpenMode::CreateOrMigrate)?;
    Ok(Migrated { from, to: migrate::latest() })
}

fn must_exist(path: &Path) -> Result<(), StoreError> {
    match size(path) {
        Ok(Some(_)) => Ok(()),
        _ => Err(refused(
            "GS0205",
            format!("database {} does not exist", path.display()),
            "pass the path of the database that your engine uses",
        )),
    }
}

fn report(
    conn: &Connection,
    path: &Path,
    schema: i64,
    options: &SqliteOptions,
) -> rusqlite::Result<StoreReport> {
    let count = |sql: &'static str| -> rusqlite::Result<u64> {
        if schema == 0 {
            return Ok(0);
        }
        conn.query_row(sql, [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs)
    };
    Ok(StoreReport {
        schema,
        schema_latest: migrate::latest(),
        facts: vec![
            ("journal_mode", Fact::Text(conn.pragma_query_value(None, "journal_mode", |row| row.get(0))?)),
            ("durability", Fact::Text(options.durability.as_str().to_owned())),
            ("bytes", Fact::Number(size(path).ok().flatten().unwrap_or_default())),
            ("wal_bytes", Fact::Number(size(&beside(path, "-wal")).ok().flatten().unwrap_or_default())),
        ],
        runs: count("SELECT count(*) FROM runs")?,
        events: count("SELECT count(*) FROM events")?,
        tasks: count("SELECT count(*) FROM tasks")?,
        locks: count("SELECT count(*) FROM locks")?,
        nodes: count("SELECT count(*) FROM nodes")?,
        complaints: complaints(conn, schema)?,
    })
}

fn complaints(conn: &Connection, schema: i64) -> rusqlite::Result<Vec<String>> {
    let mut integrity = conn.prepare("PRAGMA integrity_check(100)")?;
    let messages = integrity.query_map([], |row| row.get::<_, String>(0))?;
    let mut found: Vec<String> = messages.collect::<rusqlite::Result<_>>()?;
    found.retain(|message| message != "ok");
    if schema > 0 {
        let mut gaps = conn.prepare(
            // A log may begin with a tombstone: earlier events are archived.
            "SELECT COALESCE(r.id, '(unknown)'), l.count, l.last FROM (\
                 SELECT rid, count(*) AS count, min(seq) AS first, max(seq) AS last FROM events GROUP BY rid) AS l \
             LEFT JOIN runs AS r ON r.rid = l.rid \
             WHERE l.count <> l.last - l.first + 1 OR r.id IS NULL OR (l.first <> 1 AND NOT EXISTS (\
                 SELECT 1 FROM events AS e WHERE e.rid = l.rid AND e.seq = l.first \
                     AND instr(e.body, '\"event\":{\"type\":\"run.pruned\"') > 0)) LIMIT ?1",
        )?;
        let messages = gaps.query_map([COMPLAINTS_MAX], |row| {
            let run: String = row.get(0)?;
            let count: i64 = row.get(1)?;
            let end: i64 = row.get(2)?;
            Ok(format!("the log of run {run} has {count} events but ends at {end}"))
        })?;
        for message in messages {
            found.push(message?);
        }
    }
    Ok(found)
}
