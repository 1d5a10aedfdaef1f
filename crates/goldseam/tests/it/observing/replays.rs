//! `is_replaying` and the macros that are silent in replays.

use std::sync::{Arc, Mutex};

use goldseam::prelude::*;
use goldseam::testing::{Tester, World};
use goldseam::unstable::core::{Event, Recorded};
use goldseam::{Builder, Status};

use super::capture::Capture;
use crate::support::{Counter, Scratch, eventually, ok, reaches, run_id, with_state};

/// Logs around operations of every kind, and waits in between.
async fn journey(ctx: Context, _: ()) -> goldseam::Result<()> {
    goldseam::info!(ctx, "begin");
    ctx.step("one", || ok(())).await?;
    goldseam::info!(ctx, step = "one", "after {}", "one");
    let left = ctx.arm("left")?;
    let right = ctx.arm("right")?;
    goldseam::info!(ctx, "between arms");
    let walk = |ctx: Context, name: &'static str| async move {
        goldseam::info!(ctx, "begin {name}");
        ctx.step("a", || ok(())).await?;
        goldseam::info!(ctx, "middle {name}");
        ctx.signal::<()>(name).await?;
        goldseam::info!(ctx, "end {name}");
        Ok::<(), Error>(())
    };
    let (one, two) = tokio::join!(walk(left, "left"), walk(right, "right"));
    one.and(two)?;
    goldseam::info!(ctx, "arms joined");
    ctx.group("pack", |inner| async move {
        goldseam::info!(inner, "begin group");
        inner.step("wrap", || ok(())).await?;
        goldseam::info!(inner, "wrapped");
        inner.signal::<()>("packed").await?;
        goldseam::info!(inner, "end group");
        Ok(())
    })
    .await?;
    goldseam::info!(ctx, "group done");
    ctx.step("two", || ok(())).await?;
    goldseam::info!(ctx, "end");
    Ok(())
}

const LINES: [&str; 15] = [
    "begin",
    "after one",
    "between arms",
    "begin left",
    "middle left",
    "end left",
    "begin right",
    "middle right",
    "end right",
    "arms joined",
    "begin group",
    "wrapped",
    "end group",
    "group done",
    "end",
];

/// Waits until the run has left memory this many times.
async fn left_memory(engine: &Engine, times: usize) {
    let is_released = |recorded: &Recorded| matches!(recorded.event, Event::RunReleased { .. });
    eventually("the run left memory", || async {
        let history = engine.client().history(&run_id("j")).await.unwrap();
        history.iter().filter(|recorded| is_released(recorded)).count() == times && engine.live_runs() == 0
    })
    .await;
}

#[tokio::test]
async fn lines_are_written_once_although_the_run_is_reloaded() {
    let scratch = Scratch::new();
    let (capture, _guard) = Capture::start();
    let engine = scratch.builder().await.workflow("journey", journey).start().await.unwrap();
    let run = engine.start("journey", "j", &()).await.unwrap();
    for (before, signal) in ["right", "left", "packed"].into_iter().enumerate() {
        left_memory(&engine, before + 1).await;
        run.signal(signal, &()).await.unwrap();
    }
    let ended = tokio::time::timeout(secs(20), run.result::<()>()).await;
    assert!(ended.is_ok(), "{:#?}", engine.client().history(run.id()).await.unwrap());
    for line in LINES {
        capture.only(line);
    }
    let line = capture.only("after one");
    assert_eq!(line.field("step"), "one");
    assert!(line.target.starts_with("it::observing"), "{line:?}");
    assert!(line.within(&["run"]).starts_with("run{run=j}"), "{line:?}");
    engine.shutdown().await;
}

/// Logs through an arm before and after a wait of its parent, and in an arm that begins after the wait.
async fn late(ctx: Context, _: ()) -> goldseam::Result<()> {
    let early = ctx.arm("early")?;
    early.step("a", || ok(())).await?;
    goldseam::info!(early, "before the wait");
    ctx.signal::<()>("go").await?;
    goldseam::info!(early, "after the wait");
    let fresh = ctx.arm("fresh")?;
    goldseam::info!(fresh, "in a fresh arm");
    ctx.signal::<()>("stop").await?;
    goldseam::info!(early, "at the end");
    Ok(())
}

#[tokio::test]
async fn no_line_is_lost_in_arms_that_are_used_after_a_wait_of_their_parent() {
    let scratch = Scratch::new();
    let (capture, _guard) = Capture::start();
    let engine = scratch.builder().await.workflow("late", late).start().await.unwrap();
    let run = engine.start("late", "j", &()).await.unwrap();
    for (before, signal) in ["go", "stop"].into_iter().enumerate() {
        left_memory(&engine, before + 1).await;
        run.signal(signal, &()).await.unwrap();
    }
    run.result::<()>().await.unwrap();
    for line in ["before the wait", "after the wait", "in a fresh arm", "at the end"] {
        capture.only(line);
    }
    engine.shutdown().await;
}

#[tokio::test]
async fn only_lines_after_the_last_recorded_operation_repeat_after_a_crash() {
    let scratch = Scratch::new();
    let counter = Counter::default();
    let flow = |hang: bool| {
        with_state(&counter, move |ctx: Context, (): (), counter| async move {
            goldseam::info!(ctx, "begin");
            ctx.step("one", || counter.step("one")).await?;
            goldseam::info!(ctx, "one is done");
            ctx.step("two", || counter.step("two")).await?;
            goldseam::info!(ctx, "two is done");
            ctx.step("three", || counter.step_or_hang("three", hang)).await?;
            goldseam::info!(ctx, "three is done");
            Ok(())
        })
    };
    let (capture, _guard) = Capture::start();
    let first = scratch.engine("w", flow(true)).await;
    first.start("w", "r", &()).await.unwrap();
    eventually("step three began", || async { counter.count("three") == 1 }).await;
    first.crash();
    let second = scratch.engine("w", flow(false)).await;
    second.handle(run_id("r")).result::<()>().await.unwrap();
    let counts =
        ["begin", "one is done", "two is done", "three is done"].map(|line| capture.named(line).len());
    assert_eq!(counts, [1, 1, 2, 1]);
    second.shutdown().await;
}

