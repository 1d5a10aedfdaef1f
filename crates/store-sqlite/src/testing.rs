//! Stores for tests of other crates, and damage to them. Feature `testing`.
//!
//! Invariant: damage is done by a separate connection; the store itself cannot damage anything.

#![expect(clippy::unwrap_used, reason = "a fixture that cannot be made fails its test")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use goldseam_conformance::damage::{Garble, Target};
use goldseam_conformance::views::Cells;
use goldseam_conformance::{Capabilities, Damage, Fixture, Views};
use goldseam_core::{RunId, Seq, TaskId};
use goldseam_store::{ClockFn, ManualClock};
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior, params};

use crate::sql::sql_int;
use crate::{SqliteOptions, SqliteStore, system_clock};

/// How long a separate connection waits for the store.
const BUSY_TIMEOUT: Duration = Duration::from_secs(20);

/// Loses the row of one run, or all rows if the parameter is null.
const LOSE_ROWS: &str = "UPDATE runs SET workflow = NULL, status = NULL, owner = NULL, parent = NULL, \
    cause = NULL, created_at = NULL, recovered_at = NULL, as_of = 0, task = NULL, summary = NULL \
    WHERE ?1 IS NULL OR id = ?1";
const LOSE_TAGS: &str = "DELETE FROM run_tags WHERE ?1 IS NULL OR rid = (SELECT rid FROM runs WHERE id = ?1)";
const LOSE_ADVANCE_TASKS: &str = "DELETE FROM tasks WHERE kind >= 'advance:' AND kind < 'advance;'";
const LOSE_TASK: &str = "DELETE FROM tasks WHERE id = ?1";
const LOSE_EVENT: &str = "DELETE FROM events WHERE rid = (SELECT rid FROM runs WHERE id = ?1) AND seq = ?2";
const CORRUPT: &str =
    "UPDATE events SET body = ?3 WHERE rid = (SELECT rid FROM runs WHERE id = ?1) AND seq = ?2";

/// A store in a new folder, with a manual clock. The folder is removed with the fixture.
pub async fn fixture() -> Fixture {
    let clock = ManualClock::default();
    on(clock.clock(), clock)
}

/// A store in a new folder, with this machine's clock.
pub async fn fixture_on_real_clock() -> Fixture {
    let capabilities = Capabilities { manual_clock: false, ..Capabilities::default() };
    on(system_clock(), ManualClock::default()).with(capabilities)
}

fn on(clock: ClockFn, moved: ManualClock) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    let store = SqliteStore::open(&path, SqliteOptions { clock, ..SqliteOptions::default() }).unwrap();
    let fixture = Fixture::new(Arc::new(store), moved).damaged_by(Arc::new(SqliteSaboteur::of(&path)));
    fixture.viewed_by(Arc::new(SqliteViewReader::of(&path))).keeping(folder)
}

/// Reads the views past the store.
#[derive(Debug)]
pub struct SqliteViewReader {
    path: PathBuf,
}

impl SqliteViewReader {
    /// For this database.
    pub fn of(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }
}

#[async_trait]
impl Views for SqliteViewReader {
    async fn ask(&self, sql: &str) -> Vec<Cells> {
        let conn = Connection::open_with_flags(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        conn.busy_timeout(BUSY_TIMEOUT).unwrap();
        let mut statement = conn.prepare(sql).unwrap();
        let width = statement.column_count();
        let cell = |value: Value| match value {
            Value::Null => None,
            Value::Integer(number) => Some(number.to_string()),
            Value::Real(number) => Some(number.to_string()),
            Value::Text(text) => Some(text),
            Value::Blob(bytes) => Some(format!("{bytes:?}")),
        };
        let rows = statement.query_map([], |row| (0..width).map(|at| row.get(at).map(cell)).collect());
        rows.unwrap().collect::<rusqlite::Result<_>>().unwrap()
    }

    fn millis(&self, column: &str) -> String {
        format!("CAST(round((julianday({column}) - 2440587.5) * 86400000.0) AS INTEGER)")
    }
}

/// Writes into the file past the store.
#[derive(Debug)]
pub struct SqliteSaboteur {
    path: PathBuf,
}

impl SqliteSaboteur {
    /// For this database.
    pub fn of(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Runs `act` in one transaction.
    fn write<T>(&self, act: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> T {
        let mut conn = Connection::open(&self.path).unwrap();
        conn.busy_timeout(BUSY_TIMEOUT).unwrap();
        let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        let done = act(&transaction).unwrap();
        transaction.commit().unwrap();
        done
    }

    fn lose_rows(&self, run: Option<&RunId>) {
        let run = run.map(|run| run.as_str());
        self.write(|transaction| {
            transaction.execute(LOSE_ROWS, [run]).and(transaction.execute(LOSE_TAGS, [run]))
        });
    }
}

#[async_trait]
impl Damage for SqliteSaboteur {
    async fn lose_row(&self, run: &RunId) {
        self.lose_rows(Some(run));
    }

    async fn lose_task(&self, task: &TaskId) {
        self.write(|transaction| transaction.execute(LOSE_TASK, [task.as_str()]));
    }

    async fn lose_event(&self, run: &RunId, seq: Seq) {
        let lost =
            self.write(|transaction| transaction.execute(LOSE_EVENT, params![run.as_str(), sql_int(seq.0)]));
        assert_eq!(lost, 1, "{run} has no event {seq} to lose");
    }

    async fn corrupt(&self, run: &RunId, seq: Seq, body: &str) {
        let changed = self
            .write(|transaction| transaction.execute(CORRUPT, params![run.as_str(), sql_int(seq.0), body]));
        assert_eq!(changed, 1, "{run} has no event {seq} to change");
    }

    async fn garble(&self, what: Target<'_>, how: Garble) {
        let (table, key, name, text, word) = match what {
            Target::Row(run) => ("runs", "id", run.as_str(), "summary", None),
            Target::Task(task) => ("tasks", "id", task.as_str(), "payload", Some("state")),
            Target::Lock(lock) => ("locks", "name", lock.as_str(), "audit", None),
            Target::Node(node) => ("nodes", "id", node.as_str(), "workflows", Some("state")),
        };
        let set = match (how, word) {
            (Garble::Later, Some(word)) => [word, " = 'hibernating'"].concat(),
            (Garble::Later, None) if table == "runs" => "status = 'hibernating', \
                summary = json_set(summary, '$.status', 'hibernating')"
                .to_owned(),
            (Garble::Bytes, _) => [text, " = CAST(x'4dfc6c6c6572' AS TEXT)"].concat(),
            (Garble::Type, _) if table == "tasks" => "attempts = 'many'".to_owned(),
            (Garble::Type, _) => [text, " = 17"].concat(),
            (Garble::Torn | Garble::Later, _) => [text, " = '{bad'"].concat(),
        };
        let sql = ["UPDATE ", table, " SET ", &set, " WHERE ", key, " = ?1"].concat();
        let changed = self.write(|transaction| transaction.execute(&sql, [name]));
        assert_eq!(changed, 1, "{what:?} does not exist");
    }

    async fn lose_hints(&self) {
        self.lose_rows(None);
        self.write(|transaction| transaction.execute(LOSE_ADVANCE_TASKS, []));
    }
}
