//! Changed code and stored runs: what a preflight predicts, what the engine then does, and migration.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use goldseam_conformance::Fixture;
use goldseam_core::decide::Refusal;
use goldseam_core::{Hint, RunId, Status};
use goldseam_store::{Closed, ClosedStore, RunFilter, Store, TaskFilter};

use super::eventually;
use super::harness::{Harness, id};
use goldseam_engine::client::By;
use goldseam_engine::preflight::{Preflight, PreflightReport, Verdict};
use goldseam_engine::run::context::Context;
use goldseam_engine::{Builder, Engine, EngineError, Error, Result};

/// What a build of `order` does.
#[derive(Clone, Copy)]
enum OrderBuild {
    /// `reserve` with a compensation, a signal, `ship`.
    First,
    /// `check` before `reserve`.
    Reordered,
    /// `check` before `reserve`, behind a marker.
    Patched,
    /// As the first, but nothing undoes `reserve`.
    NoUndo,
    /// `reserve` returns another type.
    Retyped,
    /// `ship` fails, so `reserve` is undone.
    Failing,
}

impl OrderBuild {
    fn on(self, harness: &Harness<'_>, version: u32, builder: Builder) -> Builder {
        let witness = harness.witness.clone();
        builder.workflow_version("order", version, move |ctx: Context, (): ()| {
            let witness = witness.clone();
            async move {
                let saw = |what: &'static str| {
                    witness.saw(what);
                    async move { Ok::<u32, Error>(7) }
                };
                let checks = match self {
                    Self::Reordered => true,
                    Self::Patched => ctx.changed("fraud-check").await?,
                    _ => false,
                };
                if checks {
                    ctx.step("check", || saw("check")).await?;
                }
                match self {
                    Self::NoUndo => drop(ctx.step("reserve", || saw("reserve")).await?),
                    Self::Retyped => {
                        ctx.step("reserve", || async { Ok(vec!["a".to_owned()]) }).await?;
                    }
                    _ => {
                        let witness = witness.clone();
                        let free = move |_: u32| {
                            witness.saw("free");
                            async { Ok::<(), Error>(()) }
                        };
                        ctx.step("reserve", || saw("reserve")).compensate(free).await?;
                    }
                }
                ctx.signal::<u32>("go").await?;
                if let Self::Failing = self {
                    return Err(Error::terminal("sold out"));
                }
                ctx.step("ship", || saw("ship")).await?;
                Ok::<u32, Error>(version)
            }
        })
    }

    async fn start(self, harness: &Harness<'_>, version: u32) -> Engine {
        self.on(harness, version, harness.builder()).start().await.unwrap()
    }

    /// A preflight of this code as a version, on a store that refuses every write.
    async fn preflight(self, harness: &Harness<'_>, version: u32, what: Preflight) -> PreflightReport {
        let closed = Closed { code: "GS0126", what: "a write".to_owned(), hint: Hint::default() };
        let store: Arc<dyn Store> = Arc::new(ClosedStore::new(Arc::clone(harness.store()), closed));
        let before = everything(harness).await;
        let report = self.on(harness, version, Engine::builder(store)).preflight(what).await.unwrap();
        assert_eq!(everything(harness).await, before, "a preflight wrote something");
        report
    }
}

/// All rows, tasks, logs and nodes, as text.
async fn everything(harness: &Harness<'_>) -> String {
    let filter = RunFilter { limit: 100, ..RunFilter::default() };
    let rows = harness.store().runs(filter).await.unwrap().items;
    let tasks = harness.store().tasks(TaskFilter { limit: 100, ..TaskFilter::default() }).await.unwrap();
    let nodes = harness.store().nodes().await.unwrap();
    let mut logs = Vec::new();
    for row in &rows {
        logs.push(harness.store().read(&row.summary.run, goldseam_core::Seq::ZERO, 1_000).await.unwrap());
    }
    format!("{rows:?}{tasks:?}{nodes:?}{logs:?}")
}

/// A run of `order` at version 1 that waits for its signal, without a node.
async fn waiting(harness: &Harness<'_>, run: &str) {
    let engine = OrderBuild::First.start(harness, 1).await;
    engine.start("order", run, &()).await.unwrap();
    harness.reaches(run, Status::Waiting).await;
    harness.rests(run).await;
    engine.shutdown().await;
}

async fn go(harness: &Harness<'_>, run: &str) {
    harness.client.handle(id(run)).signal("go", &1).await.unwrap();
}

fn verdict(report: &PreflightReport) -> &Verdict {
    assert_eq!(report.total(), 1, "{report}");
    report.findings.first().map_or(&Verdict::Safe, |finding| &finding.verdict)
}

fn by(reason: &str) -> By {
    By { who: Some("ada".to_owned()), reason: reason.to_owned(), ..By::default() }
}

