//! Raw access to SQLite.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rusqlite::params;

use super::{EndedRun, RID_FIRST, Raw, RawAppend};
use crate::Fallible;
use crate::target::Target;

/// A file, opened with the durability of the store.
pub(crate) struct RawSqlite {
    path: PathBuf,
    conn: rusqlite::Connection,
}

impl RawSqlite {
    pub(crate) fn open(url: &str) -> Fallible<Self> {
        let path = Target::file(url);
        let conn = rusqlite::Connection::open(&path)?;
        conn.busy_timeout(Duration::from_secs(5))?;
        conn.pragma_update(None, "journal_mode", "WAL")?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        conn.set_prepared_statement_cache_capacity(32);
        Ok(Self { path, conn })
    }

    fn append(&self, piece: &RawAppend<'_>) -> Fallible<()> {
        let rid = piece.rid;
        let run = piece.run;
        if piece.is_first() {
            let kind = format!("advance:{}@1", run.workflow);
            let owner = "n-0123456789abcdef";
            let values = params![run.task, format!("default/{kind}"), kind, run.id, owner, run.updated_at];
            self.conn.prepare_cached(TASK)?.execute(values)?;
            let values = params![
                rid,
                run.id,
                run.workflow,
                owner,
                run.created_at,
                run.updated_at,
                run.as_of,
                run.task,
                run.summary
            ];
            self.conn.prepare_cached(RUN)?.execute(values)?;
        }
        for seq in piece.events() {
            let body = &run.bodies[seq - 1];
            match seq {
                1 => self.conn.prepare_cached(EVENT_FIRST)?.execute(params![rid, body])?,
                _ => self.conn.prepare_cached(EVENT)?.execute(params![rid, i64::try_from(seq - 1)?, body])?,
            };
        }
        if piece.is_last() {
            let values = params![rid, run.updated_at, run.as_of, run.summary];
            self.conn.prepare_cached(RUN_END)?.execute(values)?;
            self.conn.prepare_cached("DELETE FROM tasks WHERE id = ?1")?.execute([&run.task])?;
        }
        Ok(())
    }
}

#[async_trait(?Send)]
impl Raw for RawSqlite {
    async fn commits(&mut self, count: u32) -> Fallible<f64> {
        self.conn
            .execute_batch("CREATE TABLE IF NOT EXISTS raw (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")?;
        let body = "x".repeat(200);
        let began = Instant::now();
        for _ in 0..count {
            self.conn.prepare_cached("INSERT INTO raw (body) VALUES (?1)")?.execute(params![body])?;
        }
        Ok(began.elapsed().as_secs_f64() / f64::from(count))
    }

    async fn written(&mut self) -> Fallible<Vec<EndedRun>> {
        let mut events = self.conn.prepare("SELECT body FROM events WHERE rid = ?1 ORDER BY seq")?;
        let mut runs = self.conn.prepare(WRITTEN)?;
        let mut found = runs.query([])?;
        let mut all = Vec::new();
        while let Some(row) = found.next()? {
            let bodies = events.query_map([row.get::<_, i64>(0)?], |row| row.get(0))?;
            all.push(EndedRun {
                id: row.get(1)?,
                workflow: row.get(2)?,
                created_at: row.get(3)?,
                updated_at: row.get(4)?,
                as_of: row.get(5)?,
                task: row.get(6)?,
                summary: row.get(7)?,
                bodies: bodies.collect::<Result<_, _>>()?,
            });
        }
        Ok(all)
    }

