//! The embedded engine through its public interface.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use goldseam_embed::{ApiCall, EmbedSettings, Embedded};
use serde_json::{Value, json};

fn open(url: &str, virtual_time: bool) -> Embedded {
    Embedded::open(url, &EmbedSettings { virtual_time, ..EmbedSettings::default() }).unwrap()
}

fn post(engine: &Embedded, path: &str, body: &Value) -> Value {
    let reply = engine.request(ApiCall::post(path, body.to_string())).unwrap();
    let document: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(reply.status, 200, "{path}: {document}");
    document
}

fn get(engine: &Embedded, path: &str) -> Value {
    let reply = engine.request(ApiCall::get(path)).unwrap();
    assert_eq!(reply.status, 200, "{path}");
    serde_json::from_slice(&reply.body).unwrap()
}

fn register(engine: &Embedded) -> String {
    let body = json!({"name": "test", "workflows": ["order@1"], "slots": 4, "lease_ms": 600_000});
    post(engine, "/v1/workers", &body)["worker"].as_str().unwrap().to_owned()
}

fn start(engine: &Embedded, run: &str) {
    post(engine, "/v1/runs", &json!({"workflow": "order", "id": run, "input": 7, "version": 1}));
}

/// Claims one execution.
fn claim(engine: &Embedded, worker: &str) -> Value {
    let path = format!("/v1/workers/{worker}/claim");
    for _ in 0..60 {
        let claimed = post(engine, &path, &json!({"limit": 1, "holding": [], "wait_ms": 1000}));
        if let Some(execution) = claimed["executions"].get(0) {
            return execution.clone();
        }
    }
    panic!("nothing to claim");
}

fn append(engine: &Embedded, execution: &Value, id: &str, doings: Value) -> Value {
    let body = json!({"token": execution["token"], "id": id, "after": execution["end"], "doings": doings});
    post(engine, "/v1/executions/append", &body)
}

#[test]
fn executes_a_run_without_a_socket_and_without_keys() {
    let dir = tempfile::tempdir().unwrap();
    for url in ["memory:".to_owned(), format!("sqlite:{}/e.db", dir.path().display())] {
        let engine = open(&url, false);
        let worker = register(&engine);
        start(&engine, "o-1");
        let execution = claim(&engine, &worker);
        assert_eq!((&execution["run"], &execution["input"]), (&json!("o-1"), &json!(7)));
        let appended = append(&engine, &execution, "a", json!([{"complete": {"output": 8}}]));
        assert_eq!(appended["outcome"], "over");
        assert_eq!(get(&engine, "/v1/runs/o-1/result?wait_ms=1000")["output"], 8);
        engine.close(Duration::ZERO);
    }
}

#[test]
fn refuses_calls_after_its_end_and_gives_the_store_back() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/e.db", dir.path().display());
    let engine = open(&url, false);
    start(&engine, "o-1");
    engine.close(Duration::ZERO);
    engine.close(Duration::ZERO);
    let problem = engine.request(ApiCall::get("/v1/runs")).unwrap_err();
    assert_eq!(problem.code.as_deref(), Some("GS0631"));
    assert_eq!(engine.stream("/v1/events", None).unwrap_err().code.as_deref(), Some("GS0631"));
    let again = open(&url, false);
    assert_eq!(get(&again, "/v1/runs/o-1")["status"], "queued");
}

#[test]
fn answers_bad_requests_with_problems() {
    let engine = open("memory:", false);
    for (call, status) in [
        (ApiCall::get("/v1/nowhere"), 404),
        (ApiCall::get("/v1/runs/missing"), 404),
        (ApiCall::post("/v1/runs", "{"), 400),
        (ApiCall::get("/v1/ü nvalid path"), 400),
        (ApiCall { method: "BAD METHOD".to_owned(), ..ApiCall::get("/v1/runs") }, 400),
        (ApiCall::get("/v1/runs").header("bad header", "x"), 400),
    ] {
        let shown = format!("{call:?}");
        assert_eq!(engine.request(call).unwrap().status, status, "{shown}");
    }
    assert_eq!(
        Embedded::open("mysql:x", &EmbedSettings::default()).unwrap_err().code.as_deref(),
        Some("GS0206")
    );
}

