//! Secrets: hidden in what people look at, untouched in what programs need.

use reqwest::Method;
use serde_json::{Value, json};

use crate::desk::{Desk, Told};
use crate::followed::Reader;

/// A variable that every test has, taken for a secret.
const VARIABLE: &str = "CARGO_MANIFEST_DIR";

fn value() -> String {
    std::env::var(VARIABLE).unwrap()
}

async fn desk() -> Desk {
    Desk::with(&[("secrets_from_env", VARIABLE)]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn views_and_streams_hide_secrets_and_data_goes_out_as_it_is() {
    let desk = desk().await;
    let engine = desk.engine().await;
    let mut feed = Reader::follow(&desk, "/v1/events", None).await;
    let input =
        json!({ "apiKey": "hush-in", "door": format!("open {}", value()), "next_page_token": "n", "z": 1 });
    let shown = json!({ "apiKey": "[secret]", "door": "open [secret]", "next_page_token": "n", "z": 1 });
    desk.start("far", "f-1", input.clone()).await;
    let claimed =
        desk.post("/v1/tasks/claim", &json!({ "owner": "w", "kind": "resize", "wait_ms": 20000 })).await.ok();
    let (task, token) = (&claimed["items"][0]["task"], &claimed["items"][0]["token"]);
    assert_eq!(task["payload"], input, "a worker works with what it was given");
    assert!(token.as_str().unwrap().len() > 20, "a claim needs its token");
    let output = json!({ "password": "hush-out", "door": value() });
    let done = json!({ "token": token, "result": output });
    desk.post(&format!("/v1/tasks/{}/complete", task["id"].as_str().unwrap()), &done).await.ok();
    let ended = desk.get("/v1/runs/f-1/result?wait_ms=20000").await.ok();
    assert_eq!(ended["output"], output, "whoever waits gets the result");

    let detail = desk.get("/v1/runs/f-1").await.ok();
    assert_eq!(detail["input"], shown);
    assert_eq!(detail["output"], json!({ "password": "[secret]", "door": "[secret]" }));
    let mut follower = Reader::follow(&desk, "/v1/runs/f-1/events", None).await;
    let followed = follower.rest().await;
    assert_eq!(followed[0].data["data"]["input"], shown);
    let fed = feed.take(followed.len()).await;
    assert_eq!(fed[0].data["data"]["input"], shown);
    let history = desk.get("/v1/runs/f-1/history").await.ok();
    assert_eq!(history["items"].as_array().unwrap().len(), followed.len());
    for view in [&history, &detail, &json!(fed.iter().map(|one| &one.data).collect::<Vec<_>>())] {
        let text = view.to_string();
        assert!(!text.contains("hush") && !text.contains(&value()), "{text}");
    }
    let log = format!("{:?}", engine.history(&"f-1".parse().unwrap()).await.unwrap());
    assert!(log.contains("hush-in") && log.contains("hush-out"), "the log has its data");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_problem_hides_what_the_request_brought() {
    let desk = desk().await;
    let body = format!("{{\"workflow\": \"far\", {}: 1}}", json!(value()));
    let request = desk.ask(Method::POST, "/v1/runs").header("content-type", "application/json").body(body);
    let told = Told::of(request.send().await.unwrap()).await;
    assert_eq!(told.status.as_u16(), 400);
    assert!(told.text.contains("[secret]") && !told.text.contains(&value()), "{}", told.text);
    assert!(told.body.is_object(), "{}", told.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_that_come_through_a_server_lose_its_secrets_before_they_are_written() {
    let desk = desk().await;
    let engine = desk.engine().await;
    desk.start("greet", "g-1", json!("Ada")).await;
    let note = json!({ "reason": format!("see {}", value()) });
    desk.post("/v1/runs/g-1/note", &note).await.ok();
    let log = format!("{:?}", engine.history(&"g-1".parse().unwrap()).await.unwrap());
    assert!(log.contains("see [secret]") && !log.contains(&value()), "{log}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_secrets_can_be_others_or_none() {
    let input = json!({ "password": "a", "iban": "b" });
    for (keys, shown) in [
        ("iban", json!({ "password": "a", "iban": "[secret]" })),
        ("none", json!({ "password": "a", "iban": "b" })),
    ] {
        let desk = Desk::with(&[("redact_keys", keys)]).await;
        desk.start("far", "f-1", input.clone()).await;
        let detail: Value = desk.get("/v1/runs/f-1").await.ok();
        assert_eq!(detail["input"], shown);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_confirms_no_hidden_tag() {
    let desk = desk().await;
    let tags = json!({ "password": "guess", "api_keys": "k-1", "note": value(), "team": "a" });
    desk.post("/v1/runs", &json!({ "workflow": "far", "id": "t-1", "tags": tags })).await.ok();
    let shown = desk.get("/v1/runs?tag=team%3Da").await.ok();
    let hidden = json!({ "password": "[secret]", "api_keys": "[secret]", "note": "[secret]", "team": "a" });
    assert_eq!(shown["items"][0]["tags"], hidden);
    for guess in ["guess", "wrong"] {
        let told = desk.get(&format!("/v1/runs?tag=password%3D{guess}")).await.problem(400, "GS0608");
        assert!(told["detail"].as_str().unwrap().contains("hidden"), "{told}");
    }
    desk.get("/v1/runs?tag=api_keys%3Dk-1").await.problem(400, "GS0608");
    let by_value = desk.ask(Method::GET, "/v1/runs").query(&[("tag", format!("note={}", value()))]);
    let told = Told::of(by_value.send().await.unwrap()).await.ok();
    assert_eq!(told["items"], json!([]), "as if no run had it");
}

#[tokio::test(flavor = "multi_thread")]
async fn plural_names_of_secrets_are_hidden() {
    let desk = Desk::open().await;
    let input =
        json!({ "passwords": ["a"], "secrets": { "x": 1 }, "api_keys": "k", "dbTokens": 1, "tokens": "t" });
    desk.start("far", "p-1", input).await;
    let shown = json!({ "passwords": "[secret]", "secrets": "[secret]", "api_keys": "[secret]", "dbTokens": 1,
        "tokens": "[secret]" });
    assert_eq!(desk.get("/v1/runs/p-1").await.ok()["input"], shown);
}
