//! A compensating run continues its compensations even if its code has changed.

use std::sync::{Arc, Mutex};

use goldseam::Status;
use goldseam::prelude::*;
use goldseam::unstable::core::Event;
use goldseam::unstable::engine::client::By;

use crate::support::{Counter, Scratch, ok, reaches, run_id, with_state};

async fn code_of(client: &Client) -> String {
    client.get(&run_id("r")).await.unwrap().trouble.unwrap().code.unwrap()
}

/// Runs a step with the compensation `undo`.
async fn reserve(ctx: &Context, name: &'static str, undo: Undo) -> goldseam::Result<()> {
    let work = ctx.step(name, || ok(name.to_owned()));
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

/// The first release: two arms reserve, then the run fails and its compensations fail too.
async fn start_and_fail(scratch: &Scratch) {
    let first = |ctx: Context, (): ()| async move {
        let left = ctx.arm("left").unwrap();
        let right = ctx.arm("right").unwrap();
        reserve(&left, "one", broken()).await?;
        reserve(&right, "two", broken()).await?;
        Err::<u32, _>(Error::terminal("the order was withdrawn"))
    };
    let engine = scratch.engine("w", first).await;
    engine.start("w", "r", &()).await.unwrap();
    reaches(engine.client(), "r", Status::Parked).await;
    assert_eq!(code_of(engine.client()).await, "GS0116");
    engine.shutdown().await;
}

#[tokio::test]
async fn changed_code_that_succeeds_continues_compensation_only() {
    let scratch = Scratch::new();
    start_and_fail(&scratch).await;
    let counter = Counter::default();
    let order = Arc::default();
    let state = (counter.clone(), working(&order));
    let forward = with_state(&state, |ctx: Context, (): (), (counter, undo)| async move {
        let left = ctx.arm("left").unwrap();
        let right = ctx.arm("right").unwrap();
        let one = async {
            reserve(&left, "one", undo.clone()).await?;
            left.child::<u32>("ship", "shipment", &()).await
        };
        let two = async {
            reserve(&right, "two", undo.clone()).await?;
            right.step("pick", || counter.step("picked")).await?;
            right.sleep("nap", Duration::from_millis(1)).await?;
            ok(2).await
        };
        // An arm that never ends and has nothing to compensate.
        let third = async { ctx.signal::<u32>("never").await };
        let (one, two, third) = tokio::join!(one, two, third);
        Ok(one? + two? + third?)
    });
    let shipment = with_state(&counter, |_: Context, (): (), counter: Counter| counter.step("shipped"));
    let builder = scratch.builder().await.workflow("w", forward).workflow("shipment", shipment);
    let engine = builder.start().await.unwrap();
    engine.client().resume(&run_id("r"), By::default()).await.unwrap();
    let error = engine.handle(run_id("r")).result::<u32>().await.unwrap_err();
    assert!(error.to_string().ends_with("the order was withdrawn"), "{error}");
    assert_eq!(*order.lock().unwrap(), ["two", "one"]);
    assert_eq!((counter.count("picked"), counter.count("shipped")), (0, 0));
    let history = engine.client().history(&run_id("r")).await.unwrap();
    let begun = history.iter().filter(|recorded| {
        matches!(recorded.event, Event::ChildStarted(_) | Event::TimerSet { .. } | Event::WaitStarted(_))
    });
    assert_eq!(begun.count(), 0);
    engine.shutdown().await;
}

#[tokio::test]
async fn changed_code_that_returns_continues_compensation() {
    let scratch = Scratch::new();
    start_and_fail(&scratch).await;
    let order = Arc::default();
    let undo = working(&order);
    let returns = with_state(&undo, move |ctx: Context, (): (), undo| async move {
        reserve(&ctx.arm("left").unwrap(), "one", undo.clone()).await?;
        reserve(&ctx.arm("right").unwrap(), "two", undo).await?;
        Ok(7u32)
    });
    let engine = scratch.engine("w", returns).await;
    engine.client().resume(&run_id("r"), By::default()).await.unwrap();
    reaches(engine.client(), "r", Status::Failed).await;
    assert_eq!(*order.lock().unwrap(), ["two", "one"]);
    engine.shutdown().await;
}

#[tokio::test]
async fn missing_compensation_parks_and_nothing_else_begins() {
    let scratch = Scratch::new();
    start_and_fail(&scratch).await;
    let counter = Counter::default();
    let lost = with_state(&counter, move |ctx: Context, (): (), counter| async move {
        for (arm, step) in [("left", "one"), ("right", "two")] {
            let arm = ctx.arm(arm).unwrap();
            arm.step(step, || ok(step.to_owned())).await?;
        }
        ctx.step("ship", || ok(counter.add("shipped"))).await
    });
    let quick =
        goldseam::unstable::engine::Config { linger: Duration::from_millis(20), ..Default::default() };
    let engine = scratch.builder().await.config(quick).workflow("w", lost).start().await.unwrap();
    let before = engine.client().history(&run_id("r")).await.unwrap().len();
    engine.client().resume(&run_id("r"), By::default()).await.unwrap();
    crate::support::eventually("parked again", || async {
        let history = engine.client().history(&run_id("r")).await.unwrap();
        history.len() > before + 2 && matches!(history.last().unwrap().event, Event::RunParked { .. })
    })
    .await;
    assert_eq!((code_of(engine.client()).await.as_str(), counter.count("shipped")), ("GS0116", 0));
    engine.shutdown().await;
}

#[tokio::test]
async fn cancelled_run_that_is_resumed_ends_cancelled() {
    let scratch = Scratch::new();
    let flow = |undo: Undo| {
        with_state(&undo, move |ctx: Context, (): (), undo| async move {
            reserve(&ctx, "one", undo).await?;
            ctx.signal::<()>("go").await
        })
    };
    let engine = scratch.engine("w", flow(broken())).await;
    engine.start("w", "r", &()).await.unwrap();
    reaches(engine.client(), "r", Status::Waiting).await;
    engine.handle(run_id("r")).cancel("no longer wanted").await.unwrap();
    reaches(engine.client(), "r", Status::Parked).await;
    engine.shutdown().await;
    let order = Arc::default();
    let engine = scratch.engine("w", flow(working(&order))).await;
    engine.handle(run_id("r")).signal("go", &()).await.unwrap();
    engine.client().resume(&run_id("r"), By::default()).await.unwrap();
    reaches(engine.client(), "r", Status::Cancelled).await;
    assert_eq!(*order.lock().unwrap(), ["one"]);
    engine.shutdown().await;
}
