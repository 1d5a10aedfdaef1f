//! Children, cancellation of children, sagas, and `continue_as_new`.

use std::sync::{Arc, Mutex};

use goldseam::prelude::*;
use goldseam::{EngineError, Status};

use crate::support::{Counter, Scratch, eventually, ok, reaches, run_id, with_state};

#[tokio::test]
async fn child_returns_its_result_to_its_parent() {
    async fn double(ctx: Context, n: u32) -> goldseam::Result<u32> {
        ctx.step("double", || ok(n * 2)).await
    }
    async fn parent(ctx: Context, n: u32) -> goldseam::Result<u32> {
        let one: u32 = ctx.child("one", "double", &n).await?;
        ctx.child::<u32>("two", "double", &one).start().await?.result().await
    }
    let scratch = Scratch::new();
    let builder = scratch.builder().await.workflow("double", double).workflow("parent", parent);
    let engine = builder.start().await.unwrap();
    let run = engine.start("parent", "p", &10).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 40);
    let filter = goldseam::unstable::store::RunFilter {
        parent: Some(run.id().clone()),
        limit: 10,
        ..Default::default()
    };
    let children = engine.client().list(filter).await.unwrap().items;
    assert_eq!(children.len(), 2);
    assert!(children.iter().all(|row| row.summary.status == Status::Completed));
    engine.shutdown().await;
}

#[tokio::test]
async fn parent_may_continue_after_a_failed_child() {
    async fn bad(_: Context, (): ()) -> goldseam::Result<()> {
        Err(Error::terminal("no luck"))
    }
    async fn parent(ctx: Context, (): ()) -> goldseam::Result<String> {
        let failed = ctx.child::<()>("bad", "bad", &()).await.unwrap_err();
        Ok(failed.to_string())
    }
    let scratch = Scratch::new();
    let builder = scratch.builder().await.workflow("bad", bad).workflow("parent", parent);
    let engine = builder.start().await.unwrap();
    let run = engine.start("parent", "p", &()).await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), "step bad failed: no luck");
    engine.shutdown().await;
}

#[tokio::test]
async fn cancellation_reaches_every_open_child_before_the_parent_ends() {
    let scratch = Scratch::new();
    let engine = scratch
        .builder()
        .await
        .workflow("leaf", |ctx: Context, (): ()| async move { ctx.signal::<()>("never").await })
        .workflow("parent", |ctx: Context, (): ()| async move { ctx.child::<()>("leaf", "leaf", &()).await })
        .start()
        .await
        .unwrap();
    let run = engine.start("parent", "p", &()).await.unwrap();
    let filter = || goldseam::unstable::store::RunFilter {
        parent: Some(run_id("p")),
        limit: 10,
        ..Default::default()
    };
    eventually("the child waits", || async {
        let page = engine.client().list(filter()).await.unwrap();
        page.items.iter().any(|row| row.summary.status == Status::Waiting)
    })
    .await;
    run.cancel("no longer wanted").await.unwrap();
    let error = run.result::<()>().await.unwrap_err();
    assert!(matches!(error, EngineError::Ended { status: Status::Cancelled, .. }), "{error:?}");
    let child = engine.client().list(filter()).await.unwrap().items.remove(0).summary;
    assert!(child.cancel.is_some(), "the child received the request before the parent ended");
    reaches(engine.client(), child.run.as_str(), Status::Cancelled).await;
    assert_eq!(run.cancel("no longer wanted").await.unwrap_err().code(), "GS0105");
    engine.shutdown().await;
}

type Journal = Arc<Mutex<Vec<String>>>;

/// Two steps with compensations, then one with the result `last`.
fn saga(
    journal: Journal,
    last: Result<(), &'static str>,
) -> impl Fn(Context, ()) -> BoxedResult + Send + Sync {
    move |ctx, ()| {
        let journal = Arc::clone(&journal);
        Box::pin(async move {
            for name in ["hotel", "flight"] {
                let done = Arc::clone(&journal);
                let undone = Arc::clone(&journal);
                ctx.step(name, move || {
                    let done = Arc::clone(&done);
                    async move {
                        done.lock().unwrap().push(format!("book {name}"));
                        Ok(name.to_owned())
                    }
                })
                .compensate(move |booked: String| {
                    let undone = Arc::clone(&undone);
                    async move {
                        undone.lock().unwrap().push(format!("cancel {booked}"));
                        Ok(())
                    }
                })
                .await?;
            }
            ctx.step("pay", || async { last.map_err(Error::terminal) }).await
        })
    }
}

