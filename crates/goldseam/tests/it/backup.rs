//! Backups of stores in use, and what a restored store does.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use goldseam::admin::{BackupMethod, backup, read_manifest, restore, verify_backup};
use goldseam::healer::doctor::DoctorOptions;
use goldseam::unstable::core::{Event, LockName};
use goldseam::unstable::store::{RunFilter, TaskFilter};
use goldseam::{Client, Context, Engine, OpenEngine as _, RunId, Status};
use goldseam_store_object::testing::fresh_prefix;
use goldseam_store_postgres::testing::Schema;

use crate::support::{Counter, Scratch, eventually, new_task, reaches, run_id, want, with_state};

/// Runs that wait for a signal when the backup begins.
const ORDERS: usize = 12;
/// Runs that the writer starts and awaits while the backup runs, at least.
const WRITTEN_MIN: u64 = 3;

/// A step, a wait, and another step.
async fn order(ctx: Context, name: String, counter: Counter) -> goldseam::Result<String> {
    ctx.step("reserve", || counter.step(format!("{name} reserve"))).await?;
    let word: String = ctx.signal("go").await?;
    ctx.step("ship", || counter.step(format!("{name} ship"))).await?;
    Ok(word)
}

async fn pack(ctx: Context, name: String, counter: Counter) -> goldseam::Result<()> {
    ctx.step("pack", || counter.step(format!("{name} pack"))).await
}

/// A step, a child, and another step.
async fn flow(ctx: Context, name: String, counter: Counter) -> goldseam::Result<()> {
    ctx.step("one", || counter.step(format!("{name} one"))).await?;
    ctx.child::<()>("child", "pack", &name).await?;
    ctx.step("two", || counter.step(format!("{name} two"))).await
}

async fn engine(url: &str, counter: &Counter) -> Engine {
    let builder = Engine::open(url).await.unwrap();
    let builder = builder.workflow("order", with_state(counter, order));
    let builder =
        builder.workflow("flow", with_state(counter, flow)).workflow("pack", with_state(counter, pack));
    builder.start().await.unwrap()
}

/// Starts runs until it is stopped, and awaits each. Counts those that ended.
async fn write(client: Client, stop: Arc<AtomicBool>, ended: Arc<AtomicU64>) {
    for number in 0_u64.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let run = run_id(&format!("flow-{number}"));
        let input = goldseam::Payload::of(&format!("flow-{number}"), &goldseam::Limits::default()).unwrap();
        client.start("flow", &run, &input).await.unwrap();
        reaches(&client, run.as_str(), Status::Completed).await;
        ended.fetch_add(1, Ordering::SeqCst);
    }
}

/// Every end of a child that a parent knows is in the child's log.
async fn parents_and_children_agree(client: &Client) {
    let filter = RunFilter { limit: 100_000, ..RunFilter::default() };
    for row in client.list(filter).await.unwrap().items {
        for recorded in client.history(&row.summary.run).await.unwrap() {
            if let Event::ChildCompleted { run, .. } | Event::ChildFailed { run, .. } = &recorded.event {
                assert!(client.get(run).await.unwrap().status.is_terminal(), "{run}");
            }
        }
    }
}

