//! Failing requests, at a server with scripted faults.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use goldseam_fake_s3::{
    ErrorReply, FakeS3, Listing, Match, RequestFault, RequestGate, RequestKind, ServerClock,
};
use goldseam_store::StoreError;

use super::{BucketPrefix, ObjectTag, Put, PutCondition};
use crate::clock::BucketClock;
use crate::connect::connect;
use crate::request_counter::RequestCounter;

struct Setup {
    fake: FakeS3,
    bucket: BucketPrefix,
    clock: Arc<BucketClock>,
    counter: Arc<RequestCounter>,
}

/// A bucket at a new server, with this timeout.
fn setup(call_timeout: Duration) -> Setup {
    let fake = FakeS3::start().unwrap();
    let mut options = crate::url::parse(&fake.url("p")).unwrap();
    options.call_timeout = call_timeout;
    let clock = Arc::new(BucketClock::new(None));
    let counter = Arc::new(RequestCounter::default());
    let bucket = connect(&options, Arc::clone(&clock), Arc::clone(&counter)).unwrap();
    Setup { fake, bucket, clock, counter }
}

fn patient() -> Setup {
    setup(Duration::from_secs(20))
}

impl Setup {
    fn stored(&self, key: &str) -> Option<Bytes> {
        self.fake.objects().get(&format!("p/{key}")).cloned()
    }

    fn fail_put(&self, number: u64, fault: RequestFault) {
        self.fake.fail(Match::any().op(RequestKind::Put).nth(number), fault);
    }

    async fn create(&self, body: &'static str) -> Result<Put, StoreError> {
        self.bucket.put_if("k", Bytes::from_static(body.as_bytes()), PutCondition::Absent).await
    }