async fn parked_reason(harness: &Harness<'_>, run: &str) -> String {
    harness.reaches(run, Status::Parked).await;
    harness.client.get(&id(run)).await.unwrap().trouble.unwrap().message
}

/// V.3
pub async fn a_preflight_of_unchanged_code_is_safe_and_writes_nothing(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    waiting(&harness, "r").await;
    waiting(&harness, "s").await;
    let report = OrderBuild::First.preflight(&harness, 1, Preflight::all()).await;
    assert_eq!((report.safe(), report.total(), report.exit_code()), (2, 2, 0), "{report}");
    assert_eq!(OrderBuild::First.preflight(&harness, 1, Preflight::sample(1)).await.total(), 1);
    let other = Preflight::all().workflow("other").unwrap();
    assert_eq!(OrderBuild::First.preflight(&harness, 1, other).await.total(), 0);
    assert_eq!(harness.witness.count("reserve"), 2);
    assert_eq!(harness.witness.count("ship"), 0);
}

/// V.3
pub async fn preflight_predicts_what_parks(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    waiting(&harness, "r").await;
    let report = OrderBuild::Reordered.preflight(&harness, 1, Preflight::all()).await;
    let Verdict::Parks { code, reason } = verdict(&report) else { panic!("{report}") };
    assert_eq!((code.as_str(), report.exit_code()), ("V1", PreflightReport::PARKS));
    let engine = OrderBuild::Reordered.start(&harness, 1).await;
    go(&harness, "r").await;
    assert_eq!(&parked_reason(&harness, "r").await, reason);
    engine.shutdown().await;
    let report = OrderBuild::Reordered.preflight(&harness, 1, Preflight::all()).await;
    assert_eq!(report.total(), 0, "a parked run is tried only if it is asked for: {report}");
    let report = OrderBuild::First.preflight(&harness, 1, Preflight::all().with_parked()).await;
    assert_eq!(verdict(&report), &Verdict::Safe);
    let report = OrderBuild::Retyped.preflight(&harness, 1, Preflight::all().with_parked()).await;
    assert_eq!(report.exit_code(), PreflightReport::PARKS, "{report}");
}

/// V.3
pub async fn preflight_reports_unknown_if_it_cannot_replay(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    waiting(&harness, "r").await;
    let report = OrderBuild::First.preflight(&harness, 2, Preflight::all()).await;
    let reason = "order@1 is not registered in this build".to_owned();
    assert_eq!(verdict(&report), &Verdict::Unknown { reason });
    assert_eq!(report.exit_code(), PreflightReport::UNKNOWN);
    let hangs = |ctx: Context, (): ()| async move {
        ctx.step("reserve", || async { Ok::<u32, Error>(1) }).await?;
        std::future::pending::<Result<u32>>().await
    };
    let over = Arc::new(AtomicBool::new(false));
    let seen = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&over);
    let begun = Arc::clone(&seen);
    let loops = move |_: Context, (): ()| {
        let until = Arc::clone(&until);
        let begun = Arc::clone(&begun);
        async move {
            begun.store(true, Ordering::Relaxed);
            while !until.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            Ok::<u32, Error>(1)
        }
    };
    let what = || Preflight::all().patience(Duration::from_millis(200));
    let builder = || Engine::builder(Arc::clone(harness.store()));
    for builder in [builder().workflow("order", hangs), builder().workflow("order", loops)] {
        let report = builder.preflight(what()).await.unwrap();
        assert!(matches!(verdict(&report), Verdict::Unknown { .. }), "{report}");
    }
    over.store(true, Ordering::Relaxed);
    assert!(seen.load(Ordering::Relaxed));
    let panics = |_: Context, (): ()| async move { panic!("no such customer") as Result<u32> };
    let report = builder().workflow("order", panics).preflight(Preflight::all()).await.unwrap();
    assert!(matches!(verdict(&report), Verdict::Fails { reason } if reason.contains("no such customer")));
}

/// V.3
pub async fn a_run_that_is_undone_needs_every_compensation(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    waiting(&harness, "r").await;
    let failure = goldseam_core::Failure::terminal("sold out");
    let path = goldseam_core::Path::new("reserve").unwrap();
    let undoing = goldseam_core::Event::CompensationStarted { path, failure: Some(failure) };
    harness.forge("r", vec![undoing]).await;
    let report = OrderBuild::NoUndo.preflight(&harness, 1, Preflight::all()).await;
    assert!(matches!(verdict(&report), Verdict::Parks { code, .. } if code == "GS0116"), "{report}");
    let report = OrderBuild::Failing.preflight(&harness, 1, Preflight::all()).await;
    assert_eq!(verdict(&report), &Verdict::Safe);
    assert_eq!(harness.witness.count("free"), 0);
}

