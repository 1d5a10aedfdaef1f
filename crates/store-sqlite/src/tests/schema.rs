//! Migrations of older databases, and queries that must use an index.

use std::path::Path;

use goldseam_conformance::make;
use goldseam_core::summary::OpenWait;
use goldseam_core::{Millis, Seq, Status, Summary};
use goldseam_store::check::Migrated;
use goldseam_store::unproven::Rest;
use goldseam_store::{Cursor, OrderKey, RunFilter, RunOrder, Store, UnprovenFilter};
use rusqlite::{Connection, StatementStatus, params};

use super::{append, code, open};
use crate::check::{check, migrate};
use crate::list::{ROWLESS, query};
use crate::migrate::{APPLICATION_ID, MIGRATIONS, REGISTER, step};
use crate::open::reader;
use crate::read::{READ, records};
use crate::tasks::UNPROVEN;
use crate::{SqliteOptions, SqliteStore, schema_latest, unproven};

/// A database with an older schema.
fn old(path: &Path, schema: usize) -> Connection {
    let conn = Connection::open(path).unwrap();
    conn.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
    conn.execute_batch(REGISTER).unwrap();
    for migration in &MIGRATIONS[..schema] {
        step(&conn, migration, Millis(1)).unwrap();
    }
    conn
}

/// SQLite's plan of a query.
fn plan(conn: &Connection, sql: &str) -> String {
    let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let unbound = statement.parameter_count();
    let nulls = rusqlite::params_from_iter((0..unbound).map(|_| rusqlite::types::Null));
    let lines = statement.query_map(nulls, |row| row.get::<_, String>(3)).unwrap();
    lines.collect::<rusqlite::Result<Vec<_>>>().unwrap().join("; ")
}

#[test]
fn finds_lost_rows_by_their_own_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    drop(open(&path));
    let plan = plan(&Connection::open(&path).unwrap(), ROWLESS);
    assert_eq!(plan, "SEARCH runs USING INDEX runs_rowless (id>?)");
}

#[test]
fn reads_unproven_runs_and_tasks_by_indexes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    drop(open(&path));
    let conn = Connection::open(&path).unwrap();
    for (sql, expected) in [
        (unproven::WINDOW.to_owned(), "SEARCH r USING COVERING INDEX runs_resting (id>?)"),
        (unproven::COUNT.to_owned(), "SEARCH r USING COVERING INDEX runs_resting (id>? AND id<?)"),
        (
            unproven::IN_STATUS.to_owned(),
            "SEARCH runs USING COVERING INDEX runs_status (status=? AND created_at>?)",
        ),
        (unproven::IN_STATUS_FIRST.to_owned(), "SEARCH runs USING COVERING INDEX runs_status (status=?)"),
        (unproven::AWAKE.to_owned(), "SEARCH runs USING INDEX runs_awake (rid>?)"),
        (
            unproven::ENDED.to_owned(),
            "SEARCH runs USING COVERING INDEX runs_rest_ends (rests_until>? AND rests_until<?)",
        ),
        (unproven::LOST.to_owned(), "t USING INDEX tasks_claimed"),
        (unproven::RESTLESS.to_owned(), "SEARCH r USING COVERING INDEX runs_resting (id>? AND id<?)"),
        (unproven::RESTLESS.to_owned(), "SEARCH t USING COVERING INDEX tasks_resting (run=? AND id=?"),
        (unproven::LATE.to_owned(), "SEARCH r USING COVERING INDEX runs_resting (id>? AND id<?)"),
        (unproven::LATE.to_owned(), "SEARCH e USING COVERING INDEX events_log (rid=?)"),
        (unproven::AMONG.to_owned(), "SEARCH r USING INTEGER PRIMARY KEY (rowid=?)"),
        (unproven::AMONG.to_owned(), "SEARCH t USING INDEX sqlite_autoindex_tasks_1 (id=?)"),
        (["SELECT id FROM tasks", UNPROVEN].concat(), "USING INDEX tasks_unproven (tid>?"),
    ] {
        let plan = plan(&conn, &sql);
        assert!(plan.contains(expected), "{plan}");
        assert!(!plan.contains("SCAN runs") && !plan.contains("SCAN r "), "{plan}");
    }
}

