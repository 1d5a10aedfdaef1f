//! Runs that ended long ago: archived, removed, and still known.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use goldseam_core::task::{NewTask, Task};
use goldseam_core::{Event, Limits, QueueName, Seq, Status, TaskId};
use goldseam_store::faulty::{CallFault, FaultPlan, StoreMethod};
use goldseam_store::{Archive, Expect, FaultyStore, StoreError, Written};

use super::harness::{Harness, id};
use super::{Fixture, eventually};
use goldseam_admin::retention::{PruneReport, Pruner, Retainer, Retention, RetentionPass, verify};
use goldseam_engine::client::By;
use goldseam_engine::client::doctor::DoctorOptions;
use goldseam_engine::{Client, Context, Engine, Error, OsEntropy, SystemClock};

/// An archive in memory, which may lose its content.
#[derive(Debug, Default)]
struct MemoryArchive {
    batches: Mutex<BTreeMap<String, Vec<u8>>>,
    loses_content: bool,
}

#[async_trait]
impl Archive for MemoryArchive {
    fn place(&self, name: &str) -> String {
        format!("archive/{name}")
    }

    async fn put(&self, name: &str, mut batch: Vec<u8>) -> Result<(), StoreError> {
        if self.loses_content {
            batch.pop();
        }
        assert!(self.batches.lock().unwrap().insert(name.to_owned(), batch).is_none(), "{name} is taken");
        Ok(())
    }

    async fn get(&self, name: &str) -> Result<Vec<u8>, StoreError> {
        Ok(self.batches.lock().unwrap().get(name).cloned().unwrap_or_default())
    }
}

impl MemoryArchive {
    /// The batch at this location.
    fn at(&self, place: &str) -> Vec<u8> {
        self.batches.lock().unwrap()[place.strip_prefix("archive/").unwrap()].clone()
    }
}

fn everything() -> Retention {
    Retention { older_than: Duration::ZERO, statuses: Vec::new(), workflow: None, limit: None }
}

fn tidy() -> By {
    By { who: Some("ada".to_owned()), reason: "tidying".to_owned(), id: None }
}

async fn prune(
    client: &Client,
    archive: &MemoryArchive,
) -> Result<PruneReport, goldseam_engine::EngineError> {
    let plan = Pruner::new(client).plan(&everything()).await?;
    Pruner::new(client).prune(&plan, archive, &tidy(), &mut |_| ()).await
}

/// `double` doubles; `fails` fails until it is allowed to succeed.
async fn engine(harness: &Harness<'_>) -> Engine {
    let double = |ctx: Context, n: u32| async move {
        ctx.step("double", || async move { Ok::<u32, Error>(n * 2) }).await
    };
    let fails = |ctx: Context, (): ()| async move {
        ctx.step("try", || async { Err::<u32, Error>(Error::terminal("no luck")) }).await
    };
    let parent = |ctx: Context, n: u32| async move {
        let doubled: u32 = ctx.child("kid", "double", &n).await?;
        let more: u32 = ctx.signal("more").await?;
        Ok::<u32, Error>(doubled + more)
    };
    let builder = harness.builder().workflow("double", double).workflow("fails", fails);
    builder.workflow("parent", parent).start().await.unwrap()
}

/// Returns once the run can be pruned: its row shows its end, and some time has passed.
async fn is_old(harness: &Harness<'_>, run: &str) {
    let run = id(run);
    let client = &harness.client;
    let listed = || async {
        let plan = Pruner::new(client).plan(&everything()).await.unwrap();
        plan.runs.iter().any(|candidate| candidate.run == run)
    };
    eventually("the run is old enough", listed).await;
}