#[test]
fn large_payload_is_refused_by_its_size_and_not_by_its_request() {
    let engine = open("memory:", false);
    let body = json!({"workflow": "order", "input": "x".repeat(3 * 1024 * 1024)});
    let reply = engine.request(ApiCall::post("/v1/runs", body.to_string())).unwrap();
    let problem: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(problem["code"], "GS0102", "{problem}");
}

#[test]
fn follows_a_run_to_its_end() {
    let engine = open("memory:", false);
    let worker = register(&engine);
    start(&engine, "o-1");
    let stream = engine.stream("/v1/runs/o-1/events", None).unwrap();
    let execution = claim(&engine, &worker);
    append(&engine, &execution, "a", json!([{"complete": {"output": 1}}]));
    let mut text = String::new();
    while let Ok(piece) = stream.next(Duration::from_secs(30)) {
        text.push_str(&String::from_utf8_lossy(&piece.unwrap_or_default()));
    }
    assert!(text.contains("event: run.queued") && text.contains("event: run.completed"), "{text}");
    assert_eq!(engine.stream("/v1/runs/missing/events", None).unwrap_err().status, 404);
}

#[test]
fn virtual_time_ends_a_sleep_at_once() {
    let engine = open("memory:", true);
    let worker = register(&engine);
    start(&engine, "o-1");
    let execution = claim(&engine, &worker);
    let nap = json!([{"sleep": {"path": "nap", "ord": 0, "span_ms": 86_400_000}}, {"release": {"reason": "unload"}}]);
    assert_eq!(append(&engine, &execution, "a", nap)["outcome"], "over");
    engine.advance(Duration::from_secs(86_401)).unwrap();
    let again = claim(&engine, &worker);
    let woken = append(&engine, &again, "b", json!([{"check": {"path": "nap"}}]));
    assert_eq!(woken["events"][0]["event"]["type"], "timer.fired");
    let real = open("memory:", false);
    assert_eq!(real.advance(Duration::ZERO).unwrap_err().code.as_deref(), Some("GS0632"));
    let postgres = EmbedSettings { virtual_time: true, ..EmbedSettings::default() };
    assert_eq!(Embedded::open("postgres://x/y", &postgres).unwrap_err().code.as_deref(), Some("GS0632"));
}

#[test]
fn other_workers_take_over_from_a_crashed_one_at_once() {
    let engine = open("memory:", false);
    let first = register(&engine);
    start(&engine, "o-1");
    let execution = claim(&engine, &first);
    append(
        &engine,
        &execution,
        "a",
        json!([{"step_completed": {"path": "s", "ord": 0, "attempt": 1, "output": 1}}]),
    );
    let second = register(&engine);
    engine.crash_worker(&first).unwrap();
    let taken = claim(&engine, &second);
    assert_eq!(taken["run"], "o-1");
    let text = taken["events"].to_string();
    assert!(text.contains("step.completed") && text.contains("\"cause\":\"recovery\""), "{text}");
    assert!(engine.crash_worker(&first).is_err());
}

#[test]
fn a_claim_under_way_gets_a_run_that_its_worker_released_meanwhile() {
    let engine = std::sync::Arc::new(open("memory:", false));
    let worker = register(&engine);
    start(&engine, "o-1");
    let execution = claim(&engine, &worker);
    let token = execution["token"].clone();
    let waiting = std::sync::Arc::clone(&engine);
    let path = format!("/v1/workers/{worker}/claim");
    let body = json!({"limit": 1, "holding": [token], "wait_ms": 60_000});
    let claiming = std::thread::Builder::new().spawn(move || post(&waiting, &path, &body)).unwrap();
    let wait =
        json!([{"wait": {"path": "go", "ord": 0, "signals": ["go"]}}, {"release": {"reason": "unload"}}]);
    assert_eq!(append(&engine, &execution, "a", wait)["outcome"], "over");
    post(&engine, "/v1/runs/o-1/signal", &json!({"name": "go", "payload": 1}));
    let claimed = claiming.join().unwrap();
    assert_eq!(claimed["executions"][0]["run"], "o-1", "{claimed}");
}
