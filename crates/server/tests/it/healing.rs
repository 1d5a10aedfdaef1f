//! Nodes, workflows, queues, the doctor, metrics and readiness.

use goldseam::Status;
use goldseam::unstable::store::{Expect, Written};
use goldseam_api::doc::key::Scope;
use goldseam_testbed::postgres::{Cluster, ClusterOptions, Shutdown};
use reqwest::Method;
use serde_json::{Value, json};

use crate::test_server::{Reply, TestServer};

#[tokio::test(flavor = "multi_thread")]
async fn operator_sees_nodes_and_findings() {
    let server = TestServer::open().await;
    let engine = server.engine().await;
    let workflows = server.get("/v1/workflows").await.ok();
    let names: Vec<&str> = workflows["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| w["workflow"].as_str().or(w["name"].as_str()).unwrap())
        .collect();
    assert!(names.contains(&"greet"), "{workflows}");
    assert_eq!(server.get("/v1/nodes").await.ok()["items"].as_array().unwrap().len(), 2);
    assert_eq!(server.post("/v1/doctor", &json!({})).await.ok()["healthy"], json!(true));
    server.get("/v1/queues").await.ok();
    server.get("/v1/recoveries").await.ok();
    server.get("/v1/recoveries/stats").await.ok();
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_examines_the_store_page_by_page() {
    let server = TestServer::open().await;
    let whole = server.post("/v1/doctor", &json!({})).await.ok();
    assert_eq!(whole.get("next"), None, "without pages");
    let mut page = server.post("/v1/doctor", &json!({ "page": true, "limit": 7 })).await.ok();
    let mut scanned = page["scanned"].as_u64().unwrap();
    let mut pages = 1;
    while let Some(next) = page["next"].as_str().map(str::to_owned) {
        page = server.post("/v1/doctor", &json!({ "after": next })).await.ok();
        scanned += page["scanned"].as_u64().unwrap();
        pages += 1;
    }
    assert_eq!((scanned, pages), (whole["scanned"].as_u64().unwrap(), 2), "runs, then other records");
    let refused = server.post("/v1/doctor", &json!({ "after": "nowhere" })).await;
    assert!(refused.text.contains("GS0227"), "{}", refused.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_have_no_run_labels() {
    let server = TestServer::open().await;
    server.start("greet", "secret-name-1", json!("x")).await;
    server.get("/v1/runs/secret-name-1").await.ok();
    let numbers = server.get("/metrics").await;
    assert!(numbers.text.contains("goldseam_http_requests_total"), "{}", numbers.text);
    assert!(numbers.text.contains("route=\"/v1/runs/{run}\""), "{}", numbers.text);
    assert!(!numbers.text.contains("secret-name-1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_per_namespace_and_count_queues_on_read() {
    let server = TestServer::open().await;
    let ours = server.key("default", &Scope::ALL).await;
    let theirs = server.key("other", &Scope::ALL).await;
    let ask = async |key: &str, method: Method, path: &str, body: Value| {
        let request = server.ask(method, path).bearer_auth(key);
        let request = if body.is_null() { request } else { request.json(&body) };
        Reply::of(request.send().await.unwrap()).await
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
    let reply = ask(&theirs, Method::GET, "/metrics", Value::Null).await.text;
    assert!(!reply.contains("goldseam_http_requests_total{"), "{reply}");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_is_not_ready_while_its_store_is_gone() {
    let cluster = Cluster::start(&ClusterOptions::default()).unwrap();
    let server = TestServer::with(&[("store", &cluster.url())]).await;
    assert_eq!(server.get("/readyz").await.text, "ok\n");
    cluster.stop(Shutdown::Fast).unwrap();
    let mut reply = server.get("/readyz").await;
    // The result is cached for a second.
    while reply.text == "ok\n" {
        tokio::task::yield_now().await;
        reply = server.get("/readyz").await;
    }
    assert_eq!((reply.status.as_u16(), reply.text.as_str()), (503, "a store does not answer\n"));
    assert_eq!(server.get("/healthz").await.text, "ok\n");
    cluster.start_again().unwrap();
    while server.get("/readyz").await.text != "ok\n" {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn problem_links_the_page_of_its_code() {
    let server = TestServer::open().await;
    let problem = server.get("/v1/runs/missing").await.problem(404, "GS0104");
    let page = server.get(problem["type"].as_str().unwrap()).await;
    assert!(page.text.starts_with("# GS0104"), "{}", page.text);
}

/// Sets the cached status of a waiting run to running (rule A2).
async fn hide_question(server: &TestServer, run: &str) {
    let store = goldseam::open_existing_store(&server.store("main.db")).await.unwrap();
    let mut row = store.head(&run.parse().unwrap()).await.unwrap().unwrap().row.unwrap();
    row.summary.status = Status::Running;
    let expect = Expect::Version(row.version());
    assert_eq!(store.put_row(row, expect).await.unwrap(), Written::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn cursor_of_recoveries_is_valid_for_that_list_only() {
    let server = TestServer::open().await;
    let engine = server.engine().await;
    for run in ["h-1", "h-2"] {
        server.start("ask", run, json!(1)).await;
        while server.get(&format!("/v1/runs/{run}")).await.ok()["status"] != "waiting" {
            tokio::task::yield_now().await;
        }
    }
    engine.shutdown().await;
    for run in ["h-1", "h-2"] {
        hide_question(&server, run).await;
        server.post(&format!("/v1/runs/{run}/recover"), &json!({})).await.ok();
    }
    let first = server.get("/v1/recoveries?limit=1").await.ok();
    let next = first["next"].as_str().unwrap();
    let second = server.get(&format!("/v1/recoveries?limit=1&after={next}")).await.ok();
    assert_ne!(first["items"][0]["run"], second["items"][0]["run"], "{first} {second}");
    let ended = server.get("/v1/recoveries?ended=true").await.ok();
    assert_eq!(ended["items"], json!([]), "healings are not endings");
    assert_eq!(
        server.get("/v1/recoveries?ended=false&rule=A2").await.ok()["items"].as_array().unwrap().len(),
        2
    );
    server.get("/v1/recoveries?ended=perhaps").await.problem(400, "GS0608");
    let runs = server.get("/v1/runs?limit=1").await.ok()["next"].as_str().unwrap().to_owned();
    for bad in ["1", "x", &runs, &next[1..]] {
        server.get(&format!("/v1/recoveries?after={bad}")).await.problem(400, "GS0608");
    }
}
