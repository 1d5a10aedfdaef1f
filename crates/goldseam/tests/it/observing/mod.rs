//! Log lines, spans and traces of runs, as a subscriber of the user's program sees them.

mod capture;
mod replays;
mod traces;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use goldseam::prelude::*;
use goldseam::unstable::store::MemoryStore;
use goldseam::{Failure, Status};
use tracing::Level;

use crate::support::{Counter, Scratch, eventually, ok, reaches, run_id, with_state};
use capture::Capture;

const ALL: [&str; 8] = ["run", "workflow", "version", "branch", "path", "attempt", "parent", "child"];

/// Builders of engines on the memory store, whose clock does not advance, and on SQLite.
async fn builders(scratch: &Scratch) -> [goldseam::Builder; 2] {
    [Engine::on(Arc::new(MemoryStore::default())), scratch.builder().await]
}

/// Logs in every place where user code executes.
async fn talkative(ctx: Context, _: ()) -> goldseam::Result<()> {
    tracing::info!("in the workflow");
    let body = |attempt: Attempt| async move {
        tracing::info!("in a step");
        tokio::task::yield_now().await;
        tracing::info!("after an await");
        if attempt.number() == 1 { Err(Error::retryable("busy")) } else { Ok(()) }
    };
    let undo = |()| async {
        tokio::task::yield_now().await;
        tracing::info!("in a compensation");
        Ok(())
    };
    ctx.step_with("pay", body).retry(Retry::fixed(Duration::ZERO)).compensate(undo).await?;
    let left = ctx.arm("left")?;
    let right = ctx.arm("right")?;
    let say = |ctx: Context| async move {
        ctx.step("say", || async {
            tokio::task::yield_now().await;
            tracing::info!("in an arm");
            Ok(())
        })
        .await
    };
    let (one, two) = tokio::join!(say(left), say(right));
    one.and(two)?;
    ctx.group("pack", |ctx| async move {
        tracing::info!("in a group");
        ctx.step("wrap", || async {
            tracing::info!("in a step of a group");
            Ok(())
        })
        .await
    })
    .await?;
    tracing::info!("before the end");
    Err(Error::terminal("enough"))
}

#[tokio::test]
async fn lines_of_user_code_carry_run_step_and_attempt() {
    let scratch = Scratch::new();
    for builder in builders(&scratch).await {
        let (capture, _guard) = Capture::start();
        let engine = builder.workflow("talk", talkative).start().await.unwrap();
        engine.start("talk", "t-1", &()).await.unwrap().outcome().await.unwrap();
        let run = "run{run=t-1 workflow=talk version=1 branch=b1}";
        let within = |message: &str| -> Vec<String> {
            capture.named(message).iter().map(|line| line.within(&ALL)).collect()
        };
        assert_eq!(within("in the workflow"), [run]);
        let attempts = [1, 2].map(|n| format!("{run} step{{path=pay}} attempt{{attempt={n}}}"));
        assert_eq!(within("in a step"), attempts);
        assert_eq!(within("after an await"), attempts);
        let arms = ["left~/say", "right~/say"];
        let arms = arms.map(|path| format!("{run} step{{path={path}}} attempt{{attempt=1}}"));
        let mut in_arms = within("in an arm");
        in_arms.sort();
        assert_eq!(in_arms, arms);
        assert_eq!(within("in a group"), [format!("{run} step{{path=pack}}")]);
        let nested = format!("{run} step{{path=pack}} step{{path=pack/wrap}} attempt{{attempt=1}}");
        assert_eq!(within("in a step of a group"), [nested]);
        assert_eq!(within("before the end"), [run]);
        let undone = format!("{run} compensation{{path=pay}} attempt{{attempt=1}}");
        assert_eq!(within("in a compensation"), [undone]);
        engine.shutdown().await;
    }
}

#[tokio::test]
async fn lines_of_a_child_name_its_parent() {
    let scratch = Scratch::new();
    let (capture, _guard) = Capture::start();
    let leaf = |_: Context, (): ()| async {
        tracing::info!("in the child");
        Ok::<(), Error>(())
    };
    let parent = |ctx: Context, (): ()| async move { ctx.child::<()>("leaf", "leaf", &()).await };
    let builder = scratch.builder().await.workflow("leaf", leaf).workflow("parent", parent);
    let engine = builder.start().await.unwrap();
    engine.start("parent", "p", &()).await.unwrap().result::<()>().await.unwrap();
    let line = capture.only("in the child");
    assert_eq!(line.spans.len(), 1, "{line:?}");
    let (name, fields) = &line.spans[0];
    assert_eq!((*name, fields["workflow"].as_str(), fields["parent"].as_str()), ("run", "leaf", "p"));
    engine.shutdown().await;
}