    async fn made(&self) -> ObjectTag {
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

/// All failures after which it is unknown whether a request was done.
fn losses() -> [RequestFault; 4] {
    let gateway = RequestFault::refused(ErrorReply::new(503, ""));
    [RequestFault::internal(), gateway, RequestFault::dropped(), RequestFault::unanswered()]
}

/// apache/arrow-rs-object-store#852, apache/opendal#6741, apache/arrow-rs#4777: 409 on a create was taken for "exists".
#[tokio::test]
async fn s3_409_is_retry() {
    let setup = patient();
    setup.fail_put(1, RequestFault::conflict());
    let tag = setup.made().await;
    setup.fail_put(1, RequestFault::conflict());
    let put = setup.bucket.put_if("k", "second".into(), PutCondition::Unchanged(tag)).await;
    assert!(is_done(&put), "{put:?}");
    assert_eq!(setup.stored("k").unwrap(), "second");
}

/// earth-mover/icechunk#2099, slatedb#766, apache/hudi#14373: a repeated write met itself (412) and saw a rival.
#[tokio::test]
async fn s3_lost_reply_is_own_write() {
    for loss in losses() {
        for when in [PutCondition::CreateOnce, PutCondition::Absent] {
            let setup = setup(Duration::from_secs(1));
            setup.fail_put(1, loss.clone().after_commit());
            let put = setup.bucket.put_if("k", "mine".into(), when).await;
            assert!(is_done(&put), "{loss:?} {put:?}");
        }
        let setup = setup(Duration::from_secs(1));
        let tag = setup.made().await;
        setup.fail_put(1, loss.clone().after_commit());
        let put = setup.bucket.put_if("k", "mine".into(), PutCondition::Unchanged(tag)).await;
        assert!(is_done(&put), "{loss:?} {put:?}");
        // The tag is that of the written object.
        let Ok(Put::Done(tag)) = put else { unreachable!() };
        assert!(is_done(&setup.bucket.put_if("k", "next".into(), PutCondition::Unchanged(tag)).await));
    }
}

#[tokio::test]
async fn retries_a_write_that_was_not_done() {
    for loss in losses() {
        let setup = setup(Duration::from_secs(1));
        setup.fail_put(1, loss.clone());
        let put = setup.create("mine").await;
        assert!(is_done(&put), "{loss:?} {put:?}");
        assert_eq!(setup.stored("k").unwrap(), "mine");
    }
}

#[tokio::test]
async fn a_write_delivered_twice_is_done_once() {
    let setup = patient();
    setup.fail_put(1, RequestFault::twice());
    assert!(is_done(&setup.create("mine").await));
}

/// apache/arrow-rs#6801: servers answer 404 or 412 to an update of a missing object.
#[tokio::test]
async fn s3_if_match_missing() {
    let setup = patient();
    let tag = setup.made().await;
    let update = || setup.bucket.put_if("missing", "x".into(), PutCondition::Unchanged(tag.clone()));
    assert!(matches!(update().await, Ok(Put::Lost(None))));
    setup.fail_put(1, RequestFault::refused(ErrorReply::new(412, "PreconditionFailed")));
    assert!(matches!(update().await, Ok(Put::Lost(None))));
    assert_eq!(setup.stored("missing"), None);
}

#[tokio::test]
async fn a_stale_update_loses_to_the_stored_object() {
    let setup = patient();
    let first = setup.made().await;
    assert!(is_done(
        &setup.bucket.put_if("k", "second".into(), PutCondition::Unchanged(first.clone())).await
    ));
    let put = setup.bucket.put_if("k", "third".into(), PutCondition::Unchanged(first)).await;
    assert!(matches!(put, Ok(Put::Lost(Some(found))) if found.body == "second"));
}

#[tokio::test]
async fn retries_an_overloaded_server_and_reports_busy() {
    let setup = patient();
    setup.fake.fail(Match::any().first(2), RequestFault::slow_down());
    assert!(is_done(&setup.create("mine").await));
    setup.fake.clear_faults();
    setup.fake.fail(Match::any(), RequestFault::slow_down());
    let put = setup.bucket.put_if("other", "x".into(), PutCondition::Absent).await;
    assert!(matches!(put, Err(StoreError::Busy { .. })), "{put:?}");
    assert!(matches!(setup.bucket.get("k").await, Err(StoreError::Busy { .. })));
}

/// netlify/primitives#741: a 503 to a conditional write was reported as done.
#[tokio::test]
async fn s3_non_412_is_error() {
    let refused = |status, code| RequestFault::refused(ErrorReply::new(status, code));
    let faults = [
        RequestFault::denied(),
        RequestFault::no_bucket(),
        RequestFault::internal(),
        RequestFault::slow_down(),
        RequestFault::conflict(),
        refused(503, ""),
        refused(400, "BadDigest"),
    ];
    let mut tries = tokio::task::JoinSet::new();
    for fault in faults {
        tries.spawn(async move {
            let setup = setup(Duration::from_millis(500));
            let tag = setup.made().await;
            setup.fake.fail(Match::any().op(RequestKind::Put), fault.clone());
            for (key, when) in [("k", PutCondition::Unchanged(tag)), ("other", PutCondition::Absent)] {
                let put = setup.bucket.put_if(key, "second".into(), when).await;
                assert!(put.is_err(), "{fault:?} {key} {put:?}");
            }
            assert_eq!((setup.stored("k").unwrap(), setup.stored("other")), ("first".into(), None));
        });
    }
    tries.join_all().await;
}

#[tokio::test]
async fn a_write_that_may_be_done_is_never_busy_or_refused() {
    let setup = patient();
    setup.fake.fail(Match::any().op(RequestKind::Put), RequestFault::internal());
    let put = setup.create("mine").await;
    assert!(is_unknown(&put), "{put:?}");
    // The keys lose their permission after an attempt that may have been done.
    setup.fake.clear_faults();
    setup.fail_put(1, RequestFault::internal());
    setup.fail_put(2, RequestFault::denied());
    let put = setup.create("mine").await;
    assert!(is_unknown(&put), "{put:?}");
    // The write was done, and can still be read.
    setup.fake.clear_faults();
    setup.fail_put(1, RequestFault::internal().after_commit());
    setup.fail_put(2, RequestFault::denied());
    assert!(is_done(&setup.create("mine").await));
}

/// A write is done, its response is lost, and another writer writes before it is sent again.
async fn overtaken(when: impl FnOnce(ObjectTag) -> PutCondition) -> Result<Put, StoreError> {
    let setup = Arc::new(patient());
    let tag = setup.made().await;
    let when = when(tag);
    if !matches!(when, PutCondition::Unchanged(_)) {
        setup.fake.delete_raw("p/k");
    }
    setup.fake.forget_log();
    let gate = RequestGate::closed();
    setup.fail_put(1, RequestFault::internal().after_commit());
    setup.fail_put(2, RequestFault::held(&gate));
    let other = Arc::clone(&setup);
    let writer = tokio::task::spawn_blocking(move || {
        let puts = |log: &[goldseam_fake_s3::Logged]| {
            log.iter().filter(|one| one.request.op == RequestKind::Put).count()
        };
        assert!(other.fake.wait_for_log(|log| puts(log) == 2));
        other.fake.put_raw("p/k", "theirs");
        gate.open();
    });
    let put = setup.bucket.put_if("k", "mine".into(), when).await;
    writer.await.unwrap();
    put
}

#[tokio::test]
async fn a_write_that_may_be_overwritten_is_unknown() {
    assert!(is_unknown(&overtaken(PutCondition::Unchanged).await));
    assert!(is_unknown(&overtaken(|_| PutCondition::Absent).await));
    // An object that never changes was never ours.
    let put = overtaken(|_| PutCondition::CreateOnce).await;
    assert!(matches!(put, Ok(Put::Lost(Some(found))) if found.body == "theirs"));
}

#[tokio::test]
async fn an_unreachable_server_is_busy() {
    let url = "s3://bucket/p?endpoint=http://127.0.0.1:1&region=r&access_key_id=a&secret_access_key=b";
    let options = crate::url::parse(url).unwrap();
    let bucket = connect(&options, Arc::new(BucketClock::new(None)), Arc::default()).unwrap();
    let put = bucket.put_if("k", "x".into(), PutCondition::Absent).await;
    let Err(StoreError::Busy { source, .. }) = put else { panic!("{put:?}") };
    assert!(source.to_string().contains("refused"), "{source}");
}

#[tokio::test]
async fn counts_every_page_of_a_list() {
    let setup = patient();
    for number in 0..10 {
        setup.fake.put_raw(&format!("p/f/{number}"), "x");
    }
    setup.fake.put_raw("p/g", "x");
    setup.fake.set_listing(Listing { behind: 0, keys_max: 3 });
    let listed = setup.bucket.list("f/", None, usize::MAX).await.unwrap();
    assert_eq!(listed.len(), 10);
    assert_eq!(setup.counter.counts().lists, 4);
    assert_eq!(setup.fake.counts().get(&RequestKind::List), Some(&4));
    let behind = setup.bucket.list("f/", Some("f/7"), usize::MAX).await.unwrap();
    assert_eq!(behind.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), ["f/8", "f/9"]);
}

#[tokio::test]
async fn takes_the_time_from_the_server() {
    let setup = patient();
    assert!(!setup.clock.is_set());
    // In 2001.
    setup.fake.set_clock(ServerClock::Stopped { at: 1_000_000_000_500 });
    setup.bucket.get("k").await.unwrap();
    let now = setup.clock.now().0;
    assert!((1_000_000_000_000..1_000_000_030_000).contains(&now), "{now}");
    assert!(setup.clock.ahead().unwrap() < -1_000_000, "{:?}", setup.clock.ahead());
    assert!(setup.bucket.round_trip() > Duration::ZERO);
}

#[test]
fn a_blocked_runtime_does_not_delay_another() {
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
