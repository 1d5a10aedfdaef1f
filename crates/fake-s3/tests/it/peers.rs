//! The behaviour of real servers, which the fake server shares.

use goldseam_fake_s3::{Conditions, FakeS3};
use goldseam_testbed::s3::{READER, TestBucket};
use goldseam_testbed::{moto, rclone, seaweedfs};

use crate::client::{Client, kind};

/// The number of races of two creates.
const RACES: usize = 10;

/// The behaviour of a server.
#[derive(Debug, PartialEq, Eq)]
struct Behaviour {
    create_again: &'static str,
    update: &'static str,
    update_stale: &'static str,
    update_missing: &'static str,
    /// Whether equal content has the ETag that it had before.
    etag_is_back: bool,
    read_unchanged: &'static str,
    /// The number of races with exactly one winner.
    fair_races: usize,
}

/// The behaviour of S3.
const EXACT: Behaviour = Behaviour {
    create_again: "already exists",
    update: "ok",
    update_stale: "precondition",
    update_missing: "precondition",
    etag_is_back: true,
    read_unchanged: "not modified",
    fair_races: RACES,
};

/// A key of this test run: a server may serve several runs.
fn unique(key: &str) -> String {
    format!("{}/{key}", std::process::id())
}

async fn behaviour(bucket: &TestBucket) -> Behaviour {
    let client = Client::new(bucket, 0);
    let other = Client::new(bucket, 0);
    let key = unique("k");
    let missing = unique("missing");
    let first = client.create(&key, "a").await.unwrap();
    let create_again = kind(&client.create(&key, "b").await);
    let first = if create_again == "ok" { client.put(&key, "a").await.unwrap() } else { first };
    let updated = client.update(&key, "b", &first).await;
    let update_stale = kind(&client.update(&key, "c", &first).await);
    let update_missing = kind(&client.update(&missing, "c", &first).await);
    let again = client.put(&key, "a").await.unwrap();
    let read_unchanged = kind(&client.get_unless(&key, &again).await);
    let mut fair_races = 0;
    for race in 0..RACES {
        let key = unique(&format!("race/{race}"));
        let both = tokio::join!(client.create(&key, "left"), other.create(&key, "right"));
        let kept = client.get(&key).await.unwrap();
        let won = [(both.0, "left"), (both.1, "right")].map(|(answer, text)| answer.is_ok().then_some(text));
        fair_races += usize::from(won == [Some(&*kept), None] || won == [None, Some(&*kept)]);
    }
    Behaviour {
        create_again,
        update: kind(&updated),
        update_stale,
        update_missing,
        etag_is_back: again == first,
        read_unchanged,
        fair_races,
    }
}

/// Lists and deletions, which all servers treat equally.
async fn lists(bucket: &TestBucket) {
    let client = Client::new(bucket, 0);
    let [a, b1, b2, c] = ["l/a", "l/b/1", "l/b/2", "l/c"].map(unique);
    for key in [&b2, &c, &a, &b1] {
        client.put(key, "x").await.unwrap();
    }
    let folder = unique("l");
    let list = [&a, &b1, &b2, &c];
    assert_eq!(client.list(&folder).await.unwrap().iter().collect::<Vec<_>>(), list);
    assert_eq!(client.list_after(&folder, &b1).await.unwrap().iter().collect::<Vec<_>>(), [&b2, &c]);
    let [folders, keys] = client.list_level(&folder).await.unwrap();
    assert_eq!((folders, keys), (vec![unique("l/b")], vec![a.clone(), c.clone()]));
    client.delete(&list.map(String::as_str)).await.unwrap();
    assert!(client.list(&folder).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fake_behaves_like_s3_unless_it_is_racy() {
    let fake = FakeS3::start().unwrap();
    let bucket = TestBucket::parse(&fake.url("")).unwrap();
    assert_eq!(behaviour(&bucket).await, EXACT);
    lists(&bucket).await;
    let racy = FakeS3::start().unwrap();
    racy.set_conditions(Conditions::Racy);
    let bucket = TestBucket::parse(&racy.url("")).unwrap();
    assert_eq!(behaviour(&bucket).await, Behaviour { fair_races: 0, ..EXACT });
}

#[tokio::test(flavor = "multi_thread")]
async fn seaweedfs_enforces_conditions() {
    let bucket = seaweedfs::shared().unwrap();
    assert_eq!(behaviour(bucket).await, EXACT);
    lists(bucket).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn moto_enforces_conditions() {
    let bucket = moto::shared().unwrap();
    assert_eq!(behaviour(bucket).await, EXACT);
    lists(bucket).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rclone_ignores_conditions() {
    let bucket = rclone::shared().unwrap();
    let behaviour = behaviour(bucket).await;
    assert_eq!((behaviour.create_again, behaviour.update_stale), ("ok", "ok"), "{behaviour:?}");
    // One of two writers may fail for another reason, which looks like a lost race.
    assert!(behaviour.fair_races < RACES, "{behaviour:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn seaweedfs_enforces_permissions() {
    let bucket = seaweedfs::shared().unwrap();
    let key = &*unique("rights/k");
    let new = &*unique("rights/new");
    let writer = Client::new(bucket, 0);
    writer.put(key, "v").await.unwrap();
    let reader = Client::new(&bucket.accessed_by(READER), 0);
    assert_eq!(reader.get(key).await.unwrap(), "v");
    assert_eq!(reader.list(&unique("rights/")).await.unwrap(), [key]);
    assert_eq!(kind(&reader.put(key, "w").await), "denied");
    assert_eq!(kind(&reader.create(new, "w").await), "denied");
    let error = reader.delete(&[key]).await.unwrap_err();
    assert!(error.to_string().contains("AccessDenied"), "{error}");
    let (id, _) = READER;
    for access in [("unknown", "nothing"), (id, "a-wrong-secret")] {
        assert_eq!(kind(&Client::new(&bucket.accessed_by(access), 0).get(key).await), "denied");
    }
    let error = Client::new(&bucket.named("missing"), 0).put(key, "v").await.unwrap_err();
    assert!(error.to_string().contains("NoSuchBucket"), "{error}");
    assert_eq!(writer.get(key).await.unwrap(), "v");
}
