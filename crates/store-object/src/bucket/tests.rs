//! Requests that go wrong, at a server that does so on order.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use goldseam_fake_s3::{Clock, FakeS3, Fault, Gate, Listing, Match, Op, Refusal};
use goldseam_store::StoreError;

use super::{Bucket, Put, Tag, When};
use crate::clock::StoreClock;
use crate::connect::connect;
use crate::request_counter::Tallies;

struct Setup {
    fake: FakeS3,
    bucket: Bucket,
    clock: Arc<StoreClock>,
    tallies: Arc<Tallies>,
}

/// A bucket at a server of its own, which has so long to answer.
fn setup(call_timeout: Duration) -> Setup {
    let fake = FakeS3::start().unwrap();
    let mut options = crate::url::parse(&fake.url("p")).unwrap();
    options.call_timeout = call_timeout;
    let (clock, tallies) = (Arc::new(StoreClock::new(None)), Arc::new(Tallies::default()));
    let bucket = connect(&options, Arc::clone(&clock), Arc::clone(&tallies)).unwrap();
    Setup { fake, bucket, clock, tallies }
}

fn patient() -> Setup {
    setup(Duration::from_secs(20))
}

impl Setup {
    fn stored(&self, key: &str) -> Option<Bytes> {
        self.fake.objects().get(&format!("p/{key}")).cloned()
    }

    fn fail_put(&self, number: u64, fault: Fault) {
        self.fake.fail(Match::any().op(Op::Put).nth(number), fault);
    }

    async fn create(&self, body: &'static str) -> Result<Put, StoreError> {
        self.bucket.put_if("k", Bytes::from_static(body.as_bytes()), When::Absent).await
    }

    async fn made(&self) -> Tag {
        let Put::Done(tag) = self.create("first").await.unwrap() else { panic!("it was there") };
        tag
    }
}

fn is_done(put: &Result<Put, StoreError>) -> bool {
    matches!(put, Ok(Put::Done(_)))
}

fn is_unknown(put: &Result<Put, StoreError>) -> bool {
    matches!(put, Err(StoreError::Unknown { .. }))
}

/// Every way in which a request can fail so that nobody knows whether it was done.
fn losses() -> [Fault; 4] {
    let gateway = Fault::refused(Refusal::new(503, ""));
    [Fault::internal(), gateway, Fault::dropped(), Fault::unanswered()]
}

/// apache/arrow-rs-object-store#852, apache/opendal#6741, apache/arrow-rs#4777: 409 on a create was taken for "exists".
#[tokio::test]
async fn s3_409_is_retry() {
    let setup = patient();
    setup.fail_put(1, Fault::conflict());
    let tag = setup.made().await;
    setup.fail_put(1, Fault::conflict());
    let put = setup.bucket.put_if("k", "second".into(), When::Is(tag)).await;
    assert!(is_done(&put), "{put:?}");
    assert_eq!(setup.stored("k").unwrap(), "second");
}

/// earth-mover/icechunk#2099, slatedb#766, apache/hudi#14373: a repeated write met itself (412), and took itself for a rival.
#[tokio::test]
async fn s3_lost_reply_is_own_write() {
    for loss in losses() {
        for when in [When::Never, When::Absent] {
            let setup = setup(Duration::from_secs(1));
            setup.fail_put(1, loss.clone().after_commit());
            let put = setup.bucket.put_if("k", "mine".into(), when).await;
            assert!(is_done(&put), "{loss:?} {put:?}");
        }
        let setup = setup(Duration::from_secs(1));
        let tag = setup.made().await;
        setup.fail_put(1, loss.clone().after_commit());
        let put = setup.bucket.put_if("k", "mine".into(), When::Is(tag)).await;
        assert!(is_done(&put), "{loss:?} {put:?}");
        // The tag is that of what was written.
        let Ok(Put::Done(tag)) = put else { unreachable!() };
        assert!(is_done(&setup.bucket.put_if("k", "next".into(), When::Is(tag)).await));
    }
}

