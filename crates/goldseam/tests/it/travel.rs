//! Branches: jumps and retries leave everything that happened in the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use goldseam::client::Jump;
use goldseam::core::BranchId;
use goldseam::prelude::*;
use goldseam::{Path, RunId, Status};

use crate::support::{Scratch, Witness, reaches};

fn three_steps(witness: &Witness) -> impl Fn(Context, u32) -> Boxed + Send + Sync + 'static {
    let witness = witness.clone();
    move |ctx, input| {
        let witness = witness.clone();
        Box::pin(async move {
            let mut sum = 0;
            for name in ["a", "b", "c"] {
                let witness = &witness;
                sum += ctx
                    .step(name, || async move {
                        witness.saw(name);
                        Ok::<_, Error>(input)
                    })
                    .await?;
            }
            Ok(sum)
        })
    }
}

type Boxed = std::pin::Pin<Box<dyn Future<Output = goldseam::Result<u32>> + Send>>;

#[tokio::test]
async fn a_jump_runs_again_from_the_step_and_keeps_the_old_branch() {
    let scratch = Scratch::new();
    let witness = Witness::default();
    let engine = scratch.builder().await.workflow("w", three_steps(&witness)).start().await.unwrap();
    let run = engine.run("w", "r", &1u32).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 3);
    let before = engine.history(run.id()).await.unwrap();
    engine.jump(run.id(), &Path::new("b").unwrap(), Jump::default()).await.unwrap();
    reaches(&engine, "r", Status::Completed).await;
    assert_eq!(run.result::<u32>().await.unwrap(), 3);
    assert_eq!((witness.count("a"), witness.count("b"), witness.count("c")), (1, 2, 2));
    let after = engine.history(run.id()).await.unwrap();
    assert_eq!(before[..], after[..before.len()], "nothing that happened is gone");
    let state = engine.state(run.id()).await.unwrap();
    assert_eq!(state.summary.branch, BranchId(2));
    engine.shutdown().await;
}

#[tokio::test]
async fn a_jump_may_bring_other_input() {
    let scratch = Scratch::new();
    let witness = Witness::default();
    let engine = scratch.builder().await.workflow("w", three_steps(&witness)).start().await.unwrap();
    let run = engine.run("w", "r", &1u32).await.unwrap();
    run.result::<u32>().await.unwrap();
    let input = goldseam::Payload::parse("10", &goldseam::Limits::default()).unwrap();
    let jump = Jump { input: Some(input), ..Jump::default() };
    engine.jump(run.id(), &Path::new("c").unwrap(), jump).await.unwrap();
    reaches(&engine, "r", Status::Completed).await;
    assert_eq!(run.result::<u32>().await.unwrap(), 12);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_jump_to_a_step_that_does_not_exist_is_refused_and_changes_nothing() {
    let scratch = Scratch::new();
    let engine =
        scratch.builder().await.workflow("w", three_steps(&Witness::default())).start().await.unwrap();
    let run = engine.run("w", "r", &1u32).await.unwrap();
    run.result::<u32>().await.unwrap();
    let before = engine.history(run.id()).await.unwrap();
    let error = engine.jump(run.id(), &Path::new("z").unwrap(), Jump::default()).await.unwrap_err();
    assert_eq!((error.code(), error.to_string().as_str()), ("GS0106", "run r: the run has no step z"));
    assert_eq!(engine.history(run.id()).await.unwrap(), before);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_jump_with_compensation_undoes_what_lies_after_the_step_first() {
    let scratch = Scratch::new();
    let witness = Witness::default();
    let seen = witness.clone();
    let engine = scratch
        .builder()
        .await
        .workflow("w", move |ctx: Context, (): ()| {
            let seen = seen.clone();
            async move {
                for name in ["a", "b"] {
                    let (done, undone) = (seen.clone(), seen.clone());
                    ctx.step(name, move || {
                        done.saw(format!("do {name}"));
                        async { Ok::<_, Error>(()) }
                    })
                    .compensate(move |(): ()| {
                        undone.saw(format!("undo {name}"));
                        async { Ok::<_, Error>(()) }
                    })
                    .await?;
                }
                ctx.signal::<()>("end").await
            }
        })
        .start()
        .await
        .unwrap();
    let run = engine.run("w", "r", &()).await.unwrap();
    reaches(&engine, "r", Status::Waiting).await;
    let jump = Jump { compensate: true, ..Jump::default() };
    engine.jump(run.id(), &Path::new("b").unwrap(), jump).await.unwrap();
    run.signal("end", &()).await.unwrap();
    run.result::<()>().await.unwrap();
    let counts = ["do a", "undo a", "do b", "undo b"].map(|what| witness.count(what));
    assert_eq!(counts, [1, 0, 2, 1]);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_failed_run_is_tried_again_from_its_failed_step() {
    let scratch = Scratch::new();
    let (witness, broken) = (Witness::default(), Arc::new(AtomicBool::new(true)));
    let (seen, is_broken) = (witness.clone(), Arc::clone(&broken));
    let engine = scratch
        .builder()
        .await
        .workflow("w", move |ctx: Context, (): ()| {
            let (seen, is_broken) = (seen.clone(), Arc::clone(&is_broken));
            async move {
                ctx.step("fine", || async {
                    seen.saw("fine");
                    Ok::<_, Error>(())
                })
                .await?;
                ctx.step("broken", || async {
                    seen.saw("broken");
                    if is_broken.load(Ordering::SeqCst) { Err(Error::terminal("broken")) } else { Ok(()) }
                })
                .await
            }
        })
        .start()
        .await
        .unwrap();
    let run = engine.run("w", "r", &()).await.unwrap();
    assert!(run.result::<()>().await.is_err());
    broken.store(false, Ordering::SeqCst);
    engine.retry(run.id(), Default::default()).await.unwrap();
    reaches(&engine, "r", Status::Completed).await;
    assert_eq!((witness.count("fine"), witness.count("broken")), (1, 2));
    assert_eq!(engine.retry(run.id(), Default::default()).await.unwrap_err().code(), "GS0110");
    engine.shutdown().await;
}

/// temporalio: a workflow whose code had changed was tried again for ever, and seemed to run.
#[tokio::test]
async fn nondeterminism_parks_run() {
    let scratch = Scratch::new();
    let flow = |first: &'static str| {
        move |ctx: Context, (): ()| async move {
            ctx.step(first, || async { Ok::<_, Error>(()) }).await?;
            ctx.signal::<()>("go").await
        }
    };
    let one = scratch.builder().await.workflow("w", flow("old")).start().await.unwrap();
    one.run("w", "r", &()).await.unwrap();
    reaches(&one, "r", Status::Waiting).await;
    one.shutdown().await;
    let two = scratch.builder().await.workflow("w", flow("new")).start().await.unwrap();
    let run = two.handle(RunId::new("r").unwrap());
    run.signal("go", &()).await.unwrap();
    reaches(&two, "r", Status::Parked).await;
    let trouble = two.get(run.id()).await.unwrap().trouble.unwrap();
    assert_eq!(trouble.code.as_deref(), Some("V1"));
    assert_eq!(trouble.message, "operation 1 of the workflow is old in the log, and new in the code");
    two.shutdown().await;
    let three = scratch.builder().await.workflow("w", flow("old")).start().await.unwrap();
    three.resume(run.id(), Default::default()).await.unwrap();
    three.handle(run.id().clone()).result::<()>().await.unwrap();
    three.shutdown().await;
}
