//! The SQL views, with the queries of the guide and the privileges that it grants, on a store in which nearly all runs
//! have ended.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use goldseam_conformance::Fixture;
use goldseam_conformance::views::{blocks, stalled};
use goldseam_store::ManualClock;
use goldseam_store_postgres::PostgresStore;
use goldseam_store_postgres::testing::Schema;
use serde_json::Value;
use tokio_postgres::{Client, NoTls, Row};

const GUIDE: &str = include_str!("../../../docs/guides/sql-views.md");

/// A plain session beside a store with stalled runs.
async fn session() -> (Schema, Client, Arc<PostgresStore>) {
    let schema = Schema::fresh();
    let store = Arc::new(PostgresStore::open_url(&schema.url()).await.unwrap());
    stalled(&Fixture::new(Arc::clone(&store) as _, ManualClock::default())).await;
    let url = schema.url();
    let (client, connection) = tokio_postgres::connect(url.split_once('?').unwrap().0, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("SET search_path TO {}", name(&schema))).await.unwrap();
    (schema, client, store)
}

fn name(schema: &Schema) -> String {
    schema.url().split_once("schema=").unwrap().1.to_owned()
}

/// The block of the guide that contains this text.
fn block(word: &str) -> &'static str {
    blocks(GUIDE, "postgres").into_iter().find(|sql| sql.contains(word)).unwrap()
}

async fn ask(client: &Client, sql: &str) -> Vec<Row> {
    let run = "silent";
    let values: &[&(dyn tokio_postgres::types::ToSql + Sync)] =
        if sql.contains("$1") { &[&run] } else { &[] };
    client.query(sql, values).await.unwrap()
}

#[tokio::test]
async fn the_queries_of_the_runbook_work() {
    let (_schema, client, _store) = session().await;
    let stale = ask(&client, block("NOW() - INTERVAL '60 seconds'")).await;
    let stale: Vec<(&str, &str, i64)> =
        stale.iter().map(|row| (row.get(0), row.get(1), row.get(3))).collect();
    assert_eq!(stale, [("silent/r0", "r0", 0)]);
    let history = ask(&client, block("-- Inspect execution history")).await;
    let types: Vec<&str> = history.iter().map(|row| row.get(0)).collect();
    assert_eq!(types, ["run.queued", "run.claimed", "run.started", "step.started"]);
    assert_eq!(history[0].get::<_, Value>(1)["workflow"], "checkout");
    assert!(history[0].get::<_, std::time::SystemTime>(2) > std::time::UNIX_EPOCH);
}

#[tokio::test]
async fn the_queries_of_the_dashboards_work() {
    let (_schema, client, _store) = session().await;
    let reasons = ask(&client, block("-- Recovery events by reason")).await;
    let reasons: Vec<(&str, i64)> = reasons.iter().map(|row| (row.get("reason"), row.get("count"))).collect();
    assert_eq!(reasons, [("infrastructure_restart", 2)]);
    let runs = ask(&client, block("-- Workflows that required recovery")).await;
    let runs: Vec<(&str, &str, i64)> =
        runs.iter().map(|row| (row.get("workflowid"), row.get("workflowname"), row.get(2))).collect();
    assert_eq!(runs, [("fallen", "checkout", 2)]);
}

/// Runs the grants of the guide, and then its queries as a role with only these privileges.
#[tokio::test]
async fn every_query_of_the_guide_runs_with_its_grants() {
    let (schema, client, _store) = session().await;
    let _ = client.batch_execute("CREATE ROLE dashboards").await;
    let here = |sql: &str| sql.replace("goldseam", &name(&schema));
    let (grants, queries): (Vec<&str>, Vec<&str>) =
        blocks(GUIDE, "postgres").into_iter().partition(|sql| sql.starts_with("GRANT"));
    for sql in &grants {
        client.batch_execute(&here(sql)).await.unwrap();
    }
    client.batch_execute("SET ROLE dashboards").await.unwrap();
    assert!(queries.len() >= 7);
    for sql in queries {
        ask(&client, &here(sql)).await;
    }
    let denied = client.query("SELECT body FROM events", &[]).await.unwrap_err();
    assert_eq!(denied.code().unwrap().code(), "42501", "{denied}");
}