#[tokio::test]
async fn a_write_that_was_not_done_is_sent_again() {
    for loss in losses() {
        let setup = setup(Duration::from_secs(1));
        setup.fail_put(1, loss.clone());
        let put = setup.create("mine").await;
        assert!(is_done(&put), "{loss:?} {put:?}");
        assert_eq!(setup.stored("k").unwrap(), "mine");
    }
}

#[tokio::test]
async fn a_write_that_was_delivered_twice_is_done_once() {
    let setup = patient();
    setup.fail_put(1, Fault::twice());
    assert!(is_done(&setup.create("mine").await));
}

/// apache/arrow-rs#6801: servers answer 404 or 412 to an update of what is not there.
#[tokio::test]
async fn s3_if_match_missing() {
    let setup = patient();
    let tag = setup.made().await;
    let update = || setup.bucket.put_if("missing", "x".into(), When::Is(tag.clone()));
    assert!(matches!(update().await, Ok(Put::Lost(None))));
    setup.fail_put(1, Fault::refused(Refusal::new(412, "PreconditionFailed")));
    assert!(matches!(update().await, Ok(Put::Lost(None))));
    assert_eq!(setup.stored("missing"), None);
}

#[tokio::test]
async fn a_stale_update_is_lost_to_what_is_there() {
    let setup = patient();
    let first = setup.made().await;
    assert!(is_done(&setup.bucket.put_if("k", "second".into(), When::Is(first.clone())).await));
    let put = setup.bucket.put_if("k", "third".into(), When::Is(first)).await;
    assert!(matches!(put, Ok(Put::Lost(Some(found))) if found.body == "second"));
}

#[tokio::test]
async fn a_server_with_too_much_to_do_is_asked_again_and_has_done_nothing() {
    let setup = patient();
    setup.fake.fail(Match::any().first(2), Fault::slow_down());
    assert!(is_done(&setup.create("mine").await));
    setup.fake.clear_faults();
    setup.fake.fail(Match::any(), Fault::slow_down());
    let put = setup.bucket.put_if("other", "x".into(), When::Absent).await;
    assert!(matches!(put, Err(StoreError::Busy { .. })), "{put:?}");
    assert!(matches!(setup.bucket.get("k").await, Err(StoreError::Busy { .. })));
}

/// netlify/primitives#741: a 503 to a conditional write was reported as done.
#[tokio::test]
async fn s3_non_412_is_error() {
    let refused = |status, code| Fault::refused(Refusal::new(status, code));
    let faults = [
        Fault::denied(),
        Fault::no_bucket(),
        Fault::internal(),
        Fault::slow_down(),
        Fault::conflict(),
        refused(503, ""),
        refused(400, "BadDigest"),
    ];
    let mut tries = tokio::task::JoinSet::new();
    for fault in faults {
        tries.spawn(async move {
            let setup = setup(Duration::from_millis(500));
            let tag = setup.made().await;
            setup.fake.fail(Match::any().op(Op::Put), fault.clone());
            for (key, when) in [("k", When::Is(tag)), ("other", When::Absent)] {
                let put = setup.bucket.put_if(key, "second".into(), when).await;
                assert!(put.is_err(), "{fault:?} {key} {put:?}");
            }
            assert_eq!((setup.stored("k").unwrap(), setup.stored("other")), ("first".into(), None));
        });
    }
    tries.join_all().await;
}

#[tokio::test]
async fn what_may_have_been_done_is_never_called_busy_or_refused() {
    let setup = patient();
    setup.fake.fail(Match::any().op(Op::Put), Fault::internal());
    let put = setup.create("mine").await;
    assert!(is_unknown(&put), "{put:?}");
    // The keys are taken away after a try that may have been done.
    setup.fake.clear_faults();
    setup.fail_put(1, Fault::internal());
    setup.fail_put(2, Fault::denied());
    let put = setup.create("mine").await;
    assert!(is_unknown(&put), "{put:?}");
    // It was done, and can still be seen.
    setup.fake.clear_faults();
    setup.fail_put(1, Fault::internal().after_commit());
    setup.fail_put(2, Fault::denied());
    assert!(is_done(&setup.create("mine").await));
}

