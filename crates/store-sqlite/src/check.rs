//! Checks, migrates and compacts a database, for `goldseam store`.

use std::path::Path;
use std::time::Duration;

use goldseam_store::check::{Compacted, Fact, Migrated, StoreReport};
use goldseam_store::{OpenMode, Pulse, StoreError};
use rusqlite::Connection;

use crate::fault::{SqliteErrorKind, SqliteFault, refused};
use crate::files::{beside, cannot_open, preflight, size};
use crate::liveness::LivenessLocks;
use crate::migrate;
use crate::nodes;
use crate::open;
use crate::url::SqliteOptions;

/// How long a rewrite waits for other processes.
const BUSY_MAX: Duration = Duration::from_secs(10);
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

/// Returns unused pages of a database to the file system. Refuses while a node works on it: a rewrite locks out every
/// writer, and nodes that cannot beat are taken over.
pub fn compact(path: &Path, options: &SqliteOptions) -> Result<Compacted, StoreError> {
    must_exist(path)?;
    preflight(path)?;
    let conn = open::writer(path, options, OpenMode::RequireCurrent)?;
    let failed = |error: rusqlite::Error| match SqliteErrorKind::of(&error) {
        SqliteErrorKind::Busy => in_use(path, "another process uses it"),
        _ => cannot_open(path, &error),
    };
    let nodes = nodes::list(&conn, &LivenessLocks::beside(path)).map_err(SqliteFault::into_read_error)?;
    if let Some(node) = nodes.iter().find(|node| node.pulse == Pulse::Held) {
        return Err(in_use(path, &format!("node {} works on it", node.record.name)));
    }
    let bytes = || {
        let of = |path: &Path| size(path).ok().flatten().unwrap_or_default();
        of(path) + of(&beside(path, "-wal"))
    };
    let before = bytes();
    let rewrite = || -> rusqlite::Result<()> {
        conn.busy_timeout(BUSY_MAX)?;
        // The copy of a large database does not fit into memory.
        conn.pragma_update(None, "temp_store", "file")?;
        conn.execute_batch("VACUUM; ANALYZE")?;
        conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
    };
    rewrite().map_err(failed)?;
    Ok(Compacted { before, after: bytes(), note: "the file was rewritten without unused pages".to_owned() })
}

fn in_use(path: &Path, why: &str) -> StoreError {
    let what = format!("cannot compact {}: {why}", path.display());
    refused("GS0228", what, "stop every engine and server of this store, compact it, then start them again")
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
