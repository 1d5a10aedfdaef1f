//! Nobody uses up what others may have.

use std::time::Duration;

use goldseam_api::doc::key::Scope;
use reqwest::Method;
use serde_json::json;

use crate::desk::{Desk, Told};

#[tokio::test(flavor = "multi_thread")]
async fn whoever_signals_or_polls_too_much_may_still_start_and_read() {
    let desk = Desk::with(&[("signals_per_second", "1"), ("polls_per_second", "1")]).await;
    desk.post("/v1/runs", &json!({ "workflow": "w", "id": "r" })).await.ok();
    let claim = json!({ "queue": "q", "owner": "o" });
    let asked = [
        ("/v1/runs/r/signal", json!({ "name": "go" }), "signals and answers"),
        ("/v1/tasks/claim", claim, "requests of workers"),
    ];
    for (path, body, what) in asked {
        let refused = loop {
            let told = desk.post(path, &body).await;
            if !told.status.is_success() {
                break told.problem(429, "GS0607");
            }
        };
        let detail = format!("too many {what}: this key may have 1 in a second");
        assert_eq!((refused["detail"].clone(), refused["limit"].clone()), (json!(detail), json!(1)));
        desk.post("/v1/runs", &json!({ "workflow": "w" })).await.ok();
        desk.get("/v1/runs/r").await.ok();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_whose_store_does_not_answer_holds_up_no_other() {
    let desk = Desk::with(&[("requests_at_once", "4")]).await;
    let (own, other) = (desk.key("default", &Scope::ALL).await, desk.key("other", &Scope::ALL).await);
    let start = |key: &str, id: String| {
        let request = desk.ask(Method::POST, "/v1/runs").bearer_auth(key);
        request.json(&json!({ "workflow": "w", "id": id }))
    };
    let stuck = rusqlite::Connection::open(desk.dir.path().join("other.db")).unwrap();
    stuck.busy_timeout(Duration::from_secs(60)).unwrap();
    stuck.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..12 {
        waiting.spawn(start(&other, format!("o-{number}")).send());
    }
    // Its share is taken: even a read waits, which its store would answer.
    let read = || desk.ask(Method::GET, "/v1/runs").bearer_auth(&other).send();
    let mut answered = 0;
    while tokio::time::timeout(Duration::from_millis(500), read()).await.is_ok() {
        answered += 1;
        assert!(answered < 100, "it has more than its share");
    }
    for number in 0..12 {
        let told = Told::of(start(&own, format!("d-{number}")).send().await.unwrap()).await;
        told.ok();
    }
    assert!(waiting.try_join_next().is_none(), "those of the other namespace wait for its store");
    stuck.execute_batch("COMMIT").unwrap();
    while let Some(answer) = waiting.join_next().await {
        Told::of(answer.unwrap().unwrap()).await.ok();
    }
}
