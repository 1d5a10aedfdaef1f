//! The client against an unreliable server: lost requests are repeated with the same key, and each event arrives once.

use std::sync::Arc;

use futures_util::StreamExt as _;
use goldseam::{RunId, Seq};
use goldseam_api::doc::change::NewNote;
use goldseam_api::doc::event::{EventDoc, HistoryQuery, NewsDoc};
use goldseam_api::doc::retention::NewPrune;
use goldseam_api::doc::task::NewClaim;
use goldseam_api::{
    Caller, CommandsApi, NodesApi, PassesApi, Problem, RemoteApi, RetentionApi, RunsApi, TasksApi,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use crate::support::Place;

/// A server that sends scripted responses, one per connection, and keeps the requests.
struct Script {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
    serving: tokio::task::JoinHandle<()>,
}

impl Script {
    async fn of(answers: Vec<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        let serving = tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let request = read(&mut stream).await;
                kept.lock().await.push(request);
                stream.write_all(&answer).await.unwrap();
            }
        });
        Self { url, requests, serving }
    }

    fn remote(&self) -> RemoteApi {
        RemoteApi::new(&self.url, Some("gs_secret".into())).unwrap()
    }

    /// The requests, once every response was sent.
    async fn requests(self) -> Vec<String> {
        self.serving.await.unwrap();
        Arc::into_inner(self.requests).unwrap().into_inner()
    }
}

