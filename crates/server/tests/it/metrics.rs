//! Metrics: what the server exports, what the guide, the alert rules and the board say of it, and whether the rules
//! fire.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use goldseam::prelude::*;
use goldseam_testbed::promtool;
use serde_json::{Value, json};

use crate::test_server::TestServer;

const GUIDE: &str = include_str!("../../../../docs/guides/observing.md");
const RULES: &str = include_str!("../../../../docs/alerts/goldseam.rules.yml");
const TESTS: &str = include_str!("../../../../docs/alerts/goldseam.tests.yml");
const BOARD: &str = include_str!("../../../../docs/grafana/goldseam.json");

/// The type and the labels of a metric.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shape {
    kind: String,
    labels: BTreeSet<String>,
}

type Shapes = BTreeMap<String, Shape>;

async fn checkout(ctx: Context, item: String) -> goldseam::Result<String> {
    ctx.step("charge", || async { Ok(format!("receipt for {item}")) }).await
}

/// Returns the metrics of a server and an engine in one process, after some work.
async fn exported(server: &TestServer) -> String {
    let engine = Engine::open(&server.store("main.db")).await.unwrap().workflow("checkout", checkout);
    let engine = engine.start().await.unwrap();
    let run = server.start("checkout", "order-7", json!("tea")).await;
    engine.handle(run.parse::<goldseam::RunId>().unwrap()).result::<String>().await.unwrap();
    server.post("/v1/tasks", &json!({ "kind": "send", "queue": "mail" })).await.ok();
    let text = server.get("/metrics").await.text;
    engine.shutdown().await;
    text
}

/// Reads the text format of Prometheus. `le` belongs to buckets, and `namespace` to every metric of a store.
fn shapes(text: &str) -> Shapes {
    let mut found = Shapes::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            found.entry(name.to_owned()).or_default().kind = kind.to_owned();
        }
    }
    for line in text.lines().filter(|line| !line.starts_with('#') && line.contains('{')) {
        let (name, rest) = line.split_once('{').unwrap();
        let keys = rest.split_once('}').unwrap().0.split("\",").filter_map(|label| label.split_once('='));
        let keys = keys.map(|(key, _)| key.to_owned()).filter(|key| key != "le" && key != "namespace");
        let name = base(name, &found).unwrap_or(name).to_owned();
        found.get_mut(&name).unwrap().labels.extend(keys);
    }
    found
}

/// The metric that a series belongs to.
fn base<'a>(series: &'a str, known: &Shapes) -> Option<&'a str> {
    let suffixes = ["_bucket", "_sum", "_count"].into_iter();
    let mut stems = suffixes.filter_map(|suffix| series.strip_suffix(suffix));
    let is_histogram = |name: &&str| known.get(*name).is_some_and(|shape| shape.kind == "histogram");
    stems.find(is_histogram).or_else(|| {
        Some(series).filter(|name| known.get(*name).is_some_and(|shape| shape.kind != "histogram"))
    })
}

/// The metrics in the table of the guide.
fn documented() -> Shapes {
    let rows = GUIDE.lines().filter(|line| line.starts_with("| `goldseam_"));
    let shape = |row: &str| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, meaning] = cells[..] else { panic!("{row} has not four cells") };
        assert!(meaning.len() > 10, "{row} has no meaning");
        let labels = labels.split(", ").filter(|label| label.starts_with('`'));
        let labels = labels.map(|label| label.trim_matches('`').to_owned()).collect();
        (name.trim_matches('`').to_owned(), Shape { kind: kind.to_owned(), labels })
    };
    rows.map(shape).collect()
}

/// Every word that begins like a metric.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("goldseam_")).collect()
}

/// Every string under these keys.
fn strings<'a>(value: &'a Value, keys: &[&str], found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                found.extend(value.as_str().filter(|_| keys.contains(&key.as_str())));
                strings(value, keys, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| strings(item, keys, found)),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn guide_lists_every_metric_with_its_type_and_labels() {
    let server = TestServer::open().await;
    let exported = shapes(&exported(&server).await);
    let documented = documented();
    for (name, shape) in &exported {
        assert_eq!(documented.get(name), Some(shape), "{name} in the guide");
    }
    for name in documented.keys() {
        assert!(exported.contains_key(name), "the guide lists {name}, which does not exist");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_of_the_alert_rules_and_of_the_board_exists() {
    let server = TestServer::open().await;
    let known = shapes(&exported(&server).await);
    let board: Value = serde_json::from_str(BOARD).unwrap();
    let mut queries = Vec::new();
    strings(&board, &["expr", "definition", "query"], &mut queries);
    let board = queries.join("\n");
    for (place, text, least) in [("rules", RULES, 8), ("tests", TESTS, 8), ("board", board.as_str(), 20)] {
        let names = named(text);
        assert!(names.len() >= least, "{place}: {names:?}");
        for name in names {
            assert!(base(name, &known).is_some(), "{place}: no metric is called {name}");
        }
    }
    for name in known.keys() {
        assert!(
            named(&board).iter().any(|used| base(used, &known) == Some(name.as_str())),
            "the board lacks {name}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_are_zero_when_the_server_starts() {
    let server = TestServer::open().await;
    let text = server.get("/metrics").await.text;
    for line in [
        "goldseam_recovery_failed_total{rule=\"W1\",namespace=\"default\"} 0",
        "goldseam_recoveries_total{rule=\"L2\",workflow=\"\",reason=\"silent\",namespace=\"default\"} 0",
        "goldseam_recovery_attempts_exceeded_total{workflow=\"\",namespace=\"default\"} 0",
        "goldseam_recovery_stale_seconds_bucket{rule=\"O2\",namespace=\"default\",le=\"300\"} 0",
        "goldseam_http_followers 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
    }
}

#[test]
fn alert_rules_fire_for_raised_and_new_series_only() {
    let alerts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/alerts");
    let checked = promtool::run(&alerts, &["check", "rules", "goldseam.rules.yml"]).unwrap();
    assert!(checked.contains("SUCCESS"), "{checked}");
    let tested = promtool::run(&alerts, &["test", "rules", "goldseam.tests.yml"]).unwrap();
    assert!(tested.contains("SUCCESS"), "{tested}");
    for rule in RULES.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(TESTS.contains(&format!("alertname: {rule}\n")), "{rule} is not tested");
    }
}
