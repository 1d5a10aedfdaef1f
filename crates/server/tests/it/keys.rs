//! Keys: created once, stored as a hash, revoked permanently.

use goldseam::Millis;
use goldseam::unstable::core::lock::Lock;
use goldseam::unstable::store::{Expect, Written};
use goldseam_api::Caller;
use goldseam_api::doc::key::{NewKey, Scope};
use goldseam_server::config::Settings;
use goldseam_server::serve;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex};
use tracing::field::Field;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::test_server::{Reply, TestServer};

#[tokio::test(flavor = "multi_thread")]
async fn store_does_not_contain_key_secrets() {
    let server = TestServer::open().await;
    let key = server.key("default", &[Scope::Read]).await;
    let secret = key.rsplit('_').next().unwrap();
    for file in std::fs::read_dir(server.dir.path()).unwrap() {
        let file = file.unwrap().path();
        if file.is_file() {
            let bytes = std::fs::read(&file).unwrap();
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{}", file.display());
        }
    }
    let read = server.ask(Method::GET, "/v1/locks").bearer_auth(&key).send().await.unwrap();
    let reply = Reply::of(read).await.ok();
    assert_eq!(reply["items"], json!([]), "reserved names are not listed");
}

#[tokio::test(flavor = "multi_thread")]
async fn key_created_over_http_works_until_revoked() {
    let server = TestServer::open().await;
    let made = server.post("/v1/keys", &json!({ "name": "ci", "scopes": ["admin", "read"] })).await.ok();
    let key = made["credential"].as_str().unwrap();
    let id = made["id"].as_str().unwrap();
    server.get("/v1/runs").await.problem(401, "GS0601");
    let ask = async |method: Method, path: &str| {
        Reply::of(server.ask(method, path).bearer_auth(key).send().await.unwrap()).await
    };
    ask(Method::GET, "/v1/runs").await.ok();
    let listed = ask(Method::GET, "/v1/keys").await;
    assert!(listed.text.contains("\"ci\"") && !listed.text.contains("hash"), "{}", listed.text);
    ask(Method::POST, &format!("/v1/keys/{id}/revoke")).await.ok();
    ask(Method::GET, "/v1/runs").await.problem(401, "GS0601");
}

#[tokio::test(flavor = "multi_thread")]
async fn non_loopback_server_requires_a_key_to_start() {
    let dir = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", dir.path().join("main.db").display());
    let flags = BTreeMap::from([("listen", "0.0.0.0:0".to_owned()), ("store", store)]);
    let config = Settings::gather(&flags, |_| None, None).unwrap().config().unwrap();
    let problem = serve(config).await.unwrap_err();
    assert_eq!(problem.code.as_deref(), Some("GS0604"), "{problem}");
}

