//! Streams: history first, then new events, each once and in order across reconnects and restarts.

use std::time::Duration;

use futures_util::StreamExt;
use goldseam_api::doc::key::Scope;
use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::test_server::{Reply, TestServer};

/// One message of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sent {
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    pub(crate) data: Value,
}

/// A reader of a stream.
pub(crate) struct Reader {
    response: Response,
    text: String,
}

impl Reader {
    pub(crate) async fn follow(server: &TestServer, path: &str, last: Option<&str>) -> Self {
        let mut request = server.ask(Method::GET, path);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), 200);
        Self { response, text: String::new() }
    }

    /// Returns the next message, or `None` at the end of the stream. Skips comments.
    async fn next(&mut self) -> Option<Sent> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let block = block.to_owned();
                self.text = rest.to_owned();
                let field = |name: &str| {
                    block
                        .lines()
                        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned))
                };
                if let Some(data) = field("data") {
                    let data = serde_json::from_str(&data).unwrap();
                    return Some(Sent { id: field("id"), name: field("event").unwrap(), data });
                }
                continue;
            }
            let chunk = tokio::time::timeout(Duration::from_secs(30), self.response.chunk()).await.unwrap();
            self.text.push_str(std::str::from_utf8(&chunk.ok()??).unwrap());
        }
    }

    pub(crate) async fn take(&mut self, count: usize) -> Vec<Sent> {
        let mut sent = vec![];
        while sent.len() < count {
            sent.push(self.next().await.unwrap());
        }
        sent
    }

    pub(crate) async fn rest(&mut self) -> Vec<Sent> {
        let mut sent = vec![];
        while let Some(one) = self.next().await {
            sent.push(one);
        }
        sent
    }
}

