//! Limits of one client: memory, connections, waiting requests.

use std::net::SocketAddr;
use std::time::Duration;

use goldseam_api::doc::key::Scope;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::key_rights::with;
use crate::test_server::{Reply, TestServer};

const TIMEOUT: Duration = Duration::from_secs(10);

fn address(server: &TestServer) -> SocketAddr {
    server.running.as_ref().unwrap().address
}

/// Sends the beginning of a request over a new connection.
async fn begun(at: SocketAddr, head: &str, body: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(at).await.unwrap();
    stream.write_all(format!("{head}\r\nhost: localhost\r\n\r\n").as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    stream
}

/// Reads a response and returns its status and text.
async fn answer(stream: &mut TcpStream) -> (u16, String) {
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    let whole = async {
        loop {
            let read = stream.read(&mut piece).await.unwrap_or(0);
            text.extend_from_slice(&piece[..read]);
            let so_far = String::from_utf8_lossy(&text);
            let length =
                so_far.split_once("content-length: ").and_then(|(_, rest)| rest.lines().next()?.parse().ok());
            let body = so_far.split_once("\r\n\r\n").map(|(_, body)| body.len());
            if read == 0 || body.zip(length).is_some_and(|(body, length): (usize, usize)| body >= length) {
                return so_far.into_owned();
            }
        }
    };
    let text = tokio::time::timeout(TIMEOUT, whole).await.expect("a response before the body");
    (text.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0), text)
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_unauthorised_requests_are_not_read() {
    let server = TestServer::open().await;
    let reader = server.key("default", &[Scope::Read]).await;
    let none = String::new();
    let key = format!("\r\nauthorization: Bearer {reader}");
    for (line, credential, status) in [
        ("GET /healthz", &none, 400),
        ("GET /readyz", &none, 400),
        ("POST /v1/runs", &none, 401),
        ("POST /v1/callbacks/made-up", &none, 401),
        ("POST /v1/runs", &key, 403),
        ("POST /v1/nowhere", &key, 404),
        ("PATCH /v1/runs", &key, 405),
        ("GET /v1/runs", &key, 400),
        ("DELETE /v1/workers/node-1", &key, 403),
    ] {
        for length in ["content-length: 1000000", "transfer-encoding: chunked"] {
            let head = format!("{line} HTTP/1.1\r\n{length}{credential}");
            let (reply, text) = answer(&mut begun(address(&server), &head, b"").await).await;
            assert_eq!(reply, status, "{line} {length}: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_all_bodies_is_limited() {
    let server = TestServer::with(&[("bodies_bytes_max", "65536"), ("body_bytes_max", "32768")]).await;
    let run = json!({ "workflow": "w", "id": "r", "input": "x".repeat(4000) });
    server.post("/v1/runs", &run).await.ok();
    let head = "POST /v1/runs HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: 32768";
    // If the second body is read first, the first one exceeds the limit: then both are sent again.
    let (held, refused) = loop {
        let held = begun(address(&server), head, &[b' '; 30_000]).await;
        let reply = server.post("/v1/runs", &run).await;
        if reply.status != 200 {
            break (held, reply.problem(429, "GS0605"));
        }
    };
    assert_eq!(refused["limit"], 32_768, "one key may use half");
    server.get("/healthz").await;
    drop(held);
    while server.post("/v1/runs", &run).await.status != 200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_polls_per_key_are_limited() {
    let server = TestServer::with(&[("waits_max", "2")]).await;
    let admin = server.key("default", &Scope::ALL).await;
    let reader = server.key("default", &[Scope::Read]).await;
    with(&server, &admin, "/v1/runs", &json!({ "workflow": "w", "id": "r" })).await.ok();
    let path = "/v1/runs/r/result?wait_ms=60000";
    let poll = || tokio::spawn(server.ask(Method::GET, path).bearer_auth(&reader).send());
    let ask = async |key: &str| {
        let asked = server.ask(Method::GET, "/v1/runs/r/result?wait_ms=0").bearer_auth(key);
        Reply::of(asked.send().await.unwrap()).await
    };
    let stream = server.ask(Method::GET, "/v1/runs/r/events").bearer_auth(&reader).send().await.unwrap();
    let mut open = poll();
    let refused = loop {
        let reply = ask(&reader).await;
        if reply.status != 200 {
            break reply.problem(429, "GS0607");
        }
        // This request may have taken the slot of the long poll.
        if open.is_finished() {
            open = poll();
        }
    };
    assert_eq!(refused["limit"], 2, "streams and long polls count together");
    ask(&admin).await.ok();
    server.get("/healthz").await;
    open.abort();
    drop(stream);
    while ask(&reader).await.status != 200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_per_address_are_limited() {
    let server = TestServer::with(&[("connections_per_address", "2")]).await;
    let at = address(&server);
    let head = "GET /healthz HTTP/1.1";
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = begun(at, head, b"").await;
        assert_eq!(answer(&mut stream).await.0, 200);
        held.push(stream);
    }
    let mut third = TcpStream::connect(at).await.unwrap();
    let (status, text) = answer(&mut third).await;
    let body: Value = serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!((status, &body["code"], &body["limit"]), (429, &json!("GS0607"), &json!(2)), "{text}");
    held.pop();
    while answer(&mut begun(at, head, b"").await).await.0 != 200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_listener_answers_when_the_server_is_full() {
    let server = TestServer::with(&[("connections_max", "1"), ("health_listen", "127.0.0.1:0")]).await;
    let mut only = begun(address(&server), "GET /healthz HTTP/1.1", b"").await;
    assert_eq!(answer(&mut only).await.0, 200);
    let health = server.running.as_ref().unwrap().health_address.unwrap();
    let get = async |path: &str| {
        let reply = server.http.get(format!("http://{health}{path}")).send().await.unwrap();
        (reply.status().as_u16(), reply.text().await.unwrap())
    };
    assert_eq!(get("/healthz").await, (200, "ok\n".to_owned()));
    assert_eq!(get("/readyz").await, (200, "ok\n".to_owned()));
    assert!(get("/metrics").await.1.contains("goldseam_http_requests_total"));
    assert_eq!(get("/v1/runs").await.0, 404, "and nothing else");
    drop(only);
}

#[tokio::test(flavor = "multi_thread")]
async fn health_listener_requires_a_key_for_metrics() {
    let server = TestServer::with(&[("health_listen", "127.0.0.1:0")]).await;
    let health = server.running.as_ref().unwrap().health_address.unwrap();
    let url = |path: &str| format!("http://{health}{path}");
    let reader = server.key("default", &[Scope::Read]).await;
    assert_eq!(server.http.get(url("/healthz")).send().await.unwrap().status().as_u16(), 200);
    assert_eq!(server.http.get(url("/metrics")).send().await.unwrap().status().as_u16(), 401);
    let reply = server.http.get(url("/metrics")).bearer_auth(&reader).send().await.unwrap();
    assert_eq!(reply.status().as_u16(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_method_gets_the_allow_header() {
    let server = TestServer::open().await;
    let reply = server.ask(Method::PATCH, "/v1/runs").send().await.unwrap();
    assert_eq!((reply.status().as_u16(), &reply.headers()["allow"]), (405, &"GET, POST".parse().unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn arrays_as_objects_and_zero_attempts_are_refused() {
    let server = TestServer::open().await;
    server.post("/v1/runs", &json!(["greet", "arr-1"])).await.problem(400, "GS0608");
    server.post("/v1/keys", &json!(["n", ["read"]])).await.problem(400, "GS0608");
    server.post("/v1/tasks", &json!({ "kind": "k", "attempts_max": 0 })).await.problem(400, "GS0138");
    assert_eq!(server.get("/v1/tasks").await.ok()["items"], json!([]));
}
