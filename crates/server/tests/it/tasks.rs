//! Remote steps and tasks over HTTP: claimed with a token, completed once.

use goldseam_api::doc::key::Scope;
use reqwest::Method;
use serde_json::{Value, json};

use crate::test_server::{Reply, TestServer};

#[tokio::test(flavor = "multi_thread")]
async fn remote_step_is_completed_by_its_claimant_over_http() {
    let server = TestServer::open().await;
    let engine = server.engine().await;
    server.start("far", "f-1", json!({ "width": 200 })).await;
    let want = json!({ "owner": "w", "kind": "resize", "wait_ms": 20000 });
    let claimed = server.post("/v1/tasks/claim", &want).await.ok();
    let task = &claimed["items"][0]["task"];
    let token = &claimed["items"][0]["token"];
    assert_eq!(task["payload"], json!({ "width": 200 }));
    let id = task["id"].as_str().unwrap();
    server.post(&format!("/v1/tasks/{id}/heartbeat"), &json!({ "token": token })).await.ok();
    let done = json!({ "token": token, "result": { "url": "small" } });
    let first = server.post(&format!("/v1/tasks/{id}/complete"), &done).await.ok();
    assert_eq!(
        server.post(&format!("/v1/tasks/{id}/complete"), &done).await.ok(),
        first,
        "a repeat gets the same response"
    );
    let ended = server.get("/v1/runs/f-1/result?wait_ms=20000").await.ok();
    assert_eq!(ended["output"], json!({ "url": "small" }));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_token_of_the_claim_completes_a_task() {
    let server = TestServer::open().await;
    let worker = server.key("default", &[Scope::Worker, Scope::Start]).await;
    let foreign = server.key("other", &[Scope::Worker, Scope::Start]).await;
    let send = async |key: &str, path: &str, body: Value| {
        Reply::of(server.ask(Method::POST, path).bearer_auth(key).json(&body).send().await.unwrap()).await
    };
    for key in [&worker, &foreign] {
        for id in ["t-1", "t-2"] {
            send(key, "/v1/tasks", json!({ "kind": "k", "id": id })).await.ok();
        }
    }
    let want = json!({ "owner": "w", "limit": 2 });
    let ours = send(&worker, "/v1/tasks/claim", want.clone()).await.ok();
    let theirs = send(&foreign, "/v1/tasks/claim", want).await.ok();
    let token = |claimed: &Value, n: usize| claimed["items"][n]["token"].as_str().unwrap().to_owned();
    let path = "/v1/tasks/t-1/complete";
    let mut forged = token(&ours, 0);
    forged.replace_range(0..2, "7c");
    for bad in [token(&ours, 1), token(&theirs, 0), forged, "x".to_owned(), String::new()] {
        send(&worker, path, json!({ "token": bad, "result": 1 })).await.problem(403, "GS0611");
    }
    send(&worker, path, json!({ "fence": 1, "result": 1 })).await.problem(403, "GS0611");
    send(&worker, path, json!({ "token": token(&ours, 0), "result": 1 })).await.ok();
}
