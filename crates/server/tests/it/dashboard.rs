//! The dashboard: its files and their headers, and the routes that it needs besides those of other clients.

use goldseam_api::doc::key::Scope;
use reqwest::Method;
use serde_json::{Value, json};

use crate::test_server::{Reply, TestServer};

/// Returns the paths that the page names.
fn named_in(page: &str) -> Vec<String> {
    page.split('"').filter(|word| word.starts_with("/assets/")).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_need_no_key_and_allow_no_foreign_code() {
    let server = TestServer::open().await;
    server.key("default", &Scope::ALL).await;
    let page = server.ask(Method::GET, "/").send().await.unwrap();
    let headers = page.headers().clone();
    let text = page.text().await.unwrap();
    assert_eq!(headers["content-type"], "text/html; charset=utf-8");
    assert_eq!(headers["cache-control"], "no-store", "the page is never cached");
    assert_eq!(headers["x-frame-options"], "DENY");
    assert_eq!(headers["x-content-type-options"], "nosniff");
    assert_eq!(headers["referrer-policy"], "no-referrer");
    let policy = headers["content-security-policy"].to_str().unwrap();
    for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
        assert!(policy.contains(part), "{policy}");
    }
    for part in ["unsafe-inline", "unsafe-eval", "http:", "https:", "*", "data:", "blob:"] {
        assert!(!policy.contains(part), "{policy}");
    }
    assert!(!text.contains("http://") && !text.contains("https://"), "{text}");
    let scripts = named_in(&text);
    assert!(scripts.len() >= 2, "{text}");
    for path in scripts {
        let file = server.ask(Method::GET, &path).send().await.unwrap();
        assert_eq!(file.status().as_u16(), 200, "{path}");
        assert_eq!(file.headers()["cache-control"], "public, max-age=31536000, immutable");
        assert_eq!(file.headers()["content-security-policy"], policy, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_compressed_for_clients_that_ask_for_it() {
    let server = TestServer::open().await;
    let path = named_in(&server.get("/").await.text).remove(0);
    let fetch = async |encoding: &str| {
        let request = server.ask(Method::GET, &path).header("accept-encoding", encoding);
        let response = request.send().await.unwrap();
        let is_gzip = response.headers().get("content-encoding").is_some_and(|value| value == "gzip");
        assert_eq!(response.headers()["vary"], "accept-encoding");
        (is_gzip, response.bytes().await.unwrap())
    };
    let (plain_is_gzip, plain) = fetch("identity").await;
    let (is_gzip, gzip) = fetch("gzip, br").await;
    assert!(!plain_is_gzip && is_gzip);
    assert!(gzip.starts_with(&[0x1f, 0x8b]) && gzip.len() * 2 < plain.len());
    let head = server.ask(Method::HEAD, &path).send().await.unwrap();
    assert_eq!(head.status().as_u16(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_exact_paths_of_files_are_public() {
    let server = TestServer::open().await;
    server.key("default", &Scope::ALL).await;
    let path = named_in(&server.get("/").await.text).remove(0);
    for other in ["/index.html", "//", "/assets/", "/assets", "/favicon.ico", "/assets/../v1/runs", "/runs"] {
        assert_eq!(server.get(other).await.status.as_u16(), 401, "{other}");
    }
    assert_eq!(server.get(&format!("{path}/")).await.status.as_u16(), 401);
    assert_eq!(server.get(&format!("{path}.gz")).await.status.as_u16(), 401);
    assert_eq!(server.post("/", &Value::Null).await.status.as_u16(), 401);
    let foreign = server.ask(Method::GET, "/").header("host", "evil.example").send().await.unwrap();
    assert_eq!(foreign.status().as_u16(), 421, "a page of another host name does not get the files");
}

#[tokio::test(flavor = "multi_thread")]
async fn health_listener_serves_no_dashboard() {
    let server = TestServer::with(&[("health_listen", "127.0.0.1:0")]).await;
    let address = server.running.as_ref().unwrap().health_address.unwrap();
    let status = server.http.get(format!("http://{address}/")).send().await.unwrap().status();
    assert_eq!(status.as_u16(), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn current_key_is_shown_with_any_scope() {
    let server = TestServer::open().await;
    let open = server.get("/v1/key").await.ok();
    assert_eq!(open["name"], "local");
    assert_eq!(open["scopes"].as_array().unwrap().len(), Scope::ALL.len());
    for scope in Scope::ALL {
        let key = server.key("default", &[scope]).await;
        let request = server.ask(Method::GET, "/v1/key").bearer_auth(&key);
        let shown = Reply::of(request.send().await.unwrap()).await.ok();
        assert_eq!(shown["scopes"], json!([scope.as_str()]));
        assert_eq!(shown["namespace"], "default");
        assert!(!shown.to_string().contains(&key), "{shown}");
    }
    assert_eq!(server.get("/v1/key").await.status.as_u16(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn run_is_shown_as_it_was_at_an_event() {
    let server = TestServer::open().await;
    let engine = server.engine().await;
    server.start("greet", "r-1", json!("Ada")).await;
    server.post("/v1/runs/r-1/signal", &json!({ "name": "go" })).await.ok();
    let ended = server.get("/v1/runs/r-1/result?wait_ms=20000").await.ok();
    let last = ended["event"].as_u64().unwrap();
    assert_eq!(server.get("/v1/runs/r-1?at=1").await.ok()["status"], "queued");
    let now = server.get("/v1/runs/r-1").await.ok();
    assert_eq!(server.get(&format!("/v1/runs/r-1?at={last}")).await.ok(), now);
    for at in 1..=last {
        let then = server.get(&format!("/v1/runs/r-1?at={at}&branch=b1")).await.ok();
        assert_eq!(then["as_of"], at);
    }
    for at in [0, last + 1, u64::MAX >> 1] {
        server.get(&format!("/v1/runs/r-1?at={at}")).await.problem(404, "GS0626");
    }
    assert_eq!(server.get("/v1/runs/r-1?branch=b9").await.status.as_u16(), 404);
    let spans = now["spans"].as_array().unwrap();
    assert!(spans.iter().any(|span| span["kind"] == "work" && span["node"].is_string()), "{now}");
    assert!(now["steps"].as_array().unwrap().iter().all(|step| step["spans"].is_array()), "{now}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn activity_counts_starts_and_ends_by_interval() {
    let server = TestServer::open().await;
    let engine = server.engine().await;
    for n in 0..3 {
        let run = format!("r-{n}");
        server.start("greet", &run, json!("Ada")).await;
        server.post(&format!("/v1/runs/{run}/signal"), &json!({ "name": "go" })).await.ok();
        server.get(&format!("/v1/runs/{run}/result?wait_ms=20000")).await.ok();
    }
    server.start("no-such-workflow", "q-1", json!(1)).await;
    let activity = server.get("/v1/activity").await.ok();
    let sum = |field: &str| {
        let intervals = activity["intervals"].as_array().unwrap();
        intervals.iter().map(|interval| interval[field].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((sum("started"), sum("completed"), sum("failed")), (4, 3, 0), "{activity}");
    assert_eq!(activity["complete"], true);
    server.get("/v1/activity?interval_ms=0").await.problem(400, "GS0627");
    server.get("/v1/activity?since_ms=0").await.problem(400, "GS0627");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn examination_needs_only_read_and_changes_nothing() {
    let server = TestServer::open().await;
    server.start("no-such-workflow", "q-1", json!(1)).await;
    let before = server.get("/v1/runs/q-1").await.ok();
    let key = server.key("default", &[Scope::Read]).await;
    let request = server.ask(Method::GET, "/v1/doctor").bearer_auth(&key);
    let checkup = Reply::of(request.send().await.unwrap()).await.ok();
    assert_eq!(checkup["findings"][0]["code"], "N1", "{checkup}");
    assert_eq!(checkup["healed"], 0);
    let request = server.ask(Method::GET, "/v1/runs/q-1").bearer_auth(&key);
    assert_eq!(Reply::of(request.send().await.unwrap()).await.ok(), before);
}
