//! Runs over HTTP: started, answered, waited for; the same request twice is one.

use reqwest::Method;
use serde_json::{Value, json};

use crate::desk::{Desk, Told};

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_started_signalled_and_waited_for() {
    let desk = Desk::open().await;
    let engine = desk.engine().await;
    desk.start("greet", "g-1", json!("Ada")).await;
    let waiting = desk.get("/v1/runs/g-1/result?wait_ms=50").await.ok();
    assert!(waiting["output"].is_null(), "{waiting}");
    desk.post("/v1/runs/g-1/signal", &json!({ "name": "go" })).await.ok();
    let ended = desk.get("/v1/runs/g-1/result?wait_ms=20000").await.ok();
    assert_eq!((&ended["status"], &ended["output"]), (&json!("completed"), &json!("Hello, Ada!")));
    let detail = desk.get("/v1/runs/g-1").await.ok();
    assert_eq!(detail["output"], json!("Hello, Ada!"));
    let listed = desk.get("/v1/runs?status=completed&workflow=greet").await.ok();
    assert_eq!(listed["items"][0]["run"], json!("g-1"));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_listed_and_answered_and_a_wrong_answer_is_refused() {
    let desk = Desk::open().await;
    let engine = desk.engine().await;
    desk.start("ask", "q-1", Value::Null).await;
    let mut mark = 0;
    let open = loop {
        let open = desk.get("/v1/questions").await.ok();
        if open["items"] != json!([]) {
            break open;
        }
        mark =
            desk.get(&format!("/v1/changes?after={mark}&wait_ms=1000")).await.ok()["mark"].as_u64().unwrap();
    };
    assert_eq!(open["items"][0]["run"], json!("q-1"));
    desk.get("/v1/runs/q-1/questions/approve").await.ok();
    let wrong = desk.post("/v1/runs/q-1/questions/approve/answer", &json!({ "answer": "perhaps" })).await;
    assert_eq!(wrong.status.as_u16(), 422, "{}", wrong.text);
    desk.post("/v1/runs/q-1/questions/approve/answer", &json!({ "answer": "yes", "by": "ana" })).await.ok();
    let ended = desk.get("/v1/runs/q-1/result?wait_ms=20000").await.ok();
    assert_eq!(ended["output"], json!("yes"));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_idempotency_key_does_one_thing_once() {
    let desk = Desk::open().await;
    let send = async |path: &str, key: &str, body: Value| {
        let request = desk.ask(Method::POST, path).header("idempotency-key", key).json(&body);
        Told::of(request.send().await.unwrap()).await
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
    let history = desk.get(&format!("/v1/runs/{run}/history")).await.ok();
    let signals =
        history["items"].as_array().unwrap().iter().filter(|event| event["type"] == "signal.received");
    assert_eq!(signals.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resume_looks_for_something_to_recover_and_says_what_it_did() {
    let desk = Desk::open().await;
    desk.start("greet", "p-1", json!("Ada")).await;
    desk.post("/v1/runs/p-1/pause", &json!({ "reason": "wait" })).await.ok();
    let resumed = desk.post("/v1/runs/p-1/resume", &json!({})).await.ok();
    assert_eq!(resumed["recovery"]["needed"], json!(false), "{resumed}");
    let why = desk.get("/v1/runs/p-1/why").await.ok();
    assert_eq!(why["run"], json!("p-1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_did_something_stands_in_the_log() {
    let desk = Desk::open().await;
    let key = desk.key("default", &goldseam_api::doc::key::Scope::ALL).await;
    let send = async |path: &str, body: Value| {
        Told::of(desk.ask(Method::POST, path).bearer_auth(&key).json(&body).send().await.unwrap()).await.ok()
    };
    send("/v1/runs", json!({ "workflow": "greet", "id": "w-1", "input": "x" })).await;
    send("/v1/runs/w-1/pause", json!({ "reason": "look", "by": "ana" })).await;
    let read = desk.ask(Method::GET, "/v1/runs/w-1/history").bearer_auth(&key).send().await.unwrap();
    let history = Told::of(read).await.ok();
    let paused =
        history["items"].as_array().unwrap().iter().find(|event| event["type"] == "run.paused").unwrap();
    assert_eq!(paused["data"]["by"], json!("ana via test default"), "{paused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_at_once_under_one_key_have_one_effect_and_one_answer() {
    let desk = Desk::open().await;
    desk.start("greet", "k-1", json!("Ada")).await;
    let ask = async |path: &str, body: Value| {
        let request = desk.ask(Method::POST, path).header("idempotency-key", "same").json(&body);
        Told::of(request.send().await.unwrap()).await.ok()
    };
    let signals = (0..16).map(|_| ask("/v1/runs/k-1/signal", json!({ "name": "n", "payload": 1 })));
    let told = futures_util::future::join_all(signals).await;
    assert!(told.iter().all(|one| *one == told[0]), "{told:?}");
    let history = desk.get("/v1/runs/k-1/history").await.ok();
    let heard =
        history["items"].as_array().unwrap().iter().filter(|event| event["type"] == "signal.received");
    assert_eq!(heard.count(), 1);
    for (path, body) in [("/v1/runs", json!({ "workflow": "w" })), ("/v1/tasks", json!({ "kind": "mail" }))] {
        let told = futures_util::future::join_all((0..16).map(|_| ask(path, body.clone()))).await;
        assert!(told.iter().all(|one| *one == told[0]), "{path}: {told:?}");
        let made = desk.get(path).await.ok()["items"].as_array().unwrap().len();
        assert_eq!(made, if path == "/v1/runs" { 2 } else { 1 }, "{path}");
    }
}