/// 20,000 ended and 20,000 sleeping runs, each with a log.
const MANY: &str = r#"
    INSERT INTO runs (id, workflow, status, created_at, updated_at, as_of, summary)
    SELECT 'm-' || n, 'checkout', (ARRAY['completed', 'completed', 'failed', 'sleeping', 'sleeping', 'sleeping'])[n % 6 + 1],
        n, n, 6, '{}' FROM generate_series(1, 40000) AS n;
    INSERT INTO events (rid, seq, body)
    SELECT r.rid, s, '{"v":1,"at":' || s || ',"branch":1,"event":{"type":"step.started","data":{"path":"s' || s
        || '","ord":1,"attempt":1}}}'
    FROM runs AS r CROSS JOIN generate_series(1, 6) AS s WHERE r.id LIKE 'm-%';
    INSERT INTO tasks (id, pool, kind, queue, priority, state, ripe, run_at, run, poked, version, fence, deliveries,
        attempts, attempts_max, created_at, changed_at, payload, step)
    SELECT 'm-' || n, 'gpu', 'x', 'gpu', 0, 'completed', true, 1, 'm-' || n, false, 1, 1, 0, 0, 1, 1, 1, '1', '{}'
    FROM generate_series(1, 20000) AS n;
    ANALYZE runs; ANALYZE events; ANALYZE tasks;"#;

/// The number of rows that a plan reads from this table, including filtered ones.
fn rows(plan: &Value, table: &str) -> f64 {
    let number = |name: &str| plan[name].as_f64().unwrap_or_default();
    let own = if plan["Relation Name"] == table {
        (number("Actual Rows") + number("Rows Removed by Filter")) * number("Actual Loops")
    } else {
        0.0
    };
    own + plan["Plans"].as_array().into_iter().flatten().map(|part| rows(part, table)).sum::<f64>()
}

async fn read(client: &Client, sql: &str) -> [f64; 3] {
    let rows_of_plan = ask(client, &format!("EXPLAIN (ANALYZE, FORMAT JSON) {sql}")).await;
    let plan: Value = rows_of_plan[0].get(0);
    ["events", "runs", "tasks"].map(|table| rows(&plan[0]["Plan"], table))
}

#[tokio::test]
async fn ended_and_sleeping_runs_do_not_slow_the_queries() {
    let (_schema, client, _store) = session().await;
    client.batch_execute(MANY).await.unwrap();
    let [events, runs, tasks] = read(&client, block("NOW() - INTERVAL '60 seconds'")).await;
    assert!(events > 0.0 && events < 100.0, "it read {events} events");
    assert!(runs < 100.0 && tasks < 100.0, "it read {runs} runs and {tasks} tasks");
    let [_, _, tasks] = read(&client, block("FROM job_runs")).await;
    assert!(tasks > 0.0 && tasks < 100.0, "it read {tasks} tasks");
}

#[tokio::test]
async fn queries_for_recoveries_read_only_recovered_runs() {
    let (_schema, client, _store) = session().await;
    client.batch_execute(MANY).await.unwrap();
    for word in ["-- Recovery events by reason", "-- Workflows that required recovery"] {
        let [events, runs, _] = read(&client, block(word)).await;
        assert!(events > 0.0 && events < 20.0, "it read {events} events");
        assert!(runs < 20.0, "it read {runs} runs");
    }
}

/// A running run with 2,000 steps.
const LONG: &str = r#"
    INSERT INTO runs (id, workflow, status, owner, created_at, updated_at, as_of, summary)
    VALUES ('long-1', 'checkout', 'running', 'n', 1, 1, 1, '{"base":1}');
    INSERT INTO events (rid, seq, body)
    SELECT r.rid, n, '{"at":1,"branch":1,"event":{"type":"step.completed","data":{"path":"s' || n
        || '","ord":1,"attempt":1,"began":1}}}'
    FROM runs AS r CROSS JOIN generate_series(1, 2000) AS n WHERE r.id = 'long-1';"#;

#[tokio::test]
async fn the_view_of_steps_reads_each_event_once() {
    let (_schema, client, _store) = session().await;
    client.batch_execute(LONG).await.unwrap();
    let sql = "SELECT * FROM workflow_run_steps WHERE workflow_run_id = 'long-1'";
    assert_eq!(ask(&client, sql).await.len(), 2_000);
    let [events, _, _] = read(&client, sql).await;
    assert!(events < 2_010.0, "it read {events} events");
}
