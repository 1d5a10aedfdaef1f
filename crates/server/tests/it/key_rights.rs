//! A client with a valid key that tries to exceed its rights.

use goldseam_api::doc::key::Scope;
use reqwest::Method;
use serde_json::{Value, json};

use crate::test_server::{Reply, TestServer};

/// Sends a request with a key.
pub(crate) async fn with(server: &TestServer, key: &str, path: &str, body: &Value) -> Reply {
    Reply::of(server.ask(Method::POST, path).bearer_auth(key).json(body).send().await.unwrap()).await
}

pub(crate) async fn read(server: &TestServer, key: &str, path: &str) -> Value {
    Reply::of(server.ask(Method::GET, path).bearer_auth(key).send().await.unwrap()).await.ok()
}

/// Creates a key with an admin key.
pub(crate) async fn made(server: &TestServer, admin: &str, new: Value) -> (String, String) {
    let made = with(server, admin, "/v1/keys", &new).await.ok();
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("credential"), text("id"))
}

/// Registers a worker for a queue, starts a run there and claims it. Returns the worker's id and the execution.
pub(crate) async fn claimed(
    server: &TestServer,
    (admin, key): (&str, &str),
    queue: &str,
    run: &str,
) -> (String, Value) {
    let new = json!({ "workflow": "w", "id": run, "queue": queue });
    with(server, admin, "/v1/runs", &new).await.ok();
    let new = json!({ "name": "w", "workflows": ["w@1"], "queues": [queue], "slots": 1 });
    let worker = with(server, key, "/v1/workers", &new).await.ok()["worker"].as_str().unwrap().to_owned();
    let claim = json!({ "limit": 1, "wait_ms": 20000 });
    let reply = with(server, key, &format!("/v1/workers/{worker}/claim"), &claim).await.ok();
    assert_eq!(reply["executions"][0]["run"], run, "{reply}");
    (worker, reply["executions"][0].clone())
}

fn append(execution: &Value, id: &str, doing: Value) -> Value {
    json!({ "token": execution["token"], "id": id, "after": execution["end"], "doings": [doing] })
}

