//! Shutdown, and the limits of idle connections.

use std::time::Duration;

use reqwest::{Method, header};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::test_server::{Reply, TestServer, client};

const PROBE: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// Sends one request on a connection and keeps it open.
async fn asked(stream: &mut TcpStream) {
    stream.write_all(PROBE).await.unwrap();
    let mut answer = Vec::new();
    let mut piece = [0; 1024];
    while !answer.ends_with(b"ok\n") {
        let read = stream.read(&mut piece).await.unwrap();
        assert!(read > 0, "closed after {:?}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&piece[..read]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_server_is_not_ready_but_accepts_connections() {
    let settings = [("drain_seconds", "3600"), ("finish_seconds", "3600"), ("health_listen", "127.0.0.1:0")];
    let mut server = TestServer::with(&settings).await;
    let running = server.running.take().unwrap();
    let health = format!("http://{}", running.health_address.unwrap());
    let mut idle = TcpStream::connect(running.address).await.unwrap();
    asked(&mut idle).await;
    let new_connections = async {
        loop {
            let reply = client().get(format!("{}/readyz", server.url)).send().await.unwrap();
            if reply.status().as_u16() == 503 {
                assert!(Reply::of(reply).await.text.starts_with("leaving: this server is shutting down"));
                break;
            }
        }
        let reply = client().get(format!("{health}/readyz")).send().await.unwrap();
        assert_eq!(reply.status().as_u16(), 503);
        let start = server.ask(Method::POST, "/v1/runs").json(&json!({ "workflow": "w", "id": "late" }));
        let reply = start.send().await.unwrap();
        assert_eq!(reply.headers()[header::CONNECTION], "close");
        Reply::of(reply).await.ok();
    };
    tokio::select! {
        () = running.drain() => panic!("an hour has not passed"),
        () = new_connections => {}
    }
    // Far less than finish_seconds: the shutdown does not wait for idle connections.
    tokio::time::timeout(Duration::from_secs(60), running.shutdown()).await.unwrap();
    assert_eq!(idle.read(&mut [0; 1]).await.unwrap(), 0, "closed without a reset");
    let past = goldseam::connect_existing(&server.store("main.db")).await.unwrap();
    past.get(&"late".parse().unwrap()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connection_outlives_the_header_limit() {
    let server = TestServer::impatient(Duration::from_millis(200)).await;
    let address = server.url.strip_prefix("http://").unwrap();
    let mut kept = TcpStream::connect(address).await.unwrap();
    asked(&mut kept).await;
    for begun in [&b""[..], b"GET /healthz HT"] {
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(begun).await.unwrap();
        assert_eq!(slow.read(&mut [0; 1]).await.unwrap(), 0, "slow headers end the connection");
    }
    asked(&mut kept).await;
    kept.write_all(b"GET /healthz HT").await.unwrap();
    assert_eq!(kept.read(&mut [0; 1]).await.unwrap(), 0, "also those of a later request");
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connection_ends_after_keep_alive() {
    let server = TestServer::with(&[("keep_alive_seconds", "1")]).await;
    let mut idle = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).await.unwrap();
    for _ in 0..3 {
        asked(&mut idle).await;
    }
    assert_eq!(idle.read(&mut [0; 1]).await.unwrap(), 0);
}
