//! Limits keep one client from using up the share of others.

use std::time::Duration;

use goldseam_api::doc::key::Scope;
use reqwest::Method;
use serde_json::json;

use crate::test_server::{Reply, TestServer};

#[tokio::test(flavor = "multi_thread")]
async fn rate_limits_of_signals_and_polls_do_not_limit_starts() {
    let server = TestServer::with(&[("signals_per_second", "1"), ("polls_per_second", "1")]).await;
    server.post("/v1/runs", &json!({ "workflow": "w", "id": "r" })).await.ok();
    let claim = json!({ "queue": "q", "owner": "o" });
    let asked = [
        ("/v1/runs/r/signal", json!({ "name": "go" }), "signals and answers"),
        ("/v1/tasks/claim", claim, "worker requests"),
    ];
    for (path, body, what) in asked {
        let refused = loop {
            let reply = server.post(path, &body).await;
            if !reply.status.is_success() {
                break reply.problem(429, "GS0607");
            }
        };
        let detail = format!("too many {what}: this key is limited to 1 per second");
        assert_eq!((refused["detail"].clone(), refused["limit"].clone()), (json!(detail), json!(1)));
        server.post("/v1/runs", &json!({ "workflow": "w" })).await.ok();
        server.get("/v1/runs/r").await.ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn blocked_store_of_one_namespace_does_not_delay_others() {
    let server = TestServer::with(&[("requests_at_once", "4")]).await;
    let own = server.key("default", &Scope::ALL).await;
    let other = server.key("other", &Scope::ALL).await;
    let start = |key: &str, id: String| {
        let request = server.ask(Method::POST, "/v1/runs").bearer_auth(key);
        request.json(&json!({ "workflow": "w", "id": id }))
    };
    let stuck = rusqlite::Connection::open(server.dir.path().join("other.db")).unwrap();
    stuck.busy_timeout(Duration::from_secs(60)).unwrap();
    stuck.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..12 {
        waiting.spawn(start(&other, format!("o-{number}")).send());
    }
    // All request slots of the namespace are taken: even a read waits, which its store would answer.
    let read = || server.ask(Method::GET, "/v1/runs").bearer_auth(&other).send();
    let mut answered = 0;
    while tokio::time::timeout(Duration::from_millis(500), read()).await.is_ok() {
        answered += 1;
        assert!(answered < 100, "the namespace has more than its share");
    }
    for number in 0..12 {
        let reply = Reply::of(start(&own, format!("d-{number}")).send().await.unwrap()).await;
        reply.ok();
    }
    assert!(waiting.try_join_next().is_none(), "requests of the other namespace wait for its store");
    stuck.execute_batch("COMMIT").unwrap();
    while let Some(answer) = waiting.join_next().await {
        Reply::of(answer.unwrap().unwrap()).await.ok();
    }
}