#[tokio::test]
async fn a_migration_fills_the_columns_that_prove_rest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    let conn = old(&path, 6);
    let wait = |value: serde_json::Value| -> OpenWait { serde_json::from_value(value).unwrap() };
    let sleep = wait(serde_json::json!({ "path": "nap", "since": 1, "due": 900 }));
    let listen = wait(serde_json::json!({ "path": "go", "since": 1, "signals": ["go"] }));
    let work =
        wait(serde_json::json!({ "path": "w", "since": 1, "tasks": ["s-1", "s-2"], "children": ["c"] }));
    let base = |name: &str| make::summary(name, 1);
    let rows = [
        base("queued"),
        Summary { status: Status::Sleeping, waits: vec![sleep.clone()], ..base("sleeps") },
        Summary { status: Status::Waiting, waits: vec![sleep.clone(), listen.clone()], ..base("two") },
        Summary { status: Status::Waiting, waits: vec![listen.clone()], ..base("listens") },
        Summary { status: Status::Waiting, waits: vec![work, sleep.clone()], version: 0, ..base("works") },
        Summary { status: Status::Waiting, waits: vec![listen.clone()], mail_unread: 1, ..base("mail") },
        Summary {
            status: Status::Sleeping,
            waits: vec![sleep],
            cancel: Some("x".to_owned()),
            ..base("cancel")
        },
        Summary { status: Status::Completed, finished_at: Some(Millis(5)), ..base("ended") },
    ];
    for summary in &rows {
        let text = serde_json::to_string(summary).unwrap();
        conn.execute(
            "INSERT INTO runs (id, workflow, status, as_of, created_at, updated_at, summary) \
             VALUES (?1, 'checkout', ?2, 1, 1, 1, ?3)",
            params![summary.run.as_str(), summary.status.as_str(), text],
        )
        .unwrap();
    }
    drop(conn);
    drop(open(&path));
    let conn = Connection::open(&path).unwrap();
    for summary in rows {
        let columns = conn.query_row(
            "SELECT needs, rests_on, rests_until FROM runs WHERE id = ?1",
            [summary.run.as_str()],
            |row| Ok((row.get::<_, Option<String>>(0)?, row.get(1)?, row.get(2)?)),
        );
        let expected = match Rest::of(&summary) {
            Some(rest) => (Some(rest.needs), Some(rest.on), rest.until.map(|until| until.0)),
            None => (None, None, None),
        };
        assert_eq!(columns.unwrap(), expected, "{}", summary.run);
    }
}

#[test]
fn prepares_a_statement_once_for_all_values() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    drop(open(&path));
    let conn = reader(&path, &SqliteOptions::default()).unwrap();
    for limit in 1..9 {
        records(&conn, &make::run("r"), Seq(u64::from(limit)), limit).unwrap();
    }
    let statement = conn.prepare_cached(READ).unwrap();
    assert_eq!(statement.get_status(StatementStatus::Run), 8);
    assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
}

#[test]
fn lists_recovered_runs_without_sorting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    drop(open(&path));
    let conn = Connection::open(&path).unwrap();
    let after = Cursor { by: OrderKey::Recovered, at: Millis(1), run: make::run("r") };
    let any = RunFilter { order: RunOrder::Recovered, ..RunFilter::default() };
    let active = RunFilter { statuses: vec![Status::Running], since: Some(Millis(1)), ..any.clone() };
    for filter in [any, active] {
        for after in [None, Some(&after)] {
            let plan = plan(&conn, &query(&filter, after, None).sql);
            assert!(plan.contains("SEARCH r USING INDEX runs_recovered"), "{plan}");
            assert!(!plan.contains("TEMP B-TREE"), "{plan}");
        }
    }
}

#[tokio::test]
async fn a_migration_keeps_recoveries_for_lists() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    let conn = old(&path, 1);
    let known = Summary { recovered_at: Some(Millis(7)), ..make::summary("known", 1) };
    for (id, text) in [
        ("known", serde_json::to_string(&known).unwrap()),
        ("never", serde_json::to_string(&make::summary("never", 1)).unwrap()),
        ("torn", "{".to_owned()),
    ] {
        conn.execute(
            "INSERT INTO runs (id, status, as_of, created_at, summary) VALUES (?1, 'queued', 1, 1, ?2)",
            [id, &text],
        )
        .unwrap();
    }
    let filter = RunFilter { order: RunOrder::Recovered, limit: 10, ..RunFilter::default() };
    let page = open(&path).runs(filter).await.unwrap();
    let names: Vec<&str> = page.items.iter().map(|row| row.summary.run.as_str()).collect();
    assert_eq!(names, ["known"]);
}

#[tokio::test]
async fn unproven_runs_without_a_creation_time_are_paged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    let store = open(&path);
    for name in ["a", "b", "c", "d"] {
        store.append(make::append_with_row(name, 0)).await.unwrap();
    }
    Connection::open(&path).unwrap().execute("UPDATE runs SET created_at = NULL WHERE id < 'd'", []).unwrap();
    for (limit, found_max) in [(1, None), (2, None), (10, Some(1)), (10, Some(2))] {
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let filter = UnprovenFilter { after, limit, found_max, ..UnprovenFilter::default() };
            let page = store.unproven(filter).await.unwrap();
            found.extend(page.rows.iter().map(|row| row.summary.run.as_str().to_owned()));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found, ["a", "b", "c", "d"], "pages of {limit}, at most {found_max:?}");
    }
}

