//! The feed of a bucket: several readers and writers, each a process of its own, at a faulty server.

use std::collections::BTreeMap;
use std::sync::Arc;

use goldseam_core::{RunId, Seq};
use goldseam_fake_s3::{ErrorReply, FakeS3, Logged, Match, RequestFault, RequestKind};
use goldseam_store::read_only::{Closed, ClosedStore};
use goldseam_store::{Append, FeedEvent, Store, StoreError};
use goldseam_store_object::url::parse;
use goldseam_store_object::{BucketStore, RequestCost};

/// A store as another process opens it.
async fn opened(fake: &FakeS3, requests: RequestCost) -> Arc<BucketStore> {
    let mut options = parse(&fake.url("p")).unwrap();
    options.requests = requests;
    Arc::new(BucketStore::open(options).await.unwrap())
}

fn run(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

fn append(name: &str, after: u64) -> Append {
    let body = format!("{name}-{}", after + 1);
    Append { run: run(name), after: Seq(after), bodies: vec![body], row: None, tasks: Vec::new() }
}

/// Reads until `count` events have come, in pages of `limit`.
async fn follow(store: &BucketStore, limit: u32, count: usize) -> Vec<FeedEvent> {
    let feed = store.feed().unwrap();
    let mut events: Vec<FeedEvent> = Vec::new();
    while events.len() < count {
        let place = events.last().map(|last| last.place.clone());
        match feed.events_after(place.as_deref(), limit).await {
            Ok(page) => events.extend(page),
            Err(error) => assert!(!matches!(error, goldseam_store::StoreError::Refused { .. }), "{error}"),
        }
        tokio::task::yield_now().await;
    }
    events
}

/// Checks that the events of each run are complete and in order.
fn check(events: &[FeedEvent], runs: usize, each: u64) {
    let mut ends: BTreeMap<&str, u64> = BTreeMap::new();
    for event in events {
        let end = ends.entry(event.run.as_str()).or_default();
        assert_eq!(event.record.seq, Seq(*end + 1), "of {}", event.run);
        assert_eq!(event.record.body, format!("{}-{}", event.run, event.record.seq));
        *end += 1;
    }
    assert!(ends.len() == runs && ends.values().all(|end| *end == each), "{ends:?}");
}

/// Appends events to runs in turn, and retries what fails.
async fn write(store: Arc<BucketStore>, names: Vec<String>, each: u64) {
    for after in 0..each {
        for name in &names {
            while let Err(error) = store.append(append(name, after)).await {
                match error {
                    goldseam_store::StoreError::Conflict { end } if end == Seq(after + 1) => break,
                    error => assert!(!matches!(error, goldseam_store::StoreError::Refused { .. }), "{error}"),
                }
            }
        }
    }
}

fn names(of: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{of}{n}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_several_processes_see_one_order_of_hundreds_of_runs() {
    let fake = FakeS3::start().unwrap();
    let early = opened(&fake, RequestCost::Free).await;
    write(Arc::clone(&early), names("early", 100), 1).await;
    let writers = [opened(&fake, RequestCost::Free).await, opened(&fake, RequestCost::Free).await];
    let readers = [
        Arc::clone(&writers[0]),
        opened(&fake, RequestCost::Free).await,
        opened(&fake, RequestCost::Free).await,
    ];
    let total = 100 + 2 * 100 * 2;
    let writing = futures_util::future::join_all(
        writers.iter().zip(["a", "b"]).map(|(store, of)| write(Arc::clone(store), names(of, 100), 2)),
    );
    let reading = futures_util::future::join_all(readers.iter().map(|store| follow(store, 17, total)));
    let (_, seen) = tokio::join!(writing, reading);
    assert!(seen[1..].iter().all(|events| *events == seen[0]), "readers see different orders");
    let (older, newer): (Vec<_>, Vec<_>) =
        seen[0].clone().into_iter().partition(|event| event.run.as_str().starts_with("early"));
    check(&older, 100, 1);
    check(&newer, 200, 2);
    assert_eq!(follow(&*opened(&fake, RequestCost::Free).await, 100, total).await, seen[0], "a new process");
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_replies_and_late_writes_lose_and_repeat_no_event() {
    let fake = FakeS3::start().unwrap();
    let mut count = 0_u32;
    fake.script(move |request| {
        if !request.key.contains("/feed") {
            return None;
        }
        count += 1;
        match count % 7 {
            1 => Some(RequestFault::dropped().after_commit()),
            3 => Some(RequestFault::twice()),
            4 => Some(RequestFault::refused(ErrorReply::new(503, "SlowDown"))),
            5 => Some(RequestFault::delayed(std::time::Duration::from_millis(30))),
            _ => None,
        }
    });
    let stores = [opened(&fake, RequestCost::Free).await, opened(&fake, RequestCost::Free).await];
    let writing = futures_util::future::join_all(
        stores.iter().zip(["a", "b"]).map(|(store, of)| write(Arc::clone(store), names(of, 5), 10)),
    );
    let reading = futures_util::future::join_all(stores.iter().map(|store| follow(store, 7, 100)));
    let (_, seen) = tokio::join!(writing, reading);
    assert_eq!(seen[0], seen[1]);
    check(&seen[0], 10, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_after_any_write_of_a_page_loses_no_event() {
    let fake = FakeS3::start().unwrap();
    for round in 0..4_u64 {
        let store = opened(&fake, RequestCost::Free).await;
        store.append(append("r", round)).await.unwrap();
        // The process dies after it has sent the page, which arrives or does not.
        let fault = RequestFault::unanswered();
        let fault = if round % 2 == 0 { fault.after_commit() } else { fault };
        fake.forget_log();
        fake.fail(Match::any().op(RequestKind::Put).key("/feed/"), fault);
        let dying = tokio::spawn(async move { store.feed().unwrap().events_after(None, 100).await });
        let is_sent =
            |logged: &Logged| logged.request.op == RequestKind::Put && logged.request.key.contains("/feed/");
        assert!(tokio::task::block_in_place(|| fake.wait_for_log(|log| log.iter().any(is_sent))));
        dying.abort();
        fake.clear_faults();
        let next = opened(&fake, RequestCost::Free).await;
        let events = follow(&next, 100, usize::try_from(round).unwrap() + 1).await;
        check(&events, 1, round + 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_reader_begins_at_a_checkpoint() {
    let fake = FakeS3::start().unwrap();
    let store = opened(&fake, RequestCost::Free).await;
    for after in 0..200 {
        store.append(append("r", after)).await.unwrap();
        assert_eq!(follow(&store, 1_000, usize::try_from(after).unwrap() + 1).await.len() as u64, after + 1);
    }
    let pages = fake.objects().keys().filter(|key| key.contains("/feed/")).count();
    assert!(pages >= 128, "{pages}");
    let checkpoints = fake.objects().keys().filter(|key| key.contains("/feed-ends/")).count();
    assert_eq!(checkpoints, 1, "older checkpoints are removed");
    let new = opened(&fake, RequestCost::Free).await;
    fake.forget_log();
    let end = new.feed().unwrap().latest().await.unwrap().unwrap();
    let reads = fake.count(|request| request.op == RequestKind::Get && request.key.contains("/feed"));
    assert!(reads <= 70, "{reads} reads of the feed");
    assert_eq!(new.feed().unwrap().events_after(Some(&end), 10).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_page_hides_no_event_from_a_new_reader() {
    let fake = FakeS3::start().unwrap();
    let store = opened(&fake, RequestCost::Free).await;
    for after in 0..3 {
        store.append(append("r", after)).await.unwrap();
        follow(&store, 100, usize::try_from(after).unwrap() + 1).await;
    }
    let second = fake.objects().into_keys().filter(|key| key.contains("/feed/")).nth(2).unwrap();
    fake.put_raw(&second, "garbage");
    let new = opened(&fake, RequestCost::Free).await;
    check(&follow(&new, 100, 3).await, 1, 3);
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "the bound is a rate in real time")]
async fn a_bucket_without_followers_has_no_feed_and_pays_nothing() {
    let fake = FakeS3::start().unwrap();
    let store = opened(&fake, RequestCost::Paid).await;
    write(Arc::clone(&store), names("r", 5), 4).await;
    assert_eq!(fake.count(|request| request.key.contains("/feed")), 0);
    // Reading again and again at the end of the feed costs one list per second at most.
    follow(&store, 100, 20).await;
    fake.forget_log();
    let began = std::time::Instant::now();
    let end = store.feed().unwrap().latest().await.unwrap();
    for _ in 0..500 {
        assert_eq!(store.feed().unwrap().events_after(end.as_deref(), 10).await.unwrap(), []);
    }
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap() + 2;
    let requests = fake.count(|_| true);
    assert!(requests <= 2 * seconds, "{requests} requests within {seconds} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_bucket_refuses_followers_and_gets_no_page() {
    let fake = FakeS3::start().unwrap();
    let store = opened(&fake, RequestCost::Free).await;
    write(Arc::clone(&store), names("r", 3), 2).await;
    let closed = Closed { code: "GS0404", what: "it was copied".to_owned(), hint: "start there".into() };
    let store = ClosedStore::new(store, closed);
    let feed = store.feed().unwrap();
    assert!(matches!(feed.latest().await, Err(StoreError::Refused { code: "GS0404", .. })));
    assert!(feed.events_after(None, 10).await.is_err() && feed.changed_runs(None).await.is_err());
    assert_eq!(fake.count(|request| request.key.contains("/feed")), 0);
    assert_eq!(store.read(&run("r0"), Seq::ZERO, 9).await.unwrap().len(), 2);
}