/// Backs up `from` while a writer is busy, restores to `to`, and finishes every run there.
async fn survives(from: &str, to: &str, method: BackupMethod) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("orders.backup");
    let before = Counter::default();
    let original = engine(from, &before).await;
    let client = original.client().clone();
    let orders: Vec<String> = (0..ORDERS).map(|number| format!("order-{number}")).collect();
    for name in &orders {
        original.start("order", name, name).await.unwrap();
    }
    for name in &orders {
        reaches(&client, name, Status::Waiting).await;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let ended = Arc::new(AtomicU64::new(0));
    let writer = tokio::spawn(write(client.clone(), Arc::clone(&stop), Arc::clone(&ended)));
    eventually("runs of the writer end", async || ended.load(Ordering::SeqCst) >= WRITTEN_MIN).await;
    let acknowledged = ended.load(Ordering::SeqCst);
    let made = backup(from, &file, None).await.unwrap();
    let at_end = ended.load(Ordering::SeqCst);
    eventually("the writer goes on", async || ended.load(Ordering::SeqCst) > at_end).await;
    stop.store(true, Ordering::SeqCst);
    writer.await.unwrap();
    assert_eq!((made.manifest.method, made.findings.as_slice()), (method, &[][..]));
    original.shutdown().await;

    verify_backup(&file, None).await.unwrap();
    let restored = restore(&file, to, None).await.unwrap();
    assert!(restored.copy.is_verified(), "{restored:#?}");
    let client = goldseam::connect_existing(to).await.unwrap();
    let checkup = client.doctor(DoctorOptions::default()).await.unwrap();
    // Nothing but a node is missing.
    assert!(checkup.findings.iter().all(|found| found.code.to_string() == "N1"), "{:#?}", checkup.findings);
    parents_and_children_agree(&client).await;
    for number in 0..acknowledged {
        let status = client.get(&run_id(&format!("flow-{number}"))).await.unwrap().status;
        assert_eq!(status, Status::Completed, "flow-{number}");
    }
    let after = Counter::default();
    let engine = engine(to, &after).await;
    for name in &orders {
        let run = engine.handle(run_id(name));
        run.signal("go", "well").await.unwrap();
        assert_eq!(run.result::<String>().await.unwrap(), "well");
        assert_eq!((after.count(&format!("{name} reserve")), after.count(&format!("{name} ship"))), (0, 1));
    }
    let filter = RunFilter { limit: 100_000, ..RunFilter::default() };
    eventually("all runs complete", async || {
        let all = engine.client().list(filter.clone()).await.unwrap().items;
        all.iter().all(|row| row.summary.status == Status::Completed)
    })
    .await;
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backup_of_a_busy_sqlite_store_can_be_restored() {
    let from = Scratch::new();
    let to = Scratch::new();
    survives(&from.url(), &to.url(), BackupMethod::Snapshot).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backup_of_a_busy_postgres_store_can_be_restored() {
    let from = Schema::fresh();
    let to = Schema::fresh();
    survives(&from.url(), &to.url(), BackupMethod::Logs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backup_of_a_busy_bucket_can_be_restored() {
    let bucket = goldseam_testbed::seaweedfs::shared().unwrap();
    let url = || format!("{}&requests=free", bucket.url(&fresh_prefix()));
    survives(&url(), &url(), BackupMethod::Logs).await;
}

/// A store with a run that waits, a claimed task and a held lock; its backup.
async fn small() -> (Scratch, PathBuf) {
    let scratch = Scratch::new();
    let counter = Counter::default();
    let engine = engine(&scratch.url(), &counter).await;
    engine.start("order", "order-1", &"order-1".to_owned()).await.unwrap();
    let client = engine.client().clone();
    reaches(&client, "order-1", Status::Waiting).await;
    client.queue().submit(new_task("t-1", "mail")).await.unwrap();
    assert_eq!(client.queue().claim(want("worker", "mail", 1)).await.unwrap().len(), 1);
    let lock = LockName::new("nightly").unwrap();
    client.locks().acquire(&lock, "ana", Duration::from_secs(99)).await.unwrap();
    let file = scratch.folder().join("small.backup");
    backup(&scratch.url(), &file, None).await.unwrap();
    engine.shutdown().await;
    (scratch, file)
}

#[tokio::test]
async fn restored_store_has_no_nodes_claims_or_holds() {
    let ((_old, file), new) = (small().await, Scratch::new());
    restore(&file, &new.url(), None).await.unwrap();
    let client = new.client().await;
    assert_eq!(client.store().nodes().await.unwrap(), []);
    let filter = TaskFilter { limit: 100, ..TaskFilter::default() };
    let tasks = client.store().tasks(filter).await.unwrap();
    assert!(tasks.len() == 2 && tasks.iter().all(|task| task.owner.is_none()), "{tasks:#?}");
    // The claim of the original is not valid here.
    let task = tasks.iter().find(|task| task.id.as_str() == "t-1").unwrap();
    assert_eq!(task.deliveries, 0);
    assert!(client.queue().complete(&task.id, task.fence, goldseam::Payload::null()).await.is_err());
    let lock = LockName::new("nightly").unwrap();
    let held = client.locks().acquire(&lock, "ben", Duration::from_secs(9)).await.unwrap();
    assert!(held.fence >= 3, "higher than that of ana and of her release: {}", held.fence);
}

#[tokio::test]
async fn engine_refuses_to_start_on_a_backup() {
    let (_old, file) = small().await;
    let url = format!("sqlite:{}", file.display());
    let refused = Engine::open(&url).await.unwrap().start().await.unwrap_err();
    assert_eq!(refused.code(), "GS0404", "{refused}");
    assert!(refused.to_string().contains("is a backup of sqlite:"), "{refused}");
    assert!(goldseam::connect_existing(&url).await.unwrap().get(&run_id("order-1")).await.is_ok());
    verify_backup(&file, None).await.unwrap();
}

#[tokio::test]
async fn restore_needs_an_empty_store() {
    let ((_old, file), new) = (small().await, Scratch::new());
    let engine = engine(&new.url(), &Counter::default()).await;
    assert_eq!(restore(&file, &new.url(), None).await.unwrap_err().code(), "GS0401");
    engine.start("order", "theirs", &"theirs".to_owned()).await.unwrap();
    engine.shutdown().await;
    let refused = restore(&file, &new.url(), None).await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.hint().unwrap().to_string()),
        ("GS0402", "name an empty store".to_owned())
    );
    assert!(new.client().await.get(&run_id("theirs")).await.is_ok());
}

#[tokio::test]
async fn damaged_and_incomplete_backups_are_refused() {
    let (old, file) = small().await;
    let code = async |path: &Path| verify_backup(path, None).await.unwrap_err().code();
    let copy = |name: &str| {
        let copy = old.folder().join(name);
        std::fs::copy(&file, &copy).unwrap();
        copy
    };
    assert_eq!(code(&old.folder().join("test.db")).await, "GS0232", "a store is not a backup");
    assert_eq!(code(&old.folder().join("missing")).await, "GS0232");
    for (name, sql, expected) in [
        ("no-manifest", "DROP TABLE goldseam_backup", "GS0232"),
        (
            "other-manifest",
            "UPDATE goldseam_backup SET manifest = replace(manifest, 'snapshot', 'logs')",
            "GS0232",
        ),
        ("later", "UPDATE goldseam_backup SET manifest = '{\"format\":3}'", "GS0235"),
        ("lost-event", "DELETE FROM events WHERE seq = 2", "GS0234"),
        (
            "changed-event",
            "UPDATE events SET body = replace(body, 'order-1', 'order-2') WHERE seq = 1",
            "GS0234",
        ),
        ("lost-task", "DELETE FROM tasks WHERE id = 't-1'", "GS0234"),
        ("other-lock", "UPDATE locks SET holder = 'eve' WHERE name = 'nightly'", "GS0234"),
        // A node would never find the task of the run.
        ("other-queue", "UPDATE tasks SET queue = 'elsewhere'", "GS0234"),
        ("other-priority", "UPDATE tasks SET priority = 9 WHERE id = 't-1'", "GS0234"),
    ] {
        let path = copy(name);
        rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        assert_eq!(code(&path).await, expected, "{name}");
        let new = Scratch::new();
        assert_eq!(restore(&path, &new.url(), None).await.unwrap_err().code(), expected, "{name}");
        assert!(!new.folder().join("test.db").exists(), "{name}: nothing is created");
    }
    let bytes = std::fs::read(&file).unwrap();
    let cut = copy("cut");
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    assert!(verify_backup(&cut, None).await.is_err());
    verify_backup(&file, None).await.unwrap();
}

#[tokio::test]
async fn backup_replaces_no_file_and_leaves_no_rest() {
    let (old, file) = small().await;
    assert_eq!(backup(&old.url(), &file, None).await.unwrap_err().code(), "GS0233");
    let missing = format!("sqlite:{}", old.folder().join("missing.db").display());
    assert_eq!(backup(&missing, &old.folder().join("b"), None).await.unwrap_err().code(), "GS0205");
    let nowhere = old.folder().join("no-folder").join("b");
    assert_eq!(backup(&old.url(), &nowhere, None).await.unwrap_err().code(), "GS0231");
    let names = std::fs::read_dir(old.folder()).unwrap().map(|entry| entry.unwrap().file_name());
    let rest: Vec<_> = names.filter(|name| name.to_string_lossy().contains("partial")).collect();
    assert_eq!(rest, [""; 0]);
    assert_eq!(read_manifest(&file).unwrap().runs, 1);
}

#[tokio::test]
async fn backup_can_be_read_only() {
    let (_old, file) = small().await;
    let frozen = tempfile::tempdir().unwrap();
    let copy = frozen.path().join("orders.backup");
    std::fs::copy(&file, &copy).unwrap();
    verify_backup(&copy, None).await.unwrap();
    let names: Vec<_> =
        std::fs::read_dir(frozen.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["orders.backup"], "a verification creates no file");
    let id = RunId::new("order-1").unwrap();
    let new = Scratch::new();
    restore(&copy, &new.url(), None).await.unwrap();
    assert!(new.client().await.get(&id).await.is_ok());
}
