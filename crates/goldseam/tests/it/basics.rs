//! Steps, crashes and signals.

use goldseam::Status;
use goldseam::prelude::*;

use crate::support::{Counter, Scratch, eventually, ok, reaches, run_id, with_state};

#[tokio::test]
async fn workflow_returns_its_result() {
    let scratch = Scratch::new();
    let engine = scratch
        .engine("sum", |ctx: Context, numbers: Vec<u32>| async move {
            let mut total = 0;
            for number in &numbers {
                total += ctx.step("add", || ok(*number)).await?;
            }
            Ok(total)
        })
        .await;
    let run = engine.start("sum", "s1", &[1u32, 2, 3]).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 6);
    assert_eq!(run.status().await.unwrap(), Status::Completed);
    let history = engine.client().history(run.id()).await.unwrap();
    let names: Vec<&str> = history.iter().map(|recorded| recorded.event.name()).collect();
    assert_eq!(
        names,
        [
            "run.queued",
            "run.claimed",
            "run.started",
            "step.completed",
            "step.completed",
            "step.completed",
            "run.completed"
        ]
    );
    engine.shutdown().await;
}

#[tokio::test]
async fn completed_steps_are_skipped_after_a_crash() {
    let scratch = Scratch::new();
    let counter = Counter::default();
    let build = |hang: bool| {
        with_state(&counter, move |ctx: Context, (): (), counter| async move {
            ctx.step("one", || counter.step("one")).await?;
            ctx.step("two", || counter.step_or_hang("two", hang)).await?;
            Ok("done")
        })
    };
    let first = scratch.engine("w", build(true)).await;
    first.start("w", "r", &()).await.unwrap();
    eventually("step two began", || async { counter.count("two") == 1 }).await;
    first.crash();
    let second = scratch.engine("w", build(false)).await;
    let run = second.handle(run_id("r"));
    assert_eq!(run.result::<String>().await.unwrap(), "done");
    assert_eq!((counter.count("one"), counter.count("two")), (1, 2));
    second.shutdown().await;
}

#[tokio::test]
async fn queued_signals_wake_an_unloaded_run_in_order() {
    let scratch = Scratch::new();
    let engine = scratch
        .engine("w", |ctx: Context, (): ()| async move {
            let first: u32 = ctx.signal("go").await?;
            let second: u32 = ctx.signal("go").await?;
            Ok((first, second))
        })
        .await;
    let run = engine.start("w", "r", &()).await.unwrap();
    reaches(engine.client(), "r", Status::Waiting).await;
    eventually("the run left memory", || async { engine.live_runs() == 0 }).await;
    run.signal("go", &1).await.unwrap();
    run.signal("go", &2).await.unwrap();
    assert_eq!(run.result::<(u32, u32)>().await.unwrap(), (1, 2));
    engine.shutdown().await;
}
