//! Secrets are redacted in views and untouched in data for programs.

use reqwest::Method;
use serde_json::{Value, json};

use crate::streams::Reader;
use crate::test_server::{Reply, TestServer};

/// An environment variable of every test, used as a secret.
const VARIABLE: &str = "CARGO_MANIFEST_DIR";

fn value() -> String {
    std::env::var(VARIABLE).unwrap()
}

async fn server() -> TestServer {
    TestServer::with(&[("secrets_from_env", VARIABLE)]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn views_and_streams_are_redacted_and_data_is_not() {
    let server = server().await;
    let engine = server.engine().await;
    let mut feed = Reader::follow(&server, "/v1/events", None).await;
    let input =
        json!({ "apiKey": "hush-in", "door": format!("open {}", value()), "next_page_token": "n", "z": 1 });
    let shown = json!({ "apiKey": "[secret]", "door": "open [secret]", "next_page_token": "n", "z": 1 });
    server.start("far", "f-1", input.clone()).await;
    let claimed = server
        .post("/v1/tasks/claim", &json!({ "owner": "w", "kind": "resize", "wait_ms": 20000 }))
        .await
        .ok();
    let task = &claimed["items"][0]["task"];
    let token = &claimed["items"][0]["token"];
    assert_eq!(task["payload"], input, "a worker gets the unredacted payload");
    assert!(token.as_str().unwrap().len() > 20, "a claim needs its token");
    let output = json!({ "password": "hush-out", "door": value() });
    let done = json!({ "token": token, "result": output });
    server.post(&format!("/v1/tasks/{}/complete", task["id"].as_str().unwrap()), &done).await.ok();
    let ended = server.get("/v1/runs/f-1/result?wait_ms=20000").await.ok();
    assert_eq!(ended["output"], output, "the result is not redacted");

    let detail = server.get("/v1/runs/f-1").await.ok();
    assert_eq!(detail["input"], shown);
    assert_eq!(detail["output"], json!({ "password": "[secret]", "door": "[secret]" }));
    let mut follower = Reader::follow(&server, "/v1/runs/f-1/events", None).await;
    let followed = follower.rest().await;
    assert_eq!(followed[0].data["data"]["input"], shown);
    let fed = feed.take(followed.len()).await;
    assert_eq!(fed[0].data["data"]["input"], shown);
    let history = server.get("/v1/runs/f-1/history").await.ok();
    assert_eq!(history["items"].as_array().unwrap().len(), followed.len());
    for view in [&history, &detail, &json!(fed.iter().map(|one| &one.data).collect::<Vec<_>>())] {
        let text = view.to_string();
        assert!(!text.contains("hush") && !text.contains(&value()), "{text}");
    }
    let log = format!("{:?}", engine.client().history(&"f-1".parse().unwrap()).await.unwrap());
    assert!(log.contains("hush-in") && log.contains("hush-out"), "the log keeps its data");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn problems_are_redacted() {
    let server = server().await;
    let body = format!("{{\"workflow\": \"far\", {}: 1}}", json!(value()));
    let request = server.ask(Method::POST, "/v1/runs").header("content-type", "application/json").body(body);
    let reply = Reply::of(request.send().await.unwrap()).await;
    assert_eq!(reply.status.as_u16(), 400);
    assert!(reply.text.contains("[secret]") && !reply.text.contains(&value()), "{}", reply.text);
    assert!(reply.body.is_object(), "{}", reply.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_are_redacted_before_they_are_written() {
    let server = server().await;
    let engine = server.engine().await;
    server.start("greet", "g-1", json!("Ada")).await;
    let note = json!({ "reason": format!("see {}", value()) });
    server.post("/v1/runs/g-1/note", &note).await.ok();
    let log = format!("{:?}", engine.client().history(&"g-1".parse().unwrap()).await.unwrap());
    assert!(log.contains("see [secret]") && !log.contains(&value()), "{log}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_names_are_configurable() {
    let input = json!({ "password": "a", "iban": "b" });
    for (keys, shown) in [
        ("iban", json!({ "password": "a", "iban": "[secret]" })),
        ("none", json!({ "password": "a", "iban": "b" })),
    ] {
        let server = TestServer::with(&[("redact_keys", keys)]).await;
        server.start("far", "f-1", input.clone()).await;
        let detail: Value = server.get("/v1/runs/f-1").await.ok();
        assert_eq!(detail["input"], shown);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn filter_does_not_confirm_a_redacted_tag() {
    let server = server().await;
    let tags = json!({ "password": "guess", "api_keys": "k-1", "note": value(), "team": "a" });
    server.post("/v1/runs", &json!({ "workflow": "far", "id": "t-1", "tags": tags })).await.ok();
    let shown = server.get("/v1/runs?tag=team%3Da").await.ok();
    let hidden = json!({ "password": "[secret]", "api_keys": "[secret]", "note": "[secret]", "team": "a" });
    assert_eq!(shown["items"][0]["tags"], hidden);
    for guess in ["guess", "wrong"] {
        let reply = server.get(&format!("/v1/runs?tag=password%3D{guess}")).await.problem(400, "GS0608");
        assert!(reply["detail"].as_str().unwrap().contains("redacted"), "{reply}");
    }
    server.get("/v1/runs?tag=api_keys%3Dk-1").await.problem(400, "GS0608");
    let by_value = server.ask(Method::GET, "/v1/runs").query(&[("tag", format!("note={}", value()))]);
    let reply = Reply::of(by_value.send().await.unwrap()).await.ok();
    assert_eq!(reply["items"], json!([]), "as if no run had it");
}

#[tokio::test(flavor = "multi_thread")]
async fn plural_secret_names_are_redacted() {
    let server = TestServer::open().await;
    let input =
        json!({ "passwords": ["a"], "secrets": { "x": 1 }, "api_keys": "k", "dbTokens": 1, "tokens": "t" });
    server.start("far", "p-1", input).await;
    let shown = json!({ "passwords": "[secret]", "secrets": "[secret]", "api_keys": "[secret]", "dbTokens": 1,
        "tokens": "[secret]" });
    assert_eq!(server.get("/v1/runs/p-1").await.ok()["input"], shown);
}