/// Notes each point that is not a replay.
async fn noted(ctx: Context, _: (), world: World) -> goldseam::Result<()> {
    let note = |ctx: &Context, line: &str| {
        if !ctx.is_replaying() {
            world.did(line, "line");
        }
    };
    note(&ctx, "begin");
    ctx.step("one", || ok(())).await?;
    note(&ctx, "after one");
    let left = ctx.arm("left")?;
    let right = ctx.arm("right")?;
    let walk = |ctx: Context, name: &'static str| async move {
        note(&ctx, name);
        ctx.step("a", || ok(())).await?;
        ctx.signal::<()>(name).await?;
        ctx.step("b", || ok(())).await
    };
    let (one, two) = tokio::join!(walk(left, "left"), walk(right, "right"));
    one.and(two)?;
    note(&ctx, "joined");
    let inner = ctx.group("pack", |ctx| async move {
        note(&ctx, "in group");
        ctx.step("wrap", || ok(())).await?;
        ctx.sleep("rest", days(1)).await
    });
    inner.await?;
    note(&ctx, "packed");
    ctx.step("two", || ok(())).await?;
    note(&ctx, "end");
    Ok(())
}

fn noting() -> Tester {
    let register = |engine: Builder, world: World| {
        engine.workflow("noted", move |ctx, input: ()| noted(ctx, input, world.clone()))
    };
    Tester::new(register).run("noted", &()).signal("left", &()).signal("right", &())
}

const NOTES: [&str; 8] = ["begin", "after one", "left", "right", "joined", "in group", "packed", "end"];

#[test]
fn every_point_is_live_once_without_a_crash() {
    let report = noting().once().unwrap();
    for note in NOTES {
        assert_eq!(report.effects(note).times, 1, "{note}");
    }
}

#[test]
fn every_point_is_live_at_most_twice_whatever_crash() {
    let report = noting().every_crash().unwrap();
    assert!(report.cases() > 15, "{}", report.cases());
    for note in NOTES {
        let times = report.effects(note).times;
        assert!((1..=2).contains(&times), "{note}: {times}");
    }
}

#[tokio::test]
async fn step_bodies_and_compensations_are_never_replays() {
    let scratch = Scratch::new();
    let seen: Arc<Mutex<Vec<(&str, bool)>>> = Arc::default();
    let flow = with_state(&seen, |ctx: Context, (): (), seen| async move {
        let note = |what, ctx: &Context| seen.lock().unwrap().push((what, ctx.is_replaying()));
        let undo = {
            let ctx = ctx.clone();
            let seen = Arc::clone(&seen);
            move |()| {
                let replaying = ctx.is_replaying();
                seen.lock().unwrap().push(("undo", replaying));
                ok(())
            }
        };
        ctx.step("one", || {
            note("one", &ctx);
            ok(())
        })
        .compensate(undo)
        .await?;
        ctx.signal::<()>("go").await?;
        Err::<(), _>(Error::terminal("enough"))
    });
    let engine = scratch.engine("w", flow).await;
    let run = engine.start("w", "j", &()).await.unwrap();
    left_memory(&engine, 1).await;
    engine.handle(run_id("j")).signal("go", &()).await.unwrap();
    run.outcome().await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [("one", false), ("undo", false)]);
    engine.shutdown().await;
}

/// An arm that was not polled yet does not make a live arm a replay.
#[tokio::test]
async fn a_live_arm_is_live_beside_recorded_arms() {
    let scratch = Scratch::new();
    let (capture, _guard) = Capture::start();
    let counter = Counter::default();
    let flow = |hang: bool| {
        with_state(&counter, move |ctx: Context, (): (), counter| async move {
            let car = ctx.arm("car")?;
            let own = async {
                ctx.step("own", || counter.step_or_hang("own", hang)).await?;
                goldseam::info!(ctx, "own is done");
                Ok::<(), Error>(())
            };
            let other = async {
                car.step("a", || counter.step("a")).await?;
                car.step("b", || counter.step("b")).await
            };
            let (one, two) = tokio::join!(own, other);
            one.and(two)
        })
    };
    let first = scratch.engine("w", flow(true)).await;
    first.start("w", "r", &()).await.unwrap();
    let client = first.client().clone();
    eventually("b is recorded", || async { client.state(&run_id("r")).await.unwrap().ops.len() >= 2 }).await;
    first.crash();
    let second = scratch.engine("w", flow(false)).await;
    second.handle(run_id("r")).result::<()>().await.unwrap();
    capture.only("own is done");
    second.shutdown().await;
}

#[tokio::test]
async fn preflight_writes_no_lines() {
    let scratch = Scratch::new();
    let engine = scratch.engine("journey", journey).await;
    engine.start("journey", "j", &()).await.unwrap();
    reaches(engine.client(), "j", Status::Waiting).await;
    engine.shutdown().await;
    let (capture, _guard) = Capture::start();
    let build = scratch.builder().await.workflow("journey", journey);
    let report = build.preflight(goldseam::preflight::Preflight::all()).await.unwrap();
    assert_eq!(report.total(), 1, "{report:?}");
    assert!(LINES.iter().all(|line| capture.named(line).is_empty()), "{:?}", capture.lines());
}
