//! What an operator sees: nodes, workflows, queues, the doctor; numbers and readiness.

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
        Told::of(desk.ask(method, path).bearer_auth(key).json(&body).send().await.unwrap()).await
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
    let told = desk.get("/readyz").await;
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
