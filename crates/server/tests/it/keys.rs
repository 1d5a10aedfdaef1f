//! Keys: made once, kept as a hash, revoked for good.

use goldseam::Millis;
use goldseam::core::lock::Lock;
use goldseam::store::{Expect, Written};
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

use crate::desk::{Desk, Told};

#[tokio::test(flavor = "multi_thread")]
async fn the_secret_of_a_key_is_nowhere_in_the_store() {
    let desk = Desk::open().await;
    let key = desk.key("default", &[Scope::Read]).await;
    let secret = key.rsplit('_').next().unwrap();
    for file in std::fs::read_dir(desk.dir.path()).unwrap() {
        let file = file.unwrap().path();
        if file.is_file() {
            let bytes = std::fs::read(&file).unwrap();
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{}", file.display());
        }
    }
    let read = desk.ask(Method::GET, "/v1/locks").bearer_auth(&key).send().await.unwrap();
    let told = Told::of(read).await.ok();
    assert_eq!(told["items"], json!([]), "reserved names are not listed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_made_over_http_works_until_it_is_revoked() {
    let desk = Desk::open().await;
    let made = desk.post("/v1/keys", &json!({ "name": "ci", "scopes": ["admin", "read"] })).await.ok();
    let (key, id) = (made["credential"].as_str().unwrap(), made["id"].as_str().unwrap());
    desk.get("/v1/runs").await.problem(401, "GS0601");
    let ask = async |method: Method, path: &str| {
        Told::of(desk.ask(method, path).bearer_auth(key).send().await.unwrap()).await
    };
    ask(Method::GET, "/v1/runs").await.ok();
    let listed = ask(Method::GET, "/v1/keys").await;
    assert!(listed.text.contains("\"ci\"") && !listed.text.contains("hash"), "{}", listed.text);
    ask(Method::POST, &format!("/v1/keys/{id}/revoke")).await.ok();
    ask(Method::GET, "/v1/runs").await.problem(401, "GS0601");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_others_can_reach_does_not_start_without_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", dir.path().join("main.db").display());
    let flags = BTreeMap::from([("listen", "0.0.0.0:0".to_owned()), ("store", store)]);
    let config = Settings::gather(&flags, |_| None, None).unwrap().config().unwrap();
    let problem = serve(config).await.unwrap_err();
    assert_eq!(problem.code.as_deref(), Some("GS0604"), "{problem}");
}

/// Writes what no server of this version can read where a key belongs.
async fn damaged(desk: &Desk, id: &str) {
    let store = goldseam::open_existing_store(&desk.store("main.db")).await.unwrap();
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
async fn a_key_that_cannot_be_read_lets_nobody_in() {
    let mut desk = Desk::open().await;
    desk.get("/v1/runs").await.ok();
    damaged(&desk, "0000000000000000").await;
    desk.restart().await;
    desk.get("/v1/runs").await.problem(401, "GS0601");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_cannot_be_read_hides_none_of_the_others() {
    let desk = Desk::open().await;
    damaged(&desk, "0000000000000000").await;
    let keys = desk.keys().await;
    let scopes = [Scope::Read].into_iter().collect();
    let new = NewKey { name: "n".to_owned(), scopes, queues: None, namespace: None, valid_for_ms: None };
    for _ in 0..205 {
        keys.create(new.clone(), &Caller::default()).await.unwrap();
    }
    assert_eq!(keys.list().await.unwrap().len(), 205, "those on the second page, too");
}

/// Asks with a key.
async fn with(desk: &Desk, key: &str, path: &str, body: &Value) -> Told {
    Told::of(desk.ask(Method::POST, path).bearer_auth(key).json(body).send().await.unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_claims_from_the_queues_of_its_key_only() {
    let desk = Desk::open().await;
    for queue in ["images", "mail"] {
        desk.post("/v1/tasks", &json!({ "kind": "resize", "queue": queue })).await.ok();
    }
    let new = json!({ "name": "gpu-7", "scopes": ["worker"], "queues": ["images"] });
    let made = desk.post("/v1/keys", &new).await.ok();
    assert_eq!(made["queues"], json!(["images"]));
    let key = made["credential"].as_str().unwrap();
    let claim = async |body| with(&desk, key, "/v1/tasks/claim", &body).await;
    let refused = claim(json!({ "owner": "w", "queue": "mail" })).await.problem(403, "GS0602");
    assert!(refused["hint"].as_str().unwrap().contains("images"), "{refused}");
    claim(json!({ "owner": "w" })).await.problem(403, "GS0602");
    let claimed = claim(json!({ "owner": "w", "queue": "images" })).await.ok();
    assert_eq!(claimed["items"][0]["task"]["queue"], "images");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_nobody_that_another_key_can_speak_for() {
    let desk = Desk::open().await;
    let wide = desk.key("default", &[Scope::Worker, Scope::Admin]).await;
    let new = json!({ "name": "gpu-7", "scopes": ["worker"], "queues": ["images"] });
    let made = with(&desk, &wide, "/v1/keys", &new).await.ok();
    let narrow = made["credential"].as_str().unwrap();
    let worker = |queues: Value| json!({ "name": "w", "workflows": ["w@1"], "queues": queues, "slots": 1 });
    with(&desk, narrow, "/v1/workers", &worker(json!(["images", "mail"]))).await.problem(403, "GS0602");
    with(&desk, narrow, "/v1/workers", &worker(json!([]))).await.problem(403, "GS0602");
    let own = with(&desk, narrow, "/v1/workers", &worker(json!(["images"]))).await.ok();
    let others = with(&desk, &wide, "/v1/workers", &worker(json!(["mail"]))).await.ok();
    for what in ["heartbeat", "claim"] {
        let at = |worker: &Value| format!("/v1/workers/{}/{what}", worker["worker"].as_str().unwrap());
        let nothing = json!({ "holding": [], "limit": 0 });
        let body = if what == "claim" { nothing } else { json!({ "holding": [] }) };
        with(&desk, narrow, &at(&own), &body).await.ok();
        with(&desk, narrow, &at(&others), &body).await.problem(404, "GS0311");
        with(&desk, &wide, &at(&own), &body).await.problem(404, "GS0311");
        with(&desk, &wide, &at(&others), &body).await.ok();
    }
    let path = format!("/v1/workers/{}", others["worker"].as_str().unwrap());
    let left = desk.ask(Method::DELETE, &path).bearer_auth(narrow).send().await.unwrap();
    Told::of(left).await.problem(404, "GS0311");
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_that_narrow_nothing_are_refused() {
    let desk = Desk::open().await;
    for (scopes, queues) in
        [(["read"], json!(["images"])), (["worker"], json!([])), (["worker"], json!([".."]))]
    {
        let new = json!({ "name": "ci", "scopes": scopes, "queues": queues });
        let told = desk.post("/v1/keys", &new).await;
        assert_eq!(told.status.as_u16(), 400, "{}", told.text);
    }
    desk.get("/v1/runs").await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_says_so_asks_nobody_for_a_key_until_there_is_one() {
    let desk = Desk::with(&[("listen", "0.0.0.0:0"), ("insecure_no_keys", "true")]).await;
    desk.get("/v1/runs").await.ok();
    desk.key("default", &[Scope::Read]).await;
    desk.get("/v1/runs").await.problem(401, "GS0601");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_keys_of_one_name_do_not_share_their_idempotency_keys() {
    let desk = Desk::open().await;
    let keys = [desk.key("default", &Scope::ALL).await, desk.key("default", &Scope::ALL).await];
    let send = async |key: &str, path: &str, body: serde_json::Value| {
        let request = desk.ask(Method::POST, path).bearer_auth(key).header("idempotency-key", "once");
        Told::of(request.json(&body).send().await.unwrap()).await.ok()
    };
    send(&keys[0], "/v1/runs", json!({ "workflow": "nobody-has-it", "id": "r" })).await;
    let mut events = Vec::new();
    for key in [&keys[0], &keys[0], &keys[1], &keys[1]] {
        events.push(send(key, "/v1/runs/r/signal", json!({ "name": "go" })).await["event"].clone());
    }
    assert_eq!(events, [json!(2), json!(2), json!(3), json!(3)]);
}

/// Keeps every word that is logged.
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
async fn who_came_with_a_wrong_key_stands_in_the_log_and_the_key_does_not() {
    let log = Log::default();
    tracing::subscriber::set_global_default(log.clone()).unwrap();
    let desk = Desk::open().await;
    desk.key("default", &[Scope::Read]).await;
    let wrong = format!("gsk_{}_{}", "1".repeat(16), "2".repeat(64));
    for credential in [wrong.as_str(), "gsp_hush_hush", "hush"] {
        let asked = desk.ask(Method::GET, "/v1/runs").bearer_auth(credential).send().await.unwrap();
        Told::of(asked).await.problem(401, "GS0601");
    }
    let log = log.0.lock().unwrap();
    let seen = |line: &&String| line.starts_with("goldseam::audit") && line.contains("peer=127.0.0.1");
    assert!(log.iter().filter(seen).count() >= 3, "{log:?}");
    let told = log.iter().filter(|line| line.starts_with("goldseam"));
    let leaked: Vec<&String> = told.filter(|line| line.contains("2222") || line.contains("hush")).collect();
    assert!(leaked.is_empty(), "{leaked:?}");
}