/// A write is done, its reply is lost, and before it is sent again somebody else writes.
async fn overtaken(when: impl FnOnce(Tag) -> When) -> Result<Put, StoreError> {
    let setup = Arc::new(patient());
    let tag = setup.made().await;
    let when = when(tag);
    if !matches!(when, When::Is(_)) {
        setup.fake.delete_raw("p/k");
    }
    setup.fake.forget_log();
    let gate = Gate::closed();
    setup.fail_put(1, Fault::internal().after_commit());
    setup.fail_put(2, Fault::held(&gate));
    let other = Arc::clone(&setup);
    let writer = tokio::task::spawn_blocking(move || {
        let puts =
            |log: &[goldseam_fake_s3::Logged]| log.iter().filter(|one| one.request.op == Op::Put).count();
        assert!(other.fake.wait_for_log(|log| puts(log) == 2));
        other.fake.put_raw("p/k", "somebody else's");
        gate.open();
    });
    let put = setup.bucket.put_if("k", "mine".into(), when).await;
    writer.await.unwrap();
    put
}

#[tokio::test]
async fn a_write_that_somebody_else_may_have_written_over_is_unknown() {
    assert!(is_unknown(&overtaken(When::Is).await));
    assert!(is_unknown(&overtaken(|_| When::Absent).await));
    // What is there for good was never ours.
    let put = overtaken(|_| When::Never).await;
    assert!(matches!(put, Ok(Put::Lost(Some(found))) if found.body == "somebody else's"));
}

#[tokio::test]
async fn a_server_that_nobody_can_reach_has_done_nothing() {
    let url = "s3://bucket/p?endpoint=http://127.0.0.1:1&region=r&access_key_id=a&secret_access_key=b";
    let options = crate::url::parse(url).unwrap();
    let bucket = connect(&options, Arc::new(StoreClock::new(None)), Arc::default()).unwrap();
    let put = bucket.put_if("k", "x".into(), When::Absent).await;
    let Err(StoreError::Busy { source, .. }) = put else { panic!("{put:?}") };
    assert!(source.to_string().contains("refused"), "{source}");
}

#[tokio::test]
async fn every_page_of_a_list_is_counted() {
    let setup = patient();
    for number in 0..10 {
        setup.fake.put_raw(&format!("p/f/{number}"), "x");
    }
    setup.fake.put_raw("p/g", "x");
    setup.fake.set_listing(Listing { behind: 0, keys_max: 3 });
    let listed = setup.bucket.list("f/", None, usize::MAX).await.unwrap();
    assert_eq!(listed.len(), 10);
    assert_eq!(setup.tallies.tally().lists, 4);
    assert_eq!(setup.fake.counts().get(&Op::List), Some(&4));
    let behind = setup.bucket.list("f/", Some("f/7"), usize::MAX).await.unwrap();
    assert_eq!(behind.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), ["f/8", "f/9"]);
}

#[tokio::test]
async fn the_time_is_the_servers() {
    let setup = patient();
    assert!(!setup.clock.is_set());
    // In 2001.
    setup.fake.set_clock(Clock::Stopped { at: 1_000_000_000_500 });
    setup.bucket.get("k").await.unwrap();
    let now = setup.clock.now().0;
    assert!((1_000_000_000_000..1_000_000_030_000).contains(&now), "{now}");
    assert!(setup.clock.ahead().unwrap() < -1_000_000, "{:?}", setup.clock.ahead());
    assert!(setup.bucket.round_trip() > Duration::ZERO);
}

#[test]
fn a_blocked_runtime_holds_nobody_else_up() {
    let setup = patient();
    let (stop, stopped) = mpsc::channel::<()>();
    let (asked, waiting) = mpsc::channel::<()>();
    let bucket = setup.bucket.clone();
    let blocked = std::thread::Builder::new().spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            bucket.get("k").await.unwrap();
            asked.send(()).unwrap();
            // User code that never yields.
            stopped.recv().unwrap();
        });
    });
    waiting.recv().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for _ in 0..3 {
        runtime.block_on(setup.bucket.get("k")).unwrap();
    }
    stop.send(()).unwrap();
    blocked.unwrap().join().unwrap();
}
