//! What a sweep examines, what it reads, and when it heals.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use goldseam_conformance::Fixture;
use goldseam_core::recovery::Code;
use goldseam_core::task::Task;
use goldseam_core::{Event, Limits, Millis, QueueName, Status};
use goldseam_engine::heal::foreign::ForeignOptions;
use goldseam_engine::heal::sweeper::{Fate, SweepOptions, SweepReport};
use goldseam_engine::queue::Want;
use goldseam_engine::{Client, Clock, Context, Engine, OsEntropy, SystemClock};
use goldseam_store::faulty::{FaultPlan, StoreMethod};
use goldseam_store::{Expect, FaultyStore, TaskFilter};
use goldseam_suite::eventually;
use goldseam_suite::harness::{Harness, id};

fn fresh() -> Fixture {
    Fixture::memory_on(Arc::new(|| SystemClock.now()))
}

fn at_once() -> SweepOptions {
    SweepOptions { stale_after: Some(Duration::ZERO), ..SweepOptions::default() }
}

/// A client whose calls are counted.
fn counted(fixture: &Fixture) -> (Arc<FaultyStore>, Client) {
    let store = Arc::new(FaultyStore::new(Arc::clone(&fixture.store), FaultPlan::pass()));
    let client = Client::with(store.clone(), Arc::new(SystemClock), Arc::new(OsEntropy), Limits::default());
    (store, client)
}

fn reads(store: &FaultyStore) -> usize {
    store.calls().iter().filter(|call| call.op == StoreMethod::Read).count()
}

fn counts(report: &SweepReport) -> [u64; 4] {
    [report.scanned, report.terminal, report.healthy, report.stalled.len() as u64]
}

fn rules(report: &SweepReport) -> Vec<&str> {
    report.stalled.iter().map(|stalled| stalled.found.diagnosis.rule.as_str()).collect()
}

#[tokio::test]
async fn run_of_a_live_node_is_not_read() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    let engine = harness.two_steps().await;
    harness.start("two", "r", "false").await;
    harness.sees("b", 1).await;
    let (store, client) = counted(&fixture);
    let report = client.sweeper(at_once()).sweep().await.unwrap();
    assert_eq!((counts(&report), reads(&store)), ([1, 0, 1, 0], 0));
    let deep = client.sweeper(SweepOptions { deep: true, ..at_once() }).sweep().await.unwrap();
    assert_eq!(counts(&deep), [1, 0, 1, 0]);
    assert!(reads(&store) > 0, "a deep sweep reads everything");
    engine.crash();
}

#[tokio::test]
async fn healthy_run_is_not_read_again_until_it_changes() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    let engine = harness.asked("r").await;
    let (store, client) = counted(&fixture);
    let mut sweeper = client.sweeper(at_once());
    let mut deep = client.sweeper(SweepOptions { deep: true, ..at_once() });
    assert_eq!(counts(&sweeper.sweep().await.unwrap()), [1, 0, 1, 0]);
    let once = reads(&store);
    assert!(once > 0);
    assert_eq!(counts(&sweeper.sweep().await.unwrap()), [1, 0, 1, 0]);
    assert_eq!(reads(&store), once, "nothing has changed");
    for times in 1..=2 {
        deep.sweep().await.unwrap();
        assert_eq!(reads(&store), once * (1 + times), "a deep sweep reads healthy runs, too");
    }
    let task = harness.task("r").await.unwrap();
    harness.damage().lose_task(&task.id).await;
    assert_eq!(rules(&sweeper.sweep().await.unwrap()), ["O1"]);
    engine.shutdown().await;
}

/// A waiting run with a remote step.
async fn hands_out(harness: &Harness<'_>, silence: Duration) -> (Engine, Task) {
    let work = move |ctx: Context, (): ()| async move {
        ctx.remote::<u32>("resize", &7).queue("gpu").heartbeat_timeout(silence).await
    };
    let engine = harness.builder().workflow("remote", work).start().await.unwrap();
    harness.start("remote", "r", "null").await;
    harness.reaches("r", Status::Waiting).await;
    harness.rests("r").await;
    let id = harness.client.get(&id("r")).await.unwrap().waits[0].tasks[0].clone();
    let filter = TaskFilter { id: Some(id), limit: 1, ..TaskFilter::default() };
    let task = harness.store().tasks(filter).await.unwrap().remove(0);
    (engine, task)
}

