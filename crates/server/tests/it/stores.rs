//! The server on every kind of store.

use goldseam_fake_s3::FakeS3;
use goldseam_store_postgres::testing::Schema;
use reqwest::Method;
use serde_json::json;

use crate::streams::Reader;
use crate::test_server::{Reply, TestServer};

/// Starts a run, follows it across a restart of the server, and completes it.
async fn serves(server: &mut TestServer, store: &str) {
    let engine = TestServer::engine_on(store).await;
    server.start("greet", "s-1", json!("Ada")).await;
    let mut reader = Reader::follow(server, "/v1/runs/s-1/events", None).await;
    let first = reader.take(2).await;
    let last = first.last().unwrap().id.clone();
    drop(reader);
    server.restart().await;
    let mut reader = Reader::follow(server, "/v1/runs/s-1/events", last.as_deref()).await;
    server.post("/v1/runs/s-1/signal", &json!({ "name": "go" })).await.ok();
    let rest = reader.rest().await;
    let ids: Vec<u64> = first.iter().chain(&rest).filter_map(|sent| sent.id.as_ref()?.parse().ok()).collect();
    assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>());
    assert_eq!(rest.last().unwrap().name, "run.completed");
    assert_eq!(server.get("/v1/runs/s-1/result").await.ok()["output"], json!("Hello, Ada!"));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_server_serves_runs_and_the_feed() {
    let schema = Schema::fresh();
    let mut server = TestServer::with(&[("store", &schema.url())]).await;
    serves(&mut server, &schema.url()).await;
    let mut reader = Reader::follow(&server, "/v1/events", None).await;
    let first = reader.take(2).await;
    assert_eq!(first[0].data["run"], json!("s-1"));
    let mut again = Reader::follow(&server, "/v1/events", first[0].id.as_deref()).await;
    assert_eq!(again.take(1).await[0], first[1], "a position is valid on every server");
    refuses_position_beyond_the_end(&server, "9223372036854775807.1.1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bucket_server_serves_runs_and_the_feed() {
    let fake = FakeS3::start().unwrap();
    let url = fake.url("server");
    let mut server = TestServer::with(&[("store", &url)]).await;
    serves(&mut server, &url).await;
    let mut reader = Reader::follow(&server, "/v1/events", None).await;
    let first = reader.take(2).await;
    assert_eq!(first[0].data["run"], json!("s-1"));
    let mut again = Reader::follow(&server, "/v1/events", first[0].id.as_deref()).await;
    assert_eq!(again.take(1).await[0], first[1], "a position is valid on every server");
    refuses_position_beyond_the_end(&server, "9223372036854775807.1.1").await;
    let mut now = Reader::follow(&server, "/v1/events?from=now", None).await;
    server.start("greet", "s-2", json!("Bob")).await;
    assert_eq!(now.take(1).await[0].data["run"], json!("s-2"), "only new events");
    let key = server.ask(Method::POST, "/v1/keys").json(&json!({ "name": "k", "scopes": ["read"] }));
    assert!(key.send().await.unwrap().status().is_success(), "a bucket stores keys, too");
}

/// Checks that an unknown feed position is refused with a hint.
async fn refuses_position_beyond_the_end(server: &TestServer, position: &str) {
    let asked = server.ask(Method::GET, "/v1/events").header("last-event-id", position);
    let problem = Reply::of(asked.send().await.unwrap()).await.problem(400, "GS0612");
    assert!(problem["hint"].as_str().unwrap().contains("from the start, or from now"), "{problem}");
    // Change marks are compared, not ordered: an unknown mark gets a response at once.
    let mark = server.get("/v1/changes?after=9223372036854775807&wait_ms=60000").await.ok();
    assert_ne!(mark["mark"], json!(9_223_372_036_854_775_807_u64));
}

#[tokio::test(flavor = "multi_thread")]
async fn feed_position_beyond_the_end_is_refused() {
    let server = TestServer::open().await;
    refuses_position_beyond_the_end(&server, "1").await;
    server.start("greet", "b-1", json!("Ada")).await;
    let mut reader = Reader::follow(&server, "/v1/events", None).await;
    let first = reader.take(1).await.remove(0).id.unwrap();
    Reader::follow(&server, "/v1/events", Some(&first)).await;
    for far in [(first.parse::<i64>().unwrap() + 1).to_string(), i64::MAX.to_string()] {
        refuses_position_beyond_the_end(&server, &far).await;
    }
}

/// Checks that texts with control characters are refused with 400.
async fn refuses_control_characters(server: &TestServer) {
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
            server.post(path, &body).await.problem(400, "GS0138");
        }
        for query in ["tag=a%3D", "cause="] {
            let text: String = bad.bytes().map(|byte| format!("%{byte:02x}")).collect();
            server.get(&format!("/v1/runs?{query}{text}")).await.problem(400, "GS0138");
        }
    }
    server.post("/v1/tasks", &json!({ "kind": "mail", "attempts_max": 0 })).await.problem(400, "GS0138");
    server.post("/v1/tasks/claim", &json!({ "owner": "" })).await.problem(400, "GS0138");
    server.post("/v1/locks/nightly/acquire", &json!({ "holder": "" })).await.problem(400, "GS0138");
    server
        .post("/v1/locks/nightly/acquire", &json!({ "holder": "a", "ttl_ms": 0 }))
        .await
        .problem(400, "GS0138");
    assert_eq!(server.get("/v1/runs").await.ok()["items"], json!([]));
    assert_eq!(server.get("/v1/tasks").await.ok()["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_and_postgres_refuse_control_characters_alike() {
    refuses_control_characters(&TestServer::open().await).await;
    let schema = Schema::fresh();
    refuses_control_characters(&TestServer::with(&[("store", &schema.url())]).await).await;
}