    async fn write(&mut self, group: &[RawAppend<'_>]) -> Fallible<u64> {
        let before = self.conn.total_changes();
        self.conn.execute_batch("BEGIN IMMEDIATE")?;
        group.iter().try_for_each(|piece| self.append(piece))?;
        self.conn.execute_batch("COMMIT")?;
        Ok(self.conn.total_changes() - before)
    }

    async fn open_runs(&mut self) -> Fallible<u32> {
        Ok(self.conn.prepare_cached("SELECT COUNT(*) FROM tasks")?.query_row([], |row| row.get(0))?)
    }

    async fn completions(&mut self, step: &str) -> Fallible<(u64, u64)> {
        let counts = self
            .conn
            .query_row(COMPLETIONS, [step], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
        Ok((counts.0.unsigned_abs(), counts.1.unsigned_abs()))
    }

    async fn filled(&mut self) -> Fallible<i64> {
        let last: i64 = self.conn.query_row("SELECT MAX(rid) FROM runs", [], |row| row.get(0))?;
        Ok((last - RID_FIRST).max(0))
    }

    async fn fill(&mut self, count: i64) -> Fallible<()> {
        let there = self.filled().await?;
        self.conn.pragma_update(None, "synchronous", "OFF")?;
        self.conn.execute_batch("BEGIN")?;
        for sql in FILL {
            self.conn.execute(sql, params![there, count, RID_FIRST])?;
        }
        self.conn.execute_batch("COMMIT")?;
        self.conn.pragma_update(None, "synchronous", "FULL")?;
        self.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        self.settle().await
    }

    async fn settle(&mut self) -> Fallible<()> {
        self.conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
        std::fs::File::open(&self.path)?.sync_all()?;
        Ok(())
    }

    async fn bytes(&mut self) -> Fallible<f64> {
        self.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        self.conn.execute_batch("VACUUM")?;
        self.conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(std::fs::metadata(&self.path)?.len() as f64)
    }
}

const WRITTEN: &str = "SELECT rid, id, workflow, created_at, updated_at, as_of, task, summary FROM runs \
    WHERE id <> 'warm' ORDER BY rid";
const EVENT_FIRST: &str = "INSERT OR IGNORE INTO events (rid, seq, body) VALUES (?1, 1, ?2)";
const EVENT: &str = "INSERT OR IGNORE INTO events (rid, seq, body) \
    SELECT ?1, ?2 + 1, ?3 WHERE EXISTS (SELECT 1 FROM events WHERE rid = ?1 AND seq = ?2)";
const RUN: &str = "INSERT INTO runs (rid, id, workflow, status, owner, created_at, updated_at, as_of, task, summary) \
    VALUES (?1, ?2, ?3, 'running', ?4, ?5, ?6, ?7, ?8, ?9)";
const RUN_END: &str = "UPDATE runs SET status = 'completed', owner = NULL, updated_at = ?2, as_of = ?3, summary = ?4 \
    WHERE rid = ?1";
const TASK: &str = "INSERT INTO tasks (id, pool, kind, queue, priority, state, ripe, run_at, run, owner, poked, version, fence, \
    deliveries, attempts, attempts_max, started_at, heartbeat_at, created_at, changed_at, payload) \
    VALUES (?1, ?2, ?3, 'default', 0, 'claimed', 1, ?6, ?4, ?5, 0, 2, 1, 0, 0, 1, ?6, ?6, ?6, ?6, 'null')";
const COMPLETIONS: &str = "SELECT COUNT(*), COUNT(DISTINCT run) FROM history \
    WHERE type = 'step.completed' AND json_extract(data, '$.path') = ?1";
const FILL: [&str; 2] = [
    "WITH RECURSIVE n(i) AS (SELECT ?1 + 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2) \
     INSERT INTO runs (rid, id, workflow, status, created_at, updated_at, as_of, task, summary) \
     SELECT ?3 + i, 'run-' || lower(hex(randomblob(8))), workflow, status, created_at, updated_at, as_of, task, summary \
     FROM n, runs WHERE id = 'pattern'",
    "WITH RECURSIVE n(i) AS (SELECT ?1 + 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2) \
     INSERT INTO events (rid, seq, body) SELECT ?3 + i, seq, body FROM n, events \
     WHERE events.rid = (SELECT rid FROM runs WHERE id = 'pattern')",
];
