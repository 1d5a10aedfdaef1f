//! Branches: jumps and retries never remove events from the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use goldseam::client::Jump;
use goldseam::prelude::*;
use goldseam::unstable::core::BranchId;
use goldseam::{Path, Status};

use crate::support::{Counter, Scratch, ok, reaches, run_id, with_state};

/// Executes the steps `a`, `b` and `c`; each returns the input.
async fn three_steps(ctx: Context, input: u32, counter: Counter) -> goldseam::Result<u32> {
    let mut sum = 0;
    for name in ["a", "b", "c"] {
        let step = || {
            counter.add(name);
            ok(input)
        };
        sum += ctx.step(name, step).await?;
    }
    Ok(sum)
}

#[tokio::test]
async fn jump_repeats_from_the_step_and_keeps_the_old_branch() {
    let scratch = Scratch::new();
    let counter = Counter::default();
    let engine = scratch.engine("w", with_state(&counter, three_steps)).await;
    let run = engine.start("w", "r", &1u32).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 3);
    let before = engine.client().history(run.id()).await.unwrap();
    engine.client().jump(run.id(), &Path::new("b").unwrap(), Jump::default()).await.unwrap();
    reaches(engine.client(), "r", Status::Completed).await;
    assert_eq!(run.result::<u32>().await.unwrap(), 3);
    assert_eq!((counter.count("a"), counter.count("b"), counter.count("c")), (1, 2, 2));
    let after = engine.client().history(run.id()).await.unwrap();
    assert_eq!(before[..], after[..before.len()], "no event was removed");
    let state = engine.client().state(run.id()).await.unwrap();
    assert_eq!(state.summary.branch, BranchId(2));
    engine.shutdown().await;
}

#[tokio::test]
async fn jump_may_change_the_input() {
    let scratch = Scratch::new();
    let counter = Counter::default();
    let engine = scratch.engine("w", with_state(&counter, three_steps)).await;
    let run = engine.start("w", "r", &1u32).await.unwrap();
    run.result::<u32>().await.unwrap();
    let input = goldseam::Payload::parse("10", &goldseam::Limits::default()).unwrap();
    let jump = Jump { input: Some(input), ..Jump::default() };
    engine.client().jump(run.id(), &Path::new("c").unwrap(), jump).await.unwrap();
    reaches(engine.client(), "r", Status::Completed).await;
    assert_eq!(run.result::<u32>().await.unwrap(), 12);
    engine.shutdown().await;
}

#[tokio::test]
async fn jump_to_an_unknown_step_is_refused() {
    let scratch = Scratch::new();
    let engine = scratch.engine("w", with_state(&Counter::default(), three_steps)).await;
    let run = engine.start("w", "r", &1u32).await.unwrap();
    run.result::<u32>().await.unwrap();
    let before = engine.client().history(run.id()).await.unwrap();
    let error = engine.client().jump(run.id(), &Path::new("z").unwrap(), Jump::default()).await.unwrap_err();
    assert_eq!((error.code(), error.to_string().as_str()), ("GS0106", "run r: the run has no step z"));
    assert_eq!(engine.client().history(run.id()).await.unwrap(), before);
    engine.shutdown().await;
}

#[tokio::test]
async fn jump_with_compensation_undoes_later_steps_first() {
    let scratch = Scratch::new();
    let counter = Counter::default();
    let workflow = with_state(&counter, move |ctx: Context, (): (), counter| async move {
        for name in ["a", "b"] {
            let done = counter.clone();
            let undone = counter.clone();
            ctx.step(name, move || done.step(format!("do {name}")))
                .compensate(move |(): ()| undone.step(format!("undo {name}")))
                .await?;
        }
        ctx.signal::<()>("end").await
    });
    let engine = scratch.engine("w", workflow).await;
    let run = engine.start("w", "r", &()).await.unwrap();
    reaches(engine.client(), "r", Status::Waiting).await;
    let jump = Jump { compensate: true, ..Jump::default() };
    engine.client().jump(run.id(), &Path::new("b").unwrap(), jump).await.unwrap();
    run.signal("end", &()).await.unwrap();
    run.result::<()>().await.unwrap();
    let counts = ["do a", "undo a", "do b", "undo b"].map(|what| counter.count(what));
    assert_eq!(counts, [1, 0, 2, 1]);
    engine.shutdown().await;
}

#[tokio::test]
async fn retry_repeats_from_the_failed_step() {
    let scratch = Scratch::new();
    let counter = Counter::default();
    let broken = Arc::new(AtomicBool::new(true));
    let state = (counter.clone(), Arc::clone(&broken));
    let workflow = with_state(&state, |ctx: Context, (): (), (counter, broken)| async move {
        ctx.step("fine", || counter.step("fine")).await?;
        ctx.step("broken", || async {
            counter.add("broken");
            if broken.load(Ordering::SeqCst) { Err(Error::terminal("broken")) } else { Ok(()) }
        })
        .await
    });
    let engine = scratch.engine("w", workflow).await;
    let run = engine.start("w", "r", &()).await.unwrap();
    assert!(run.result::<()>().await.is_err());
    broken.store(false, Ordering::SeqCst);
    engine.client().retry(run.id(), Default::default()).await.unwrap();
    reaches(engine.client(), "r", Status::Completed).await;
    assert_eq!((counter.count("fine"), counter.count("broken")), (1, 2));
    assert_eq!(engine.client().retry(run.id(), Default::default()).await.unwrap_err().code(), "GS0110");
    engine.shutdown().await;
}

/// temporalio: a workflow with changed code was retried forever and seemed to run.
#[tokio::test]
async fn nondeterminism_parks_run() {
    let scratch = Scratch::new();
    let flow = |first: &'static str| {
        move |ctx: Context, (): ()| async move {
            ctx.step(first, || ok(())).await?;
            ctx.signal::<()>("go").await
        }
    };
    let one = scratch.engine("w", flow("old")).await;
    one.start("w", "r", &()).await.unwrap();
    reaches(one.client(), "r", Status::Waiting).await;
    one.shutdown().await;
    let two = scratch.engine("w", flow("new")).await;
    let run = two.handle(run_id("r"));
    run.signal("go", &()).await.unwrap();
    reaches(two.client(), "r", Status::Parked).await;
    let trouble = two.client().get(run.id()).await.unwrap().trouble.unwrap();
    assert_eq!(trouble.code.as_deref(), Some("V1"));
    assert_eq!(trouble.message, "operation 1 of the workflow is old in the log, and new in the code");
    two.shutdown().await;
    let three = scratch.engine("w", flow("old")).await;
    three.client().resume(run.id(), Default::default()).await.unwrap();
    three.handle(run.id().clone()).result::<()>().await.unwrap();
    three.shutdown().await;
}
