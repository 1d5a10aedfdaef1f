//! Passes: one thing, once, and nothing else.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use goldseam::engine::{Clock as _, OsEntropy, SystemClock};
use goldseam_api::Local;
use goldseam_api::doc::key::Scope;
use goldseam_server::pass::{Maker, Passes};
use goldseam_server::token::FileSecret;
use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::desk::{Desk, Told};

/// A server that asks for keys, and a run that asks `approve`.
async fn asked() -> (Desk, String, goldseam::Engine) {
    let desk = Desk::open().await;
    let (key, engine) = (desk.key("default", &Scope::ALL).await, desk.engine().await);
    started(&desk, &key, "ask").await;
    while with(&desk, &key, Method::GET, "/v1/runs/r/questions", None).await.body["items"][0].is_null() {
        tokio::task::yield_now().await;
    }
    (desk, key, engine)
}

async fn started(desk: &Desk, key: &str, workflow: &str) {
    let new = json!({ "workflow": workflow, "id": "r", "input": "Ada" });
    with(desk, key, Method::POST, "/v1/runs", Some(new)).await.ok();
}

async fn with(desk: &Desk, credential: &str, method: Method, path: &str, body: Option<Value>) -> Told {
    let mut request = desk.ask(method, path).bearer_auth(credential);
    if let Some(body) = body {
        request = request.json(&body);
    }
    Told::of(request.send().await.unwrap()).await
}

async fn pass(desk: &Desk, key: &str, new: Value) -> Value {
    with(desk, key, Method::POST, "/v1/runs/r/passes", Some(new)).await.ok()
}