/// Status, result, id and input are kept; everything else is in the archive, complete.
pub async fn a_pruned_run_leaves_a_tombstone_that_answers_for_it(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let archive = MemoryArchive::default();
    let engine = engine(&harness).await;
    for run in ["a", "b"] {
        harness.start("double", run, "21").await;
        harness.reaches(run, Status::Completed).await;
    }
    is_old(&harness, "a").await;
    is_old(&harness, "b").await;
    let before = harness.client.get(&id("a")).await.unwrap();
    let log = harness.client.history(&id("a")).await.unwrap();
    let report = prune(&harness.client, &archive).await.unwrap();
    assert_eq!((report.pruned.len(), report.left.len(), report.batches.len()), (2, 0, 1), "{report:?}");

    let archived = verify(&archive.at(&report.batches[0])).unwrap();
    let ours = archived.iter().find(|archived| archived.run == id("a")).unwrap();
    assert_eq!((ours.events, ours.summary.head), (log.len() as u64, before.head));
    let history = harness.client.history(&id("a")).await.unwrap();
    let [tombstone] = history.as_slice() else { panic!("more than a tombstone is left: {history:?}") };
    let Event::RunPruned(pruned) = &tombstone.event else { panic!("{tombstone:?}") };
    assert_eq!((&pruned.sha256, pruned.note.by.as_deref()), (&ours.sha256, Some("ada")));
    assert_eq!(tombstone.seq, before.as_of.next());

    let after = harness.client.get(&id("a")).await.unwrap();
    assert_eq!((after.status, after.finished_at), (before.status, before.finished_at));
    assert_eq!(after.pruned.unwrap().archive, report.batches[0]);
    assert_eq!(harness.result::<u32>("a").await, 42);
    harness.start("double", "a", "21").await;
    assert_eq!(
        harness.names("a").await,
        ["run.pruned"],
        "a start with the same id and input is the same run"
    );
    let other = goldseam_core::Payload::parse("22", &Limits::default()).unwrap();
    let refused = harness.client.start("double", &id("a"), &other).await.unwrap_err();
    assert_eq!(refused.code(), "GS0108");
    let refused =
        harness.client.signal(&id("a"), "go", goldseam_core::Payload::null(), None).await.unwrap_err();
    assert_eq!(refused.code(), "GS0131");
    assert_eq!(harness.client.retry(&id("a"), By::default()).await.unwrap_err().code(), "GS0131");
    assert_eq!(
        prune(&harness.client, &archive).await.unwrap(),
        PruneReport::default(),
        "a repeat does nothing"
    );
    engine.shutdown().await;
}

/// Doctor and sweeper report nothing about a tombstone, and its row is rebuilt from it alone.
pub async fn a_tombstone_is_left_alone_and_found_again(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = engine(&harness).await;
    harness.start("double", "r", "4").await;
    harness.reaches("r", Status::Completed).await;
    is_old(&harness, "r").await;
    prune(&harness.client, &MemoryArchive::default()).await.unwrap();
    let row = harness.client.get(&id("r")).await.unwrap();
    let deep = || async {
        let options = DoctorOptions { fix: true, deep: true, ..DoctorOptions::default() };
        harness.client.doctor(options).await.unwrap()
    };
    let checkup = deep().await;
    assert!(checkup.findings.is_empty(), "{checkup:?}");
    harness.damage().lose_row(&id("r")).await;
    assert_eq!(harness.client.get(&id("r")).await.unwrap(), row, "the log alone says it all");
    let checkup = deep().await;
    assert!(checkup.findings.is_empty() && checkup.rows_rewritten == 1, "{checkup:?}");
    assert_eq!(
        (harness.row("r").await.summary, harness.names("r").await),
        (row, vec!["run.pruned".to_owned()])
    );
    harness.damage().lose_row(&id("r")).await;
    harness.start("double", "r", "4").await;
    assert_eq!(harness.names("r").await, ["run.pruned"], "without its row it is the same run, too");
    engine.shutdown().await;
}

/// Neither a run that has not ended, nor one whose parent or child has not ended, is pruned.
pub async fn runs_related_to_unended_runs_are_never_pruned(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = engine(&harness).await;
    harness.start("parent", "p", "3").await;
    harness.start("double", "alone", "3").await;
    harness.reaches("p", Status::Waiting).await;
    harness.has_event("p", "child.completed").await;
    harness.reaches("alone", Status::Completed).await;
    is_old(&harness, "alone").await;
    let held = || async { Pruner::new(&harness.client).plan(&everything()).await.unwrap().held == 1 };
    eventually("the child is over, and held by its parent", held).await;
    let report = prune(&harness.client, &MemoryArchive::default()).await.unwrap();
    let pruned: Vec<&str> = report.pruned.iter().map(|pruned| pruned.run.as_str()).collect();
    assert_eq!(pruned, ["alone"], "{report:?}");
    let more = goldseam_core::Payload::parse("1", &Limits::default()).unwrap();
    harness.client.signal(&id("p"), "more", more, None).await.unwrap();
    assert_eq!(harness.result::<u32>("p").await, 7);
    let both = || async { Pruner::new(&harness.client).plan(&everything()).await.unwrap().runs.len() == 2 };
    eventually("the whole family is over", both).await;
    assert_eq!(prune(&harness.client, &MemoryArchive::default()).await.unwrap().pruned.len(), 2);
    assert_eq!(harness.result::<u32>("p").await, 7);
    engine.shutdown().await;
}

