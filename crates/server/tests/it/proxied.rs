//! Clients behind a proxy: whose word is believed, and what is counted by their address.

use futures_util::future::join_all;
use reqwest::{Method, RequestBuilder};
use serde_json::json;

use crate::desk::{Desk, Told};

const WRONG: &str = "gsk_0000000000000000_0000000000000000000000000000000000000000000000000000000000000000";

/// A request that came by a proxy from this client.
fn from(desk: &Desk, client: &str, path: &str) -> RequestBuilder {
    desk.ask(Method::GET, path).header("x-forwarded-for", client)
}

/// Guesses keys from these addresses, until one is refused for guessing too often.
async fn guessed_too_often(desk: &Desk, client: impl Fn(usize) -> String) {
    loop {
        let guesses = (0..40).map(|n| from(desk, &client(n), "/v1/runs").bearer_auth(WRONG).send());
        if join_all(guesses).await.into_iter().any(|told| told.unwrap().status().as_u16() == 429) {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_keys_are_counted_by_client_behind_a_trusted_proxy() {
    let desk = Desk::with(&[("trusted_proxies", "127.0.0.0/8, ::1")]).await;
    guessed_too_often(&desk, |n| format!("6.6.6.{n}, 198.51.100.1")).await;
    let other = from(&desk, "198.51.100.1, 198.51.100.2", "/v1/runs").bearer_auth(WRONG).send();
    Told::of(other.await.unwrap()).await.problem(401, "GS0601");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_believed_of_a_peer_that_is_not_trusted() {
    let desk = Desk::with(&[("trusted_proxies", "10.0.0.0/8")]).await;
    guessed_too_often(&desk, |n| format!("198.51.100.{n}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_behind_a_proxy_has_the_places_of_an_address() {
    let settings = [("trusted_proxies", "127.0.0.1"), ("connections_per_address", "1")];
    let desk = Desk::with(&settings).await;
    desk.start("greet", "r", json!("Ada")).await;
    let poll = tokio::spawn(from(&desk, "198.51.100.1", "/v1/runs/r/result?wait_ms=60000").send());
    let again = || from(&desk, "198.51.100.1", "/v1/runs/r").send();
    // The one that waits, and the one that asks.
    while !desk.get("/metrics").await.text.contains("goldseam_http_requests_under_way 2") {
        tokio::task::yield_now().await;
    }
    let refused = Told::of(again().await.unwrap()).await.problem(429, "GS0607");
    assert_eq!(refused["limit"], json!(1));
    Told::of(from(&desk, "198.51.100.2", "/v1/runs/r").send().await.unwrap()).await.ok();
    desk.get("/v1/runs/r").await.ok();
    Told::of(from(&desk, "what?", "/v1/runs/r").send().await.unwrap()).await.ok();
    poll.abort();
    while !again().await.unwrap().status().is_success() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_names_one_host() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let desk = Desk::open().await;
    let ask = async |head: &str| {
        let address = desk.url.strip_prefix("http://").unwrap();
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
    assert!(ask(&format!("{head}{filler}x")).await.starts_with("HTTP/1.1 431"), "and not a byte more");
}
