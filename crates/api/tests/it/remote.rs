//! A server that answers badly: what was lost is asked for again, under the same key, and each event is told once.

use std::sync::Arc;

use futures_util::StreamExt as _;
use goldseam::{RunId, Seq};
use goldseam_api::doc::change::Reason;
use goldseam_api::doc::event::{EventDoc, HistoryQuery, News};
use goldseam_api::doc::task::NewClaim;
use goldseam_api::{Api, Caller, Problem, Remote};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use crate::support::Place;

/// A server that gives these answers, one per connection, and keeps what it was asked.
struct Script {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
    serving: tokio::task::JoinHandle<()>,
}

impl Script {
    async fn of(answers: Vec<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        let serving = tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let request = read(&mut stream).await;
                kept.lock().await.push(request);
                stream.write_all(&answer).await.unwrap();
            }
        });
        Self { url, asked, serving }
    }

    fn remote(&self) -> Remote {
        Remote::new(&self.url, Some("gs_secret".into())).unwrap()
    }

    /// What it was asked, once it has answered everything.
    async fn asked(self) -> Vec<String> {
        self.serving.await.unwrap();
        Arc::into_inner(self.asked).unwrap().into_inner()
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

/// A stream that ends where it ends.
fn stream(text: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n{text}")
        .into_bytes()
}

fn header(request: &str, name: &str) -> String {
    let line = request.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
    line.unwrap_or_else(|| panic!("{name} in {request}")).to_owned()
}

#[tokio::test]
async fn a_change_that_was_lost_is_asked_for_again_under_the_same_key() {
    let problem = r#"{"type":"about:blank","title":"x","status":503,"detail":"the store is busy"}"#;
    let done = r#"{"run":"waits","event":7}"#;
    let script =
        Script::of(vec![answer("503 Busy", problem), b"HTTP/1.1 20".to_vec(), answer("200 OK", done)]).await;
    let (remote, caller) = (script.remote(), Caller::named(Some("ana".into())));
    let done = remote.pause(&caller, &RunId::new("waits").unwrap(), Reason::default()).await.unwrap();
    assert_eq!(done.event, Seq(7));
    let asked = script.asked().await;
    assert!(asked.iter().all(|request| request.starts_with("POST /v1/runs/waits/pause HTTP/1.1")));
    assert!(asked.iter().all(|request| header(request, "authorization") == "Bearer gs_secret"));
    assert!(asked.iter().all(|request| request.ends_with(r#"{"by":"ana"}"#)), "{asked:?}");
    let keys: Vec<String> = asked.iter().map(|request| header(request, "idempotency-key")).collect();
    assert!(keys.len() == 3 && keys.iter().all(|key| *key == keys[0] && key.len() == 32), "{keys:?}");
}

#[tokio::test]
async fn a_claim_that_may_have_been_made_is_not_made_again() {
    let script = Script::of(vec![b"HTTP/1.1 20".to_vec()]).await;
    let want = NewClaim { owner: "w".into(), queue: None, kind: None, limit: None, wait_ms: None };
    let problem = script.remote().claim(&Caller::default(), want).await.unwrap_err();
    assert_eq!(problem.status, 503);
    assert_eq!(script.asked().await.len(), 1);
}

#[tokio::test]
async fn what_passes_are_made_with_is_not_changed_twice_for_a_lost_answer() {
    let script = Script::of(vec![b"HTTP/1.1 20".to_vec()]).await;
    let problem = script.remote().rotate_passes(&Caller::default()).await.unwrap_err();
    assert_eq!(problem.status, 503);
    assert_eq!(script.asked().await.len(), 1);
}

#[tokio::test]
async fn a_problem_comes_back_as_it_was_told() {
    let told = r#"{"type":"/v1/codes/GS0104","title":"Not found","status":404,"detail":"there is no run x",
        "code":"GS0104","hint":"goldseam ls"}"#;
    let script = Script::of(vec![answer("404 Not Found", told), answer("418 Tea", "<html>")]).await;
    let run = RunId::new("x").unwrap();
    let problem = script.remote().detail(&run).await.unwrap_err();
    assert_eq!((problem.status, problem.code.as_deref()), (404, Some("GS0104")));
    assert_eq!(problem.hint.as_deref(), Some("goldseam ls"));
    let problem = script.remote().detail(&run).await.unwrap_err();
    let words = "the server answered 418, but not as a Goldseam server does: it sent a page of HTML";
    assert_eq!((problem.status, problem.detail.as_str()), (502, words));
}

#[tokio::test]
async fn each_event_is_told_once_however_often_the_stream_breaks() {
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
    let (broken, last) = (&frames[2][..frames[2].len() - 1], frames.len() - 1);
    let busy = serde_json::to_string(&Problem::new(503, "busy")).unwrap();
    let script = Script::of(vec![
        // Two events and a half, then nothing.
        stream(&format!(": hello\n\n{}{}{broken}", frames[0], frames[1])),
        ending("running"),
        // The store is busy for a moment.
        stream(&format!("event: problem\ndata: {busy}\n\n")),
        ending("running"),
        // Some of it again, then the rest but one.
        stream(&frames[1..last].concat()),
        ending("completed"),
        stream(&frames[last]),
        ending("completed"),
    ])
    .await;
    let following = script.remote().follow(&run, Seq::ZERO).await.unwrap();
    let told: Vec<News> = following.map(|news| news.unwrap()).collect().await;
    let told: Vec<EventDoc> = told
        .into_iter()
        .map(|news| match news {
            News::Event(event) => *event,
            news => panic!("{news:?}"),
        })
        .collect();
    assert_eq!(told, history);
    let asked = script.asked().await;
    let from: Vec<String> = asked
        .iter()
        .filter(|request| request.contains("/events"))
        .map(|request| header(request, "last-event-id"))
        .collect();
    assert_eq!(from, ["0".to_owned(), "2".to_owned(), "2".to_owned(), last.to_string()]);
}

#[tokio::test]
async fn addresses_that_make_no_sense_are_refused_and_nobody_at_home_is_told() {
    for url in ["", "goldseam", "ftp://host", "http://user:key@host", "https://host/?key=x"] {
        assert_eq!(Remote::new(url, None).unwrap_err().status, 400, "{url}");
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    tokio::time::pause();
    let problem = Remote::new(&url, None).unwrap().nodes().await.unwrap_err();
    assert_eq!(problem.status, 503);
    assert!(problem.detail.starts_with(&format!("the server at {url} cannot be reached")), "{problem}");
    assert!(!format!("{:?}", Remote::new(&url, Some("gs_secret".into())).unwrap()).contains("secret"));
}