async fn claimed(harness: &Harness<'_>) -> Task {
    let queue = QueueName::new("gpu").unwrap();
    let want = Want { owner: "ada".to_owned(), queue, kind: None, limit: 1 };
    harness.client.queue().claim(want).await.unwrap().remove(0)
}

#[tokio::test]
async fn a_remote_step_is_left_alone_while_it_waits_or_beats() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    let (engine, _) = hands_out(&harness, Duration::from_secs(60)).await;
    let (store, client) = counted(&fixture);
    let mut sweeper = client.sweeper(at_once());
    sweeper.sweep().await.unwrap();
    let once = reads(&store);
    let held = claimed(&harness).await;
    assert_eq!((counts(&sweeper.sweep().await.unwrap()), reads(&store)), ([1, 0, 1, 0], once));
    let now = harness.store().now().await.unwrap();
    let expect = Expect::Version(held.version);
    harness.store().put_task(held.cancelled(now).unwrap(), expect).await.unwrap();
    assert_eq!(rules(&sweeper.sweep().await.unwrap()), ["O3"], "its task is over, and its row unchanged");
    engine.shutdown().await;
}

#[tokio::test]
async fn only_a_claimed_step_can_be_silent() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    let silence = Duration::from_millis(1);
    let (engine, task) = hands_out(&harness, silence).await;
    let past = task.last_sign() + silence;
    eventually("it is old", || async { harness.store().now().await.unwrap() > past }).await;
    let (store, client) = counted(&fixture);
    let mut sweeper = client.sweeper(at_once());
    sweeper.sweep().await.unwrap();
    let once = reads(&store);
    assert_eq!((counts(&sweeper.sweep().await.unwrap()), reads(&store)), ([1, 0, 1, 0], once));
    let past = claimed(&harness).await.last_sign() + silence;
    eventually("it is silent", || async { harness.store().now().await.unwrap() > past }).await;
    let report = sweeper.sweep().await.unwrap();
    assert_eq!((rules(&report), report.healed), (vec!["H1"], 1));
    engine.shutdown().await;
}

#[tokio::test]
async fn sweep_examines_active_runs_and_more_only_on_request() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    let engine = harness.two_steps_open().await;
    harness.start("two", "over", "true").await;
    harness.reaches("over", Status::Completed).await;
    engine.shutdown().await;
    harness.at_the_question("parked").await;
    harness.forge("parked", vec![Event::RunParked { code: "V1".to_owned(), reason: "no".to_owned() }]).await;
    let swept = async |options| counts(&harness.client.sweeper(options).sweep().await.unwrap());
    assert_eq!(swept(at_once()).await, [0, 0, 0, 0]);
    assert_eq!(swept(SweepOptions { parked: true, ..at_once() }).await, [1, 0, 0, 1]);
    assert_eq!(swept(SweepOptions { deep: true, ..at_once() }).await, [2, 1, 0, 1]);
}

#[tokio::test]
async fn foreign_states_are_examined_only_on_request() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    let looks = async |options| harness.client.sweeper(options).sweep().await.unwrap().foreign.is_some();
    assert!(!looks(at_once()).await);
    let asked = SweepOptions { foreign: Some(ForeignOptions::default()), ..at_once() };
    assert!(looks(asked.clone()).await);
    assert!(!looks(SweepOptions { rule: Some(Code::O1), ..asked }).await);
}

#[tokio::test]
async fn late_row_is_rewritten_by_a_sweep_of_every_rule() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    harness.between_steps("r").await;
    harness
        .lie("r", |row| {
            row.status = Status::Waiting;
            row.as_of = row.as_of.before();
        })
        .await;
    let late = harness.row("r").await;
    for options in
        [SweepOptions { dry_run: true, ..at_once() }, SweepOptions { rule: Some(Code::O1), ..at_once() }]
    {
        let report = harness.client.sweeper(options).sweep().await.unwrap();
        assert_eq!((report.rows_rewritten, harness.row("r").await), (0, late.clone()));
    }
    let report = harness.client.sweeper(at_once()).sweep().await.unwrap();
    assert_eq!((report.rows_rewritten, harness.row("r").await.summary.status), (1, Status::Queued));
}