#[test]
fn changes_an_older_database_only_to_migrate_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    drop(old(&path, 1));
    let before = std::fs::read(&path).unwrap();
    let refused = SqliteStore::open_current(&path, SqliteOptions::default()).unwrap_err();
    assert_eq!(code(&refused), "GS0212");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let report = check(&path, &SqliteOptions::default()).unwrap();
    assert_eq!((report.schema, report.is_sound()), (1, true), "a check works without a migration");
    let to = schema_latest();
    assert_eq!(migrate(&path, &SqliteOptions::default()).unwrap(), Migrated { from: 1, to });
    drop(SqliteStore::open_current(&path, SqliteOptions::default()).unwrap());
    let fresh = folder.path().join("fresh.db");
    drop(SqliteStore::open_current(&fresh, SqliteOptions::default()).unwrap());
    assert_eq!(check(&fresh, &SqliteOptions::default()).unwrap().schema, to);
}

#[tokio::test]
async fn finds_lost_rows_of_an_older_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    old(&path, 1)
        .execute_batch(
            "INSERT INTO runs (id) VALUES ('lost'); INSERT INTO events (rid, seq, body) VALUES (1, 1, 'a')",
        )
        .unwrap();
    let store = open(&path);
    store.append(make::append_with_row("kept", 0)).await.unwrap();
    store.append(append("bare", 0, &["a"])).await.unwrap();
    let found = store.rowless(None, 10).await.unwrap();
    assert_eq!(found, [make::run("bare"), make::run("lost")]);
}

/// The rows of all tables.
fn content(conn: &Connection) -> Vec<String> {
    let tables =
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'goldseam_%' ORDER BY name";
    let mut tables = conn.prepare(tables).unwrap();
    let tables = tables.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let mut lines = Vec::new();
    for table in tables.map(Result::unwrap) {
        let mut rows = conn.prepare(&format!("SELECT * FROM {table} ORDER BY 1")).unwrap();
        // Later columns, which a migration computes.
        let is_old = |name: &&str| !matches!(*name, "needs" | "rests_on" | "rests_until");
        let width = rows.column_names().filter(is_old).count();
        let row =
            |row: &rusqlite::Row<'_>| (0..width).map(|at| row.get::<_, rusqlite::types::Value>(at)).collect();
        let found: Vec<Vec<_>> = rows.query_map([], row).unwrap().collect::<rusqlite::Result<_>>().unwrap();
        lines.extend(found.iter().map(|row| format!("{table} {row:?}")));
    }
    lines
}

#[tokio::test]
async fn a_migration_adds_views_and_keeps_all_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    let conn = old(&path, 4);
    let summary = serde_json::to_string(&make::summary("r", 2)).unwrap();
    conn.execute(
        "INSERT INTO runs (id, workflow, status, created_at, as_of, summary) VALUES ('r', 'w', 'queued', 1, 2, ?1)",
        [summary],
    )
    .unwrap();
    let completed = r#"{"v":1,"at":9,"branch":1,"event":{"type":"step.completed","data":{"path":"a","attempt":1,"began":5}}}"#;
    for (seq, body) in [(1, "torn {"), (2, completed)] {
        conn.execute("INSERT INTO events (rid, seq, body) VALUES (1, ?1, ?2)", params![seq, body]).unwrap();
    }
    conn.execute_batch(
        "INSERT INTO tasks (id, pool, kind, queue, priority, state, ripe, run_at, poked, version, fence, deliveries, \
         attempts, attempts_max, created_at, changed_at, payload) \
         VALUES ('t', 'main', 'mail', 'main', 0, 'ready', 1, 1, 0, 1, 0, 0, 0, 1, 1, 1, '1');
         INSERT INTO locks (name, fence, expires_at, acquired_at, version) VALUES ('l', 1, 1, 1, 1);",
    )
    .unwrap();
    let before = content(&conn);
    drop(conn);
    assert_eq!(migrate(&path, &SqliteOptions::default()).unwrap(), Migrated { from: 4, to: schema_latest() });
    let conn = Connection::open(&path).unwrap();
    assert_eq!(content(&conn), before);
    let shown = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(shown("SELECT id || ' ' || status FROM workflow_run_steps"), "r/a completed");
    assert_eq!(shown("SELECT id || ' ' || status FROM workflow_runs"), "r queued");
    assert_eq!(shown("SELECT id || ' ' || status FROM job_runs"), "t pending");
}
