//! Looks a database over and brings its schema up to date, for `goldseam store`.

use std::path::Path;

use goldseam_store::StoreError;
use rusqlite::Connection;

use crate::open::{self, Older, beside, cannot_open, refused, size};
use crate::url::Options;
use crate::{migrate, open as files};

/// Most complaints that are reported.
const COMPLAINTS_MAX: u32 = 100;

/// What was found in a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The schema of the file.
    pub schema: i64,
    /// The schema that this program writes.
    pub schema_latest: i64,
    /// How changes are written; `wal` if all is well.
    pub journal_mode: String,
    /// What a commit survives when it is opened like this.
    pub durability: &'static str,
    /// Bytes of the database itself.
    pub bytes: u64,
    /// Bytes of its write-ahead log.
    pub wal_bytes: u64,
    /// Runs.
    pub runs: u64,
    /// Events of all runs.
    pub events: u64,
    /// Tasks, finished ones too.
    pub tasks: u64,
    /// Named locks, free ones too.
    pub locks: u64,
    /// Nodes that were not forgotten.
    pub nodes: u64,
    /// What is wrong with the file or its logs; empty if nothing is.
    pub complaints: Vec<String>,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.complaints.is_empty()
    }
}

/// What a migration did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    /// The schema before; 0 is an empty file.
    pub from: i64,
    /// The schema now.
    pub to: i64,
}

/// Looks a database over. Reads all of it, changes nothing.
pub fn check(path: &Path, options: &Options) -> Result<Report, StoreError> {
    must_exist(path)?;
    files::preflight(path)?;
    let conn = open::reader(path, options)?;
    let schema = migrate::identify(&conn, path)?;
    look(&conn, path, (schema, options)).map_err(|error| cannot_open(path, &error))
}

/// Brings a database's schema up to date, or makes a new one.
pub fn migrate(path: &Path, options: &Options) -> Result<Migrated, StoreError> {
    let from = match size(path) {
        Ok(Some(1..)) => {
            files::preflight(path)?;
            migrate::identify(&open::reader(path, options)?, path)?
        }
        _ => 0,
    };
    open::writer(path, options, Older::Migrate)?;
    Ok(Migrated { from, to: migrate::latest() })
}

fn must_exist(path: &Path) -> Result<(), StoreError> {
    match size(path) {
        Ok(Some(_)) => Ok(()),
        _ => Err(refused(
            "GS0205",
            format!("there is no database {}", path.display()),
            "name the file that your engine uses",
        )),
    }
}

fn look(conn: &Connection, path: &Path, (schema, options): (i64, &Options)) -> rusqlite::Result<Report> {
    let count = |sql: &'static str| -> rusqlite::Result<u64> {
        if schema == 0 {
            return Ok(0);
        }
        conn.query_row(sql, [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs)
    };
    Ok(Report {
        schema,
        schema_latest: migrate::latest(),
        journal_mode: conn.pragma_query_value(None, "journal_mode", |row| row.get(0))?,
        durability: options.durability.as_str(),
        bytes: size(path).ok().flatten().unwrap_or_default(),
        wal_bytes: size(&beside(path, "-wal")).ok().flatten().unwrap_or_default(),
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
    let words = integrity.query_map([], |row| row.get::<_, String>(0))?;
    let mut found: Vec<String> = words.collect::<rusqlite::Result<_>>()?;
    found.retain(|words| words != "ok");
    if schema > 0 {
        let mut gaps = conn.prepare(
            "SELECT COALESCE(r.id, 'of no run'), count(*), max(e.seq) FROM events AS e \
             LEFT JOIN runs AS r ON r.rid = e.rid GROUP BY e.rid \
             HAVING count(*) <> max(e.seq) OR min(e.seq) <> 1 OR r.id IS NULL LIMIT ?1",
        )?;
        let words = gaps.query_map([COMPLAINTS_MAX], |row| {
            let (run, count, end): (String, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(format!("the log {run} has {count} events but ends at {end}"))
        })?;
        for words in words {
            found.push(words?);
        }
    }
    Ok(found)
}
