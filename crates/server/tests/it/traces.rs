//! Traces: a run is a trace, its steps are spans, across processes and recoveries.

use std::sync::Arc;
use std::sync::Mutex;

use goldseam::unstable::core::BranchId;
use goldseam::unstable::core::trace::key_of;
use goldseam::unstable::store::Append;
use goldseam::{RunId, Seq, TraceContext};
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::test_server::{Reply, TestServer};

/// Starts a collector that keeps every span.
async fn collector() -> (String, Arc<Mutex<Vec<Value>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let spans: Arc<Mutex<Vec<Value>>> = Arc::default();
    let kept = Arc::clone(&spans);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut bytes = vec![];
            let body = loop {
                let mut piece = [0; 8192];
                let read = stream.read(&mut piece).await.unwrap();
                bytes.extend(&piece[..read]);
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let length = head
                    .lines()
                    .find_map(|line| line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned));
                if body.len() >= length.unwrap().parse::<usize>().unwrap() {
                    break body.to_owned();
                }
            };
            let document: Value = serde_json::from_str(&body).unwrap();
            let sent = document["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
            kept.lock().unwrap().extend(sent);
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
                .await
                .unwrap();
        }
    });
    (url, spans)
}

#[tokio::test(flavor = "multi_thread")]
async fn run_is_a_trace_and_steps_are_spans() {
    let (url, spans) = collector().await;
    let server = TestServer::with(&[("otlp", &url)]).await;
    let engine = server.engine().await;
    let mut tries = 0;
    // Events from before the tracer's start are not sent, so runs are created until one was sent from its beginning.
    let (root, step) = loop {
        if let Some(found) = whole(&spans.lock().unwrap()) {
            break found;
        }
        tries += 1;
        greeted(&server, tries).await;
    };
    assert_eq!(step["parentSpanId"], root["spanId"]);
    assert_eq!(root["parentSpanId"], json!(""));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_run_does_not_block_other_traces() {
    let (url, spans) = collector().await;
    let server = TestServer::with(&[("otlp", &url)]).await;
    let engine = server.engine().await;
    let store = goldseam::open_existing_store(&server.store("main.db")).await.unwrap();
    let mut tries = 0;
    while whole(&spans.lock().unwrap()).is_none() {
        let run = format!("broken-{tries}").parse().unwrap();
        let bodies = vec!["no event".to_owned()];
        let garbage = Append { run, after: Seq::ZERO, bodies, row: None, tasks: Vec::new() };
        store.append(garbage).await.unwrap();
        tries += 1;
        greeted(&server, tries).await;
    }
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_joins_the_trace_of_its_starter() {
    let (url, spans) = collector().await;
    let server = TestServer::with(&[("otlp", &url)]).await;
    let engine = server.engine().await;
    let mut tries = 0;
    let (root, step) = loop {
        if let Some(found) = whole(&spans.lock().unwrap()) {
            break found;
        }
        tries += 1;
        // This run is not sampled, so it is not exported.
        let unsampled = headers(&format!("00-{:032x}-00f067aa0ba902b7-00", 0xdead_0000 + tries));
        start_traced(&server, &format!("u-{tries}"), unsampled).await;
        let traced = headers(&format!("00-{tries:032x}-00f067aa0ba902b7-01"));
        start_traced(&server, &format!("t-{tries}"), traced).await;
        finish(&server, &format!("u-{tries}"), tries).await;
        finish(&server, &format!("t-{tries}"), tries).await;
    };
    let trace = root["traceId"].as_str().unwrap();
    let run = format!("t-{}", u32::from_str_radix(trace, 16).unwrap());
    let run = RunId::new(run).unwrap();
    let starter = TraceContext::new(&format!("00-{trace}-00f067aa0ba902b7-01")).unwrap();
    assert_eq!(root["parentSpanId"], "00f067aa0ba902b7");
    assert_eq!(root["traceState"], "vendor=1");
    assert_eq!(root["spanId"], starter.run_span(&run));
    assert_eq!(step["parentSpanId"], root["spanId"]);
    assert_eq!(step["spanId"], starter.span(&key_of(&run, BranchId(1), "compose")));
    let unsampled = |span: &Value| span["traceId"].as_str().unwrap().contains("dead");
    assert!(!spans.lock().unwrap().iter().any(unsampled));
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_trace_headers_are_ignored() {
    let server = TestServer::open().await;
    let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let client = goldseam::connect(&server.store("main.db")).await.unwrap();
    let trace = |id: &'static str| {
        let client = client.clone();
        async move { client.state(&RunId::new(id).unwrap()).await.unwrap().queued.trace }
    };
    let values = |values: &[&[u8]]| {
        let mut map = HeaderMap::new();
        for value in values {
            map.append("traceparent", HeaderValue::from_bytes(value).unwrap());
        }
        map
    };
    let ids = ["h-0", "h-1", "h-2", "h-3", "h-4", "h-5", "h-6", "h-7"];
    let hostile = [
        values(&[b""]),
        values(&[&[0xff; 55]]),
        values(&[good.to_uppercase().as_bytes()]),
        values(&[good.replacen("00", "ff", 1).as_bytes()]),
        values(&[b"00-00000000000000000000000000000000-00f067aa0ba902b7-01"]),
        values(&[format!("{good}-{}", "a".repeat(4_000)).as_bytes()]),
        values(&[good.as_bytes(), good.as_bytes()]),
        values(&[b"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"]),
    ];
    for (id, headers) in ids.into_iter().zip(hostile) {
        start_traced(&server, id, headers).await;
        assert_eq!(trace(id).await, None, "{id}");
    }
    let mut bad_state = headers(good);
    bad_state.append("tracestate", HeaderValue::from_bytes(&[0xff]).unwrap());
    start_traced(&server, "s-1", bad_state).await;
    assert_eq!(trace("s-1").await, Some(TraceContext::new(good).unwrap()));
    // The same start with another trace is the same run.
    start_traced(&server, "s-1", headers(&good.replace("4bf9", "ffff"))).await;
    start_traced(&server, "s-1", HeaderMap::new()).await;
    assert_eq!(trace("s-1").await, Some(TraceContext::new(good).unwrap()));
    let mut two_states = headers(good);
    two_states.append("tracestate", HeaderValue::from_static("other=2"));
    two_states.insert("idempotency-key", HeaderValue::from_static("k"));
    start_traced(&server, "s-2", two_states.clone()).await;
    two_states.remove("traceparent");
    start_traced(&server, "s-2", two_states).await;
    assert_eq!(trace("s-2").await.unwrap().tracestate(), Some("vendor=1,other=2"));
}

fn headers(traceparent: &str) -> HeaderMap {
    let mut map = HeaderMap::new();
    map.insert("traceparent", HeaderValue::from_str(traceparent).unwrap());
    map.insert("tracestate", HeaderValue::from_static("vendor=1"));
    map
}

/// Starts a run with these headers.
async fn start_traced(server: &TestServer, id: &str, headers: HeaderMap) {
    let body = json!({ "workflow": "greet", "id": id, "input": "Ada" });
    let request = server.ask(Method::POST, "/v1/runs").headers(headers).json(&body);
    Reply::of(request.send().await.unwrap()).await.ok();
}

/// Creates a run and completes it.
async fn greeted(server: &TestServer, tries: u32) {
    let id = format!("t-{tries}");
    server.start("greet", &id, json!("Ada")).await;
    finish(server, &id, tries).await;
}

/// Completes a run.
async fn finish(server: &TestServer, id: &str, tries: u32) {
    server.post(&format!("/v1/runs/{id}/signal"), &json!({ "name": "go" })).await.ok();
    server.get(&format!("/v1/runs/{id}/result?wait_ms=20000")).await.ok();
    assert!(tries < 5_000, "no trace was sent");
}

/// Returns a run span and its step span of the same trace.
fn whole(spans: &[Value]) -> Option<(Value, Value)> {
    let named = |name: &'static str| spans.iter().filter(move |span| span["name"] == name);
    let step_of = |root: &Value| named("compose").find(|step| step["traceId"] == root["traceId"]).cloned();
    named("greet").find_map(|root| Some((root.clone(), step_of(root)?)))
}
