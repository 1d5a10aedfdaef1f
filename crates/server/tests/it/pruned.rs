//! Pruning: into the server's archive, and nothing that is not asked for.

use goldseam::retention::verify;
use goldseam_api::doc::key::Scope;
use reqwest::Method;
use serde_json::{Value, json};

use crate::desk::{Desk, Told};

/// Asks as whoever has this key.
async fn with(desk: &Desk, key: &str, method: Method, path: &str, body: Option<Value>) -> Told {
    let mut request = desk.ask(method, path).bearer_auth(key);
    if let Some(body) = body {
        request = request.json(&body);
    }
    Told::of(request.send().await.unwrap()).await
}

/// Runs that are over and old enough.
async fn ended(desk: &Desk, (key, store): (&str, &str), runs: &[&str]) {
    let engine = Desk::engine_on(&desk.store(store)).await;
    for run in runs {
        let new = json!({ "workflow": "greet", "id": run, "input": "Ada" });
        with(desk, key, Method::POST, "/v1/runs", Some(new)).await.ok();
        let go = json!({ "name": "go" });
        with(desk, key, Method::POST, &format!("/v1/runs/{run}/signal"), Some(go)).await.ok();
    }
    while planned(desk, key, "").await.len() < runs.len() {
        tokio::task::yield_now().await;
    }
    engine.shutdown().await;
}

async fn planned(desk: &Desk, key: &str, choice: &str) -> Vec<String> {
    let path = format!("/v1/prune?completed_before_ms=0{choice}");
    let plan = with(desk, key, Method::GET, &path, None).await.ok();
    let runs = plan["runs"].as_array().unwrap().iter();
    runs.map(|run| run["run"].as_str().unwrap().to_owned()).collect()
}

async fn prune(desk: &Desk, key: &str, new: Value) -> Told {
    with(desk, key, Method::POST, "/v1/prune", Some(new)).await
}

/// A server with an archive in its directory, and a key for each namespace.
async fn archiving() -> (Desk, tempfile::TempDir, [String; 2]) {
    let dir = tempfile::tempdir().unwrap();
    let desk = Desk::with(&[("archive", dir.path().to_str().unwrap())]).await;
    let keys = [desk.key("default", &Scope::ALL).await, desk.key("other", &Scope::ALL).await];
    (desk, dir, keys)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_over_is_archived_and_leaves_a_tombstone() {
    let (desk, dir, [key, _]) = archiving().await;
    ended(&desk, (&key, "main.db"), &["a", "b", "c"]).await;
    let new = json!({ "workflow": "greet", "id": "active", "input": "Ada" });
    with(&desk, &key, Method::POST, "/v1/runs", Some(new)).await.ok();
    assert_eq!(planned(&desk, &key, "").await, ["a", "b", "c"]);
    assert_eq!(planned(&desk, &key, "&limit=1").await, ["a"]);
    assert_eq!(planned(&desk, &key, "&status=failed,cancelled").await, [""; 0]);
    assert_eq!(planned(&desk, &key, "&workflow=ask").await, [""; 0]);

    let choice = json!({ "completed_before_ms": 0, "status": ["completed"], "limit": 2, "reason": "old" });
    let request = desk.ask(Method::POST, "/v1/prune").bearer_auth(&key).header("idempotency-key", "p-1");
    let first = Told::of(request.json(&choice).send().await.unwrap()).await.ok();
    assert_eq!((first["more"].as_bool(), first["pruned"].as_array().unwrap().len()), (Some(true), 2));
    let rest = prune(&desk, &key, json!({ "completed_before_ms": 0, "by": "Ada" })).await.ok();
    assert_eq!((rest["more"].as_bool(), rest["pruned"][0]["run"].as_str()), (None, Some("c")), "{rest}");
    let again = prune(&desk, &key, choice).await.ok();
    assert_eq!((&again["pruned"], &again["archives"]), (&json!([]), &json!([])), "{again}");

    let file = first["archives"][0].as_str().unwrap();
    assert_eq!(std::path::Path::new(file).parent(), Some(dir.path()));
    let archived = verify(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!(archived.iter().map(|run| run.run.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let log = with(&desk, &key, Method::GET, "/v1/runs/a/history", None).await;
    assert!(log.text.contains("run.pruned") && !log.text.contains("run.queued"), "{}", log.text);
    assert!(log.text.contains("\"k-") && log.text.contains("test default"), "{}", log.text);
    let log = with(&desk, &key, Method::GET, "/v1/runs/c/history", None).await;
    assert!(log.text.contains("Ada via test default"), "{}", log.text);
    let log = with(&desk, &key, Method::GET, "/v1/runs/active/history", None).await;
    assert!(log.text.contains("run.queued"), "{}", log.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_prunes_its_own_runs_into_an_archive_of_its_own() {
    let (desk, dir, [ours, theirs]) = archiving().await;
    ended(&desk, (&ours, "main.db"), &["r"]).await;
    ended(&desk, (&theirs, "other.db"), &["r"]).await;
    let told = prune(&desk, &theirs, json!({ "completed_before_ms": 0 })).await.ok();
    let file = told["archives"][0].as_str().unwrap();
    assert_eq!(std::path::Path::new(file).parent().unwrap(), dir.path().join("other"));
    assert_eq!(planned(&desk, &theirs, "").await, [""; 0]);
    assert_eq!(planned(&desk, &ours, "").await, ["r"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_or_is_not_allowed_prunes_nothing() {
    let (desk, dir, [key, _]) = archiving().await;
    ended(&desk, (&key, "main.db"), &["r"]).await;
    let told = prune(&desk, &key, json!({ "completed_before_ms": 0, "limit": 501 })).await;
    assert_eq!((told.status.as_u16(), &told.body["limit"]), (400, &json!(500)), "{}", told.text);
    let many = desk.ask(Method::GET, "/v1/prune?completed_before_ms=0&limit=10001").bearer_auth(&key);
    let told = Told::of(many.send().await.unwrap()).await;
    assert_eq!((told.status.as_u16(), &told.body["limit"]), (400, &json!(10_000)), "{}", told.text);
    for bad in [
        json!({}),
        json!({ "completed_before_ms": 0, "status": ["waiting"] }),
        json!({ "completed_before_ms": 0, "workflow": "a/b" }),
        json!({ "completed_before_ms": 0, "archive": "/tmp" }),
        json!({ "completed_before_ms": -1 }),
    ] {
        assert_eq!(prune(&desk, &key, bad.clone()).await.status.as_u16(), 400, "{bad}");
    }
    let rest: Vec<Scope> = Scope::ALL.into_iter().filter(|scope| *scope != Scope::Admin).collect();
    let other = desk.key("default", &rest).await;
    prune(&desk, &other, json!({ "completed_before_ms": 0 })).await.problem(403, "GS0602");
    let path = "/v1/prune?completed_before_ms=0&status=waiting";
    assert_eq!(with(&desk, &key, Method::GET, path, None).await.status.as_u16(), 400);
    assert_eq!(planned(&desk, &key, "").await, ["r"]);
    let files = std::fs::read_dir(dir.path()).unwrap();
    assert!(files.map(|file| file.unwrap().file_name()).all(|name| name == "other"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_an_archive_prunes_nothing() {
    let desk = Desk::open().await;
    let key = desk.key("default", &Scope::ALL).await;
    ended(&desk, (&key, "main.db"), &["r"]).await;
    prune(&desk, &key, json!({ "completed_before_ms": 0 })).await.problem(409, "GS0614");
    assert_eq!(planned(&desk, &key, "").await, ["r"]);
}