fn seqs(sent: &[Sent]) -> Vec<u64> {
    sent.iter().filter_map(|one| one.id.as_ref()?.parse().ok()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn follower_gets_history_then_new_events_until_the_end() {
    let server = TestServer::open().await;
    let engine = server.engine().await;
    server.start("greet", "s-1", json!("Ada")).await;
    let mut reader = Reader::follow(&server, "/v1/runs/s-1/events", None).await;
    let first = reader.next().await.unwrap();
    assert_eq!((first.name.as_str(), first.id.as_deref()), ("run.queued", Some("1")));
    server.post("/v1/runs/s-1/signal", &json!({ "name": "go" })).await.ok();
    let rest = reader.rest().await;
    assert_eq!(rest.last().unwrap().name, "run.completed");
    assert_eq!(seqs(&rest), (2..=rest.len() as u64 + 1).collect::<Vec<_>>());
    let over = server
        .ask(Method::GET, "/v1/runs/s-1/events")
        .header("last-event-id", rest.last().unwrap().id.clone().unwrap());
    assert_eq!(over.send().await.unwrap().status().as_u16(), 204, "nothing is left to follow");
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reconnecting_follower_gets_each_event_once_from_any_server() {
    let mut server = TestServer::open().await;
    server.start("greet", "s-2", json!("Ada")).await;
    for n in 0..20 {
        server.post("/v1/runs/s-2/signal", &json!({ "name": "n", "payload": n })).await.ok();
    }
    let mut seen: Vec<u64> = vec![];
    let mut last: Option<String> = None;
    while seen.len() < 21 {
        let mut reader = Reader::follow(&server, "/v1/runs/s-2/events", last.as_deref()).await;
        let sent = reader.take(3).await;
        seen.extend(seqs(&sent));
        last = sent.last().unwrap().id.clone();
        drop(reader);
        if seen.len() == 9 {
            server.restart().await;
        }
    }
    assert_eq!(seen, (1..=21).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn feed_sends_all_events_in_one_order() {
    let mut server = TestServer::open().await;
    for n in 0..4 {
        server.start("greet", &format!("e-{n}"), json!(n)).await;
        server.post(&format!("/v1/runs/e-{n}/signal"), &json!({ "name": "go" })).await.ok();
    }
    let mut reader = Reader::follow(&server, "/v1/events", None).await;
    let mut all = reader.take(5).await;
    let last = all.last().unwrap().id.clone();
    drop(reader);
    server.restart().await;
    let mut reader = Reader::follow(&server, "/v1/events", last.as_deref()).await;
    all.extend(reader.take(3).await);
    server.post("/v1/runs/e-0/signal", &json!({ "name": "live" })).await.ok();
    all.extend(reader.take(1).await);
    let reply: Vec<(String, u64)> = all
        .iter()
        .map(|one| (one.data["run"].as_str().unwrap().to_owned(), one.data["seq"].as_u64().unwrap()))
        .collect();
    let mut expected: Vec<(String, u64)> =
        (0..4).flat_map(|n| [(format!("e-{n}"), 1), (format!("e-{n}"), 2)]).collect();
    expected.push(("e-0".to_owned(), 3));
    assert_eq!(reply, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_last_event_id_is_refused() {
    let server = TestServer::open().await;
    server.start("greet", "r", json!("Ada")).await;
    let ask = server.ask(Method::GET, "/v1/runs/r/events").header("last-event-id", "900");
    Reply::of(ask.send().await.unwrap()).await.problem(400, "GS0608");
    server.get("/v1/runs/r/events?after=900").await.problem(400, "GS0608");
    let ask = server.ask(Method::GET, "/v1/events").header("last-event-id", "nowhere");
    Reply::of(ask.send().await.unwrap()).await.problem(400, "GS0612");
}

#[tokio::test(flavor = "multi_thread")]
async fn follower_of_a_stalled_run_gets_the_diagnosis() {
    let server = TestServer::open().await;
    server.start("far-away", "s-4", json!(1)).await;
    let mut reader = Reader::follow(&server, "/v1/runs/s-4/events", None).await;
    let reply = loop {
        let sent = reader.next().await.unwrap();
        if sent.name == "stalled" {
            break sent;
        }
    };
    assert_eq!(reply.id, None, "only events have an id");
    assert!(reply.data["rule"].is_string() && reply.data["evidence"].is_string(), "{reply:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_ends_when_its_key_is_revoked() {
    let server = TestServer::open().await;
    let key = server.key("default", &[Scope::Read, Scope::Start]).await;
    let start =
        server.ask(Method::POST, "/v1/runs").bearer_auth(&key).json(&json!({ "workflow": "w", "id": "s-5" }));
    assert!(start.send().await.unwrap().status().is_success());
    let response = server.ask(Method::GET, "/v1/runs/s-5/events").bearer_auth(&key).send().await.unwrap();
    let mut reader = Reader { response, text: String::new() };
    reader.take(1).await;
    server.keys().await.revoke(key.split('_').nth(1).unwrap(), None).await.unwrap();
    let last = reader.rest().await.pop().unwrap();
    assert_eq!((last.name.as_str(), &last.data["code"]), ("problem", &json!("GS0601")));
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_per_key_are_limited() {
    let server = TestServer::with(&[("followers_max", "2")]).await;
    server.start("w", "s-6", json!(1)).await;
    let path = "/v1/runs/s-6/events";
    let one = Reader::follow(&server, path, None).await;
    let _two = Reader::follow(&server, path, None).await;
    server.get(path).await.problem(429, "GS0607");
    drop(one);
    let mut tries = 0;
    while server.ask(Method::GET, path).send().await.unwrap().status().as_u16() == 429 {
        tries += 1;
        assert!(tries < 1_000, "the slot is not freed");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_ends_streams() {
    let mut server = TestServer::open().await;
    server.start("w", "s-7", json!(1)).await;
    let mut reader = Reader::follow(&server, "/v1/runs/s-7/events", None).await;
    reader.take(1).await;
    let running = server.running.take().unwrap();
    let (rest, ()) = tokio::join!(reader.rest(), running.shutdown());
    assert_eq!(rest, vec![]);
    let stream = reader.response.bytes_stream();
    assert_eq!(stream.count().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_log_is_sent_in_full_across_pages() {
    let server = TestServer::open().await;
    server.start("w", "s-8", json!(1)).await;
    for n in 0..520 {
        let payload = if n % 50 == 0 { "x".repeat(250_000) } else { n.to_string() };
        server.post("/v1/runs/s-8/signal", &json!({ "name": "n", "payload": payload })).await.ok();
    }
    let all: Vec<u64> = (1..=521).collect();
    let mut reader = Reader::follow(&server, "/v1/runs/s-8/events", None).await;
    assert_eq!(seqs(&reader.take(521).await), all);
    let mut reader = Reader::follow(&server, "/v1/events", None).await;
    let fed = reader.take(521).await;
    assert_eq!(fed.iter().map(|one| one.data["seq"].as_u64().unwrap()).collect::<Vec<_>>(), all);
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_sends_heartbeats_and_disables_proxy_buffering() {
    let server = TestServer::open().await;
    server.start("w", "s-9", json!(1)).await;
    for path in ["/v1/runs/s-9/events", "/v1/events?from=now"] {
        let mut response = server.ask(Method::GET, path).send().await.unwrap();
        assert_eq!(response.headers()["x-accel-buffering"], "no", "{path}");
        assert_eq!(response.headers()["cache-control"], "no-store", "{path}");
        let mut text = String::new();
        while !text.lines().any(|line| line.starts_with(':')) {
            let chunk = tokio::time::timeout(Duration::from_secs(60), response.chunk()).await.unwrap();
            text.push_str(std::str::from_utf8(&chunk.unwrap().unwrap()).unwrap());
        }
    }
}
