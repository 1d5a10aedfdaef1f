//! The views of SQL stores show real runs as they are derived.

use std::sync::Mutex;
use std::time::Duration;

use goldseam_conformance::views::any_difference;
use goldseam_core::Status;
use goldseam_store::TaskFilter;

use super::harness::{Harness, id};
use super::{Fixture, eventually};
use goldseam_engine::Attempt;
use goldseam_engine::Error;
use goldseam_engine::ledger::config::QUEUE_DETAILS;
use goldseam_engine::run::context::Context;

/// Checks that the views show the runs of a case. Live nodes may beat in between.
pub async fn show_what_is_so(fixture: &Fixture) {
    let last = Mutex::new(None);
    let same = async {
        while let Some(difference) = any_difference(fixture).await {
            *last.lock().unwrap() = Some(difference);
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(60), same).await.is_ok();
    assert!(in_time, "{}", last.lock().unwrap().as_deref().unwrap_or("the views do not answer"));
}

async fn falls_silent(attempt: Attempt) -> Result<(), Error> {
    attempt.heartbeat(&"half way");
    std::future::pending().await
}

/// A step that beats once and is then silent: the views show that it runs, then that it failed.
pub async fn views_show_a_step_run_beat_and_fail(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let work = |ctx: Context, (): ()| async move {
        ctx.step_with("long", falls_silent).heartbeat_timeout(Duration::from_millis(1_500)).await
    };
    let engine = harness.builder().workflow("long", work).start().await.unwrap();
    harness.start("long", "r", "null").await;
    let kept = || async {
        let filter = TaskFilter { run: Some(id("r")), limit: 9, ..TaskFilter::default() };
        let tasks = harness.store().tasks(filter).await.unwrap();
        tasks.iter().any(|task| task.queue.as_str() == QUEUE_DETAILS && task.kind == "heartbeat:long")
    };
    eventually("its heartbeat is kept where the views look for it", kept).await;
    show_what_is_so(fixture).await;
    harness.reaches("r", Status::Failed).await;
    show_what_is_so(fixture).await;
    if let Some(views) = &fixture.views {
        let shown = views.ask("SELECT status, failure_reason, retry_count FROM workflow_run_steps").await;
        assert_eq!(shown, [["failed", "heartbeat-timeout", "0"].map(|word| Some(word.to_owned()))]);
    }
    engine.shutdown().await;
}
