//! Retention policies, applied by engines.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use goldseam::admin::copy::CopyOptions;
use goldseam::admin::retention::{
    Archive, PruneReport, Pruner, Retainer, Retention, RetentionPass, RetentionPolicies, open_archive,
    read_archived, verify,
};
use goldseam::admin::{copier, reopen_store};
use goldseam::client::By;
use goldseam::unstable::core::Event;
use goldseam::unstable::core::event::RunPruned;
use goldseam::unstable::engine::{OsEntropy, SystemClock};
use goldseam::unstable::store::faulty::{CallFault, FaultPlan, StoreMethod};
use goldseam::unstable::store::{Expect, FaultyStore, StoreError};
use goldseam::{Client, Context, Error, Limits, Status, days, hours, mins};
use goldseam_store_sqlite::{SqliteOptions, SqliteStore, system_clock};

use super::support::{Scratch, eventually, new_task, reaches, run_id};

/// A client of the store at this path, some time later.
fn later(path: &Path, span: Duration) -> Client {
    let now = system_clock();
    let options = SqliteOptions { clock: Arc::new(move || now() + span), ..SqliteOptions::default() };
    Client::new(Arc::new(SqliteStore::open(path, options).unwrap()))
}

/// A store with ended runs, and an archive.
struct Kept {
    scratch: Scratch,
    archive: Arc<dyn Archive>,
}

impl Kept {
    fn new() -> Self {
        let scratch = Scratch::new();
        let archive = open_archive(scratch.folder().join("archive").to_str().unwrap()).unwrap().into();
        Self { scratch, archive }
    }

    /// Starts runs of a workflow and waits until they end: `fails` fails, `parent` waits for its signal.
    async fn with(self, runs: &[(&str, &str)]) -> Self {
        let double = |ctx: Context, (): ()| async move { ctx.step("two", || async { Ok(2) }).await };
        let fails = |ctx: Context, (): ()| async move {
            ctx.step("try", || async { Err::<u32, Error>(Error::terminal("no luck")) }).await
        };
        let parent = |ctx: Context, (): ()| async move {
            let doubled: u32 = ctx.child("kid", "order", &()).await?;
            ctx.signal::<()>("go").await?;
            Ok::<u32, Error>(doubled)
        };
        let builder = self.scratch.builder().await.workflow("order", double).workflow("short", double);
        let builder = builder.workflow("kept", double).workflow("fails", fails).workflow("parent", parent);
        let engine = builder.start().await.unwrap();
        for (workflow, run) in runs {
            engine.start(*workflow, run, &()).await.unwrap();
        }
        for (workflow, run) in runs {
            let status = match *workflow {
                "fails" => Status::Failed,
                "parent" => Status::Waiting,
                _ => Status::Completed,
            };
            reaches(engine.client(), run, status).await;
            if *workflow == "parent" {
                let is_child_over = || async {
                    let history = engine.client().history(&run_id(run)).await.unwrap();
                    history.iter().any(|record| matches!(record.event, Event::ChildCompleted { .. }))
                };
                eventually("the child has ended", is_child_over).await;
            }
        }
        engine.shutdown().await;
        self
    }

    fn path(&self) -> std::path::PathBuf {
        self.scratch.folder().join("test.db")
    }

    fn later(&self, span: Duration) -> Client {
        later(&self.path(), span)
    }

    fn retainer(&self, policies: &str, span: Duration) -> Retainer {
        Retainer::new(self.later(span), Arc::clone(&self.archive), policies.parse().unwrap())
    }

    async fn pass(&self, policies: &str, span: Duration) -> RetentionPass {
        self.retainer(policies, span).pass().await.unwrap().unwrap()
    }

    async fn tombstone(&self, run: &str) -> RunPruned {
        tombstone(&self.later(Duration::ZERO), run).await
    }
}

/// The only event of a pruned run.
async fn tombstone(client: &Client, run: &str) -> RunPruned {
    let history = client.history(&run_id(run)).await.unwrap();
    match history.as_slice() {
        [only] => match &only.event {
            Event::RunPruned(pruned) => pruned.clone(),
            other => panic!("{run}: {other:?}"),
        },
        more => panic!("{run} has {} events", more.len()),
    }
}

fn names(report: &PruneReport) -> Vec<&str> {
    let mut names: Vec<&str> = report.pruned.iter().map(|pruned| pruned.run.as_str()).collect();
    names.sort_unstable();
    names
}

const POLICIES: &str = "completed=7d, failed=90d, short:completed=1d, kept:completed=forever";

