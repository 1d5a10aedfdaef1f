//! Prunes into the archive of the server.

use goldseam::admin::retention::verify;
use goldseam_api::doc::key::Scope;
use reqwest::Method;
use serde_json::{Value, json};

use crate::test_server::{Reply, TestServer};

/// Sends a request with a key.
async fn with(server: &TestServer, key: &str, method: Method, path: &str, body: Option<Value>) -> Reply {
    let mut request = server.ask(method, path).bearer_auth(key);
    if let Some(body) = body {
        request = request.json(&body);
    }
    Reply::of(request.send().await.unwrap()).await
}

/// Creates completed runs.
async fn ended(server: &TestServer, (key, store): (&str, &str), runs: &[&str]) {
    let engine = TestServer::engine_on(&server.store(store)).await;
    for run in runs {
        let new = json!({ "workflow": "greet", "id": run, "input": "Ada" });
        with(server, key, Method::POST, "/v1/runs", Some(new)).await.ok();
        let go = json!({ "name": "go" });
        with(server, key, Method::POST, &format!("/v1/runs/{run}/signal"), Some(go)).await.ok();
    }
    while planned(server, key, "").await.len() < runs.len() {
        tokio::task::yield_now().await;
    }
    engine.shutdown().await;
}

async fn planned(server: &TestServer, key: &str, choice: &str) -> Vec<String> {
    let path = format!("/v1/prune?completed_before_ms=0{choice}");
    let plan = with(server, key, Method::GET, &path, None).await.ok();
    let runs = plan["runs"].as_array().unwrap().iter();
    runs.map(|run| run["run"].as_str().unwrap().to_owned()).collect()
}

async fn prune(server: &TestServer, key: &str, new: Value) -> Reply {
    with(server, key, Method::POST, "/v1/prune", Some(new)).await
}

/// Starts a server with an archive and a key for each namespace.
async fn archiving() -> (TestServer, tempfile::TempDir, [String; 2]) {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::with(&[("archive", dir.path().to_str().unwrap())]).await;
    let keys = [server.key("default", &Scope::ALL).await, server.key("other", &Scope::ALL).await];
    (server, dir, keys)
}

#[tokio::test(flavor = "multi_thread")]
async fn pruned_runs_are_archived_and_leave_a_tombstone() {
    let (server, dir, [key, _]) = archiving().await;
    ended(&server, (&key, "main.db"), &["a", "b", "c"]).await;
    let new = json!({ "workflow": "greet", "id": "active", "input": "Ada" });
    with(&server, &key, Method::POST, "/v1/runs", Some(new)).await.ok();
    assert_eq!(planned(&server, &key, "").await, ["a", "b", "c"]);
    assert_eq!(planned(&server, &key, "&limit=1").await, ["a"]);
    assert_eq!(planned(&server, &key, "&status=failed,cancelled").await, [""; 0]);
    assert_eq!(planned(&server, &key, "&workflow=ask").await, [""; 0]);

    let choice = json!({ "completed_before_ms": 0, "status": ["completed"], "limit": 2, "reason": "old" });
    let request = server.ask(Method::POST, "/v1/prune").bearer_auth(&key).header("idempotency-key", "p-1");
    let first = Reply::of(request.json(&choice).send().await.unwrap()).await.ok();
    assert_eq!((first["more"].as_bool(), first["pruned"].as_array().unwrap().len()), (Some(true), 2));
    let rest = prune(&server, &key, json!({ "completed_before_ms": 0, "by": "Ada" })).await.ok();
    assert_eq!((rest["more"].as_bool(), rest["pruned"][0]["run"].as_str()), (None, Some("c")), "{rest}");
    let again = prune(&server, &key, choice).await.ok();
    assert_eq!((&again["pruned"], &again["archives"]), (&json!([]), &json!([])), "{again}");

    let file = first["archives"][0].as_str().unwrap();
    assert_eq!(std::path::Path::new(file).parent(), Some(dir.path()));
    let archived = verify(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!(archived.iter().map(|run| run.run.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let log = with(&server, &key, Method::GET, "/v1/runs/a/history", None).await;
    assert!(log.text.contains("run.pruned") && !log.text.contains("run.queued"), "{}", log.text);
    assert!(log.text.contains("\"k-") && log.text.contains("test default"), "{}", log.text);
    let log = with(&server, &key, Method::GET, "/v1/runs/c/history", None).await;
    assert!(log.text.contains("Ada via test default"), "{}", log.text);
    let log = with(&server, &key, Method::GET, "/v1/runs/active/history", None).await;
    assert!(log.text.contains("run.queued"), "{}", log.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn namespace_prunes_its_runs_into_its_own_archive() {
    let (server, dir, [ours, theirs]) = archiving().await;
    ended(&server, (&ours, "main.db"), &["r"]).await;
    ended(&server, (&theirs, "other.db"), &["r"]).await;
    let reply = prune(&server, &theirs, json!({ "completed_before_ms": 0 })).await.ok();
    let file = reply["archives"][0].as_str().unwrap();
    assert_eq!(std::path::Path::new(file).parent().unwrap(), dir.path().join("other"));
    assert_eq!(planned(&server, &theirs, "").await, [""; 0]);
    assert_eq!(planned(&server, &ours, "").await, ["r"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_or_forbidden_prune_changes_nothing() {
    let (server, dir, [key, _]) = archiving().await;
    ended(&server, (&key, "main.db"), &["r"]).await;
    let reply = prune(&server, &key, json!({ "completed_before_ms": 0, "limit": 501 })).await;
    assert_eq!((reply.status.as_u16(), &reply.body["limit"]), (400, &json!(500)), "{}", reply.text);
    let many = server.ask(Method::GET, "/v1/prune?completed_before_ms=0&limit=10001").bearer_auth(&key);
    let reply = Reply::of(many.send().await.unwrap()).await;
    assert_eq!((reply.status.as_u16(), &reply.body["limit"]), (400, &json!(10_000)), "{}", reply.text);
    for bad in [
        json!({}),
        json!({ "completed_before_ms": 0, "status": ["waiting"] }),
        json!({ "completed_before_ms": 0, "workflow": "a/b" }),
        json!({ "completed_before_ms": 0, "archive": "/tmp" }),
        json!({ "completed_before_ms": -1 }),
    ] {
        assert_eq!(prune(&server, &key, bad.clone()).await.status.as_u16(), 400, "{bad}");
    }
    let rest: Vec<Scope> = Scope::ALL.into_iter().filter(|scope| *scope != Scope::Admin).collect();
    let other = server.key("default", &rest).await;
    prune(&server, &other, json!({ "completed_before_ms": 0 })).await.problem(403, "GS0602");
    let path = "/v1/prune?completed_before_ms=0&status=waiting";
    assert_eq!(with(&server, &key, Method::GET, path, None).await.status.as_u16(), 400);
    assert_eq!(planned(&server, &key, "").await, ["r"]);
    let files = std::fs::read_dir(dir.path()).unwrap();
    assert!(files.map(|file| file.unwrap().file_name()).all(|name| name == "other"));
}

#[tokio::test(flavor = "multi_thread")]
async fn server_without_archive_refuses_to_prune() {
    let server = TestServer::open().await;
    let key = server.key("default", &Scope::ALL).await;
    ended(&server, (&key, "main.db"), &["r"]).await;
    prune(&server, &key, json!({ "completed_before_ms": 0 })).await.problem(409, "GS0614");
    assert_eq!(planned(&server, &key, "").await, ["r"]);
}
