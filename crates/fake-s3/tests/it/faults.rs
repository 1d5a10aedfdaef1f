//! Faults do what their names say.

use std::io::{Read, Write};
use std::net::TcpStream;

use goldseam_fake_s3::{FakeS3, Match, RequestFault, RequestGate, RequestKind, ServerClock};

use crate::client::{Client, kind};

/// The result of a create, and whether it was done.
async fn after(fault: RequestFault) -> (&'static str, bool) {
    let fake = FakeS3::start().unwrap();
    fake.fail(Match::any().op(RequestKind::Put).nth(1), fault);
    let answer = Client::of(&fake).create("k", "v").await;
    (kind(&answer), fake.objects().contains_key("k"))
}

#[tokio::test]
async fn a_failed_request_may_be_done_or_not() {
    for (fault, answer) in [
        (RequestFault::conflict(), "already exists"),
        (RequestFault::internal(), "other"),
        (RequestFault::slow_down(), "other"),
        (RequestFault::dropped(), "other"),
        (RequestFault::denied(), "denied"),
        (RequestFault::skewed(), "denied"),
        (RequestFault::no_bucket(), "not found"),
    ] {
        assert_eq!(after(fault.clone()).await, (answer, false), "{fault:?}");
        assert_eq!(after(fault.clone().after_commit()).await, (answer, true), "{fault:?}");
    }
}

#[tokio::test]
async fn a_repeated_create_meets_itself() {
    let fake = FakeS3::start().unwrap();
    fake.fail(Match::any().op(RequestKind::Put).nth(1), RequestFault::internal().after_commit());
    let answer = Client::with_retries(&fake, 3).create("k", "mine").await;
    assert_eq!(kind(&answer), "already exists");
    assert_eq!(fake.objects()["k"], "mine");
    assert_eq!(after(RequestFault::twice()).await, ("already exists", true), "delivered twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_request_is_done_after_its_client_gave_up() {
    let fake = FakeS3::start().unwrap();
    let client = Client::of(&fake);
    for (key, fault, is_done) in [
        ("before", RequestFault::held as fn(&RequestGate) -> RequestFault, false),
        ("after", |gate: &RequestGate| RequestFault::held(gate).after_commit(), true),
    ] {
        let gate = RequestGate::closed();
        fake.fail(Match::any().key(key).nth(1), fault(&gate));
        {
            let write = std::pin::pin!(client.create(key, "late"));
            let held = || fake.count(|request| request.key == key) == 1;
            // Polled until the request has arrived, then dropped.
            futures_util::future::select(write, std::pin::pin!(until(held))).await;
        }
        if !is_done {
            assert!(!fake.objects().contains_key(key));
            gate.open();
        }
        until(|| fake.objects().contains_key(key)).await;
    }
}

/// Polls a condition until it holds.
async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_an_answer_stays_open() {
    let fake = FakeS3::start().unwrap();
    let client = Client::of(&fake);
    fake.fail(Match::any().key("done").nth(1), RequestFault::unanswered().after_commit());
    fake.fail(Match::any().key("lost").nth(1), RequestFault::unanswered());
    for (key, is_done) in [("done", true), ("lost", false)] {
        let is_known =
            || fake.count(|request| request.key == key) == 1 && fake.objects().contains_key(key) == is_done;
        let write = std::pin::pin!(client.create(key, "v"));
        let known = std::pin::pin!(until(is_known));
        let first = futures_util::future::select(write, known).await;
        assert!(matches!(first, futures_util::future::Either::Right(_)), "the request got a response");
    }
    assert!(fake.log().iter().all(|logged| logged.status.is_none()));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_is_done_while_the_network_is_cut() {
    let fake = FakeS3::start().unwrap();
    let client = Client::of(&fake);
    fake.cut_network();
    let write = client.create("k", "v");
    let heal = async {
        until(|| fake.counts().contains_key(&RequestKind::Put)).await;
        assert!(fake.objects().is_empty());
        fake.repair_network();
    };
    let (answer, ()) = tokio::join!(write, heal);
    assert_eq!(kind(&answer), "other", "its connection was dropped");
    assert!(fake.objects().is_empty());
    client.create("k", "v").await.unwrap();
}

#[tokio::test]
async fn only_the_nth_matching_request_fails() {
    let fake = FakeS3::start().unwrap();
    let client = Client::of(&fake);
    fake.fail(Match::any().writes().key("/log/").nth(2), RequestFault::denied());
    fake.fail(Match::any().op(RequestKind::Get).first(2), RequestFault::slow_down());
    let mut answers = Vec::new();
    for key in ["a/log/1", "a/state", "a/log/2", "a/log/3"] {
        answers.push(kind(&client.put(key, "x").await));
    }
    assert_eq!(answers, ["ok", "ok", "denied", "ok"]);
    let mut reads = Vec::new();
    for _ in 0..3 {
        reads.push(kind(&client.get("a/state").await));
    }
    assert_eq!(reads, ["other", "other", "ok"]);
    fake.script(|request| (request.body == "bad").then(RequestFault::denied));
    assert_eq!(kind(&client.put("k", "bad").await), "denied");
    assert_eq!(kind(&client.put("k", "good").await), "ok");
    fake.clear_faults();
    assert_eq!(kind(&client.put("k", "bad").await), "ok");
}

#[tokio::test]
async fn the_log_holds_every_request() {
    let fake = FakeS3::start().unwrap();
    let client = Client::of(&fake);
    client.put("a/1", "x").await.unwrap();
    client.get("a/1").await.unwrap();
    client.list("a").await.unwrap();
    let asked: Vec<_> =
        fake.log().into_iter().map(|logged| (logged.request.op, logged.request.key)).collect();
    let expected = [(RequestKind::Put, "a/1"), (RequestKind::Get, "a/1"), (RequestKind::List, "a/")];
    assert_eq!(asked, expected.map(|(op, key)| (op, key.to_owned())));
    assert!(fake.wait_for_log(|log| log.iter().all(|logged| logged.status == Some(200))));
    fake.forget_log();
    assert!(fake.counts().is_empty() && fake.log().is_empty());
}

#[test]
fn the_server_shows_the_time_that_a_test_sets() {
    let fake = FakeS3::start().unwrap();
    let host = fake.endpoint().replace("http://", "");
    let date = || {
        let mut stream = TcpStream::connect(&host).unwrap();
        write!(stream, "GET /goldseam/k HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let dates =
            answer.lines().filter_map(|line| line.to_lowercase().strip_prefix("date: ").map(str::to_owned));
        dates.collect::<Vec<_>>()
    };
    fake.set_clock(ServerClock::Stopped { at: 0 });
    assert_eq!(date(), ["thu, 01 jan 1970 00:00:00 gmt"]);
    fake.set_clock(ServerClock::Running { ahead: 0 });
    let now = date();
    fake.set_clock(ServerClock::Running { ahead: 3 * 3_600_000 });
    assert_ne!(date(), now);
}