#[tokio::test]
async fn pass_prunes_exactly_the_runs_whose_policy_has_passed() {
    let all = [("order", "o"), ("fails", "f"), ("short", "s"), ("kept", "k"), ("parent", "waits")];
    let kept = Kept::new().with(&all).await;
    let client = kept.later(Duration::ZERO);
    // Cancelled runs have no policy.
    client.start("parent", &run_id("c"), &goldseam::Payload::null()).await.unwrap();
    client.terminate(&run_id("c"), By::default()).await.unwrap();
    for (span, due) in [(hours(23), &[][..]), (days(2), &["s"]), (days(8), &["o"]), (days(91), &["f"])] {
        let pass = kept.pass(POLICIES, span).await;
        assert_eq!((names(&pass.report).as_slice(), pass.is_round_over), (due, true), "{span:?}");
        let archived = pass.report.batches.first().map(|place| read_archived(place));
        if let Some(archived) = archived {
            assert_eq!(verify(&archived.await.unwrap()).unwrap().len(), due.len());
        }
    }
    let last = kept.pass(POLICIES, days(4_000)).await;
    assert_eq!((names(&last.report).len(), last.held), (0, 1), "the child of the waiting run is held");
    for run in ["k", "waits", "c"] {
        assert!(client.get(&run_id(run)).await.unwrap().pruned.is_none(), "{run}");
    }
    let result: u32 = client.handle(run_id("o")).result().await.unwrap();
    assert_eq!(result, 2, "a tombstone answers for its run");
}

#[tokio::test]
async fn tombstone_of_a_policy_equals_that_of_a_prune_by_hand() {
    let kept = Kept::new().with(&[("order", "o"), ("fails", "f")]).await;
    let twin = tempfile::tempdir().unwrap();
    let from = kept.scratch.url();
    let to = format!("sqlite:{}", twin.path().join("test.db").display());
    copier(&from, &to, CopyOptions::default()).await.unwrap().copy().await.unwrap();
    reopen_store(&from).await.unwrap();
    assert_eq!(names(&kept.pass("completed=1h,failed=1h", hours(2)).await.report), ["f", "o"]);
    let by_hand = later(&twin.path().join("test.db"), hours(2));
    let wanted = Retention { older_than: hours(1), statuses: Vec::new(), workflow: None, limit: None };
    let plan = Pruner::new(&by_hand).plan(&wanted).await.unwrap();
    Pruner::new(&by_hand).prune(&plan, &*kept.archive, &By::default(), &mut |_| ()).await.unwrap();
    for run in ["o", "f"] {
        let ours = kept.tombstone(run).await;
        let theirs = tombstone(&by_hand, run).await;
        assert_eq!(ours.note.by.as_deref(), Some("retention policy"));
        let note = ours.note.clone();
        let archive = ours.archive.clone();
        assert_eq!(ours, RunPruned { note, archive, ..theirs });
    }
}

