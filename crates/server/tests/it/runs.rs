//! Runs over HTTP: start, signal, answer and wait; repeated requests have one effect.

use reqwest::Method;
use serde_json::{Value, json};

use crate::test_server::{Reply, TestServer};

#[tokio::test(flavor = "multi_thread")]
async fn run_is_started_signalled_and_awaited() {
    let server = TestServer::open().await;
    let engine = server.engine().await;
    server.start("greet", "g-1", json!("Ada")).await;
    let waiting = server.get("/v1/runs/g-1/result?wait_ms=50").await.ok();
    assert!(waiting["output"].is_null(), "{waiting}");
    server.post("/v1/runs/g-1/signal", &json!({ "name": "go" })).await.ok();
    let ended = server.get("/v1/runs/g-1/result?wait_ms=20000").await.ok();
    assert_eq!((&ended["status"], &ended["output"]), (&json!("completed"), &json!("Hello, Ada!")));
    let detail = server.get("/v1/runs/g-1").await.ok();
    assert_eq!(detail["output"], json!("Hello, Ada!"));
    let listed = server.get("/v1/runs?status=completed&workflow=greet").await.ok();
    assert_eq!(listed["items"][0]["run"], json!("g-1"));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn start_takes_a_timeout_a_delay_and_a_lane() {
    let server = TestServer::open().await;
    let engine = server.engine().await;
    let new = |id: &str, more: Value| {
        let mut new = json!({ "workflow": "greet", "id": id, "input": "Ada" });
        more.as_object().unwrap().iter().for_each(|(key, value)| new[key] = value.clone());
        new
    };
    let soon = new("t-1", json!({ "timeout_ms": 300, "lane": "tenant-7" }));
    server.post("/v1/runs", &soon).await.ok();
    let ended = server.get("/v1/runs/t-1/result?wait_ms=20000").await.ok();
    assert_eq!(
        (&ended["status"], &ended["failure"]["code"]),
        (&json!("failed"), &json!("timeout")),
        "{ended}"
    );
    server.post("/v1/runs", &soon).await.ok();
    let later = new("t-2", json!({ "delay_ms": 600_000, "timeout_ms": 1_000 }));
    server.post("/v1/runs", &later).await.ok();
    let detail = server.get("/v1/runs/t-2").await.ok();
    let ms = |name: &str| detail[name].as_i64().unwrap();
    assert_eq!((ms("deadline") - ms("start_at"), &detail["status"]), (1_000, &json!("queued")));
    for wrong in [
        json!({ "timeout_ms": 0 }),
        json!({ "deadline_ms": 1_000 }),
        json!({ "timeout_ms": 1, "deadline_ms": 32_472_144_000_000_i64 }),
        json!({ "delay_ms": 1, "start_at_ms": 1 }),
        json!({ "start_at_ms": i64::MAX }),
    ] {
        let reply = server.post("/v1/runs", &new("t-3", wrong.clone())).await;
        assert_eq!(reply.status.as_u16(), 400, "{wrong}: {}", reply.text);
        assert!(reply.text.contains("GS0160"), "{wrong}: {}", reply.text);
    }
    let lane = server.post("/v1/runs", &new("t-3", json!({ "lane": "no lane" }))).await;
    assert!(lane.status.as_u16() == 400 && lane.text.contains("GS0101"), "{}", lane.text);
    let other = new("t-2", json!({ "delay_ms": 600_000, "timeout_ms": 1_000, "lane": "other" }));
    assert_eq!(server.post("/v1/runs", &other).await.status.as_u16(), 409, "another lane is another start");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn question_is_answered_and_an_invalid_answer_refused() {
    let server = TestServer::open().await;
    let engine = server.engine().await;
    server.start("ask", "q-1", Value::Null).await;
    let mut mark = 0;
    let open = loop {
        let open = server.get("/v1/questions").await.ok();
        if open["items"] != json!([]) {
            break open;
        }
        mark = server.get(&format!("/v1/changes?after={mark}&wait_ms=1000")).await.ok()["mark"]
            .as_u64()
            .unwrap();
    };
    assert_eq!(open["items"][0]["run"], json!("q-1"));
    server.get("/v1/runs/q-1/questions/approve").await.ok();
    let wrong = server.post("/v1/runs/q-1/questions/approve/answer", &json!({ "answer": "perhaps" })).await;
    assert_eq!(wrong.status.as_u16(), 422, "{}", wrong.text);
    server.post("/v1/runs/q-1/questions/approve/answer", &json!({ "answer": "yes", "by": "ana" })).await.ok();
    let ended = server.get("/v1/runs/q-1/result?wait_ms=20000").await.ok();
    assert_eq!(ended["output"], json!("yes"));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_idempotency_key_has_one_effect() {
    let server = TestServer::open().await;
    let send = async |path: &str, key: &str, body: Value| {
        let request = server.ask(Method::POST, path).header("idempotency-key", key).json(&body);
        Reply::of(request.send().await.unwrap()).await
    };
    let first = send("/v1/runs", "k1", json!({ "workflow": "greet", "input": 1 })).await.ok();
    let again = send("/v1/runs", "k1", json!({ "workflow": "greet", "input": 1 })).await.ok();
    assert_eq!(first, again);
    let other = send("/v1/runs", "k1", json!({ "workflow": "greet", "input": 2 })).await;
    assert_eq!(other.status.as_u16(), 409, "{}", other.text);
    let run = first["run"].as_str().unwrap();
    let signal = format!("/v1/runs/{run}/signal");
    let one = send(&signal, "s1", json!({ "name": "go", "payload": 1 })).await.ok();
    assert_eq!(send(&signal, "s1", json!({ "name": "go", "payload": 1 })).await.ok(), one);
    send(&signal, "s1", json!({ "name": "go", "payload": 2 })).await.problem(409, "GS0603");
    let history = server.get(&format!("/v1/runs/{run}/history")).await.ok();
    let signals =
        history["items"].as_array().unwrap().iter().filter(|event| event["type"] == "signal.received");
    assert_eq!(signals.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn resume_reports_the_recovery() {
    let server = TestServer::open().await;
    server.start("greet", "p-1", json!("Ada")).await;
    server.post("/v1/runs/p-1/pause", &json!({ "reason": "wait" })).await.ok();
    let resumed = server.post("/v1/runs/p-1/resume", &json!({})).await.ok();
    assert_eq!(resumed["recovery"]["needed"], json!(false), "{resumed}");
    let why = server.get("/v1/runs/p-1/why").await.ok();
    assert_eq!(why["run"], json!("p-1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn log_names_the_caller_of_a_change() {
    let server = TestServer::open().await;
    let key = server.key("default", &goldseam_api::doc::key::Scope::ALL).await;
    let send = async |path: &str, body: Value| {
        Reply::of(server.ask(Method::POST, path).bearer_auth(&key).json(&body).send().await.unwrap())
            .await
            .ok()
    };
    send("/v1/runs", json!({ "workflow": "greet", "id": "w-1", "input": "x" })).await;
    send("/v1/runs/w-1/pause", json!({ "reason": "look", "by": "ana" })).await;
    let read = server.ask(Method::GET, "/v1/runs/w-1/history").bearer_auth(&key).send().await.unwrap();
    let history = Reply::of(read).await.ok();
    let paused =
        history["items"].as_array().unwrap().iter().find(|event| event["type"] == "run.paused").unwrap();
    assert_eq!(paused["data"]["by"], json!("ana via test default"), "{paused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_repeats_have_one_effect_and_one_response() {
    let server = TestServer::open().await;
    server.start("greet", "k-1", json!("Ada")).await;
    let ask = async |path: &str, body: Value| {
        let request = server.ask(Method::POST, path).header("idempotency-key", "same").json(&body);
        Reply::of(request.send().await.unwrap()).await.ok()
    };
    let signals = (0..16).map(|_| ask("/v1/runs/k-1/signal", json!({ "name": "n", "payload": 1 })));
    let reply = futures_util::future::join_all(signals).await;
    assert!(reply.iter().all(|one| *one == reply[0]), "{reply:?}");
    let history = server.get("/v1/runs/k-1/history").await.ok();
    let received =
        history["items"].as_array().unwrap().iter().filter(|event| event["type"] == "signal.received");
    assert_eq!(received.count(), 1);
    for (path, body) in [("/v1/runs", json!({ "workflow": "w" })), ("/v1/tasks", json!({ "kind": "mail" }))] {
        let reply = futures_util::future::join_all((0..16).map(|_| ask(path, body.clone()))).await;
        assert!(reply.iter().all(|one| *one == reply[0]), "{path}: {reply:?}");
        let made = server.get(path).await.ok()["items"].as_array().unwrap().len();
        assert_eq!(made, if path == "/v1/runs" { 2 } else { 1 }, "{path}");
    }
}
