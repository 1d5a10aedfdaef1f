//! Traces: a run is a trace, its steps are spans, across processes and recoveries.

use std::sync::Arc;
use std::sync::Mutex;

use goldseam::Seq;
use goldseam::unstable::store::Append;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::test_server::TestServer;

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

/// Creates a run and completes it.
async fn greeted(server: &TestServer, tries: u32) {
    let id = format!("t-{tries}");
    server.start("greet", &id, json!("Ada")).await;
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
