//! The dashboard: its files and their headers, and the routes that it needs besides those of other clients.

use goldseam_api::doc::key::Scope;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::test_server::{Reply, TestServer};

/// Returns the paths that the page names.
fn named_in(page: &str) -> Vec<String> {
    page.split('"').filter(|word| word.starts_with("/assets/")).map(str::to_owned).collect()
}

/// Whether a request without a key was refused: after many of them, the server does not even look.
fn is_refused(status: StatusCode) -> bool {
    matches!(status.as_u16(), 401 | 429)
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
        assert_eq!(response.headers()["vary"], "accept, accept-encoding");
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
    for other in ["/index.html", "//", "/favicon.ico", "/nowhere", "/v1", "/v1/runs", "/v1/nowhere"] {
        assert!(is_refused(server.get(other).await.status), "{other}");
    }
    let unknown = ["/assets/", "/assets", "/assets/index.js", "/assets/..%2f..%2fCargo.toml"];
    for other in unknown.map(str::to_owned).into_iter().chain([format!("{path}/"), format!("{path}.gz")]) {
        let reply = server.get(&other).await;
        assert_eq!(
            (reply.status.as_u16(), reply.kind.as_str()),
            (404, "application/problem+json"),
            "{other}"
        );
    }
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let reply = server.ask(method.clone(), "/runs").send().await.unwrap();
        assert!(is_refused(reply.status()), "{method}");
    }
    assert!(is_refused(server.post("/", &Value::Null).await.status));
    let foreign = server.ask(Method::GET, "/").header("host", "evil.example").send().await.unwrap();
    assert_eq!(foreign.status().as_u16(), 421, "a page of another host name does not get the files");
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_paths_cannot_leave_the_table_of_files() {
    let server = TestServer::open().await;
    let address = server.url.strip_prefix("http://").unwrap();
    for path in
        ["/assets/../../Cargo.toml", "/../../etc/passwd", "/runs/../../etc/passwd", "/assets/./../index.html"]
    {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await.unwrap();
        let is_page = reply.starts_with("HTTP/1.1 200") && reply.contains("<title>Goldseam</title>");
        assert!(is_page || reply.starts_with("HTTP/1.1 404"), "{path}: {reply}");
        assert!(!reply.contains("[package]") && !reply.contains("root:"), "{path}: {reply}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_of_pages_return_the_page() {
    let server = TestServer::open().await;
    server.key("default", &Scope::ALL).await;
    let page = server.get("/").await.text;
    for path in ["/runs", "/runs/order-17", "/runs/order-17?tab=events", "/failures", "/recoveries", "/api"] {
        let reply = server.ask(Method::GET, path).send().await.unwrap();
        assert_eq!(reply.status().as_u16(), 200, "{path}");
        assert_eq!(reply.headers()["cache-control"], "no-store", "{path}");
        assert!(reply.headers()["content-security-policy"].to_str().unwrap().contains("script-src 'self'"));
        assert_eq!(reply.text().await.unwrap(), page, "{path}");
        let head = server.ask(Method::HEAD, path).send().await.unwrap();
        assert_eq!(head.headers()["content-length"], page.len().to_string(), "{path}");
        assert!(head.text().await.unwrap().is_empty(), "{path}");
    }
    let browse = async |path: &str| {
        let request = server.ask(Method::GET, path).header("accept", "text/html,*/*;q=0.8");
        request.send().await.unwrap().status()
    };
    assert_eq!(browse("/nowhere").await, 200, "the page explains that it has no such part");
    assert!(is_refused(browse("/v1/runs").await), "routes need a key from browsers, too");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_still_needs_a_credential() {
    let server = TestServer::open().await;
    let description = server.get("/v1/openapi.json").await.ok();
    server.key("default", &Scope::ALL).await;
    let mut tried = 0;
    for (path, item) in description["paths"].as_object().unwrap() {
        let operation = &item["get"];
        if operation.is_null() || operation["security"] == json!([]) {
            continue;
        }
        let path = path.replace("{run}", "r-1").replace(['{', '}'], "");
        let request = server.ask(Method::GET, &path).header("accept", "text/html");
        assert!(is_refused(request.send().await.unwrap().status()), "{path}");
        tried += 1;
    }
    assert!(tried > 20, "{tried}");
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
    assert!(is_refused(server.get("/v1/key").await.status));
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

#[tokio::test(flavor = "multi_thread")]
async fn statuses_are_counted_without_operations() {
    let server = TestServer::open().await;
    assert_eq!(server.get("/v1/statuses").await.ok(), json!({ "items": [], "total": 0 }));
    let engine = server.engine().await;
    server.start("greet", "r-1", json!("Ada")).await;
    server.post("/v1/runs/r-1/signal", &json!({ "name": "go" })).await.ok();
    server.get("/v1/runs/r-1/result?wait_ms=20000").await.ok();
    for run in ["q-1", "q-2"] {
        server.start("no-such-workflow", run, json!(1)).await;
    }
    let operation = json!({ "verb": "pause", "where": "workflow = \"no-such-workflow\"" });
    server.post("/v1/operations", &operation).await.ok();
    let paused = async || {
        let items = server.get("/v1/statuses").await.ok();
        items["items"].as_array().unwrap().iter().any(|item| item["status"] == "paused" && item["count"] == 2)
    };
    while !paused().await {
        tokio::task::yield_now().await;
    }
    let counted = server.get("/v1/statuses").await.ok();
    assert_eq!(counted["total"], 3, "{counted}");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_get_suggestions_from_the_latest_runs() {
    let server = TestServer::open().await;
    for (run, tag) in [("r-1", "ada"), ("r-2", "ada"), ("r-3", "Grace")] {
        let new = json!({ "workflow": "none", "id": run, "tags": { "customer": tag }, "queue": "slow",
            "attributes": { "amount": 7 } });
        server.post("/v1/runs", &new).await.ok();
    }
    let suggested =
        async |query: &str| server.get(&format!("/v1/suggestions?{query}")).await.ok()["items"].clone();
    assert_eq!(
        suggested("of=tag").await,
        json!([{ "count": 2, "value": "customer=ada" }, { "count": 1, "value": "customer=Grace" }])
    );
    assert_eq!(suggested("of=tag&text=GRA").await, json!([{ "count": 1, "value": "customer=Grace" }]));
    assert_eq!(suggested("of=tag&limit=1").await.as_array().unwrap().len(), 1);
    assert_eq!(suggested("of=workflow").await, json!([{ "count": 3, "value": "none" }]));
    assert_eq!(suggested("of=attribute").await, json!([{ "count": 3, "value": "amount" }]));
    assert_eq!(suggested("of=queue").await, json!([{ "count": 3, "value": "slow" }]));
    assert_eq!(suggested("of=cause").await, json!([]));
    assert_eq!(server.get("/v1/suggestions?of=nothing").await.status.as_u16(), 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn remedies_are_dry_runs_that_need_only_read() {
    let server = TestServer::open().await;
    server.start("no-such-workflow", "q-1", json!(1)).await;
    let before = server.get("/v1/runs/q-1").await.ok();
    let why = server.get("/v1/runs/q-1/why").await.ok();
    let key = server.key("default", &[Scope::Read]).await;
    let request = server.ask(Method::GET, "/v1/runs/q-1/remedies").bearer_auth(&key);
    let plans = Reply::of(request.send().await.unwrap()).await.ok()["items"].clone();
    let plans = plans.as_array().unwrap();
    let rules = |items: &[Value], field: &str| items.iter().map(|one| one[field].clone()).collect::<Vec<_>>();
    assert_eq!(rules(plans, "rule"), rules(why["findings"].as_array().unwrap(), "code"));
    assert_eq!(plans[0]["rule"], "N1", "{plans:?}");
    assert!(plans.iter().all(|plan| plan["healed"] == false && plan["remedy"].is_string()), "{plans:?}");
    let request = server.ask(Method::GET, "/v1/runs/q-1").bearer_auth(&key);
    assert_eq!(Reply::of(request.send().await.unwrap()).await.ok(), before);
    let request = server.ask(Method::GET, "/v1/runs/none/remedies").bearer_auth(&key);
    assert_eq!(request.send().await.unwrap().status().as_u16(), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_reports_changes_of_tasks_and_locks() {
    let server = TestServer::open().await;
    let mut stream = server.ask(Method::GET, "/v1/events?from=now&changes=true").send().await.unwrap();
    let mut next = async || loop {
        let piece = stream.chunk().await.unwrap().expect("the stream goes on");
        let text = String::from_utf8(piece.to_vec()).unwrap();
        if text != ":\n\n" {
            return text;
        }
    };
    let mark_of = |text: &str| {
        let mark = text.strip_prefix("event: changed\ndata: {\"mark\":").expect(text);
        mark.trim_end_matches("}\n\n").parse::<u64>().expect(text)
    };
    for (path, body) in [
        ("/v1/locks/print/acquire", json!({ "holder": "ada", "ttl_ms": 60_000 })),
        ("/v1/tasks", json!({ "kind": "resize", "queue": "images" })),
    ] {
        server.post(path, &body).await.ok();
        let mark = server.get("/v1/changes").await.ok()["mark"].as_u64().unwrap();
        while mark_of(&next().await) < mark {}
    }
    let claimed = server.post("/v1/tasks/claim", &json!({ "owner": "gpu-7", "queue": "images" })).await.ok();
    assert_eq!(claimed["items"].as_array().unwrap().len(), 1, "{claimed}");
    mark_of(&next().await);
    server.start("no-such-workflow", "q-1", json!(1)).await;
    while !next().await.starts_with("event: run.queued\nid: ") {}
}
