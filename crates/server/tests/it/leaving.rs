//! How a server ends, and how long its connections may be idle.

use std::time::Duration;

use reqwest::{Method, header};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::desk::{Desk, Told, client};

const PROBE: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// Asks once on a connection and keeps it.
async fn asked(stream: &mut TcpStream) {
    stream.write_all(PROBE).await.unwrap();
    let (mut answer, mut piece) = (Vec::new(), [0; 1024]);
    while !answer.ends_with(b"ok\n") {
        let read = stream.read(&mut piece).await.unwrap();
        assert!(read > 0, "closed after {:?}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&piece[..read]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draining_server_is_not_ready_and_still_accepts() {
    let settings = [("drain_seconds", "3600"), ("finish_seconds", "3600"), ("health_listen", "127.0.0.1:0")];
    let mut desk = Desk::with(&settings).await;
    let running = desk.running.take().unwrap();
    let health = format!("http://{}", running.health_address.unwrap());
    let mut idle = TcpStream::connect(running.address).await.unwrap();
    asked(&mut idle).await;
    let new_connections = async {
        loop {
            let told = client().get(format!("{}/readyz", desk.url)).send().await.unwrap();
            if told.status().as_u16() == 503 {
                assert!(Told::of(told).await.text.starts_with("leaving: this server is shutting down"));
                break;
            }
        }
        let told = client().get(format!("{health}/readyz")).send().await.unwrap();
        assert_eq!(told.status().as_u16(), 503);
        let start = desk.ask(Method::POST, "/v1/runs").json(&json!({ "workflow": "w", "id": "late" }));
        let told = start.send().await.unwrap();
        assert_eq!(told.headers()[header::CONNECTION], "close");
        Told::of(told).await.ok();
    };
    tokio::select! {
        () = running.drain() => panic!("an hour has not passed"),
        () = new_connections => {}
    }
    // Far less than requests under way would have: nothing waits for a connection that is idle.
    tokio::time::timeout(Duration::from_secs(60), running.shutdown()).await.unwrap();
    assert_eq!(idle.read(&mut [0; 1]).await.unwrap(), 0, "closed without a reset");
    let past = goldseam::connect_existing(&desk.store("main.db")).await.unwrap();
    past.get(&"late".parse().unwrap()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_is_kept_for_longer_than_headers_may_take() {
    let desk = Desk::impatient(Duration::from_millis(200)).await;
    let address = desk.url.strip_prefix("http://").unwrap();
    let mut kept = TcpStream::connect(address).await.unwrap();
    asked(&mut kept).await;
    for begun in [&b""[..], b"GET /healthz HT"] {
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(begun).await.unwrap();
        assert_eq!(slow.read(&mut [0; 1]).await.unwrap(), 0, "slow headers are not waited for");
    }
    asked(&mut kept).await;
    kept.write_all(b"GET /healthz HT").await.unwrap();
    assert_eq!(kept.read(&mut [0; 1]).await.unwrap(), 0, "nor those of a later request");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_ends_after_the_keep_alive() {
    let desk = Desk::with(&[("keep_alive_seconds", "1")]).await;
    let mut idle = TcpStream::connect(desk.url.strip_prefix("http://").unwrap()).await.unwrap();
    for _ in 0..3 {
        asked(&mut idle).await;
    }
    assert_eq!(idle.read(&mut [0; 1]).await.unwrap(), 0);
}
