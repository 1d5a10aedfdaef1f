//! Within a second, a revoked or expired key ends all its requests, workers and passes.

use std::time::Duration;

use goldseam_api::doc::key::Scope;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::key_rights::{claimed, made, read, with};
use crate::test_server::{Reply, TestServer};

/// Twice the guaranteed time, because tests share their machine.
const SOON: Duration = Duration::from_secs(2);

/// Sends a waiting request and returns once the server has received it.
async fn waiting(server: &TestServer, admin: &str, request: RequestBuilder) -> JoinHandle<Reply> {
    let before = under_way(server, admin).await;
    let sent = tokio::spawn(async move { Reply::of(request.send().await.unwrap()).await });
    while under_way(server, admin).await <= before {
        tokio::task::yield_now().await;
    }
    sent
}

async fn under_way(server: &TestServer, admin: &str) -> u64 {
    let asked = server.ask(Method::GET, "/metrics").bearer_auth(admin).send().await.unwrap();
    let text = asked.text().await.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("goldseam_http_requests_under_way "));
    line.unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn revoking_a_key_ends_its_long_polls_and_releases_its_runs() {
    let server = TestServer::open().await;
    let admin = server.key("default", &Scope::ALL).await;
    let (key, id) = made(&server, &admin, json!({ "name": "k", "scopes": ["worker", "read"] })).await;
    let (worker, execution) = claimed(&server, (&admin, &key), "default", "r-1").await;
    let ask = |method, path: &str, body: Value| server.ask(method, path).bearer_auth(&key).json(&body);
    let token = &execution["token"];
    let holding = json!([{ "token": token, "after": execution["end"] }]);
    let polls = [
        ask(
            Method::POST,
            &format!("/v1/workers/{worker}/claim"),
            json!({ "limit": 1, "holding": [token], "wait_ms": 60000 }),
        ),
        ask(
            Method::POST,
            &format!("/v1/workers/{worker}/heartbeat"),
            json!({ "holding": holding, "wait_ms": 60000 }),
        ),
        ask(Method::POST, "/v1/tasks/claim", json!({ "owner": "w", "wait_ms": 60000 })),
        server.ask(Method::GET, "/v1/runs/r-1/result?wait_ms=60000").bearer_auth(&key),
    ];
    let mut open = Vec::new();
    for poll in polls {
        open.push(waiting(&server, &admin, poll).await);
    }
    with(&server, &admin, &format!("/v1/keys/{id}/revoke"), &json!({})).await.ok();
    let ended = async {
        for poll in open {
            poll.await.unwrap().problem(401, "GS0601");
        }
    };
    tokio::time::timeout(SOON, ended).await.expect("all requests end soon");
    // The awaited task comes only now. Another worker claims the run, and no attempt is counted.
    with(&server, &admin, "/v1/tasks", &json!({ "kind": "k" })).await.ok();
    let new = json!({ "name": "w2", "workflows": ["w@1"], "slots": 1 });
    let next = with(&server, &admin, "/v1/workers", &new).await.ok()["worker"].as_str().unwrap().to_owned();
    let claim = json!({ "limit": 1, "wait_ms": 20000 });
    let reply = with(&server, &admin, &format!("/v1/workers/{next}/claim"), &claim).await.ok();
    assert_eq!(
        (&reply["executions"][0]["run"], &reply["executions"][0]["attempt"]),
        (&json!("r-1"), &json!(0))
    );
    let tasks = read(&server, &admin, "/v1/tasks?state=ready").await;
    assert_eq!(tasks["items"].as_array().unwrap().len(), 1, "no worker has the task: {tasks}");
    let done = json!({ "token": token, "id": "1", "after": execution["end"], "doings": [{ "complete": { "output": 1 } }] });
    with(&server, &admin, "/v1/executions/append", &done).await.problem(409, "GS0114");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_and_long_polls_end_when_their_key_expires() {
    let server = TestServer::open().await;
    let admin = server.key("default", &Scope::ALL).await;
    with(&server, &admin, "/v1/runs", &json!({ "workflow": "greet", "id": "r" })).await.ok();
    let (key, _) =
        made(&server, &admin, json!({ "name": "k", "scopes": ["read"], "valid_for_ms": 1500 })).await;
    let poll = server.ask(Method::GET, "/v1/runs/r/result?wait_ms=60000").bearer_auth(&key).send();
    let stream = async {
        let stream = server.ask(Method::GET, "/v1/runs/r/events").bearer_auth(&key).send().await.unwrap();
        stream.text().await.unwrap()
    };
    let ended = async { tokio::join!(async { Reply::of(poll.await.unwrap()).await }, stream) };
    let (poll, stream) = tokio::time::timeout(Duration::from_secs(20), ended).await.unwrap();
    poll.problem(401, "GS0601");
    assert!(stream.contains("event: problem") && stream.contains("GS0601"), "{stream}");
}

#[tokio::test(flavor = "multi_thread")]
async fn first_key_ends_requests_without_a_key() {
    let server = TestServer::open().await;
    server.post("/v1/runs", &json!({ "workflow": "greet", "id": "r" })).await.ok();
    let poll = server.ask(Method::GET, "/v1/runs/r/result?wait_ms=60000").send();
    let first = async {
        while !server.get("/metrics").await.text.contains("goldseam_http_requests_under_way 2") {
            tokio::task::yield_now().await;
        }
        server.post("/v1/keys", &json!({ "name": "k", "scopes": ["admin"] })).await.ok();
    };
    let (poll, ()) = tokio::join!(poll, first);
    Reply::of(poll.unwrap()).await.problem(401, "GS0601");
}

#[tokio::test(flavor = "multi_thread")]
async fn passes_expire_with_their_key() {
    let server = TestServer::open().await;
    let admin = server.key("default", &Scope::ALL).await;
    with(&server, &admin, "/v1/runs", &json!({ "workflow": "greet", "id": "r" })).await.ok();
    let (key, _) =
        made(&server, &admin, json!({ "name": "k", "scopes": ["signal"], "valid_for_ms": 1500 })).await;
    let pass = with(&server, &key, "/v1/runs/r/passes", &json!({ "signal": "go" })).await.ok();
    let keys = read(&server, &admin, "/v1/keys").await;
    let made = keys["items"].as_array().unwrap().iter().find(|key| key["name"] == "k").unwrap();
    assert_eq!(pass["expires_at"], made["expires_at"], "the pass has the expiry of its key");
    let show = async || {
        let asked = server.ask(Method::GET, "/v1/pass").bearer_auth(pass["pass"].as_str().unwrap());
        asked.send().await.unwrap().status().as_u16()
    };
    assert_eq!(show().await, 200);
    while show().await == 200 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(show().await, 401);
}