type BoxedResult = std::pin::Pin<Box<dyn Future<Output = goldseam::Result<()>> + Send>>;

#[tokio::test]
async fn failed_saga_is_compensated_in_reverse_order() {
    let scratch = Scratch::new();
    let journal = Journal::default();
    let flow = saga(Arc::clone(&journal), Err("card declined"));
    let engine = scratch.engine("trip", flow).await;
    let run = engine.start("trip", "t", &()).await.unwrap();
    assert!(run.result::<()>().await.is_err());
    assert_eq!(run.status().await.unwrap(), Status::Failed);
    assert_eq!(*journal.lock().unwrap(), ["book hotel", "book flight", "cancel flight", "cancel hotel"]);
    engine.shutdown().await;
}

#[tokio::test]
async fn retry_of_a_compensated_run_repeats_undone_steps() {
    let scratch = Scratch::new();
    let journal = Journal::default();
    let failing = saga(Arc::clone(&journal), Err("card declined"));
    let first = scratch.engine("trip", failing).await;
    let run = first.start("trip", "t", &()).await.unwrap();
    assert!(run.result::<()>().await.is_err());
    first.shutdown().await;
    journal.lock().unwrap().clear();
    let paying = saga(Arc::clone(&journal), Ok(()));
    let second = scratch.engine("trip", paying).await;
    second.client().retry(run.id(), Default::default()).await.unwrap();
    second.handle(run.id().clone()).result::<()>().await.unwrap();
    assert_eq!(*journal.lock().unwrap(), ["book hotel", "book flight"]);
    second.shutdown().await;
}

#[tokio::test]
async fn cancelled_saga_is_compensated() {
    let scratch = Scratch::new();
    let counter = Counter::default();
    let workflow = with_state(&counter, |ctx: Context, (): (), counter| async move {
        let undo = move |(): ()| counter.step("undone");
        ctx.step("do", || ok(())).compensate(undo).await?;
        ctx.signal::<()>("never").await
    });
    let engine = scratch.engine("w", workflow).await;
    let run = engine.start("w", "r", &()).await.unwrap();
    reaches(engine.client(), "r", Status::Waiting).await;
    run.cancel("no longer wanted").await.unwrap();
    assert!(run.result::<()>().await.is_err());
    assert_eq!((run.status().await.unwrap(), counter.count("undone")), (Status::Cancelled, 1));
    engine.shutdown().await;
}

#[tokio::test]
async fn failing_compensation_parks_the_run() {
    let scratch = Scratch::new();
    let engine = scratch
        .engine("w", |ctx: Context, (): ()| async move {
            let undo = |(): ()| async { Err::<(), _>(Error::terminal("the hotel is gone")) };
            ctx.step("do", || ok(())).compensate(undo).await?;
            Err::<(), _>(Error::terminal("no"))
        })
        .await;
    engine.client().start("w", "r", &()).await.unwrap();
    reaches(engine.client(), "r", Status::Parked).await;
    let summary = engine.client().get(&run_id("r")).await.unwrap();
    let trouble = summary.trouble.unwrap();
    assert_eq!(trouble.message, "step do could not be undone: the hotel is gone");
    engine.shutdown().await;
}

#[tokio::test]
async fn continue_as_new_keeps_the_run_and_its_unread_mail() {
    let scratch = Scratch::new();
    let engine = scratch
        .engine("loop", |ctx: Context, (round, sum): (u32, u32)| async move {
            let got: u32 = ctx.signal("n").await?;
            if round < 3 {
                return ctx.continue_as_new(&(round + 1, sum + got));
            }
            Ok(sum + got)
        })
        .await;
    let run = engine.start("loop", "l", &(0u32, 0u32)).await.unwrap();
    for number in [1u32, 10, 100, 1000] {
        run.signal("n", &number).await.unwrap();
    }
    assert_eq!(run.result::<u32>().await.unwrap(), 1111);
    let summary = engine.client().get(run.id()).await.unwrap();
    assert_eq!((summary.branch.0, summary.mail_unread), (4, 0));
    engine.shutdown().await;
}
