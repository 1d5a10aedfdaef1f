//! The SQL views, with the queries of the guide, on a store in which nearly all runs have ended.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::sync::Arc;

use goldseam_conformance::Fixture;
use goldseam_conformance::views::{blocks, stalled};
use goldseam_store::ManualClock;
use goldseam_store_sqlite::{SqliteOptions, SqliteStore};
use rusqlite::types::Value;
use rusqlite::{Connection, StatementStatus};
use tempfile::TempDir;

const GUIDE: &str = include_str!("../../../docs/guides/sql-views.md");

/// A plain connection beside a store with stalled runs.
async fn session() -> (TempDir, Connection) {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("gold.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    stalled(&Fixture::new(Arc::new(store), ManualClock::default())).await;
    (folder, Connection::open(path).unwrap())
}

/// The block of the guide that contains this text.
fn block(word: &str) -> &'static str {
    blocks(GUIDE, "sqlite").into_iter().find(|sql| sql.contains(word)).unwrap()
}

/// The rows of a query, and the number of steps of the virtual machine.
fn ask(conn: &Connection, sql: &str) -> (Vec<Vec<Value>>, i32) {
    let mut statement = conn.prepare(sql).unwrap();
    let width = statement.column_count();
    let values: &[&str] = if sql.contains("$1") { &["silent"] } else { &[] };
    let rows = statement
        .query_map(rusqlite::params_from_iter(values), |row| (0..width).map(|at| row.get(at)).collect());
    let rows = rows.unwrap().collect::<rusqlite::Result<_>>().unwrap();
    (rows, statement.get_status(StatementStatus::VmStep))
}

fn texts(row: &[Value]) -> Vec<&str> {
    let mut texts = Vec::new();
    for value in row {
        if let Value::Text(text) = value {
            texts.push(text.as_str());
        }
    }
    texts
}

#[tokio::test]
async fn the_queries_of_the_runbook_work() {
    let (_folder, conn) = session().await;
    let (stale, _) = ask(&conn, block("strftime"));
    assert_eq!(stale.len(), 1, "{stale:?}");
    assert_eq!(texts(&stale[0])[..2], ["silent/r0", "r0"]);
    let (history, _) = ask(&conn, block("-- Inspect execution history"));
    let types: Vec<&str> = history.iter().map(|row| texts(row)[0]).collect();
    assert_eq!(types, ["run.queued", "run.claimed", "run.started", "step.started"]);
    assert!(texts(&history[0])[1].contains("\"workflow\":\"checkout\""), "{history:?}");
}

#[tokio::test]
async fn the_queries_of_the_dashboards_work() {
    let (_folder, conn) = session().await;
    let (reasons, _) = ask(&conn, block("-- Recovery events by reason"));
    assert_eq!(reasons.len(), 1);
    assert_eq!((texts(&reasons[0])[0], &reasons[0][1]), ("infrastructure_restart", &Value::Integer(2)));
    let (runs, _) = ask(&conn, block("-- Workflows that required recovery"));
    assert_eq!(runs.len(), 1);
    assert_eq!(
        (texts(&runs[0])[..2].to_vec(), &runs[0][2]),
        (vec!["fallen", "checkout"], &Value::Integer(2))
    );
}

#[tokio::test]
async fn every_query_of_the_guide_runs() {
    let (_folder, conn) = session().await;
    let queries = blocks(GUIDE, "sqlite");
    assert!(queries.len() >= 6);
    for sql in queries {
        ask(&conn, sql);
    }
}

/// 20,000 ended and 20,000 sleeping runs, each with a log.
const MANY: &str = r#"
    BEGIN;
    WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 40000)
    INSERT INTO runs (id, workflow, status, created_at, updated_at, as_of, summary)
    SELECT 'm-' || n, 'checkout', CASE n % 6 WHEN 0 THEN 'completed' WHEN 1 THEN 'completed' WHEN 2 THEN 'failed'
        ELSE 'sleeping' END, n, n, 6, '{}' FROM n;
    WITH RECURSIVE s (s) AS (SELECT 1 UNION ALL SELECT s + 1 FROM s WHERE s < 6)
    INSERT INTO events (rid, seq, body)
    SELECT r.rid, s, '{"v":1,"at":' || s || ',"branch":1,"event":{"type":"step.started","data":{"path":"s' || s
        || '","ord":1,"attempt":1}}}'
    FROM runs AS r JOIN s WHERE r.id LIKE 'm-%';
    WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 20000)
    INSERT INTO tasks (id, pool, kind, queue, priority, state, ripe, run_at, run, poked, version, fence, deliveries,
        attempts, attempts_max, created_at, changed_at, payload, step)
    SELECT 'm-' || n, 'gpu', 'x', 'gpu', 0, 'completed', 1, 1, 'm-' || n, 0, 1, 1, 0, 0, 1, 1, 1, '1', '{}' FROM n;
    COMMIT;"#;

#[tokio::test]
async fn ended_and_sleeping_runs_do_not_slow_the_queries() {
    let (_folder, conn) = session().await;
    let asked = ["strftime", "FROM job_runs", "-- Recovery events", "-- Workflows that required"].map(block);
    let before = asked.map(|sql| ask(&conn, sql));
    conn.execute_batch(MANY).unwrap();
    for (sql, (rows, steps)) in asked.iter().zip(before) {
        let (again, more) = ask(&conn, sql);
        assert_eq!(again, rows, "{sql}");
        assert!(more < steps + steps / 10, "{steps} steps became {more}: {sql}");
    }
}

/// Inserts a running run with this number of steps.
fn long(conn: &Connection, name: &str, steps: u32) {
    let run = "INSERT INTO runs (id, workflow, status, owner, created_at, updated_at, as_of, summary) \
        VALUES (?1, 'checkout', 'running', 'n', 1, 1, 1, '{\"base\":1}')";
    conn.execute(run, [name]).unwrap();
    let rid = conn.last_insert_rowid();
    let events = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?2) \
        INSERT INTO events (rid, seq, body) SELECT ?1, n, '{\"at\":1,\"branch\":1,\"event\":{\"type\":\"step.completed\",\
        \"data\":{\"path\":\"s' || n || '\",\"ord\":1,\"attempt\":1,\"began\":1}}}' FROM n";
    conn.execute(events, rusqlite::params![rid, steps]).unwrap();
}

#[tokio::test]
async fn the_cost_of_a_run_grows_linearly_with_its_length() {
    let (_folder, conn) = session().await;
    long(&conn, "m-500", 500);
    long(&conn, "m-2000", 2_000);
    let cost =
        |run: &str| ask(&conn, &format!("SELECT * FROM workflow_run_steps WHERE workflow_run_id = '{run}'"));
    let ((few, short), (many, long)) = (cost("m-500"), cost("m-2000"));
    assert_eq!((few.len(), many.len()), (500, 2_000));
    assert!(long < short * 5, "{short} steps became {long}");
}