/// A run with an open task does not count toward the limit, and `more` is set until all runs are planned.
pub async fn a_limit_counts_what_can_be_pruned(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = engine(&harness).await;
    for run in ["a", "b", "c"] {
        harness.start("double", run, "3").await;
        harness.reaches(run, Status::Completed).await;
        is_old(&harness, run).await;
    }
    let now = harness.store().now().await.unwrap();
    let new = NewTask {
        id: TaskId::new("open").unwrap(),
        kind: "look".to_owned(),
        queue: QueueName::new("elsewhere").unwrap(),
        lane: None,
        priority: 0,
        key: None,
        run_at: now,
        payload: goldseam_core::Payload::null(),
        attempts_max: 1,
        silence_max: None,
    };
    let open = Task { run: Some(id("a")), ..new.into_task(now) };
    assert_eq!(harness.store().put_task(open, Expect::Absent).await.unwrap(), Written::Done);
    for (limit, runs, more) in [(0, &[][..], true), (1, &["b"], true), (2, &["b", "c"], false)] {
        let plan = Pruner::new(&harness.client)
            .plan(&Retention { limit: Some(limit), ..everything() })
            .await
            .unwrap();
        let found: Vec<&str> = plan.runs.iter().map(|candidate| candidate.run.as_str()).collect();
        assert_eq!((found.as_slice(), plan.more, plan.held), (runs, more, 1), "{limit}");
    }
    engine.shutdown().await;
}

/// A retry between the plan and the tombstone wins.
pub async fn run_that_continues_meanwhile_is_not_pruned(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = engine(&harness).await;
    harness.start("fails", "r", "null").await;
    harness.start("fails", "s", "null").await;
    for run in ["r", "s"] {
        harness.reaches(run, Status::Failed).await;
        is_old(&harness, run).await;
    }
    engine.shutdown().await;
    let plan = Pruner::new(&harness.client).plan(&everything()).await.unwrap();
    assert_eq!(plan.runs.len(), 2);
    harness.client.retry(&id("r"), By::default()).await.unwrap();
    let before = harness.names("r").await;
    let report = Pruner::new(&harness.client)
        .prune(&plan, &MemoryArchive::default(), &tidy(), &mut |_| ())
        .await
        .unwrap();
    assert_eq!((report.pruned.len(), report.left.len()), (1, 1), "{report:?}");
    assert_eq!((report.left[0].0.as_str(), harness.names("r").await), ("r", before));
    assert_eq!(harness.client.get(&id("r")).await.unwrap().status, Status::Queued);
}

/// A prune dies at each of its calls, before or after the effect: nothing is lost, and the next prune finishes it.
pub async fn next_prune_finishes_an_interrupted_one(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = engine(&harness).await;
    let deaths = [
        (StoreMethod::Read, CallFault::FailBefore),
        (StoreMethod::Head, CallFault::FailBefore),
        (StoreMethod::Append, CallFault::FailBefore),
        (StoreMethod::Append, CallFault::LoseReply),
        (StoreMethod::Trim, CallFault::FailBefore),
        (StoreMethod::Trim, CallFault::LoseReply),
    ];
    for (number, (op, fault)) in deaths.into_iter().enumerate() {
        let run = format!("r-{number}");
        harness.start("double", &run, "5").await;
        harness.reaches(&run, Status::Completed).await;
        is_old(&harness, &run).await;
        let whole = harness.names(&run).await;
        let archive = MemoryArchive::default();
        let store = FaultyStore::new(Arc::clone(harness.store()), FaultPlan::pass().every(op, fault));
        let limits = Limits { store_patience: Duration::ZERO, ..Limits::default() };
        let clock = Arc::new(SystemClock);
        let entropy = Arc::new(OsEntropy);
        let client = Client::with(Arc::new(store), clock, entropy, limits);
        let died = prune(&client, &archive).await;
        assert!(
            died.is_err() || (op, fault) == (StoreMethod::Append, CallFault::LoseReply),
            "{op:?} {fault:?}: {died:?}"
        );
        let left = harness.store().read(&id(&run), Seq::ZERO, 99).await.unwrap();
        let is_buried = harness.client.get(&id(&run)).await.unwrap().pruned.is_some();
        assert!(is_buried || left.len() == whole.len(), "{op:?} {fault:?}: {left:?}");
        assert_eq!(is_buried, op == StoreMethod::Trim || fault == CallFault::LoseReply, "{op:?} {fault:?}");
        assert!(!is_buried || !archive.batches.lock().unwrap().is_empty(), "{op:?} {fault:?}");
        assert_eq!(harness.result::<u32>(&run).await, 10);
        prune(&harness.client, &archive).await.unwrap();
        let left = harness.store().read(&id(&run), Seq::ZERO, 99).await.unwrap();
        assert_eq!(left.len(), 1, "{op:?} {fault:?}: {left:?}");
        assert_eq!(harness.result::<u32>(&run).await, 10);
        let batches = archive.batches.lock().unwrap().clone();
        assert!(batches.values().all(|batch| verify(batch).is_ok()));
    }
    engine.shutdown().await;
}

