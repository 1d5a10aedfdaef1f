//! Few troubled runs among many dormant ones: what a regular sweep reads, and what the shared walk reaches.

use std::time::Duration;

use goldseam_core::task::Task;
use goldseam_core::{RunId, Seq, Status};
use goldseam_engine::heal::sweeper::{SweepOptions, SweepReport, WalkSlice};
use goldseam_store::{Append, Expect, Row, TaskChange, Written};

use crate::Fixture;
use crate::harness::{Harness, id};

/// Number of dormant runs.
const DORMANT: u64 = 120;
/// Runs in a slice of the walk.
const SLICE: u32 = 20;

/// Copies the resting run `pattern` with its log, its row and its task.
async fn copy(harness: &Harness<'_>, name: &str) {
    let pattern = harness.row("pattern").await;
    let own = harness.task("pattern").await.unwrap();
    let log = harness.store().read(&id("pattern"), Seq::ZERO, 100).await.unwrap();
    let run: RunId = id(name);
    let summary = goldseam_core::Summary { run: run.clone(), ..pattern.summary };
    let task = Task { id: Task::advance_id(&run, 1), run: Some(run.clone()), version: 1, ..own };
    let append = Append {
        run,
        after: Seq::ZERO,
        bodies: log.into_iter().map(|record| record.body).collect(),
        row: Some(Box::new(summary)),
        tasks: vec![TaskChange::Create(Box::new(task))],
    };
    harness.store().append(append).await.unwrap();
}

/// A store with dormant runs and one troubled run of each kind.
async fn crowd(harness: &Harness<'_>) {
    harness.at_rest("pattern", "\"signal\"", Status::Waiting).await;
    for n in 0..DORMANT {
        copy(harness, &format!("dormant-{n:04}")).await;
    }
    for name in ["lost-claimant", "no-task-in-row", "zz-cancelled-task"] {
        copy(harness, name).await;
    }
    let now = harness.store().now().await.unwrap();
    harness.tamper("lost-claimant", |task| task.claimed("n-0000000000000009", now)).await;
    harness.tamper("zz-cancelled-task", |task| task.cancelled(now).unwrap()).await;
    let row = harness.row("no-task-in-row").await;
    let expect = Expect::Version(row.version());
    let put = harness.store().put_row(Row { task: None, ..row }, expect).await.unwrap();
    assert_eq!(put, Written::Done);
}

fn sliced() -> SweepOptions {
    let slice = WalkSlice {
        every: Duration::from_secs(3600),
        sweep: Duration::ZERO,
        rows_min: SLICE,
        rows_max: SLICE,
    };
    SweepOptions { stale_after: Some(Duration::ZERO), slice: Some(slice), ..SweepOptions::default() }
}

fn runs(report: &SweepReport) -> Vec<&str> {
    report.stalled.iter().map(|stalled| stalled.found.run.as_str()).collect()
}

/// The first regular sweep finds what indexes point to, and reads a slice of the rest.
pub async fn regular_sweep_finds_what_is_awake_among_dormant_runs(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    crowd(&harness).await;
    let report = harness.client.sweeper(sliced()).sweep().await.unwrap();
    assert!(report.scanned <= u64::from(SLICE) + 10, "{} runs read", report.scanned);
    if fixture.store.watches() {
        assert_eq!(runs(&report), ["lost-claimant"]);
        assert_eq!((report.healed, report.rows_rewritten), (1, 1));
        assert!(harness.row("no-task-in-row").await.task.is_some());
    }
}

/// Two sweepers share the walk: together they need one slice each for all runs.
pub async fn shared_walk_reaches_a_lost_task_once(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    crowd(&harness).await;
    let mut sweepers = [harness.client.sweeper(sliced()), harness.client.sweeper(sliced())];
    let slices = (DORMANT + 4).div_ceil(u64::from(SLICE)) + 1;
    let mut found = Vec::new();
    for n in 0..slices {
        let report = sweepers[usize::from(n % 2 == 1)].sweep().await.unwrap();
        found.extend(runs(&report).into_iter().map(str::to_owned));
    }
    found.sort();
    assert_eq!(found, ["lost-claimant", "zz-cancelled-task"]);
    let left = harness.look().await;
    assert!(left.findings.is_empty(), "{:?}", left.findings);
    assert_eq!(left.scanned, DORMANT + 4);
    // The cursor of the walk is not a lock of a user, and no rule frees it.
    assert!(harness.client.claims().stale_locks().await.unwrap().is_empty());
}

/// Doctor reads everything: in one call, and page by page.
pub async fn doctor_finds_everything_among_dormant_runs(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    crowd(&harness).await;
    let whole = harness.look().await;
    assert_eq!(whole.scanned, DORMANT + 4);
    let mut pages = Vec::new();
    let mut after = None;
    let mut scanned = 0;
    loop {
        let part = harness.client.doctor_part(Default::default(), after.as_deref()).await.unwrap();
        scanned += part.0.scanned;
        pages.extend(part.0.findings);
        after = part.1;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((scanned, pages), (whole.scanned, whole.findings));
    let error = harness.client.doctor_part(Default::default(), Some("nowhere:7")).await.unwrap_err();
    assert_eq!(error.code(), "GS0227");
}
