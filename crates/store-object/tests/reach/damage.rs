//! What `store check` finds in a damaged store.

use goldseam_core::{RunId, Seq};
use goldseam_fake_s3::FakeS3;
use goldseam_store::check::StoreReport;
use goldseam_store::{Append, Store};
use goldseam_store_object::url::parse;
use goldseam_store_object::{BucketStore, check};

/// A store with one log of four batches, the second of two events.
async fn with_a_log() -> FakeS3 {
    let fake = FakeS3::start().unwrap();
    let store = BucketStore::open(parse(&fake.url("p")).unwrap()).await.unwrap();
    for (after, bodies) in [(0, &["a"][..]), (1, &["b", "c"]), (3, &["d"]), (4, &["e"])] {
        let bodies = bodies.iter().map(|body| (*body).to_owned()).collect();
        let run = RunId::new("r").unwrap();
        store.append(Append { run, after: Seq(after), bodies, row: None, tasks: Vec::new() }).await.unwrap();
    }
    fake
}

fn batch(number: u32) -> String {
    format!("p/workflow/r/log/{number:010}")
}

async fn checked(fake: &FakeS3) -> StoreReport {
    check(parse(&fake.url("p")).unwrap()).await.unwrap()
}

#[tokio::test]
async fn an_intact_log_is_sound() {
    let fake = with_a_log().await;
    let report = checked(&fake).await;
    assert_eq!((report.runs, report.events, report.complaints), (1, 5, Vec::<String>::new()));
}

#[tokio::test]
async fn reports_a_missing_batch() {
    let fake = with_a_log().await;
    fake.delete_raw(&batch(2));
    let report = checked(&fake).await;
    assert_eq!(report.events, 3);
    assert_eq!(report.complaints, ["the log of run r has no batch 2 before batch 3"]);
}

#[tokio::test]
async fn reports_a_changed_event() {
    let fake = with_a_log().await;
    let text = String::from_utf8(fake.objects()[&batch(2)].to_vec()).unwrap();
    fake.put_raw(&batch(2), text.replace("\nb\n", "\nB\n"));
    let report = checked(&fake).await;
    assert_eq!(
        report.complaints,
        ["the log of run r is broken at batch 3: it does not follow the batch before it"]
    );
}

#[tokio::test]
async fn reports_a_batch_in_the_wrong_place() {
    let fake = with_a_log().await;
    fake.put_raw(&batch(3), fake.objects()[&batch(1)].clone());
    fake.put_raw(&batch(4), "no batch");
    let report = checked(&fake).await;
    assert_eq!(
        report.complaints,
        [
            "the log of run r is broken at batch 3: its header names batch 1",
            "the store is damaged: object workflow/r/log/0000000004: the header line is missing"
        ]
    );
}

#[tokio::test]
async fn reports_foreign_objects_beside_a_log() {
    let fake = with_a_log().await;
    fake.put_raw("p/workflow/r/notes.txt", "hello");
    fake.put_raw("p/workflow/other/state.json", r#"{"status": "running"}"#);
    let report = checked(&fake).await;
    assert_eq!(report.complaints, ["\"workflow/r/notes.txt\" is not an object of this store"]);
    assert_eq!(report.runs, 1);
}