#[tokio::test]
async fn tick_is_bounded_and_the_next_one_continues() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    harness.start("two", "first", "true").await;
    let now = harness.store().now().await.unwrap();
    eventually("time passes", || async { harness.store().now().await.unwrap() > now }).await;
    for number in 0..1_000 {
        harness.start("two", &format!("r{number}"), "true").await;
    }
    let mut sweeper = harness.client.sweeper(SweepOptions { dry_run: true, ..at_once() });
    let mut report = sweeper.tick().await.unwrap();
    assert_eq!((report.scanned, report.more), (1_000, true));
    assert_eq!(report.stalled[0].found.run, id("first"));
    report.add(sweeper.tick().await.unwrap());
    let runs: std::collections::BTreeSet<_> =
        report.stalled.iter().map(|stalled| stalled.found.run.clone()).collect();
    assert_eq!((report.scanned, report.more, runs.len()), (1_001, false, 1_001));
}

#[tokio::test]
async fn finding_is_healed_at_exactly_its_required_age() {
    let now = Arc::new(AtomicI64::new(SystemClock.now().0));
    let shown = Arc::clone(&now);
    let fixture = Fixture::memory_on(Arc::new(move || Millis(shown.load(Ordering::Relaxed))));
    let harness = Harness::on(&fixture);
    harness.start("two", "r", "true").await;
    let task = harness.task("r").await.unwrap();
    harness.damage().lose_task(&task.id).await;
    let body = r#"{"id":"wf","status":"running","orchestrator_task_id":"gone","updated_at":1}"#;
    harness.damage().put_foreign(&id("wf"), body).await;
    let stale_after = Some(Duration::from_millis(10));
    let foreign = Some(ForeignOptions::default());
    let options = SweepOptions { stale_after, foreign, ..SweepOptions::default() };
    let mut sweeper = harness.client.sweeper(options);
    let begun = now.load(Ordering::Relaxed);
    for (moved, fate) in [(0, Fate::Young), (4, Fate::Young), (9, Fate::Young), (10, Fate::Healed)] {
        now.store(begun + moved, Ordering::Relaxed);
        let report = sweeper.sweep().await.unwrap();
        let run = &report.stalled[0];
        let state = &report.foreign.as_ref().unwrap().stalled[0];
        assert_eq!((&run.fate, &state.fate), (&fate, &fate), "{moved}");
        assert_eq!((run.since, state.since), (Millis(begun), Millis(begun)), "{moved}");
    }
}

#[tokio::test]
async fn single_sweep_reads_the_age_of_a_finding_from_the_log() {
    let now = Arc::new(AtomicI64::new(SystemClock.now().0));
    let shown = Arc::clone(&now);
    let fixture = Fixture::memory_on(Arc::new(move || Millis(shown.load(Ordering::Relaxed))));
    let harness = Harness::on(&fixture);
    harness.start("two", "r", "true").await;
    harness.start("two", "well", "true").await;
    let task = harness.task("r").await.unwrap();
    harness.damage().lose_task(&task.id).await;
    let begun = now.load(Ordering::Relaxed);
    // A new sweeper each time, without earlier sightings.
    let once = || SweepOptions { from_log: true, ..SweepOptions::default() };
    let sweep = async || harness.client.sweeper(once()).sweep().await.unwrap();
    let fate = |report: &SweepReport| {
        let found = report.stalled.iter().find(|stalled| stalled.found.run == id("r"));
        found.map(|stalled| stalled.fate.clone())
    };
    now.store(begun + 590_000, Ordering::Relaxed);
    assert_eq!(fate(&sweep().await), Some(Fate::Young));
    now.store(begun + 700_000, Ordering::Relaxed);
    let report = sweep().await;
    assert_eq!(fate(&report), Some(Fate::Healed));
    // No node has its workflow: it waits for one, however old it is.
    let well = report.stalled.iter().find(|stalled| stalled.found.run == id("well"));
    assert!(well.is_none_or(|stalled| stalled.fate == Fate::NeedsHelp), "{well:?}");
}
