//! The fake server has the traps of S3.

use goldseam_fake_s3::{Conditions, FakeS3, Listing, RequestKind, ServerClock};

use crate::client::{Client, kind};

#[tokio::test]
async fn equal_content_has_an_equal_etag() {
    let fake = FakeS3::start().unwrap();
    let client = Client::of(&fake);
    let first = client.create("k", "a").await.unwrap();
    let second = client.update("k", "b", &first).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(client.update("k", "a", &second).await.unwrap(), first);
    // A client with the first ETag cannot see the change in between.
    client.update("k", "c", &first).await.unwrap();
    assert_eq!(first, "\"0cc175b9c0f1b6a831c399e269772661\"", "the ETag is the MD5 of the content");
}

#[tokio::test]
async fn conditions_fail_with_the_statuses_of_s3() {
    let fake = FakeS3::start().unwrap();
    let client = Client::of(&fake);
    let etag = client.create("k", "one").await.unwrap();
    assert_eq!(kind(&client.create("k", "two").await), "already exists");
    client.update("k", "two", &etag).await.unwrap();
    assert_eq!(kind(&client.update("k", "three", &etag).await), "precondition");
    assert_eq!(kind(&client.update("missing", "x", &etag).await), "precondition");
    let statuses: Vec<_> = fake.log().into_iter().map(|logged| logged.status.unwrap()).collect();
    assert_eq!(statuses, [200, 412, 200, 412, 404], "an update of a missing key is a 404");
    assert_eq!(client.get("k").await.unwrap(), "two");
}

#[tokio::test]
async fn reads_whole_objects_ranges_and_changes() {
    let fake = FakeS3::start().unwrap();
    let client = Client::of(&fake);
    fake.set_clock(ServerClock::Stopped { at: 1_700_000_000_000 });
    let key = "a/a key's spaces & signs";
    let etag = client.put(key, "0123456789").await.unwrap();
    assert_eq!(client.get(key).await.unwrap(), "0123456789");
    assert_eq!(client.get_range(key, 3..5).await.unwrap(), "34");
    assert_eq!(kind(&client.get_unless(key, &etag).await), "not modified");
    assert_eq!(kind(&client.get_unless(key, "\"other\"").await), "ok");
    assert_eq!(client.head(key).await.unwrap(), (10, 1_700_000_000_000));
    assert_eq!(kind(&client.get("a/missing").await), "not found");
    assert_eq!(client.list("a").await.unwrap(), [key]);
    client.delete(&[key, "a/missing"]).await.unwrap();
    assert!(fake.objects().is_empty());
    assert_eq!(fake.counts()[&RequestKind::DeleteMany], 1);
}

#[tokio::test]
async fn lists_keys_in_order_by_level_and_after_a_key() {
    let fake = FakeS3::start().unwrap();
    for key in ["p/b/2", "p/c", "p/a", "p/b/1", "q/a"] {
        fake.put_raw(key, key.to_owned());
    }
    let client = Client::of(&fake);
    for keys_max in [1_000, 2, 1] {
        fake.set_listing(Listing { behind: 0, keys_max });
        assert_eq!(client.list("p").await.unwrap(), ["p/a", "p/b/1", "p/b/2", "p/c"]);
        assert_eq!(client.list_after("p", "p/b/1").await.unwrap(), ["p/b/2", "p/c"]);
        let [folders, keys] = client.list_level("p").await.unwrap();
        assert_eq!((folders, keys), (vec!["p/b".to_owned()], vec!["p/a".to_owned(), "p/c".to_owned()]));
    }
    assert_eq!(fake.count(|request| request.op == RequestKind::List), 3 + (2 + 1 + 2) + (4 + 2 + 3));
}

#[tokio::test]
async fn lists_may_be_outdated_while_reads_are_not() {
    let fake = FakeS3::start().unwrap();
    let client = Client::of(&fake);
    fake.set_listing(Listing { behind: 1, keys_max: 1_000 });
    client.put("p/a", "a").await.unwrap();
    client.put("p/b", "b").await.unwrap();
    assert_eq!(client.list("p").await.unwrap(), ["p/a"]);
    assert_eq!(client.get("p/b").await.unwrap(), "b");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_creates_wins_unless_conditions_are_lax() {
    let fake = FakeS3::start().unwrap();
    let left = Client::of(&fake);
    let right = Client::of(&fake);
    for (conditions, winners) in [(Conditions::Kept, 1), (Conditions::Racy, 2), (Conditions::Ignored, 2)] {
        fake.set_conditions(conditions);
        let key = format!("{conditions:?}");
        let both = tokio::join!(left.create(&key, "left"), right.create(&key, "right"));
        let won = [both.0, both.1].iter().filter(|result| result.is_ok()).count();
        assert_eq!(won, winners, "{conditions:?}");
    }
    fake.set_conditions(Conditions::Racy);
    assert_eq!(kind(&left.create("Racy", "late").await), "already exists", "racy is not lax");
}

#[tokio::test]
async fn a_read_only_server_and_a_missing_bucket_refuse() {
    let fake = FakeS3::start().unwrap();
    fake.put_raw("k", "v");
    let client = Client::of(&fake);
    fake.set_read_only(true);
    assert_eq!(kind(&client.put("k", "w").await), "denied");
    let error = client.delete(&["k"]).await.unwrap_err();
    assert!(error.to_string().contains("AccessDenied"), "{error}");
    assert_eq!(client.get("k").await.unwrap(), "v");
    let bucket = goldseam_testbed::s3::TestBucket::parse(&fake.url("")).unwrap();
    let error = Client::new(&bucket.named("other"), 0).get("k").await.unwrap_err();
    assert!(error.to_string().contains("NoSuchBucket"), "{error}");
}