/// T4: a marker inside one version.
pub async fn a_change_reaches_new_runs_and_leaves_older_ones(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    waiting(&harness, "old").await;
    let report = OrderBuild::Patched.preflight(&harness, 1, Preflight::all()).await;
    assert_eq!(verdict(&report), &Verdict::Safe);
    for _ in 0..2 {
        let engine = OrderBuild::Patched.start(&harness, 1).await;
        engine.start("order", "new", &()).await.unwrap();
        harness.reaches("new", Status::Waiting).await;
        harness.rests("new").await;
        engine.shutdown().await;
    }
    assert_eq!(harness.names("new").await.iter().filter(|name| *name == "change.marked").count(), 1);
    // The call can be removed once every run has the change: an unused marker parks nothing.
    let report = OrderBuild::Reordered.preflight(&harness, 1, Preflight::runs([id("new")])).await;
    assert_eq!(verdict(&report), &Verdict::Safe);
    let report = OrderBuild::Reordered.preflight(&harness, 1, Preflight::runs([id("old")])).await;
    assert!(matches!(verdict(&report), Verdict::Parks { .. }), "{report}");
    let engine = OrderBuild::Patched.start(&harness, 1).await;
    for run in ["old", "new"] {
        go(&harness, run).await;
        assert_eq!(harness.result::<u32>(run).await, 1);
    }
    engine.shutdown().await;
    assert!(!harness.names("old").await.contains(&"change.marked".to_owned()));
    assert_eq!((harness.witness.count("check"), harness.witness.count("ship")), (1, 2));
}

/// V.4
pub async fn a_migrated_run_goes_on_and_a_wrong_one_can_go_back(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    waiting(&harness, "r").await;
    let engine = OrderBuild::Reordered.start(&harness, 2).await;
    let error = engine.migrate(&id("r"), 2, by("too early")).await.unwrap_err();
    assert_eq!(error.code(), "GS0124", "{error}");
    engine.client().migrate(&id("r"), 2, by("forced")).await.unwrap();
    assert!(parked_reason(&harness, "r").await.contains("reserve"));
    engine.shutdown().await;

    let builder = OrderBuild::First.on(&harness, 1, harness.builder());
    let engine = OrderBuild::First.on(&harness, 3, builder).start().await.unwrap();
    engine.migrate(&id("r"), 1, by("back")).await.unwrap();
    let left = || async { harness.names("r").await.last().is_some_and(|name| name == "run.released") };
    eventually("the run was taken and rests again", left).await;
    engine.migrate(&id("r"), 3, by("version 1 goes")).await.unwrap();
    go(&harness, "r").await;
    assert_eq!(harness.result::<u32>("r").await, 3);
    engine.shutdown().await;
    let moves = harness.names("r").await.iter().filter(|name| *name == "version.changed").count();
    assert_eq!((moves, harness.witness.count("reserve"), harness.witness.count("ship")), (3, 1, 1));
}

/// V.4
pub async fn impossible_migration_is_refused(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    waiting(&harness, "r").await;
    let refusal = |run: &'static str, to| {
        let client = harness.client.clone();
        async move { refusal(client.migrate(&id(run), to, by("")).await) }
    };
    assert!(matches!(refusal("r", 0).await, Refusal::NothingToDo { .. }));
    assert!(matches!(refusal("r", 1).await, Refusal::NothingToDo { .. }));
    assert!(matches!(refusal("nowhere", 2).await, Refusal::NoSuchRun));
    // Owned by a live node, in the middle of a step.
    let engine = harness.two_steps().await;
    engine.start("two", "busy", &false).await.unwrap();
    harness.sees("b", 1).await;
    assert!(matches!(refusal("busy", 2).await, Refusal::Owned { .. }));
    engine.shutdown().await;
    let engine = OrderBuild::First.start(&harness, 1).await;
    go(&harness, "r").await;
    assert_eq!(harness.result::<u32>("r").await, 1);
    assert!(matches!(refusal("r", 2).await, Refusal::Finished { .. }));
    engine.shutdown().await;
}

fn refusal<T: std::fmt::Debug>(result: Result<T, EngineError>) -> Refusal {
    match result {
        Err(EngineError::Refused { refusal, .. }) => refusal,
        other => panic!("it was not refused: {other:?}"),
    }
}

/// A migrated run stays paused, and continues when it is resumed.
pub async fn a_paused_run_is_migrated_and_stays_paused(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    waiting(&harness, "r").await;
    let run: RunId = id("r");
    harness.client.pause(&run, by("look")).await.unwrap();
    harness.client.migrate(&run, 2, by("moved")).await.unwrap();
    assert_eq!(harness.client.get(&run).await.unwrap().status, Status::Paused);
    let engine = OrderBuild::First.start(&harness, 2).await;
    go(&harness, "r").await;
    engine.client().resume(&run, by("on")).await.unwrap();
    assert_eq!(harness.result::<u32>("r").await, 2);
    engine.shutdown().await;
}
