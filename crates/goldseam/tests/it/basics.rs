//! Steps, retries, sleeps, signals, questions, children, sagas: the ordinary life of a run.

use goldseam::prelude::*;
use goldseam::{RunId, Status};

use crate::support::{Scratch, Witness, eventually, reaches};

#[tokio::test]
async fn a_workflow_of_steps_returns_its_result() {
    let scratch = Scratch::new();
    let engine = scratch
        .builder()
        .await
        .workflow("sum", |ctx: Context, numbers: Vec<u32>| async move {
            let mut total = 0;
            for number in &numbers {
                total += ctx.step("add", || async { Ok::<_, Error>(*number) }).await?;
            }
            Ok::<_, Error>(total)
        })
        .start()
        .await
        .unwrap();
    let run = engine.run("sum", "s1", &[1u32, 2, 3]).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 6);
    assert_eq!(run.status().await.unwrap(), Status::Completed);
    let history = engine.history(run.id()).await.unwrap();
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
async fn a_crash_between_steps_skips_what_is_complete() {
    let scratch = Scratch::new();
    let witness = Witness::default();
    let build = |hang: bool| {
        let witness = witness.clone();
        move |ctx: Context, (): ()| {
            let witness = witness.clone();
            async move {
                ctx.step("one", || async {
                    witness.saw("one");
                    Ok::<_, Error>(())
                })
                .await?;
                ctx.step("two", || async {
                    witness.saw("two");
                    if hang {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, Error>(())
                })
                .await?;
                Ok::<_, Error>("done")
            }
        }
    };
    let first = scratch.builder().await.workflow("w", build(true)).start().await.unwrap();
    first.run("w", "r", &()).await.unwrap();
    eventually("step two began", || async { witness.count("two") == 1 }).await;
    first.crash();
    let second = scratch.builder().await.workflow("w", build(false)).start().await.unwrap();
    let run = second.handle(RunId::new("r").unwrap());
    assert_eq!(run.result::<String>().await.unwrap(), "done");
    assert_eq!((witness.count("one"), witness.count("two")), (1, 2));
    second.shutdown().await;
}

#[tokio::test]
async fn signals_wait_in_order_and_wake_a_run_that_left_memory() {
    let scratch = Scratch::new();
    let engine = scratch
        .builder()
        .await
        .workflow("w", |ctx: Context, (): ()| async move {
            let first: u32 = ctx.signal("go").await?;
            let second: u32 = ctx.signal("go").await?;
            Ok::<_, Error>((first, second))
        })
        .start()
        .await
        .unwrap();
    let run = engine.run("w", "r", &()).await.unwrap();
    reaches(&engine, "r", Status::Waiting).await;
    eventually("the run left memory", || async { engine.hot_runs() == 0 }).await;
    run.signal("go", &1).await.unwrap();
    run.signal("go", &2).await.unwrap();
    assert_eq!(run.result::<(u32, u32)>().await.unwrap(), (1, 2));
    engine.shutdown().await;
}