fn handed_out(path: &str, ord: u32, queue: &str) -> Value {
    let payload = json!({ "parent": "victim" });
    json!({ "step_handed_out": { "path": path, "ord": ord, "attempt": 1, "payload": payload, "queue": queue } })
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_key_cannot_use_reserved_queues() {
    let server = TestServer::open().await;
    let admin = server.key("default", &Scope::ALL).await;
    let worker = server.key("default", &[Scope::Worker]).await;
    with(&server, &admin, "/v1/runs", &json!({ "workflow": "greet", "id": "victim" })).await.ok();
    let (_, execution) = claimed(&server, (&admin, &worker), "default", "r-1").await;
    let send = async |id: &str, doing| {
        with(&server, &worker, "/v1/executions/append", &append(&execution, id, doing)).await
    };
    for (n, queue) in ["goldseam-mail", "goldseam-heartbeat", "goldseam.x"].into_iter().enumerate() {
        let refused = send(&format!("q{n}"), handed_out("deliver", 0, queue)).await.problem(403, "GS0602");
        assert!(refused["detail"].as_str().unwrap().contains(queue), "{refused}");
    }
    send("kind", handed_out("goldseam.x", 0, "default")).await.problem(403, "GS0602");
    let wait = json!({ "wait": { "path": "k", "ord": 0, "children": ["victim"] } });
    send("wait", wait).await.problem(400, "GS0313");
    let tasks = read(&server, &admin, "/v1/tasks?queue=goldseam-mail").await;
    assert_eq!(tasks["items"], json!([]), "nothing was written");
    assert_eq!(send("ok", handed_out("resize", 0, "images")).await.ok()["outcome"], "held");
    let events = read(&server, &admin, "/v1/runs/victim/history").await;
    assert_eq!(events["items"].as_array().unwrap().len(), 1, "{events}");
}

#[tokio::test(flavor = "multi_thread")]
async fn restricted_worker_key_uses_only_its_queues() {
    let server = TestServer::open().await;
    let admin = server.key("default", &Scope::ALL).await;
    let new = json!({ "name": "gpu", "scopes": ["worker"], "queues": ["images"] });
    let (narrow, _) = made(&server, &admin, new).await;
    let (_, execution) = claimed(&server, (&admin, &narrow), "images", "r-1").await;
    let send = async |id: &str, doing| {
        with(&server, &narrow, "/v1/executions/append", &append(&execution, id, doing)).await
    };
    let unsaid = json!({ "step_handed_out": { "path": "a", "ord": 0, "attempt": 1, "payload": 1 } });
    send("1", unsaid).await.problem(403, "GS0602");
    send("2", handed_out("a", 0, "mail")).await.problem(403, "GS0602");
    assert_eq!(send("3", handed_out("a", 0, "images")).await.ok()["outcome"], "held");
    let child = json!({ "child": { "path": "c", "ord": 1, "workflow": "w", "input": 1 } });
    let reply = send("4", child).await.ok();
    let started = reply["events"].as_array().unwrap().iter().find(|e| e["event"]["type"] == "child.started");
    let child = started.unwrap()["event"]["data"]["run"].as_str().unwrap();
    assert_eq!(read(&server, &admin, &format!("/v1/runs/{child}")).await["queue"], "images");
}

#[tokio::test(flavor = "multi_thread")]
async fn reserved_names_are_refused_in_every_field() {
    let server = TestServer::open().await;
    let own_task = format!("d-{}", "0".repeat(32));
    for (path, body) in [
        ("/v1/runs", json!({ "workflow": "w", "id": "goldseam.x" })),
        ("/v1/runs", json!({ "workflow": "w", "queue": "goldseam-mail" })),
        ("/v1/runs", json!({ "workflow": "w", "queue": "goldseam.x" })),
        ("/v1/tasks", json!({ "kind": "k", "id": "goldseam.x" })),
        ("/v1/tasks", json!({ "kind": "k", "id": own_task })),
        ("/v1/tasks", json!({ "kind": "advance:greet@1" })),
        ("/v1/tasks", json!({ "kind": "goldseam.x" })),
        ("/v1/tasks", json!({ "kind": "k", "key": "goldseam.x" })),
        ("/v1/tasks", json!({ "kind": "k", "queue": "goldseam-heartbeat" })),
        ("/v1/tasks/claim", json!({ "owner": "w", "queue": "goldseam-mail" })),
        ("/v1/locks/goldseam.x/acquire", json!({ "holder": "h" })),
        ("/v1/runs/r/signal", json!({ "name": "go", "id": "child:r.0123456789abcdef" })),
        ("/v1/keys", json!({ "name": "n", "scopes": ["worker"], "queues": ["goldseam-mail"] })),
        (
            "/v1/workers",
            json!({ "name": "w", "workflows": ["w@1"], "queues": ["goldseam-mail"], "slots": 1 }),
        ),
    ] {
        let reply = server.post(path, &body).await;
        assert_eq!(reply.status.as_u16(), 403, "{path} {body}: {}", reply.text);
        reply.problem(403, "GS0101");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_and_locks_work_only_with_the_key_of_the_claim() {
    let server = TestServer::open().await;
    let admin = server.key("default", &Scope::ALL).await;
    let own = server.key("default", &[Scope::Worker]).await;
    let other = server.key("default", &[Scope::Worker]).await;
    let (_, execution) = claimed(&server, (&admin, &own), "default", "r-1").await;
    let done = append(&execution, "1", json!({ "complete": { "output": 1 } }));
    let events = json!({ "token": execution["token"], "after": 0 });
    with(&server, &other, "/v1/executions/append", &done).await.problem(404, "GS0312");
    with(&server, &other, "/v1/executions/events", &events).await.problem(404, "GS0312");
    with(&server, &admin, "/v1/executions/events", &events).await.ok();
    with(&server, &own, "/v1/executions/append", &done).await.ok();
    with(&server, &other, "/v1/executions/append", &done).await.problem(404, "GS0312");

    with(&server, &admin, "/v1/tasks", &json!({ "kind": "k", "id": "job" })).await.ok();
    let claim = with(&server, &own, "/v1/tasks/claim", &json!({ "owner": "w" })).await.ok();
    let token = json!({ "token": claim["items"][0]["token"], "result": 1 });
    with(&server, &other, "/v1/tasks/job/complete", &token).await.problem(403, "GS0611");
    with(&server, &own, "/v1/tasks/job/complete", &token).await.ok();

    let hold = json!({ "holder": "deploy", "fence": 1, "ttl_ms": 60000 });
    with(&server, &own, "/v1/locks/l/acquire", &json!({ "holder": "deploy" })).await.ok();
    with(&server, &other, "/v1/locks/l/extend", &hold).await.problem(403, "GS0602");
    let hold = json!({ "holder": "deploy", "fence": 1 });
    with(&server, &other, "/v1/locks/l/release", &hold).await.problem(403, "GS0602");
    with(&server, &own, "/v1/locks/l/extend", &hold).await.ok();
    assert_eq!(with(&server, &admin, "/v1/locks/l/release", &hold).await.ok()["released"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_per_key_are_limited() {
    let server = TestServer::with(&[("workers_per_key", "2")]).await;
    let keys = [server.key("default", &[Scope::Worker]).await, server.key("default", &[Scope::Worker]).await];
    let new = json!({ "name": "w", "workflows": ["w@1"], "slots": 1, "lease_ms": 600000 });
    for _ in 0..2 {
        with(&server, &keys[0], "/v1/workers", &new).await.ok();
    }
    let refused = with(&server, &keys[0], "/v1/workers", &new).await.problem(429, "GS0314");
    assert_eq!(refused["limit"], 2);
    let other = with(&server, &keys[1], "/v1/workers", &new).await.ok();
    let path = format!("/v1/workers/{}", other["worker"].as_str().unwrap());
    let left = server.ask(Method::DELETE, &path).bearer_auth(&keys[1]).send().await.unwrap();
    Reply::of(left).await.ok();
    with(&server, &keys[1], "/v1/workers", &new).await.ok();
    with(&server, &keys[1], "/v1/workers", &new).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeat_reports_an_unknown_token_as_lost_and_keeps_others() {
    let server = TestServer::open().await;
    let new = json!({ "workflow": "w", "id": "r-1" });
    server.post("/v1/runs", &new).await.ok();
    let new = json!({ "name": "w", "workflows": ["w@1"], "slots": 1 });
    let worker = server.post("/v1/workers", &new).await.ok()["worker"].as_str().unwrap().to_owned();
    let claim = json!({ "limit": 1, "wait_ms": 20000 });
    let reply = server.post(&format!("/v1/workers/{worker}/claim"), &claim).await.ok();
    let execution = &reply["executions"][0];
    let holding = json!([{ "token": "made-up", "after": 0 }, { "token": execution["token"], "after": execution["end"] }]);
    let beat =
        server.post(&format!("/v1/workers/{worker}/heartbeat"), &json!({ "holding": holding })).await.ok();
    assert_eq!((&beat["lost"], &beat["news"]), (&json!(["made-up"]), &json!([])));
    let claim = json!({ "limit": 0, "holding": ["made-up", execution["token"]] });
    server.post(&format!("/v1/workers/{worker}/claim"), &claim).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_positions_attempts_and_spans_are_refused() {
    let server = TestServer::open().await;
    let admin = server.key("default", &Scope::ALL).await;
    let (worker, execution) = claimed(&server, (&admin, &admin), "default", "r-1").await;
    let step = |attempt: u32, took_ms: u64| {
        json!({ "step_completed":
            { "path": "a", "ord": 0, "attempt": attempt, "output": 1, "took_ms": took_ms } })
    };
    let beyond = 1_u64 << 62;
    let mut late = append(&execution, "1", step(1, 0));
    let token = &execution["token"];
    late["after"] = json!(beyond);
    let holding = json!([{ "token": token, "after": beyond }]);
    for (path, body) in [
        ("/v1/executions/append", late),
        ("/v1/executions/append", append(&execution, "2", step(0, 0))),
        ("/v1/executions/append", append(&execution, "3", step(7, 0))),
        ("/v1/executions/append", append(&execution, "4", step(1, u64::MAX))),
        ("/v1/executions/events", json!({ "token": token, "after": beyond })),
        (&format!("/v1/workers/{worker}/heartbeat"), json!({ "holding": holding })),
        ("/v1/workers", json!({ "name": "w", "workflows": ["order@1"], "slots": 0 })),
    ] {
        with(&server, &admin, path, &body).await.problem(400, "GS0313");
    }
    let reply =
        with(&server, &admin, "/v1/executions/append", &append(&execution, "5", step(1, 5))).await.ok();
    assert_eq!(reply["outcome"], "held", "the claim is still valid");
}

#[tokio::test(flavor = "multi_thread")]
async fn default_worker_lease_is_ten_seconds() {
    let server = TestServer::open().await;
    let new = json!({ "name": "w", "workflows": ["w@1"], "slots": 1 });
    assert_eq!(server.post("/v1/workers", &new).await.ok()["lease_ms"], 10_000);
    let described = server.get("/v1/openapi.json").await.ok();
    let lease = &described["components"]["schemas"]["RegisterWorker"]["properties"]["lease_ms"];
    // Described in words, because client generators treat a property with a default as required.
    assert!(lease["description"].as_str().unwrap().contains("default 10,000"), "{lease}");
}
