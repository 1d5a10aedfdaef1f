//! The raw baselines: one SQLite connection, no engine.

use std::path::Path;
use std::time::Instant;

use rusqlite::{Connection, params};

use crate::Fallible;

/// Opens a database as durable as the store's own.
pub(crate) fn open(path: &Path) -> Fallible<Connection> {
    let conn = Connection::open(path)?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    Ok(conn)
}

/// A table of one row per commit.
pub(crate) struct Single {
    conn: Connection,
    body: String,
}

impl Single {
    pub(crate) fn open(path: &Path) -> Fallible<Self> {
        let conn = open(path)?;
        conn.execute_batch("CREATE TABLE IF NOT EXISTS raw (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")?;
        Ok(Self { conn, body: "x".repeat(200) })
    }

    /// Seconds per durable single-row commit, over `count` of them.
    pub(crate) fn commits(&self, count: u32) -> Fallible<f64> {
        let began = Instant::now();
        for _ in 0..count {
            self.conn.prepare_cached("INSERT INTO raw (body) VALUES (?1)")?.execute(params![self.body])?;
        }
        Ok(began.elapsed().as_secs_f64() / f64::from(count))
    }
}