fn bearer(made: &Value) -> &str {
    made["pass"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_answers_its_question_once_and_does_nothing_else() {
    let (desk, key, engine) = asked().await;
    let made = pass(&desk, &key, json!({ "answer": "approve" })).await;
    let other = pass(&desk, &key, json!({ "answer": "approve" })).await;
    let shown = with(&desk, bearer(&made), Method::GET, "/v1/pass", None).await.ok();
    assert_eq!(shown["question"]["prompt"], json!("May it be done?"));
    for path in ["/v1/runs", "/v1/runs/r", "/v1/keys", "/v1/events", "/metrics"] {
        with(&desk, bearer(&made), Method::GET, path, None).await.problem(403, "GS0602");
    }
    let wrong =
        with(&desk, bearer(&made), Method::POST, "/v1/pass", Some(json!({ "payload": "maybe" }))).await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", wrong.text);
    let yes = json!({ "payload": "yes", "by": "Ada" });
    let used = with(&desk, bearer(&made), Method::POST, "/v1/pass", Some(yes.clone())).await.ok();
    assert_eq!(with(&desk, bearer(&made), Method::POST, "/v1/pass", Some(yes.clone())).await.ok(), used);
    let no = Some(json!({ "payload": "no" }));
    with(&desk, bearer(&made), Method::POST, "/v1/pass", no).await.problem(409, "GS0603");
    with(&desk, bearer(&made), Method::GET, "/v1/pass", None).await.problem(410, "GS0613");
    let late = with(&desk, bearer(&other), Method::POST, "/v1/pass", Some(yes)).await;
    assert!(late.status.is_client_error(), "{}", late.text);
    let log = with(&desk, &key, Method::GET, "/v1/runs/r/history", None).await.text;
    assert!(log.contains("Ada via pass of test default"), "{log}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_is_for_the_question_as_it_was_asked() {
    let (desk, key, engine) = asked().await;
    let made = pass(&desk, &key, json!({ "answer": "approve" })).await;
    let since = async || {
        let open = with(&desk, &key, Method::GET, "/v1/runs/r/questions", None).await.ok();
        open["items"][0]["since"].clone()
    };
    let before = since().await;
    let jump = json!({ "to": "approve", "reason": "ask once more" });
    with(&desk, &key, Method::POST, "/v1/runs/r/jump", Some(jump)).await.ok();
    let yes = || Some(json!({ "payload": "yes" }));
    // Before it is asked again, and after.
    with(&desk, bearer(&made), Method::POST, "/v1/pass", yes()).await.problem(410, "GS0613");
    while [before.clone(), Value::Null].contains(&since().await) {
        tokio::task::yield_now().await;
    }
    with(&desk, bearer(&made), Method::POST, "/v1/pass", yes()).await.problem(410, "GS0613");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_that_makes_no_sense_or_is_over_opens_nothing() {
    let (desk, key, engine) = asked().await;
    for bad in [
        json!({}),
        json!({ "answer": "approve", "signal": "go" }),
        json!({ "signal": "go", "valid_for_ms": 1e13 as u64 }),
    ] {
        let told = with(&desk, &key, Method::POST, "/v1/runs/r/passes", Some(bad)).await;
        told.problem(400, "GS0608");
    }
    for missing in [
        ("/v1/runs/none/passes", json!({ "signal": "go" })),
        ("/v1/runs/r/passes", json!({ "answer": "none" })),
    ] {
        let told = with(&desk, &key, Method::POST, missing.0, Some(missing.1)).await;
        assert_eq!(told.status, StatusCode::NOT_FOUND, "{}", told.text);
    }
    let over = pass(&desk, &key, json!({ "answer": "approve", "valid_for_ms": 0 })).await;
    with(&desk, bearer(&over), Method::GET, "/v1/pass", None).await.problem(401, "GS0601");
    let good = pass(&desk, &key, json!({ "answer": "approve" })).await;
    let (head, secret) = bearer(&good).rsplit_once('_').unwrap();
    for wrong in [
        format!("{head}_"),
        format!("{head}_{}", "0".repeat(secret.len())),
        format!("{head}0_{secret}"),
        head.to_owned(),
    ] {
        with(&desk, &wrong, Method::GET, "/v1/pass", None).await.problem(401, "GS0601");
    }
    with(&desk, &key, Method::GET, "/v1/pass", None).await.problem(403, "GS0602");
    engine.shutdown().await;
}

fn seconds() -> i64 {
    goldseam::engine::SystemClock.now().0 / 1_000
}

/// What another program would write from the description alone.
fn signature(secret: &str, time: i64, path: &str, body: &str) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("{time}.POST.{path}.{}", hex(&Sha256::digest(body))).as_bytes());
    format!("t={time},v1={}", hex(&mac.finalize().into_bytes()))
}

async fn call(desk: &Desk, path: &str, signature: Option<String>, body: &'static str) -> Told {
    let mut request = desk.ask(Method::POST, path).body(body);
    if let Some(signature) = signature {
        request = request.header("goldseam-signature", signature);
    }
    Told::of(request.send().await.unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_signs_its_callback_and_is_heard_once() {
    let desk = Desk::open().await;
    let (key, engine) = (desk.key("default", &Scope::ALL).await, desk.engine().await);
    started(&desk, &key, "greet").await;
    let made = pass(&desk, &key, json!({ "signal": "go" })).await;
    let (path, secret) = (made["callback"].as_str().unwrap(), made["secret"].as_str().unwrap());
    let (now, body) = (seconds(), "{\"paid\":7}");
    let good = signature(secret, now, path, body);
    call(&desk, path, None, body).await.problem(401, "GS0601");
    call(&desk, path, Some(good.clone()), "{\"paid\":8}").await.problem(401, "GS0601");
    call(&desk, path, Some(signature(secret, now - 400, path, body)), body).await.problem(401, "GS0601");
    call(&desk, path, Some(signature("00", now, path, body)), body).await.problem(401, "GS0601");
    with(&desk, bearer(&made), Method::POST, path, Some(json!(1))).await.problem(401, "GS0601");
    let used = call(&desk, path, Some(good.clone()), body).await.ok();
    assert_eq!(call(&desk, path, Some(good), body).await.ok(), used, "sent again by a network that retries");
    let other = "{\"paid\":9}";
    call(&desk, path, Some(signature(secret, now, path, other)), other).await.problem(409, "GS0603");
    let result = with(&desk, &key, Method::GET, "/v1/runs/r/result?wait_ms=10000", None).await.ok();
    assert_eq!(result["output"], json!("Hello, Ada!"));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_passes_are_made_with_can_be_changed_and_the_one_before_holds() {
    let (desk, key, engine) = asked().await;
    let other = desk.key("other", &Scope::ALL).await;
    let made = pass(&desk, &key, json!({ "answer": "approve" })).await;
    let is_open =
        async || with(&desk, bearer(&made), Method::GET, "/v1/pass", None).await.status.is_success();
    with(&desk, &other, Method::POST, "/v1/passes/rotate", None).await.problem(403, "GS0602");
    with(&desk, &key, Method::POST, "/v1/passes/rotate", None).await.ok();
    assert!(is_open().await, "the one before holds");
    let second = pass(&desk, &key, json!({ "answer": "approve" })).await;
    with(&desk, &key, Method::POST, "/v1/passes/rotate", None).await.ok();
    assert!(!is_open().await, "the one before that does not");
    with(&desk, bearer(&second), Method::GET, "/v1/pass", None).await.ok();
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_ends_with_the_key_that_made_it() {
    let (desk, key, engine) = asked().await;
    let new = Some(json!({ "name": "maker", "scopes": ["signal"] }));
    let maker = with(&desk, &key, Method::POST, "/v1/keys", new).await.ok();
    let (id, maker) = (maker["id"].as_str().unwrap(), maker["credential"].as_str().unwrap());
    let (made, other) = (
        pass(&desk, maker, json!({ "answer": "approve" })).await,
        pass(&desk, &key, json!({ "answer": "approve" })).await,
    );
    with(&desk, bearer(&made), Method::GET, "/v1/pass", None).await.ok();
    with(&desk, &key, Method::POST, &format!("/v1/keys/{id}/revoke"), Some(json!({}))).await.ok();
    with(&desk, bearer(&made), Method::GET, "/v1/pass", None).await.problem(401, "GS0601");
    let yes = Some(json!({ "payload": "yes" }));
    with(&desk, bearer(&made), Method::POST, "/v1/pass", yes.clone()).await.problem(401, "GS0601");
    with(&desk, bearer(&other), Method::POST, "/v1/pass", yes).await.ok();
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_again_for_a_key_or_a_pass_gets_no_second_one() {
    let desk = Desk::open().await;
    let key = desk.key("default", &Scope::ALL).await;
    started(&desk, &key, "nobody-has-it").await;
    let once = async |path: &str, body: Value| {
        let request = desk.ask(Method::POST, path).bearer_auth(&key).header("idempotency-key", "again");
        Told::of(request.json(&body).send().await.unwrap()).await
    };
    let new = json!({ "name": "ci", "scopes": ["read"] });
    let made = once("/v1/keys", new.clone()).await.ok();
    let refused = once("/v1/keys", new).await.problem(409, "GS0603");
    assert!(refused["hint"].as_str().unwrap().contains(made["id"].as_str().unwrap()), "{refused}");
    let keys = with(&desk, &key, Method::GET, "/v1/keys", None).await.ok();
    assert_eq!(keys["items"].as_array().unwrap().iter().filter(|key| key["name"] == "ci").count(), 1);
    let mut events = Vec::new();
    for _ in 0..2 {
        let made = once("/v1/runs/r/passes", json!({ "signal": "go" })).await.ok();
        let usage = Some(json!({ "payload": 1 }));
        events.push(with(&desk, bearer(&made), Method::POST, "/v1/pass", usage).await.ok()["event"].clone());
    }
    assert_eq!(events[0], events[1], "one signal");
    let older = pass(&desk, &key, json!({ "signal": "stop" })).await;
    let rotated = once("/v1/passes/rotate", json!({})).await.ok();
    for _ in 0..3 {
        assert_eq!(once("/v1/passes/rotate", json!({})).await.ok(), rotated);
    }
    with(&desk, bearer(&older), Method::GET, "/v1/pass", None).await.ok();
}

/// A file with a secret that only its owner can read.
fn secret_file(file: &Path, content: &str) {
    std::fs::write(file, content).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_secret_file_the_store_alone_makes_no_pass() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("secret");
    secret_file(&file, &"s".repeat(32));
    let mut desk = Desk::with(&[("secret_file", file.to_str().unwrap())]).await;
    let key = desk.key("default", &Scope::ALL).await;
    started(&desk, &key, "ask").await;
    let store = desk.store("main.db");
    let made = async |own: FileSecret| {
        let opened = goldseam::open_existing_store(&store).await.unwrap();
        let local = Local::new(goldseam::connect_existing(&store).await.unwrap());
        let passes = Passes::new(opened, Arc::new(OsEntropy), Arc::new(SystemClock), own);
        let new = serde_json::from_value(json!({ "signal": "go" })).unwrap();
        let run = "r".parse().unwrap();
        passes.make(("default", &local), Maker::default(), &run, new).await.unwrap().pass
    };
    let forged = made(FileSecret::default()).await;
    let refused = with(&desk, &forged, Method::GET, "/v1/pass", None).await.problem(401, "GS0601");
    assert!(refused["detail"].as_str().unwrap().contains("secret that passes are signed with has changed"));
    let beside = made(FileSecret::read(Some(&file)).unwrap()).await;
    with(&desk, &beside, Method::GET, "/v1/pass", None).await.ok();
    let own = pass(&desk, &key, json!({ "signal": "go" })).await;
    secret_file(&file, &format!("{}\n", "s".repeat(32)));
    desk.restart().await;
    with(&desk, bearer(&own), Method::GET, "/v1/pass", None).await.ok();
    secret_file(&file, &"t".repeat(32));
    desk.restart().await;
    with(&desk, bearer(&own), Method::GET, "/v1/pass", None).await.problem(401, "GS0601");
}

#[test]
fn a_secret_file_that_is_short_or_open_to_others_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("secret");
    let why = || {
        let problem = FileSecret::read(Some(&file)).unwrap_err();
        assert_eq!(problem.code.as_deref(), Some("GS0610"));
        problem.detail
    };
    assert!(why().contains("cannot be read"));
    secret_file(&file, &"s".repeat(31));
    assert!(why().contains("has 31 bytes, fewer than 32"));
    secret_file(&file, &"s".repeat(32));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(why().contains("can be read or written by other users"));
}