#[tokio::test]
async fn lifecycle_of_runs_is_logged_at_its_level() {
    let scratch = Scratch::new();
    for builder in builders(&scratch).await {
        let (capture, _guard) = Capture::start();
        let engine = builder
            .workflow("good", |ctx: Context, (): ()| async move {
                let tries = AtomicU32::new(0);
                let body = || {
                    let nth = tries.fetch_add(1, Ordering::Relaxed);
                    async move {
                        match nth {
                            0 => Err(Error::retryable("busy")),
                            1 => std::future::pending().await,
                            _ => Ok(()),
                        }
                    }
                };
                let retry = Retry::fixed(Duration::ZERO);
                ctx.step("pay", body).retry(retry).timeout(Duration::from_millis(20)).await
            })
            .workflow("bad", |_: Context, (): ()| async {
                Err::<(), _>(Error::from(Failure::terminal("no").with_code("X1")))
            })
            .workflow("long", |ctx: Context, (): ()| async move { ctx.signal::<()>("never").await })
            .start()
            .await
            .unwrap();
        engine.start("good", "g", &()).await.unwrap().result::<()>().await.unwrap();
        engine.start("bad", "b", &()).await.unwrap().outcome().await.unwrap();
        let long = engine.start("long", "l", &()).await.unwrap();
        reaches(engine.client(), "l", Status::Waiting).await;
        long.cancel("no longer wanted").await.unwrap();
        reaches(engine.client(), "l", Status::Cancelled).await;
        let lines = |message: &str| capture.named(message);
        assert_eq!(lines("run started").len(), 3);
        let done = capture.only("run completed");
        assert_eq!((done.level, done.target.as_str()), (Level::DEBUG, "goldseam"));
        let about = ["run", "workflow", "version", "branch"].map(|name| done.field(name).to_owned());
        assert_eq!(about, ["g", "good", "1", "b1"]);
        let failed = capture.only("run failed");
        assert_eq!((failed.level, failed.field("error"), failed.field("code")), (Level::WARN, "no", "X1"));
        let cancelled = capture.only("run cancelled");
        assert_eq!((cancelled.level, cancelled.field("reason")), (Level::INFO, "no longer wanted"));
        let retried = lines("step retried");
        assert_eq!(retried.len(), 2);
        let first = (retried[0].field("path"), retried[0].field("attempt"), retried[0].field("error"));
        assert_eq!((retried[0].level, first), (Level::DEBUG, ("pay", "2", "busy")));
        let late = capture.only("step timed out");
        assert_eq!(
            (late.field("path"), late.field("attempt"), late.field("reason")),
            ("pay", "2", "timeout")
        );
        assert!(lines("step failed").is_empty(), "{:?}", lines("step failed"));
        engine.shutdown().await;
    }
}

#[tokio::test]
async fn recovery_and_park_are_logged_with_their_reason() {
    let scratch = Scratch::new();
    let counter = Counter::default();
    let flow = |hang: bool| {
        with_state(&counter, move |ctx: Context, (): (), counter| async move {
            ctx.step("one", || counter.step_or_hang("one", hang)).await?;
            ctx.signal::<()>("go").await
        })
    };
    let first = scratch.engine("w", flow(true)).await;
    first.start("w", "r", &()).await.unwrap();
    eventually("step one began", || async { counter.count("one") == 1 }).await;
    first.crash();
    let (capture, _guard) = Capture::start();
    let second = scratch.engine("w", flow(false)).await;
    reaches(second.client(), "r", Status::Waiting).await;
    let recovered = capture.only("run recovered");
    assert_eq!(recovered.level, Level::INFO);
    let fields = ["run", "rule", "reason", "attempt"].map(|name| recovered.field(name).to_owned());
    assert_eq!(fields, ["r", "O2", "infrastructure_restart", "1"]);
    second.shutdown().await;
    // Other code: the log has a step that the code does not request.
    let other =
        scratch.engine("w", |ctx: Context, (): ()| async move { ctx.step("two", || ok(())).await }).await;
    other.handle(run_id("r")).signal("go", &()).await.unwrap();
    reaches(other.client(), "r", Status::Parked).await;
    let parked = capture.only("run parked");
    assert_eq!((parked.level, parked.field("run"), parked.field("code")), (Level::WARN, "r", "V1"));
    assert!(parked.field("reason").contains("two"), "{parked:?}");
    other.shutdown().await;
}
