//! A run that is being undone goes on undoing, whatever its code would do now.

use std::sync::{Arc, Mutex};

use goldseam::core::Event;
use goldseam::engine::client::By;
use goldseam::prelude::*;
use goldseam::{RunId, Status};

use crate::support::{Scratch, Witness, reaches};

fn run_id() -> RunId {
    RunId::new("r").unwrap()
}

async fn code_of(client: &Client) -> String {
    client.get(&run_id()).await.unwrap().trouble.unwrap().code.unwrap()
}

/// Does a step that can be undone, by `undo`.
async fn reserve(ctx: &Context, name: &'static str, undo: Undo) -> goldseam::Result<()> {
    let work = ctx.step(name, || async { Ok::<_, Error>(name.to_owned()) });
    work.compensate(move |name: String| {
        let undo = undo.clone();
        async move { undo(name) }
    })
    .await
    .map(|_| ())
}

type Undo = Arc<dyn Fn(String) -> goldseam::Result<()> + Send + Sync>;

fn broken() -> Undo {
    Arc::new(|_| Err(Error::terminal("the gateway is down")))
}

fn working(order: &Arc<Mutex<Vec<String>>>) -> Undo {
    let order = Arc::clone(order);
    Arc::new(move |name| {
        order.lock().unwrap().push(name);
        Ok(())
    })
}

/// The first release: two arms reserve, then the run fails and cannot be undone.
async fn start_and_fail(scratch: &Scratch) {
    let first = |ctx: Context, (): ()| async move {
        let (left, right) = (ctx.arm("left").unwrap(), ctx.arm("right").unwrap());
        reserve(&left, "one", broken()).await?;
        reserve(&right, "two", broken()).await?;
        Err::<u32, _>(Error::terminal("the order was withdrawn"))
    };
    let engine = scratch.builder().await.workflow("w", first).start().await.unwrap();
    engine.run("w", "r", &()).await.unwrap();
    reaches(&engine, "r", Status::Parked).await;
    assert_eq!(code_of(&engine).await, "GS0116");
    engine.shutdown().await;
}

#[tokio::test]
async fn code_that_does_not_fail_again_goes_on_undoing_and_does_nothing() {
    let scratch = Scratch::new();
    start_and_fail(&scratch).await;
    let (witness, order) = (Witness::default(), Arc::default());
    let (seen, undo) = (witness.clone(), working(&order));
    let forward = move |ctx: Context, (): ()| {
        let (seen, undo) = (seen.clone(), undo.clone());
        async move {
            let (left, right) = (ctx.arm("left").unwrap(), ctx.arm("right").unwrap());
            let one = async {
                reserve(&left, "one", undo.clone()).await?;
                left.child::<u32>("ship", "shipment", &()).await
            };
            let two = async {
                reserve(&right, "two", undo.clone()).await?;
                right.step("pick", || async { Ok::<_, Error>(seen.saw("picked")) }).await?;
                right.sleep("nap", Duration::from_millis(1)).await?;
                Ok::<u32, Error>(2)
            };
            // An arm that never ends by itself, and holds nothing that is to be undone.
            let third = async { ctx.signal::<u32>("never").await };
            let (one, two, third) = tokio::join!(one, two, third);
            Ok::<_, Error>(one? + two? + third?)
        }
    };
    let shipped = witness.clone();
    let shipment = move |_: Context, (): ()| {
        let shipped = shipped.clone();
        async move { Ok::<_, Error>(shipped.saw("shipped")) }
    };
    let builder = scratch.builder().await.workflow("w", forward).workflow("shipment", shipment);
    let engine = builder.start().await.unwrap();
    engine.resume(&run_id(), By::default()).await.unwrap();
    let error = engine.handle(run_id()).result::<u32>().await.unwrap_err();
    assert!(error.to_string().ends_with("the order was withdrawn"), "{error}");
    assert_eq!(*order.lock().unwrap(), ["two", "one"]);
    assert_eq!((witness.count("picked"), witness.count("shipped")), (0, 0));
    let history = engine.history(&run_id()).await.unwrap();
    let begun = history.iter().filter(|recorded| {
        matches!(recorded.event, Event::ChildStarted(_) | Event::TimerSet { .. } | Event::WaitStarted(_))
    });
    assert_eq!(begun.count(), 0);
    engine.shutdown().await;
}

#[tokio::test]
async fn code_that_returns_a_result_goes_on_undoing() {
    let scratch = Scratch::new();
    start_and_fail(&scratch).await;
    let order = Arc::default();
    let undo = working(&order);
    let returns = move |ctx: Context, (): ()| {
        let undo = undo.clone();
        async move {
            reserve(&ctx.arm("left").unwrap(), "one", undo.clone()).await?;
            reserve(&ctx.arm("right").unwrap(), "two", undo).await?;
            Ok::<_, Error>(7u32)
        }
    };
    let engine = scratch.builder().await.workflow("w", returns).start().await.unwrap();
    engine.resume(&run_id(), By::default()).await.unwrap();
    reaches(&engine, "r", Status::Failed).await;
    assert_eq!(*order.lock().unwrap(), ["two", "one"]);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_compensation_that_the_code_lost_parks_and_nothing_else_begins() {
    let scratch = Scratch::new();
    start_and_fail(&scratch).await;
    let witness = Witness::default();
    let seen = witness.clone();
    let lost = move |ctx: Context, (): ()| {
        let seen = seen.clone();
        async move {
            for (arm, step) in [("left", "one"), ("right", "two")] {
                let arm = ctx.arm(arm).unwrap();
                arm.step(step, || async { Ok::<_, Error>(step.to_owned()) }).await?;
            }
            ctx.step("ship", || async { Ok::<_, Error>(seen.saw("shipped")) }).await
        }
    };
    let quick = goldseam::engine::Config { linger: Duration::from_millis(20), ..Default::default() };
    let engine = scratch.builder().await.config(quick).workflow("w", lost).start().await.unwrap();
    let before = engine.history(&run_id()).await.unwrap().len();
    engine.resume(&run_id(), By::default()).await.unwrap();
    crate::support::eventually("parked again", || async {
        let history = engine.history(&run_id()).await.unwrap();
        history.len() > before + 2 && matches!(history.last().unwrap().event, Event::RunParked { .. })
    })
    .await;
    assert_eq!((code_of(&engine).await.as_str(), witness.count("shipped")), ("GS0116", 0));
    engine.shutdown().await;
}

#[tokio::test]
async fn a_cancelled_run_that_is_resumed_ends_cancelled() {
    let scratch = Scratch::new();
    let flow = |undo: Undo| {
        move |ctx: Context, (): ()| {
            let undo = undo.clone();
            async move {
                reserve(&ctx, "one", undo).await?;
                ctx.signal::<()>("go").await
            }
        }
    };
    let engine = scratch.builder().await.workflow("w", flow(broken())).start().await.unwrap();
    engine.run("w", "r", &()).await.unwrap();
    reaches(&engine, "r", Status::Waiting).await;
    engine.handle(run_id()).cancel().await.unwrap();
    reaches(&engine, "r", Status::Parked).await;
    engine.shutdown().await;
    let order = Arc::default();
    let engine = scratch.builder().await.workflow("w", flow(working(&order))).start().await.unwrap();
    engine.handle(run_id()).signal("go", &()).await.unwrap();
    engine.resume(&run_id(), By::default()).await.unwrap();
    reaches(&engine, "r", Status::Cancelled).await;
    assert_eq!(*order.lock().unwrap(), ["one"]);
    engine.shutdown().await;
}