async fn read(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let mut buffer = [0; 4_096];
    loop {
        let length: usize =
            text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
        if let Some((_, body)) = text.split_once("\r\n\r\n")
            && body.len() >= length
        {
            return text;
        }
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(read > 0, "the client went away: {text}");
        text.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
}

fn answer(status: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}

/// An event stream without a content length.
fn stream(text: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n{text}")
        .into_bytes()
}

fn header(request: &str, name: &str) -> String {
    let line = request.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
    line.unwrap_or_else(|| panic!("{name} in {request}")).to_owned()
}

#[tokio::test]
async fn a_lost_change_is_repeated_with_the_same_key() {
    let problem = r#"{"type":"about:blank","title":"x","status":503,"detail":"the store is busy"}"#;
    let done = r#"{"run":"waits","event":7}"#;
    let script =
        Script::of(vec![answer("503 Busy", problem), b"HTTP/1.1 20".to_vec(), answer("200 OK", done)]).await;
    let remote = script.remote();
    let caller = Caller::named(Some("ana".into()));
    let done = remote.pause(&caller, &RunId::new("waits").unwrap(), NewNote::default()).await.unwrap();
    assert_eq!(done.event, Seq(7));
    let requests = script.requests().await;
    assert!(requests.iter().all(|request| request.starts_with("POST /v1/runs/waits/pause HTTP/1.1")));
    assert!(requests.iter().all(|request| header(request, "authorization") == "Bearer gs_secret"));
    assert!(requests.iter().all(|request| request.ends_with(r#"{"by":"ana"}"#)), "{requests:?}");
    let keys: Vec<String> = requests.iter().map(|request| header(request, "idempotency-key")).collect();
    assert!(keys.len() == 3 && keys.iter().all(|key| *key == keys[0] && key.len() == 32), "{keys:?}");
}

#[tokio::test]
async fn a_start_sends_the_trace_of_the_caller() {
    let started = r#"{"run":"r","status":"queued","workflow":"w"}"#;
    let script = Script::of(vec![answer("200 OK", started)]).await;
    let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let trace = goldseam::TraceContext::read(good, Some("vendor=1"));
    let caller = Caller { trace, ..Caller::default() };
    let new = serde_json::from_str(r#"{"workflow":"w"}"#).unwrap();
    script.remote().start(&caller, new).await.unwrap();
    let requests = script.requests().await;
    assert_eq!(header(&requests[0], "traceparent"), good);
    assert_eq!(header(&requests[0], "tracestate"), "vendor=1");
}

#[tokio::test]
async fn a_claim_is_not_repeated_after_a_lost_response() {
    let script = Script::of(vec![b"HTTP/1.1 20".to_vec()]).await;
    let want = NewClaim { owner: "w".into(), queue: None, kind: None, limit: None, wait_ms: None };
    let problem = script.remote().claim(&Caller::default(), want).await.unwrap_err();
    assert_eq!(problem.status, 503);
    assert_eq!(script.requests().await.len(), 1);
}

#[tokio::test]
async fn rotating_passes_is_not_repeated_after_a_lost_response() {
    let script = Script::of(vec![b"HTTP/1.1 20".to_vec()]).await;
    let problem = script.remote().rotate_passes(&Caller::default()).await.unwrap_err();
    assert_eq!(problem.status, 503);
    assert_eq!(script.requests().await.len(), 1);
}

#[tokio::test]
async fn problems_of_the_server_are_returned_unchanged() {
    let sent = r#"{"type":"/v1/codes/GS0104","title":"Not found","status":404,"detail":"run x does not exist",
        "code":"GS0104","hint":"goldseam ls","next":[{"verb":"dance","tempo":3}]}"#;
    let script = Script::of(vec![answer("404 Not Found", sent), answer("418 Tea", "<html>")]).await;
    let run = RunId::new("x").unwrap();
    let problem = script.remote().detail(&run).await.unwrap_err();
    assert_eq!((problem.status, problem.code.as_deref()), (404, Some("GS0104")));
    assert_eq!(problem.hint.as_deref(), Some("goldseam ls"));
    assert_eq!(problem.next.unwrap()[0].verb, "dance", "a verb of a later release");
    let problem = script.remote().detail(&run).await.unwrap_err();
    let detail = "the server answered 418, but it is not a Goldseam server (it sent an HTML page)";
    assert_eq!((problem.status, problem.detail.as_str()), (502, detail));
}

#[tokio::test]
async fn a_prune_is_sent_in_batches_up_to_the_limit() {
    let part = |runs: std::ops::Range<u64>, more: bool| {
        let run = |n: u64| {
            json!({ "archive": "a", "events": 1, "finished_at": 0, "run": format!("r{n}"), "status": "completed",
                "workflow": "w" })
        };
        let runs: Vec<Value> = runs.map(run).collect();
        let whole = json!({ "archives": [], "bytes": 0, "events": runs.len(), "finished": 0, "held": 0, "left": [],
            "more": more, "pruned": runs });
        answer("200 OK", &whole.to_string())
    };
    let script = Script::of(vec![part(0..500, true), part(500..503, true)]).await;
    let new = NewPrune { limit: Some(503), ..NewPrune::default() };
    let mut seen = Vec::new();
    let pruned = script.remote().prune(&Caller::default(), new, &mut |at| seen.push(at)).await.unwrap();
    assert_eq!((pruned.pruned.len(), pruned.events), (503, 503));
    assert_eq!(seen.iter().map(|at| (at.done, at.total)).collect::<Vec<_>>(), [(500, 503), (503, 503)]);
    let requests = script.requests().await;
    assert!(requests[0].contains(r#""limit":500"#) && requests[1].contains(r#""limit":3"#), "{requests:?}");
}

#[tokio::test]
async fn each_event_arrives_once_across_broken_streams() {
    let place = Place::with(&[("done", "ship")]).await;
    let run = RunId::new("done").unwrap();
    let history = place.api.history(&run, HistoryQuery::default()).await.unwrap().items;
    let frame = |event: &EventDoc| {
        let data = serde_json::to_string(event).unwrap();
        format!("id: {}\nevent: {}\ndata: {data}\n\n", event.seq, event.kind)
    };
    let frames: Vec<String> = history.iter().map(frame).collect();
    let ending = |status: &str| {
        let event = history.len();
        answer("200 OK", &format!(r#"{{"run":"done","status":"{status}","event":{event}}}"#))
    };
    let broken = &frames[2][..frames[2].len() - 1];
    let last = frames.len() - 1;
    let busy = serde_json::to_string(&Problem::new(503, "busy")).unwrap();
    let script = Script::of(vec![
        // Two and a half events, then the connection breaks.
        stream(&format!(": hello\n\n{}{}{broken}", frames[0], frames[1])),
        ending("running"),
        // The store is busy.
        stream(&format!("event: problem\ndata: {busy}\n\n")),
        ending("running"),
        // A repeated event, then all but the last.
        stream(&frames[1..last].concat()),
        ending("completed"),
        stream(&frames[last]),
        ending("completed"),
    ])
    .await;
    let following = script.remote().follow(&run, Seq::ZERO).await.unwrap();
    let received: Vec<NewsDoc> = following.map(|news| news.unwrap()).collect().await;
    let received: Vec<EventDoc> = received
        .into_iter()
        .map(|news| match news {
            NewsDoc::Event(event) => *event,
            news => panic!("{news:?}"),
        })
        .collect();
    assert_eq!(received, history);
    let requests = script.requests().await;
    let from: Vec<String> = requests
        .iter()
        .filter(|request| request.contains("/events"))
        .map(|request| header(request, "last-event-id"))
        .collect();
    assert_eq!(from, ["0".to_owned(), "2".to_owned(), "2".to_owned(), last.to_string()]);
}

#[tokio::test]
async fn invalid_addresses_are_refused_and_a_missing_server_is_reported() {
    for url in ["", "goldseam", "ftp://host", "http://user:key@host", "https://host/?key=x"] {
        assert_eq!(RemoteApi::new(url, None).unwrap_err().status, 400, "{url}");
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    tokio::time::pause();
    let problem = RemoteApi::new(&url, None).unwrap().nodes().await.unwrap_err();
    assert_eq!(problem.status, 503);
    assert!(problem.detail.starts_with(&format!("the server at {url} cannot be reached")), "{problem}");
    assert!(!format!("{:?}", RemoteApi::new(&url, Some("gs_secret".into())).unwrap()).contains("secret"));
}