#[tokio::test]
async fn only_one_of_two_retainers_makes_a_pass() {
    let kept = Kept::new().with(&[("order", "a"), ("order", "b")]).await;
    let one = kept.retainer("completed=1h", hours(2));
    let two = kept.retainer("completed=1h", hours(2));
    let (one, two) = tokio::join!(one.pass(), two.pass());
    let passes: Vec<RetentionPass> = [one, two].into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(passes.len(), 1, "{passes:?}");
    assert_eq!(names(&passes[0].report), ["a", "b"]);
    assert_eq!(kept.retainer("completed=1h", hours(2)).pass().await.unwrap(), None, "too early");
    assert!(kept.retainer("completed=1h", hours(2) + mins(2)).pass().await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_passes_at_once_leave_one_tombstone_for_each_run() {
    let runs: Vec<String> = (0..20).map(|number| format!("r-{number}")).collect();
    let all: Vec<(&str, &str)> = runs.iter().map(|run| ("order", run.as_str())).collect();
    let kept = Kept::new().with(&all).await;
    // The second clock is so far ahead that the first node seems dead.
    let one = kept.retainer("completed=1h", hours(2));
    let two = kept.retainer("completed=1h", hours(3));
    let (one, two) = tokio::join!(tokio::spawn(async move { one.pass().await }), two.pass());
    let passes: Vec<RetentionPass> =
        [one.unwrap(), two].into_iter().filter_map(|pass| pass.unwrap_or_default()).collect();
    assert!(!passes.is_empty());
    for run in &runs {
        let found = kept.tombstone(run).await;
        let archived = verify(&read_archived(&found.archive).await.unwrap()).unwrap();
        let ours = archived.iter().find(|archived| archived.run.as_str() == run.as_str()).unwrap();
        assert_eq!((&ours.sha256, ours.events), (&found.sha256, found.events));
    }
    assert!(goldseam::admin::check_store(&kept.scratch.url()).await.unwrap().is_sound());
}

/// An archive that refuses to write.
#[derive(Debug)]
struct FullArchive {
    inner: Arc<dyn Archive>,
    is_full: AtomicBool,
}

#[async_trait]
impl Archive for FullArchive {
    fn place(&self, name: &str) -> String {
        self.inner.place(name)
    }

    async fn put(&self, name: &str, batch: Vec<u8>) -> Result<(), StoreError> {
        match self.is_full.load(Ordering::Relaxed) {
            true => Err(StoreError::Refused {
                code: "GS0133",
                what: "the disk is full".to_owned(),
                hint: "make room".into(),
            }),
            false => self.inner.put(name, batch).await,
        }
    }

    async fn get(&self, name: &str) -> Result<Vec<u8>, StoreError> {
        self.inner.get(name).await
    }
}

#[tokio::test]
async fn failing_archive_keeps_the_runs_until_a_later_pass() {
    let kept = Kept::new().with(&[("order", "o")]).await;
    let full = FullArchive { inner: Arc::clone(&kept.archive), is_full: AtomicBool::new(true) };
    let full = Arc::new(full);
    let retainer = |span| {
        let policies: RetentionPolicies = "completed=1h".parse().unwrap();
        Retainer::new(kept.later(span), Arc::clone(&full) as Arc<dyn Archive>, policies)
    };
    let before = kept.later(Duration::ZERO).history(&run_id("o")).await.unwrap();
    for minute in 0..5 {
        let failed = retainer(hours(2) + mins(minute * 2)).pass().await.unwrap_err();
        assert_eq!(failed.code(), "GS0133");
    }
    assert_eq!(kept.later(Duration::ZERO).history(&run_id("o")).await.unwrap(), before);
    full.is_full.store(false, Ordering::Relaxed);
    let pass = retainer(hours(2) + mins(10)).pass().await.unwrap().unwrap();
    assert_eq!(names(&pass.report), ["o"]);
}

#[tokio::test]
async fn pass_holds_runs_with_an_active_relative_or_task() {
    let kept = Kept::new().with(&[("parent", "p"), ("order", "busy"), ("order", "alone")]).await;
    let client = kept.later(Duration::ZERO);
    let now = client.store().now().await.unwrap();
    let mut task = new_task("open", "elsewhere").into_task(now);
    task.run = Some(run_id("busy"));
    client.store().put_task(task, Expect::Absent).await.unwrap();
    let pass = kept.pass("completed=1h", hours(2)).await;
    assert_eq!((names(&pass.report), pass.held), (vec!["alone"], 2), "{pass:?}");
    client.terminate(&run_id("p"), By::default()).await.unwrap();
    let pass = kept.pass("completed=1h", hours(3)).await;
    assert_eq!((pass.report.pruned.len(), pass.held), (1, 1), "the child of the ended parent: {pass:?}");
}

#[tokio::test]
async fn a_pass_is_bounded_and_the_next_one_continues() {
    let runs: Vec<String> = (0..230).map(|number| format!("r-{number:03}")).collect();
    let all: Vec<(&str, &str)> = runs.iter().map(|run| ("order", run.as_str())).collect();
    let kept = Kept::new().with(&all).await;
    let first = kept.pass("completed=1h", hours(2)).await;
    assert_eq!((first.report.pruned.len(), first.is_round_over), (200, false));
    let second = kept.pass("completed=1h", hours(2) + mins(2)).await;
    assert_eq!((second.report.pruned.len(), second.is_round_over), (30, true));
}

#[tokio::test]
async fn later_pass_removes_a_log_that_an_interrupted_one_left() {
    let kept = Kept::new().with(&[("order", "o")]).await;
    let store = Arc::clone(kept.later(hours(2)).store());
    let faulty = FaultyStore::new(store, FaultPlan::pass().every(StoreMethod::Trim, CallFault::FailBefore));
    let limits = Limits { store_patience: Duration::ZERO, ..Limits::default() };
    let client = Client::with(Arc::new(faulty), Arc::new(SystemClock), Arc::new(OsEntropy), limits);
    let died = Retainer::new(client, Arc::clone(&kept.archive), "completed=1h".parse().unwrap());
    died.pass().await.unwrap_err();
    let client = kept.later(hours(2));
    assert!(client.get(&run_id("o")).await.unwrap().pruned.is_some());
    let events = || async { client.store().read(&run_id("o"), goldseam::Seq::ZERO, 99).await.unwrap().len() };
    assert!(events().await > 1, "the log is left");
    let pass = kept.pass("completed=1h", hours(2) + mins(2)).await;
    assert_eq!((pass.report.finished, events().await), (1, 1), "{pass:?}");
    let again = kept.pass("completed=1h", hours(5)).await;
    assert_eq!(again.report, PruneReport::default());
}

#[tokio::test]
async fn retainer_makes_its_first_pass_some_time_after_the_start() {
    let kept = Kept::new().with(&[("order", "o")]).await;
    let client = kept.later(hours(2));
    let retaining = tokio::spawn(kept.retainer("completed=1h", hours(2)).run());
    // No call of the store waits while time is paused: it would move on by itself.
    let pass_time = async |seconds| {
        tokio::time::pause();
        tokio::task::yield_now().await;
        tokio::time::advance(Duration::from_secs(seconds)).await;
        tokio::time::resume();
    };
    pass_time(30).await;
    assert!(client.locks().list(None, 9).await.unwrap().is_empty(), "no pass has begun");
    pass_time(37).await;
    let is_pruned = || async { client.get(&run_id("o")).await.unwrap().pruned.is_some() };
    eventually("the run is pruned", is_pruned).await;
    retaining.abort();
    // A retainer without policies ends.
    kept.retainer("completed=forever", hours(2)).run().await;
}