/// Writes a key that this version cannot decode.
async fn damaged(server: &TestServer, id: &str) {
    let store = goldseam::open_existing_store(&server.store("main.db")).await.unwrap();
    let lock = Lock {
        name: format!("goldseam.key.{id}").parse().unwrap(),
        holder: Some(json!({ "id": id, "scopes": ["of a later version"] }).to_string()),
        fence: 1,
        expires_at: Millis::NEVER,
        acquired_at: Millis(0),
        node: None,
        version: 1,
        audit: Vec::new(),
    };
    assert_eq!(store.put_lock(lock, Expect::Absent).await.unwrap(), Written::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_key_still_makes_authentication_mandatory() {
    let mut server = TestServer::open().await;
    server.get("/v1/runs").await.ok();
    damaged(&server, "0000000000000000").await;
    server.restart().await;
    server.get("/v1/runs").await.problem(401, "GS0601");
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_key_does_not_hide_other_keys() {
    let server = TestServer::open().await;
    damaged(&server, "0000000000000000").await;
    let keys = server.keys().await;
    let scopes = [Scope::Read].into_iter().collect();
    let new = NewKey { name: "n".to_owned(), scopes, queues: None, namespace: None, valid_for_ms: None };
    for _ in 0..205 {
        keys.create(new.clone(), &Caller::default()).await.unwrap();
    }
    assert_eq!(keys.list().await.unwrap().len(), 205, "also the keys on the second page");
}

/// Sends a request with a key.
async fn with(server: &TestServer, key: &str, path: &str, body: &Value) -> Reply {
    Reply::of(server.ask(Method::POST, path).bearer_auth(key).json(body).send().await.unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_claims_only_from_the_queues_of_its_key() {
    let server = TestServer::open().await;
    for queue in ["images", "mail"] {
        server.post("/v1/tasks", &json!({ "kind": "resize", "queue": queue })).await.ok();
    }
    let new = json!({ "name": "gpu-7", "scopes": ["worker"], "queues": ["images"] });
    let made = server.post("/v1/keys", &new).await.ok();
    assert_eq!(made["queues"], json!(["images"]));
    let key = made["credential"].as_str().unwrap();
    let claim = async |body| with(&server, key, "/v1/tasks/claim", &body).await;
    let refused = claim(json!({ "owner": "w", "queue": "mail" })).await.problem(403, "GS0602");
    assert!(refused["hint"].as_str().unwrap().contains("images"), "{refused}");
    claim(json!({ "owner": "w" })).await.problem(403, "GS0602");
    let claimed = claim(json!({ "owner": "w", "queue": "images" })).await.ok();
    assert_eq!(claimed["items"][0]["task"]["queue"], "images");
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_can_be_used_only_with_its_own_key() {
    let server = TestServer::open().await;
    let wide = server.key("default", &[Scope::Worker, Scope::Admin]).await;
    let new = json!({ "name": "gpu-7", "scopes": ["worker"], "queues": ["images"] });
    let made = with(&server, &wide, "/v1/keys", &new).await.ok();
    let narrow = made["credential"].as_str().unwrap();
    let worker = |queues: Value| json!({ "name": "w", "workflows": ["w@1"], "queues": queues, "slots": 1 });
    with(&server, narrow, "/v1/workers", &worker(json!(["images", "mail"]))).await.problem(403, "GS0602");
    with(&server, narrow, "/v1/workers", &worker(json!([]))).await.problem(403, "GS0602");
    let own = with(&server, narrow, "/v1/workers", &worker(json!(["images"]))).await.ok();
    let others = with(&server, &wide, "/v1/workers", &worker(json!(["mail"]))).await.ok();
    for what in ["heartbeat", "claim"] {
        let at = |worker: &Value| format!("/v1/workers/{}/{what}", worker["worker"].as_str().unwrap());
        let nothing = json!({ "holding": [], "limit": 0 });
        let body = if what == "claim" { nothing } else { json!({ "holding": [] }) };
        with(&server, narrow, &at(&own), &body).await.ok();
        with(&server, narrow, &at(&others), &body).await.problem(404, "GS0311");
        with(&server, &wide, &at(&own), &body).await.problem(404, "GS0311");
        with(&server, &wide, &at(&others), &body).await.ok();
    }
    let path = format!("/v1/workers/{}", others["worker"].as_str().unwrap());
    let left = server.ask(Method::DELETE, &path).bearer_auth(narrow).send().await.unwrap();
    Reply::of(left).await.problem(404, "GS0311");
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_that_restrict_nothing_are_refused() {
    let server = TestServer::open().await;
    for (scopes, queues) in
        [(["read"], json!(["images"])), (["worker"], json!([])), (["worker"], json!([".."]))]
    {
        let new = json!({ "name": "ci", "scopes": scopes, "queues": queues });
        let reply = server.post("/v1/keys", &new).await;
        assert_eq!(reply.status.as_u16(), 400, "{}", reply.text);
    }
    server.get("/v1/runs").await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn insecure_no_keys_applies_until_a_key_exists() {
    let server = TestServer::with(&[("listen", "0.0.0.0:0"), ("insecure_no_keys", "true")]).await;
    server.get("/v1/runs").await.ok();
    server.key("default", &[Scope::Read]).await;
    server.get("/v1/runs").await.problem(401, "GS0601");
}

#[tokio::test(flavor = "multi_thread")]
async fn idempotency_keys_are_scoped_to_the_key_id() {
    let server = TestServer::open().await;
    let keys = [server.key("default", &Scope::ALL).await, server.key("default", &Scope::ALL).await];
    let send = async |key: &str, path: &str, body: serde_json::Value| {
        let request = server.ask(Method::POST, path).bearer_auth(key).header("idempotency-key", "once");
        Reply::of(request.json(&body).send().await.unwrap()).await.ok()
    };
    send(&keys[0], "/v1/runs", json!({ "workflow": "unregistered", "id": "r" })).await;
    let mut events = Vec::new();
    for key in [&keys[0], &keys[0], &keys[1], &keys[1]] {
        events.push(send(key, "/v1/runs/r/signal", json!({ "name": "go" })).await["event"].clone());
    }
    assert_eq!(events, [json!(2), json!(2), json!(3), json!(3)]);
}

/// A subscriber that keeps every log line.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = event.metadata().target().to_owned();
        event.record(&mut |field: &Field, value: &dyn Debug| write!(text, " {field}={value:?}").unwrap());
        self.0.lock().unwrap().push(text);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_authentication_logs_the_peer_but_not_the_key() {
    let log = Log::default();
    tracing::subscriber::set_global_default(log.clone()).unwrap();
    let server = TestServer::open().await;
    server.key("default", &[Scope::Read]).await;
    let wrong = format!("gsk_{}_{}", "1".repeat(16), "2".repeat(64));
    for credential in [wrong.as_str(), "gsp_hush_hush", "hush"] {
        let asked = server.ask(Method::GET, "/v1/runs").bearer_auth(credential).send().await.unwrap();
        Reply::of(asked).await.problem(401, "GS0601");
    }
    let log = log.0.lock().unwrap();
    let seen = |line: &&String| line.starts_with("goldseam::audit") && line.contains("peer=127.0.0.1");
    assert!(log.iter().filter(seen).count() >= 3, "{log:?}");
    let own = log.iter().filter(|line| line.starts_with("goldseam"));
    let leaked: Vec<&String> = own.filter(|line| line.contains("2222") || line.contains("hush")).collect();
    assert!(leaked.is_empty(), "{leaked:?}");
}
