//! Passes allow one action, once.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use goldseam::unstable::engine::Clock as _;
use goldseam_api::credentials::token::FileSecret;
use goldseam_api::doc::key::Scope;
use goldseam_api::{Caller, LocalApi, PassesApi as _};
use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::test_server::{Reply, TestServer};

/// Starts a server that requires keys, and a run that asks `approve`.
async fn asked() -> (TestServer, String, goldseam::Engine) {
    let server = TestServer::open().await;
    let key = server.key("default", &Scope::ALL).await;
    let engine = server.engine().await;
    started(&server, &key, "ask").await;
    while with(&server, &key, Method::GET, "/v1/runs/r/questions", None).await.body["items"][0].is_null() {
        tokio::task::yield_now().await;
    }
    (server, key, engine)
}

async fn started(server: &TestServer, key: &str, workflow: &str) {
    let new = json!({ "workflow": workflow, "id": "r", "input": "Ada" });
    with(server, key, Method::POST, "/v1/runs", Some(new)).await.ok();
}

async fn with(
    server: &TestServer,
    credential: &str,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> Reply {
    let mut request = server.ask(method, path).bearer_auth(credential);
    if let Some(body) = body {
        request = request.json(&body);
    }
    Reply::of(request.send().await.unwrap()).await
}

async fn pass(server: &TestServer, key: &str, new: Value) -> Value {
    with(server, key, Method::POST, "/v1/runs/r/passes", Some(new)).await.ok()
}

fn bearer(made: &Value) -> &str {
    made["pass"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn pass_answers_its_question_once_and_nothing_else() {
    let (server, key, engine) = asked().await;
    let made = pass(&server, &key, json!({ "answer": "approve" })).await;
    let other = pass(&server, &key, json!({ "answer": "approve" })).await;
    let shown = with(&server, bearer(&made), Method::GET, "/v1/pass", None).await.ok();
    assert_eq!(shown["question"]["prompt"], json!("May it be done?"));
    for path in ["/v1/runs", "/v1/runs/r", "/v1/keys", "/v1/events", "/metrics"] {
        with(&server, bearer(&made), Method::GET, path, None).await.problem(403, "GS0602");
    }
    let wrong =
        with(&server, bearer(&made), Method::POST, "/v1/pass", Some(json!({ "payload": "maybe" }))).await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", wrong.text);
    let yes = json!({ "payload": "yes", "by": "Ada" });
    let used = with(&server, bearer(&made), Method::POST, "/v1/pass", Some(yes.clone())).await.ok();
    assert_eq!(with(&server, bearer(&made), Method::POST, "/v1/pass", Some(yes.clone())).await.ok(), used);
    let no = Some(json!({ "payload": "no" }));
    with(&server, bearer(&made), Method::POST, "/v1/pass", no).await.problem(409, "GS0603");
    with(&server, bearer(&made), Method::GET, "/v1/pass", None).await.problem(410, "GS0613");
    let late = with(&server, bearer(&other), Method::POST, "/v1/pass", Some(yes)).await;
    assert!(late.status.is_client_error(), "{}", late.text);
    let log = with(&server, &key, Method::GET, "/v1/runs/r/history", None).await.text;
    assert!(log.contains("Ada via pass of test default"), "{log}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pass_is_invalid_for_a_later_question_of_the_same_name() {
    let (server, key, engine) = asked().await;
    let made = pass(&server, &key, json!({ "answer": "approve" })).await;
    let since = async || {
        let open = with(&server, &key, Method::GET, "/v1/runs/r/questions", None).await.ok();
        open["items"][0]["since"].clone()
    };
    let before = since().await;
    let jump = json!({ "to": "approve", "reason": "ask once more" });
    with(&server, &key, Method::POST, "/v1/runs/r/jump", Some(jump)).await.ok();
    let yes = || Some(json!({ "payload": "yes" }));
    // Both before the question is asked again and after.
    with(&server, bearer(&made), Method::POST, "/v1/pass", yes()).await.problem(410, "GS0613");
    while [before.clone(), Value::Null].contains(&since().await) {
        tokio::task::yield_now().await;
    }
    with(&server, bearer(&made), Method::POST, "/v1/pass", yes()).await.problem(410, "GS0613");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_or_expired_pass_opens_nothing() {
    let (server, key, engine) = asked().await;
    for bad in [
        json!({}),
        json!({ "answer": "approve", "signal": "go" }),
        json!({ "signal": "go", "valid_for_ms": 1e13 as u64 }),
    ] {
        let reply = with(&server, &key, Method::POST, "/v1/runs/r/passes", Some(bad)).await;
        reply.problem(400, "GS0608");
    }
    for missing in [
        ("/v1/runs/none/passes", json!({ "signal": "go" })),
        ("/v1/runs/r/passes", json!({ "answer": "none" })),
    ] {
        let reply = with(&server, &key, Method::POST, missing.0, Some(missing.1)).await;
        assert_eq!(reply.status, StatusCode::NOT_FOUND, "{}", reply.text);
    }
    let over = pass(&server, &key, json!({ "answer": "approve", "valid_for_ms": 0 })).await;
    with(&server, bearer(&over), Method::GET, "/v1/pass", None).await.problem(401, "GS0601");
    let good = pass(&server, &key, json!({ "answer": "approve" })).await;
    let (head, secret) = bearer(&good).rsplit_once('_').unwrap();
    for wrong in [
        format!("{head}_"),
        format!("{head}_{}", "0".repeat(secret.len())),
        format!("{head}0_{secret}"),
        head.to_owned(),
    ] {
        with(&server, &wrong, Method::GET, "/v1/pass", None).await.problem(401, "GS0601");
    }
    with(&server, &key, Method::GET, "/v1/pass", None).await.problem(403, "GS0602");
    engine.shutdown().await;
}

fn seconds() -> i64 {
    goldseam::unstable::engine::SystemClock.now().0 / 1_000
}

/// Signs as another program would from the description alone.
fn signature(secret: &str, time: i64, path: &str, body: &str) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("{time}.POST.{path}.{}", hex(&Sha256::digest(body))).as_bytes());
    format!("t={time},v1={}", hex(&mac.finalize().into_bytes()))
}

async fn call(server: &TestServer, path: &str, signature: Option<String>, body: &'static str) -> Reply {
    let mut request = server.ask(Method::POST, path).body(body);
    if let Some(signature) = signature {
        request = request.header("goldseam-signature", signature);
    }
    Reply::of(request.send().await.unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn signed_callback_is_accepted_once() {
    let server = TestServer::open().await;
    let key = server.key("default", &Scope::ALL).await;
    let engine = server.engine().await;
    started(&server, &key, "greet").await;
    let made = pass(&server, &key, json!({ "signal": "go" })).await;
    let path = made["callback"].as_str().unwrap();
    let secret = made["secret"].as_str().unwrap();
    let now = seconds();
    let body = "{\"paid\":7}";
    let good = signature(secret, now, path, body);
    call(&server, path, None, body).await.problem(401, "GS0601");
    call(&server, path, Some(good.clone()), "{\"paid\":8}").await.problem(401, "GS0601");
    call(&server, path, Some(signature(secret, now - 400, path, body)), body).await.problem(401, "GS0601");
    call(&server, path, Some(signature("00", now, path, body)), body).await.problem(401, "GS0601");
    with(&server, bearer(&made), Method::POST, path, Some(json!(1))).await.problem(401, "GS0601");
    let used = call(&server, path, Some(good.clone()), body).await.ok();
    assert_eq!(call(&server, path, Some(good), body).await.ok(), used, "a retried request");
    let other = "{\"paid\":9}";
    call(&server, path, Some(signature(secret, now, path, other)), other).await.problem(409, "GS0603");
    let result = with(&server, &key, Method::GET, "/v1/runs/r/result?wait_ms=10000", None).await.ok();
    assert_eq!(result["output"], json!("Hello, Ada!"));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn passes_survive_one_rotation_of_the_secret() {
    let (server, key, engine) = asked().await;
    let other = server.key("other", &Scope::ALL).await;
    let made = pass(&server, &key, json!({ "answer": "approve" })).await;
    let is_open =
        async || with(&server, bearer(&made), Method::GET, "/v1/pass", None).await.status.is_success();
    with(&server, &other, Method::POST, "/v1/passes/rotate", None).await.problem(403, "GS0602");
    with(&server, &key, Method::POST, "/v1/passes/rotate", None).await.ok();
    assert!(is_open().await, "the previous secret is accepted");
    let second = pass(&server, &key, json!({ "answer": "approve" })).await;
    with(&server, &key, Method::POST, "/v1/passes/rotate", None).await.ok();
    assert!(!is_open().await, "an older secret is refused");
    with(&server, bearer(&second), Method::GET, "/v1/pass", None).await.ok();
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pass_ends_with_the_key_that_created_it() {
    let (server, key, engine) = asked().await;
    let new = Some(json!({ "name": "maker", "scopes": ["signal"] }));
    let maker = with(&server, &key, Method::POST, "/v1/keys", new).await.ok();
    let id = maker["id"].as_str().unwrap();
    let maker = maker["credential"].as_str().unwrap();
    let made = pass(&server, maker, json!({ "answer": "approve" })).await;
    let other = pass(&server, &key, json!({ "answer": "approve" })).await;
    with(&server, bearer(&made), Method::GET, "/v1/pass", None).await.ok();
    with(&server, &key, Method::POST, &format!("/v1/keys/{id}/revoke"), Some(json!({}))).await.ok();
    with(&server, bearer(&made), Method::GET, "/v1/pass", None).await.problem(401, "GS0601");
    let yes = Some(json!({ "payload": "yes" }));
    with(&server, bearer(&made), Method::POST, "/v1/pass", yes.clone()).await.problem(401, "GS0601");
    with(&server, bearer(&other), Method::POST, "/v1/pass", yes).await.ok();
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_key_or_pass_request_creates_no_second_one() {
    let server = TestServer::open().await;
    let key = server.key("default", &Scope::ALL).await;
    started(&server, &key, "unregistered").await;
    let once = async |path: &str, body: Value| {
        let request = server.ask(Method::POST, path).bearer_auth(&key).header("idempotency-key", "again");
        Reply::of(request.json(&body).send().await.unwrap()).await
    };
    let new = json!({ "name": "ci", "scopes": ["read"] });
    let made = once("/v1/keys", new.clone()).await.ok();
    let refused = once("/v1/keys", new).await.problem(409, "GS0603");
    assert!(refused["hint"].as_str().unwrap().contains(made["id"].as_str().unwrap()), "{refused}");
    let keys = with(&server, &key, Method::GET, "/v1/keys", None).await.ok();
    assert_eq!(keys["items"].as_array().unwrap().iter().filter(|key| key["name"] == "ci").count(), 1);
    let mut events = Vec::new();
    for _ in 0..2 {
        let made = once("/v1/runs/r/passes", json!({ "signal": "go" })).await.ok();
        let usage = Some(json!({ "payload": 1 }));
        events
            .push(with(&server, bearer(&made), Method::POST, "/v1/pass", usage).await.ok()["event"].clone());
    }
    assert_eq!(events[0], events[1], "one signal");
    let older = pass(&server, &key, json!({ "signal": "stop" })).await;
    let rotated = once("/v1/passes/rotate", json!({})).await.ok();
    for _ in 0..3 {
        assert_eq!(once("/v1/passes/rotate", json!({})).await.ok(), rotated);
    }
    with(&server, bearer(&older), Method::GET, "/v1/pass", None).await.ok();
}

/// Writes a secret file that only its owner can read.
fn secret_file(file: &Path, content: &str) {
    std::fs::write(file, content).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn with_secret_file_the_store_alone_cannot_sign_passes() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("secret");
    secret_file(&file, &"s".repeat(32));
    let mut server = TestServer::with(&[("secret_file", file.to_str().unwrap())]).await;
    let key = server.key("default", &Scope::ALL).await;
    started(&server, &key, "ask").await;
    let store = server.store("main.db");
    let made = async |own: FileSecret| {
        let local = LocalApi::new(goldseam::connect_existing(&store).await.unwrap()).signing_with(own);
        let new = serde_json::from_value(json!({ "signal": "go" })).unwrap();
        let run = "r".parse().unwrap();
        local.create_pass(&Caller::default(), &run, new).await.unwrap().pass
    };
    let forged = made(FileSecret::default()).await;
    let refused = with(&server, &forged, Method::GET, "/v1/pass", None).await.problem(401, "GS0601");
    assert!(refused["detail"].as_str().unwrap().contains("pass secret has changed"));
    let beside = made(FileSecret::read(Some(&file)).unwrap()).await;
    with(&server, &beside, Method::GET, "/v1/pass", None).await.ok();
    let own = pass(&server, &key, json!({ "signal": "go" })).await;
    secret_file(&file, &format!("{}\n", "s".repeat(32)));
    server.restart().await;
    with(&server, bearer(&own), Method::GET, "/v1/pass", None).await.ok();
    secret_file(&file, &"t".repeat(32));
    server.restart().await;
    with(&server, bearer(&own), Method::GET, "/v1/pass", None).await.problem(401, "GS0601");
}

#[test]
fn short_or_world_readable_secret_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("secret");
    let why = || {
        let problem = FileSecret::read(Some(&file)).unwrap_err();
        assert_eq!(problem.code.as_deref(), Some("GS0610"));
        problem.detail
    };
    assert!(why().contains("cannot read it"));
    secret_file(&file, &"s".repeat(31));
    assert!(why().contains("has 31 bytes, fewer than 32"));
    secret_file(&file, &"s".repeat(32));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(why().contains("is readable or writable by other users"));
}