/// Nothing is removed before the archive was read back.
pub async fn unreadable_archive_removes_nothing(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = engine(&harness).await;
    harness.start("double", "r", "5").await;
    harness.reaches("r", Status::Completed).await;
    is_old(&harness, "r").await;
    let before = harness.names("r").await;
    let archive = MemoryArchive { loses_content: true, ..MemoryArchive::default() };
    assert_eq!(prune(&harness.client, &archive).await.unwrap_err().code(), "GS0133");
    assert_eq!(harness.names("r").await, before);
    engine.shutdown().await;
}

/// Makes a pass of these policies some time from now.
async fn pass_later(
    harness: &Harness<'_>,
    archive: &Arc<MemoryArchive>,
    policies: &str,
    hours: u64,
) -> Option<RetentionPass> {
    let now = harness.store().now().await.unwrap() + Duration::from_secs(hours * 3_600);
    let archive = Arc::clone(archive) as Arc<dyn Archive>;
    let retainer = Retainer::new(harness.client.clone(), archive, policies.parse().unwrap());
    retainer.pass_at(now).await.unwrap()
}

/// A pass prunes the runs that no policy keeps, and no relative of a run that has not ended. Tombstone and archive are
/// those of a prune by hand.
pub async fn a_pass_prunes_what_no_policy_keeps(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let archive = Arc::new(MemoryArchive::default());
    let engine = engine(&harness).await;
    harness.start("parent", "p", "3").await;
    harness.start("double", "old", "21").await;
    harness.start("fails", "f", "null").await;
    harness.reaches("p", Status::Waiting).await;
    harness.has_event("p", "child.completed").await;
    harness.reaches("old", Status::Completed).await;
    harness.reaches("f", Status::Failed).await;
    is_old(&harness, "old").await;
    is_old(&harness, "f").await;
    let held = || async { Pruner::new(&harness.client).plan(&everything()).await.unwrap().held == 1 };
    eventually("the child is over, and held by its parent", held).await;

    let policies = "completed=2h, failed=90d";
    let early = pass_later(&harness, &archive, policies, 1).await.unwrap();
    assert_eq!((early.report.pruned.len(), early.is_round_over), (0, true), "{early:?}");
    let pass = pass_later(&harness, &archive, policies, 3).await.unwrap();
    let names = |pass: &RetentionPass| -> Vec<String> {
        pass.report.pruned.iter().map(|pruned| pruned.run.as_str().to_owned()).collect()
    };
    assert_eq!((names(&pass), pass.held), (vec!["old".to_owned()], 1), "{pass:?}");
    let archived = verify(&archive.at(&pass.report.batches[0])).unwrap();
    let history = harness.client.history(&id("old")).await.unwrap();
    let [tombstone] = history.as_slice() else { panic!("more than a tombstone is left: {history:?}") };
    let Event::RunPruned(pruned) = &tombstone.event else { panic!("{tombstone:?}") };
    assert_eq!((&pruned.sha256, pruned.note.by.as_deref()), (&archived[0].sha256, Some("retention policy")));
    assert_eq!(harness.result::<u32>("old").await, 42);

    assert_eq!(pass_later(&harness, &archive, policies, 3).await, None, "the last pass was a moment ago");
    let last = pass_later(&harness, &archive, policies, 91 * 24).await.unwrap();
    assert_eq!((names(&last), last.held), (vec!["f".to_owned()], 1), "{last:?}");
    engine.shutdown().await;
}

/// Of two nodes that begin a pass at once, one makes it. A pass that a failing archive ends changes nothing, and a later
/// one prunes the runs.
pub async fn one_node_makes_a_pass_and_a_failed_one_is_repeated(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = engine(&harness).await;
    let broken = Arc::new(MemoryArchive { loses_content: true, ..MemoryArchive::default() });
    let archive = Arc::new(MemoryArchive::default());
    for run in ["a", "b"] {
        harness.start("double", run, "1").await;
        harness.reaches(run, Status::Completed).await;
        is_old(&harness, run).await;
    }
    let now = harness.store().now().await.unwrap();
    let before = harness.names("a").await;
    let kept = Arc::clone(&broken) as Arc<dyn Archive>;
    let failing = Retainer::new(harness.client.clone(), kept, "completed=1h".parse().unwrap());
    failing.pass_at(now + Duration::from_secs(7_200)).await.unwrap_err();
    assert_eq!(harness.names("a").await, before, "nothing is removed without a readable copy");
    let (one, two) = tokio::join!(
        pass_later(&harness, &archive, "completed=1h", 4),
        pass_later(&harness, &archive, "completed=1h", 4)
    );
    let passes: Vec<RetentionPass> = [one, two].into_iter().flatten().collect();
    assert_eq!(passes.len(), 1, "{passes:?}");
    assert_eq!(passes[0].report.pruned.len(), 2, "{passes:?}");
    for run in ["a", "b"] {
        assert_eq!(harness.names(run).await, ["run.pruned"]);
    }
    engine.shutdown().await;
}
