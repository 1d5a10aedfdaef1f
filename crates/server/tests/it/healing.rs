//! What an operator sees: nodes, workflows, queues, the doctor; numbers and readiness.

use goldseam::Status;
use goldseam::store::{Expect, Written};
use goldseam_api::doc::key::Scope;
use goldseam_testbed::postgres::{Cluster, Options, Shutdown};
use reqwest::Method;
use serde_json::{Value, json};

use crate::desk::{Desk, Told};

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_sees_who_works_and_what_is_wrong() {
    let desk = Desk::open().await;
    let engine = desk.engine().await;
    let workflows = desk.get("/v1/workflows").await.ok();
    let names: Vec<&str> = workflows["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| w["workflow"].as_str().or(w["name"].as_str()).unwrap())
        .collect();
    assert!(names.contains(&"greet"), "{workflows}");
    assert_eq!(desk.get("/v1/nodes").await.ok()["items"].as_array().unwrap().len(), 2);
    assert_eq!(desk.post("/v1/doctor", &json!({})).await.ok()["healthy"], json!(true));
    desk.get("/v1/queues").await.ok();
    desk.get("/v1/recoveries").await.ok();
    desk.get("/v1/recoveries/stats").await.ok();
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_there_for_prometheus_and_name_no_run() {
    let desk = Desk::open().await;
    desk.start("greet", "secret-name-1", json!("x")).await;
    desk.get("/v1/runs/secret-name-1").await.ok();
    let numbers = desk.get("/metrics").await;
    assert!(numbers.text.contains("goldseam_http_requests_total"), "{}", numbers.text);
    assert!(numbers.text.contains("route=\"/v1/runs/{run}\""), "{}", numbers.text);
    assert!(!numbers.text.contains("secret-name-1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_of_a_namespace_are_its_own_and_queues_are_counted_for_whoever_reads_them() {
    let desk = Desk::open().await;
    let (ours, theirs) = (desk.key("default", &Scope::ALL).await, desk.key("other", &Scope::ALL).await);
    let ask = async |key: &str, method: Method, path: &str, body: Value| {
        let request = desk.ask(method, path).bearer_auth(key);
        let request = if body.is_null() { request } else { request.json(&body) };
        Told::of(request.send().await.unwrap()).await
    };
    for (key, queue) in [(&ours, "ours-only"), (&theirs, "theirs-only")] {
        ask(key, Method::POST, "/v1/tasks", json!({ "kind": "k", "queue": queue })).await.ok();
    }
    for (key, own, other) in [(&ours, "ours-only", "theirs-only"), (&theirs, "theirs-only", "ours-only")] {
        let text = ask(key, Method::GET, "/metrics", Value::Null).await.text;
        let depth = format!("goldseam_queue_depth{{queue=\"{own}\"");
        assert!(text.lines().any(|line| line.starts_with(&depth) && line.ends_with(" 1")), "{text}");
        assert!(!text.contains(other), "{text}");
    }
    let told = ask(&theirs, Method::GET, "/metrics", Value::Null).await.text;
    assert!(!told.contains("goldseam_http_requests_total{"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_store_is_gone_is_not_ready_until_it_is_back() {
    let cluster = Cluster::start(&Options::default()).unwrap();
    let desk = Desk::with(&[("store", &cluster.url())]).await;
    assert_eq!(desk.get("/readyz").await.text, "ok\n");
    cluster.stop(Shutdown::Fast).unwrap();
    let mut told = desk.get("/readyz").await;
    // What was seen is told for a second.
    while told.text == "ok\n" {
        tokio::task::yield_now().await;
        told = desk.get("/readyz").await;
    }
    assert_eq!((told.status.as_u16(), told.text.as_str()), (503, "a store does not answer\n"));
    assert_eq!(desk.get("/healthz").await.text, "ok\n");
    cluster.start_again().unwrap();
    while desk.get("/readyz").await.text != "ok\n" {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_problem_names_the_page_of_its_code() {
    let desk = Desk::open().await;
    let problem = desk.get("/v1/runs/nobody").await.problem(404, "GS0104");
    let page = desk.get(problem["type"].as_str().unwrap()).await;
    assert!(page.text.starts_with("# GS0104"), "{}", page.text);
}

/// The cached status of a run that waits for an answer says that it runs (rule A2).
async fn hide_question(desk: &Desk, run: &str) {
    let store = goldseam::open_existing_store(&desk.store("main.db")).await.unwrap();
    let mut row = store.head(&run.parse().unwrap()).await.unwrap().unwrap().row.unwrap();
    row.summary.status = Status::Running;
    let expect = Expect::Version(row.version());
    assert_eq!(store.put_row(row, expect).await.unwrap(), Written::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_of_what_was_healed_is_good_for_that_list_alone() {
    let desk = Desk::open().await;
    let engine = desk.engine().await;
    for run in ["h-1", "h-2"] {
        desk.start("ask", run, json!(1)).await;
        while desk.get(&format!("/v1/runs/{run}")).await.ok()["status"] != "waiting" {
            tokio::task::yield_now().await;
        }
    }
    engine.shutdown().await;
    for run in ["h-1", "h-2"] {
        hide_question(&desk, run).await;
        desk.post(&format!("/v1/runs/{run}/recover"), &json!({})).await.ok();
    }
    let first = desk.get("/v1/recoveries?limit=1").await.ok();
    let next = first["next"].as_str().unwrap();
    let second = desk.get(&format!("/v1/recoveries?limit=1&after={next}")).await.ok();
    assert_ne!(first["items"][0]["run"], second["items"][0]["run"], "{first} {second}");
    let runs = desk.get("/v1/runs?limit=1").await.ok()["next"].as_str().unwrap().to_owned();
    for bad in ["1", "x", &runs, &next[1..]] {
        desk.get(&format!("/v1/recoveries?after={bad}")).await.problem(400, "GS0608");
    }
}
