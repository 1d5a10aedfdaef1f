//! The same server on every sort of store.

use goldseam_fake_s3::FakeS3;
use goldseam_store_postgres::testing::Schema;
use reqwest::Method;
use serde_json::json;

use crate::desk::{Desk, Told};
use crate::followed::Reader;

/// Starts a run, follows it over a restart of the server, and lets it end.
async fn serves(desk: &mut Desk, store: &str) {
    let engine = Desk::engine_on(store).await;
    desk.start("greet", "s-1", json!("Ada")).await;
    let mut reader = Reader::follow(desk, "/v1/runs/s-1/events", None).await;
    let first = reader.take(2).await;
    let last = first.last().unwrap().id.clone();
    drop(reader);
    desk.restart().await;
    let mut reader = Reader::follow(desk, "/v1/runs/s-1/events", last.as_deref()).await;
    desk.post("/v1/runs/s-1/signal", &json!({ "name": "go" })).await.ok();
    let rest = reader.rest().await;
    let ids: Vec<u64> = first.iter().chain(&rest).filter_map(|sent| sent.id.as_ref()?.parse().ok()).collect();
    assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>());
    assert_eq!(rest.last().unwrap().name, "run.completed");
    assert_eq!(desk.get("/v1/runs/s-1/result").await.ok()["output"], json!("Hello, Ada!"));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_postgres_serves_runs_and_the_feed() {
    let schema = Schema::fresh();
    let mut desk = Desk::with(&[("store", &schema.url())]).await;
    serves(&mut desk, &schema.url()).await;
    let mut reader = Reader::follow(&desk, "/v1/events", None).await;
    let first = reader.take(2).await;
    assert_eq!(first[0].data["run"], json!("s-1"));
    let mut again = Reader::follow(&desk, "/v1/events", first[0].id.as_deref()).await;
    assert_eq!(again.take(1).await[0], first[1], "a place is good for every server");
    refuses_a_place_behind_the_end(&desk, "9223372036854775807.1.1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_a_bucket_serves_runs_and_says_that_there_is_no_feed() {
    let fake = FakeS3::start().unwrap();
    let url = fake.url("server");
    let mut desk = Desk::with(&[("store", &url)]).await;
    serves(&mut desk, &url).await;
    desk.get("/v1/events").await.problem(501, "GS0612");
    let key = desk.ask(Method::POST, "/v1/keys").json(&json!({ "name": "k", "scopes": ["read"] }));
    assert!(key.send().await.unwrap().status().is_success(), "keys are kept there, too");
}

/// A follower that comes with a place that this store never gave out is told so, and told what to do.
async fn refuses_a_place_behind_the_end(desk: &Desk, place: &str) {
    let asked = desk.ask(Method::GET, "/v1/events").header("last-event-id", place);
    let problem = Told::of(asked.send().await.unwrap()).await.problem(400, "GS0612");
    assert!(problem["hint"].as_str().unwrap().contains("from the start, or from now"), "{problem}");
    // Marks of changes are compared, not ordered: one that this server never gave out is answered at once.
    let mark = desk.get("/v1/changes?after=9223372036854775807&wait_ms=60000").await.ok();
    assert_ne!(mark["mark"], json!(9_223_372_036_854_775_807_u64));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_behind_the_end_of_the_feed_is_refused() {
    let desk = Desk::open().await;
    refuses_a_place_behind_the_end(&desk, "1").await;
    desk.start("greet", "b-1", json!("Ada")).await;
    let mut reader = Reader::follow(&desk, "/v1/events", None).await;
    let first = reader.take(1).await.remove(0).id.unwrap();
    Reader::follow(&desk, "/v1/events", Some(&first)).await;
    for far in [(first.parse::<i64>().unwrap() + 1).to_string(), i64::MAX.to_string()] {
        refuses_a_place_behind_the_end(&desk, &far).await;
    }
}

/// Texts with control characters are refused alike: 400, never a damaged store.
async fn refuses_control_characters(desk: &Desk) {
    for bad in ["x\0y", "x\u{1b}[2J", "x\ny", "x\u{9b}", "x\u{202e}y"] {
        let bodies = [
            ("/v1/runs", json!({ "workflow": "greet", "tags": { "a": bad } })),
            ("/v1/tasks", json!({ "kind": bad })),
            ("/v1/tasks", json!({ "kind": "mail", "key": bad })),
            ("/v1/tasks/claim", json!({ "owner": bad })),
            ("/v1/tasks/claim", json!({ "owner": "w", "kind": bad })),
            ("/v1/locks/nightly/acquire", json!({ "holder": bad })),
            ("/v1/workers", json!({ "name": bad, "workflows": ["greet@1"], "slots": 1 })),
            ("/v1/keys", json!({ "name": bad, "scopes": ["read"] })),
        ];
        for (path, body) in bodies {
            desk.post(path, &body).await.problem(400, "GS0138");
        }
        for query in ["tag=a%3D", "cause="] {
            let text: String = bad.bytes().map(|byte| format!("%{byte:02x}")).collect();
            desk.get(&format!("/v1/runs?{query}{text}")).await.problem(400, "GS0138");
        }
    }
    desk.post("/v1/tasks", &json!({ "kind": "mail", "attempts_max": 0 })).await.problem(400, "GS0138");
    desk.post("/v1/tasks/claim", &json!({ "owner": "" })).await.problem(400, "GS0138");
    desk.post("/v1/locks/nightly/acquire", &json!({ "holder": "" })).await.problem(400, "GS0138");
    desk.post("/v1/locks/nightly/acquire", &json!({ "holder": "a", "ttl_ms": 0 }))
        .await
        .problem(400, "GS0138");
    assert_eq!(desk.get("/v1/runs").await.ok()["items"], json!([]));
    assert_eq!(desk.get("/v1/tasks").await.ok()["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_and_postgres_refuse_control_characters_alike() {
    refuses_control_characters(&Desk::open().await).await;
    let schema = Schema::fresh();
    refuses_control_characters(&Desk::with(&[("store", &schema.url())]).await).await;
}
