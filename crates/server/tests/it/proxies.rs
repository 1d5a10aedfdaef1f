//! Clients behind trusted proxies, and the limits of their addresses.

use futures_util::future::join_all;
use reqwest::{Method, RequestBuilder};
use serde_json::json;

use crate::test_server::{Reply, TestServer};

const WRONG: &str = "gsk_0000000000000000_0000000000000000000000000000000000000000000000000000000000000000";

/// Builds a request that a proxy forwards for this client.
fn from(server: &TestServer, client: &str, path: &str) -> RequestBuilder {
    server.ask(Method::GET, path).header("x-forwarded-for", client)
}

/// Sends wrong keys from these addresses until the rate limit refuses one.
async fn guessed_too_often(server: &TestServer, client: impl Fn(usize) -> String) {
    loop {
        let guesses = (0..40).map(|n| from(server, &client(n), "/v1/runs").bearer_auth(WRONG).send());
        if join_all(guesses).await.into_iter().any(|reply| reply.unwrap().status().as_u16() == 429) {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_keys_are_counted_per_client_behind_a_trusted_proxy() {
    let server = TestServer::with(&[("trusted_proxies", "127.0.0.0/8, ::1")]).await;
    guessed_too_often(&server, |n| format!("6.6.6.{n}, 198.51.100.1")).await;
    let other = from(&server, "198.51.100.1, 198.51.100.2", "/v1/runs").bearer_auth(WRONG).send();
    Reply::of(other.await.unwrap()).await.problem(401, "GS0601");
}

#[tokio::test(flavor = "multi_thread")]
async fn forwarding_header_of_an_untrusted_peer_is_ignored() {
    let server = TestServer::with(&[("trusted_proxies", "10.0.0.0/8")]).await;
    guessed_too_often(&server, |n| format!("198.51.100.{n}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_behind_a_proxy_has_the_limit_of_an_address() {
    let settings = [("trusted_proxies", "127.0.0.1"), ("connections_per_address", "1")];
    let server = TestServer::with(&settings).await;
    server.start("greet", "r", json!("Ada")).await;
    let poll = tokio::spawn(from(&server, "198.51.100.1", "/v1/runs/r/result?wait_ms=60000").send());
    let again = || from(&server, "198.51.100.1", "/v1/runs/r").send();
    // The waiting request, and this one.
    while !server.get("/metrics").await.text.contains("goldseam_http_requests_under_way 2") {
        tokio::task::yield_now().await;
    }
    let refused = Reply::of(again().await.unwrap()).await.problem(429, "GS0607");
    assert_eq!(refused["limit"], json!(1));
    Reply::of(from(&server, "198.51.100.2", "/v1/runs/r").send().await.unwrap()).await.ok();
    server.get("/v1/runs/r").await.ok();
    Reply::of(from(&server, "what?", "/v1/runs/r").send().await.unwrap()).await.ok();
    poll.abort();
    while !again().await.unwrap().status().is_success() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn request_must_name_exactly_one_host() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let server = TestServer::open().await;
    let ask = async |head: &str| {
        let address = server.url.strip_prefix("http://").unwrap();
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = format!("{head}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    for one in [
        "GET /healthz HTTP/1.1\r\nhost: LOCALHOST.",
        "GET http://localhost/healthz HTTP/1.1\r\nhost: localhost",
        "GET http://localhost/healthz HTTP/1.1",
    ] {
        assert!(ask(one).await.starts_with("HTTP/1.1 200"), "{one}");
    }
    for bad in [
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\nhost: localhost",
        "GET /healthz HTTP/1.1\r\nhost: 127.0.0.1:80@evil.example",
        "GET http://evil.example/healthz HTTP/1.1\r\nhost: localhost",
    ] {
        let answer = ask(bad).await;
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("GS0606"), "{bad}: {answer}");
    }
    let head = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: ";
    let end = "\r\nconnection: close\r\n\r\n";
    let filler = "x".repeat(32 * 1024 - head.len() - end.len());
    assert!(ask(&format!("{head}{filler}")).await.starts_with("HTTP/1.1 200"), "32 KiB are allowed");
    assert!(ask(&format!("{head}{filler}x")).await.starts_with("HTTP/1.1 431"), "one more byte is refused");
}
