//! Opening at a faulty server.

use std::sync::Arc;
use std::time::Duration;

use goldseam_conformance::deadline::calls_that_hang;
use goldseam_core::task::NewTask;
use goldseam_core::{Millis, Payload, QueueName, TaskId};
use goldseam_fake_s3::{
    Conditions, ErrorReply, FakeS3, Logged, Match, RequestFault, RequestGate, RequestKind,
};
use goldseam_store::{Expect, Store, Written};
use goldseam_store_object::url::parse;
use goldseam_store_object::{BucketOptions, BucketStore, check, migrate};

use crate::support::{code, shown};

fn at(fake: &FakeS3) -> BucketOptions {
    parse(&fake.url("p")).unwrap()
}

async fn refusal(fake: &FakeS3, fault: RequestFault) -> String {
    fake.clear_faults();
    fake.fail(Match::any(), fault);
    shown(migrate(at(fake)).await, &fake.endpoint(), "none")
}

#[tokio::test]
async fn every_refusal_of_a_server_has_a_code_and_a_hint() {
    let fake = FakeS3::start().unwrap();
    let refused = |status, code| RequestFault::refused(ErrorReply::new(status, code));
    insta::assert_snapshot!(refusal(&fake, RequestFault::skewed()).await, @r#"
    GS0221: this machine's clock is too far from the server's, while reading an object: 403 RequestTimeTooSkewed RequestTimeTooSkewed
    hint: correct this machine's clock, for example with NTP
    "#);
    insta::assert_snapshot!(refusal(&fake, RequestFault::denied()).await, @r#"
    GS0219: these access keys lack a permission in the bucket, while reading an object: 403 AccessDenied AccessDenied
    hint: allow s3:GetObject, s3:PutObject and s3:DeleteObject on the prefix and s3:ListBucket on the bucket
    "#);
    insta::assert_snapshot!(refusal(&fake, RequestFault::no_bucket()).await, @r#"
    GS0218: the bucket does not exist, while reading an object: 404 NoSuchBucket NoSuchBucket
    hint: create it, or check bucket, endpoint and region in the URL
    "#);
    insta::assert_snapshot!(refusal(&fake, refused(400, "ExpiredToken")).await, @r#"
    GS0217: the server rejects these access keys, while reading an object: 400 ExpiredToken ExpiredToken
    hint: check access_key_id and secret_access_key in the URL, or AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; session keys expire
    "#);
    insta::assert_snapshot!(refusal(&fake, refused(301, "PermanentRedirect")).await, @r#"
    GS0223: the bucket is not at this server or in this region: 301 PermanentRedirect PermanentRedirect
    hint: check region and endpoint in the URL: the bucket is elsewhere
    "#);
    insta::assert_snapshot!(refusal(&fake, refused(501, "NotImplemented")).await, @r#"
    GS0220: the server lacks a feature that the store needs, while reading an object: 501 NotImplemented NotImplemented
    hint: use a server that enforces If-None-Match and If-Match on writes: Amazon S3, Cloudflare R2, MinIO, Ceph, SeaweedFS
    "#);
    insta::assert_snapshot!(refusal(&fake, refused(418, "")).await, @r#"
    GS0223: the server's response is not valid S3, while reading an object: 418
    hint: check endpoint in the URL: it must be the address of an S3 service
    "#);
    insta::assert_snapshot!(refusal(&fake, RequestFault::slow_down()).await, @r#"
    GS0205: the server of "p" in bucket "goldseam" at SERVER is overloaded: 503 SlowDown SlowDown
    hint: try again later; nothing was changed
    "#);
    assert!(fake.objects().is_empty());
}

#[tokio::test]
async fn opening_at_a_silent_server_times_out() {
    let fake = FakeS3::start().unwrap();
    fake.fail(Match::any(), RequestFault::unanswered());
    let mut options = at(&fake);
    options.call_timeout = Duration::from_secs(1);
    assert_eq!(code(migrate(options).await), "GS0205");
}

/// riverqueue/river#1251: a call to a stalled database never ended, and blocked everything after it.
#[tokio::test]
async fn every_store_call_has_deadline() {
    let fake = FakeS3::start().unwrap();
    let mut options = at(&fake);
    options.call_timeout = Duration::from_millis(300);
    let store = BucketStore::open(options).await.unwrap();
    fake.fail(Match::any(), RequestFault::unanswered());
    let hanging = calls_that_hang(Arc::new(store), Duration::from_secs(20)).await;
    assert!(hanging.is_empty(), "{hanging:?}");
}

#[tokio::test]
async fn detects_ignored_conditions_and_leaves_nothing() {
    let fake = FakeS3::start().unwrap();
    fake.set_conditions(Conditions::Ignored);
    assert_eq!(code(migrate(at(&fake)).await), "GS0220");
    assert_eq!(code(check(at(&fake)).await), "GS0220");
    assert!(fake.objects().is_empty(), "{:?}", fake.objects().keys());
}

#[tokio::test]
async fn detects_conditions_that_fail_in_a_race() {
    let fake = FakeS3::start().unwrap();
    fake.set_conditions(Conditions::Racy);
    assert_eq!(code(check(at(&fake)).await), "GS0220");
    assert!(fake.objects().is_empty(), "{:?}", fake.objects().keys());
}

#[tokio::test]
async fn opening_survives_transient_faults() {
    let refused = |status, code| RequestFault::refused(ErrorReply::new(status, code));
    for number in 1..=14 {
        for fault in [
            RequestFault::internal(),
            RequestFault::internal().after_commit(),
            RequestFault::slow_down(),
            RequestFault::dropped(),
            RequestFault::dropped().after_commit(),
            refused(503, ""),
        ] {
            let fake = FakeS3::start().unwrap();
            fake.fail(Match::any().nth(number), fault.clone());
            let migrated = migrate(at(&fake)).await;
            assert!(migrated.is_ok(), "{number} {fault:?} {migrated:?}");
            let keys: Vec<_> = fake.objects().into_keys().collect();
            assert_eq!(keys, ["p/goldseam.json"], "{number} {fault:?}");
        }
    }
}

#[tokio::test]
async fn a_probe_removes_leftovers_of_earlier_probes() {
    let fake = FakeS3::start().unwrap();
    // The machine dies in the middle of a probe, and the server's clock advances.
    fake.fail(Match::any().op(RequestKind::Delete), RequestFault::denied());
    migrate(at(&fake)).await.unwrap();
    assert_eq!(fake.objects().len(), 2);
    fake.clear_faults();
    fake.set_clock(goldseam_fake_s3::ServerClock::Running { ahead: 3_600_000 });
    migrate(at(&fake)).await.unwrap();
    let keys: Vec<_> = fake.objects().into_keys().collect();
    assert_eq!(keys, ["p/goldseam.json"]);
}

#[tokio::test]
async fn read_only_keys_are_refused_and_leave_nothing() {
    let fake = FakeS3::start().unwrap();
    fake.set_read_only(true);
    assert_eq!(code(migrate(at(&fake)).await), "GS0219");
    assert!(fake.objects().is_empty());
    fake.set_read_only(false);
    migrate(at(&fake)).await.unwrap();
    fake.set_read_only(true);
    assert!(check(at(&fake)).await.unwrap().is_sound());
}

#[tokio::test]
async fn opening_for_reads_skips_a_recent_probe() {
    let fake = FakeS3::start().unwrap();
    assert_eq!(code(BucketStore::open_current(at(&fake)).await), "GS0205");
    assert!(fake.objects().is_empty());
    BucketStore::open(at(&fake)).await.unwrap();
    fake.forget_log();
    BucketStore::open_current(at(&fake)).await.unwrap();
    assert_eq!(fake.log().len(), 1, "{:?}", fake.log());
    // Two days later, by keys that may write and by keys that may not.
    fake.set_clock(goldseam_fake_s3::ServerClock::Running { ahead: 2 * 24 * 3_600_000 });
    fake.set_read_only(true);
    BucketStore::open_current(at(&fake)).await.unwrap();
    fake.set_read_only(false);
    fake.forget_log();
    BucketStore::open_current(at(&fake)).await.unwrap();
    assert!(fake.log().len() > 1);
    fake.forget_log();
    BucketStore::open_current(at(&fake)).await.unwrap();
    assert_eq!(fake.log().len(), 1, "{:?}", fake.log());
    assert_eq!(fake.objects().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_another_process_finished_counts_as_written() {
    let fake = FakeS3::start().unwrap();
    let open = async || Arc::new(BucketStore::open(at(&fake)).await.unwrap());
    let slow = open().await;
    let quick = open().await;
    let keyed = |id: &str| {
        let new = NewTask {
            id: TaskId::new(id).unwrap(),
            kind: "mail".to_owned(),
            queue: QueueName::new("q").unwrap(),
            lane: None,
            priority: 0,
            key: Some("k".to_owned()),
            run_at: Millis(0),
            payload: Payload::null(),
            attempts_max: 1,
            silence_max: None,
        };
        new.into_task(Millis(0))
    };
    let gate = RequestGate::closed();
    fake.fail(Match::any().op(RequestKind::Put).key("first").nth(1), RequestFault::held(&gate));
    let first = tokio::spawn(async move { slow.put_task(keyed("first"), Expect::Absent).await });
    let holds = |log: &[Logged]| log.iter().any(|logged| logged.request.key.contains("key/"));
    assert!(tokio::task::block_in_place(|| fake.wait_for_log(holds)));
    while !fake.objects().keys().any(|key| key.contains("key/")) {
        tokio::task::yield_now().await;
    }
    let second = quick.put_task(keyed("second"), Expect::Absent).await.unwrap();
    assert_eq!(second, Written::Lost(Some(keyed("first"))), "the key is taken, and its task is written");
    gate.open();
    assert_eq!(first.await.unwrap().unwrap(), Written::Done);
}

#[tokio::test]
async fn audit_entry_lost_in_a_crash_is_written_by_the_next_list() {
    let fake = FakeS3::start().unwrap();
    let store = BucketStore::open(at(&fake)).await.unwrap();
    let new = NewTask {
        id: TaskId::new("t").unwrap(),
        kind: "mail".to_owned(),
        queue: QueueName::new("q").unwrap(),
        lane: None,
        priority: 0,
        key: None,
        run_at: Millis(0),
        payload: Payload::null(),
        attempts_max: 1,
        silence_max: None,
    };
    let now = store.now().await.unwrap();
    let claimed = new.into_task(now).claimed("ana", now);
    assert_eq!(store.put_task(claimed.clone(), Expect::Absent).await.unwrap(), Written::Done);
    let heal = goldseam_core::audit::AuditHeal {
        rule: "L2".to_owned(),
        version: 0,
        reason: "stale_detection".to_owned(),
        attempt: 1,
        stale_ms: 5,
        node: None,
        holder: Some("ana".to_owned()),
        ended: None,
        state: None,
    };
    let back = claimed.clone().reclaimed("it was silent", 9, now).healed(claimed.version, heal);
    fake.fail(Match::any().op(RequestKind::Put).key("/audit/"), RequestFault::denied());
    let put = store.put_task(back, Expect::Version(claimed.version)).await.unwrap();
    assert_eq!(put, Written::Done, "the heal itself is done");
    fake.clear_faults();
    let next = BucketStore::open(at(&fake)).await.unwrap();
    let entries = async || {
        let filter = goldseam_store::AuditFilter { limit: 9, ..Default::default() };
        next.audit().unwrap().audit_entries(filter).await.unwrap().items.len()
    };
    assert_eq!(entries().await, 0);
    let all = goldseam_store::TaskFilter { limit: 9, ..Default::default() };
    for _ in 0..2 {
        assert_eq!(next.tasks(all.clone()).await.unwrap().len(), 1);
        assert_eq!(entries().await, 1, "a process that lists tasks completes the audit, once");
    }
    fake.forget_log();
    next.tasks(all).await.unwrap();
    assert_eq!(fake.count(|request| request.key.contains("/audit/")), 0, "and then costs nothing");
}
