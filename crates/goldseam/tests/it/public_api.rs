//! What a program sees of the API: errors that convert, typed starts, one builder, a handle for everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use goldseam::client::{By, Jump};
use goldseam::healer::follow::Followed;
use goldseam::prelude::*;
use goldseam::{Class, Config, EngineError, Limits, Path, Payload, Recovery, RunId, Status};

use crate::support::{Scratch, run_id};

#[derive(Debug, serde::Serialize, serde::Deserialize, PartialEq)]
struct Order {
    item: String,
    count: u32,
}

fn order(count: u32) -> Order {
    Order { item: "tea".to_owned(), count }
}

async fn checkout(ctx: Context, order: Order) -> goldseam::Result<u32> {
    ctx.step("charge", || async { Ok(order.count * 2) }).await
}

/// A workflow whose own functions use `anyhow`.
async fn with_anyhow(ctx: Context, text: String) -> anyhow::Result<u32> {
    let parsed = ctx
        .step("parse", || async {
            let number: u32 = text.parse().context("parsing the amount")?;
            Ok(number)
        })
        .await;
    parsed.map_err(Error::into_std).context("in the workflow")
}

fn failure_of(error: EngineError) -> goldseam::Failure {
    match error {
        EngineError::Ended { failure, .. } => failure,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn anyhow_works_in_steps_and_workflows() {
    let scratch = Scratch::new();
    let engine = scratch.builder().await.workflow("w", with_anyhow).start().await.unwrap();
    assert_eq!(engine.start(with_anyhow, "good", &"7".to_owned()).await.unwrap().result().await.unwrap(), 7);
    let bad = engine.start(with_anyhow, "bad", &"seven".to_owned()).await.unwrap().result().await;
    let failure = failure_of(bad.unwrap_err());
    let text = "in the workflow: step parse failed: parsing the amount: invalid digit found in string";
    assert_eq!((failure.message.as_str(), failure.class), (text, Class::Unknown));
    engine.shutdown().await;
}

#[tokio::test]
async fn a_workflow_that_returns_anyhow_errors_is_cancelled_and_continued() {
    async fn waits(ctx: Context, round: u32) -> anyhow::Result<u32> {
        if round == 0 {
            return ctx.continue_as_new(&1u32).map_err(Error::into_std).context("going on");
        }
        ctx.signal::<()>("go").await.map_err(Error::into_std).context("waiting")?;
        Ok(round)
    }
    let scratch = Scratch::new();
    let engine = scratch.builder().await.workflow("waits", waits).start().await.unwrap();
    let run = engine.start(waits, "r", &0).await.unwrap();
    run.wait_until(|run| run.status == Status::Waiting).await.unwrap();
    run.cancel("not wanted").await.unwrap();
    assert_eq!(run.wait_until(|_| false).await.unwrap().status, Status::Cancelled);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_classified_error_decides_about_retries() {
    static ATTEMPTS: AtomicUsize = AtomicUsize::new(0);
    async fn fails(ctx: Context, terminal: bool) -> goldseam::Result<u32> {
        let body = move || async move {
            ATTEMPTS.fetch_add(1, Ordering::SeqCst);
            let read = "x".parse::<u32>();
            if terminal { read.terminal() } else { read.retryable() }
        };
        ctx.step("read", body).retry(Retry::fixed(Duration::ZERO).attempts_max(3)).await
    }
    let scratch = Scratch::new();
    let engine = scratch.builder().await.workflow("fails", fails).start().await.unwrap();
    for (terminal, attempts) in [(true, 1), (false, 3)] {
        ATTEMPTS.store(0, Ordering::SeqCst);
        let run = engine.start(fails, format!("r-{terminal}"), &terminal).await.unwrap();
        run.result().await.unwrap_err();
        assert_eq!(ATTEMPTS.load(Ordering::SeqCst), attempts);
    }
    engine.shutdown().await;
}

#[tokio::test]
async fn an_engine_error_keeps_code_hint_and_source() {
    let error = Error::from(goldseam::connect("mysql:x").await.unwrap_err());
    assert_eq!(error.code(), Some("GS0206"));
    assert!(error.downcast_ref::<EngineError>().is_some());
    let shown = format!("{error:?}");
    assert!(shown.starts_with("error[GS0206]: this build does not support"), "{shown}");
    assert!(shown.contains("\n  help: pass sqlite:PATH"), "{shown}");
}

#[tokio::test]
async fn a_run_is_started_by_function_by_constant_or_by_name() {
    const CHECKOUT: Workflow<Order, u32> = Workflow::named("checkout");
    let scratch = Scratch::new();
    let engine = scratch.builder().await.workflow("checkout", checkout).start().await.unwrap();
    assert_eq!(engine.start(checkout, "a", &order(2)).await.unwrap().result().await.unwrap(), 4);
    assert_eq!(engine.start(&CHECKOUT, "b", &order(3)).await.unwrap().result().await.unwrap(), 6);
    let named = engine.start("checkout", "c", &serde_json::json!({"item": "tea", "count": 4})).await.unwrap();
    assert_eq!(named.result::<u64>().await.unwrap(), 8);
    let client = scratch.client().await;
    assert_eq!(client.start(&CHECKOUT, "d", &order(5)).await.unwrap().result().await.unwrap(), 10);
    // A client of another process knows no functions.
    assert_eq!(client.start(checkout, "e", &order(5)).await.unwrap_err().code(), "GS0103");
    assert_eq!(client.get(&run_id("e")).await.unwrap_err().code(), "GS0104");
    engine.shutdown().await;
}

#[tokio::test]
async fn a_function_starts_the_version_that_it_was_registered_with() {
    async fn first(_: Context, (): ()) -> goldseam::Result<u32> {
        Ok(1)
    }
    async fn second(_: Context, (): ()) -> goldseam::Result<u32> {
        Ok(2)
    }
    let scratch = Scratch::new();
    let builder = scratch.builder().await.workflow_version("w", 1, first).workflow_version("w", 2, second);
    let engine = builder.start().await.unwrap();
    assert_eq!(engine.start(first, "a", &()).await.unwrap().result().await.unwrap(), 1);
    assert_eq!(engine.start(second, "b", &()).await.unwrap().result().await.unwrap(), 2);
    let pinned = engine.start_with(second, "c", &(), StartOptions::default().version(1)).await.unwrap();
    assert_eq!(pinned.result().await.unwrap(), 1);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_function_with_two_names_must_be_started_by_name() {
    let scratch = Scratch::new();
    let builder = scratch.builder().await.workflow("one", checkout).workflow("two", checkout);
    let engine = builder.start().await.unwrap();
    let refused = engine.start(checkout, "r", &order(1)).await.unwrap_err();
    assert_eq!(refused.code(), "GS0103");
    assert!(refused.hint().unwrap().starts_with("pass the name"));
    assert_eq!(engine.start("two", "r", &order(1)).await.unwrap().result::<u32>().await.unwrap(), 2);
    engine.shutdown().await;
}

#[tokio::test]
async fn the_order_of_builder_calls_does_not_matter() {
    let small = Limits { payload_bytes_max: 64, ..Limits::default() };
    let large = "x".repeat(100);
    async fn echo(_: Context, count: usize) -> goldseam::Result<String> {
        Ok("x".repeat(count))
    }
    for config_last in [true, false] {
        let scratch = Scratch::new();
        let mut builder = scratch.builder().await;
        let config = || Config { slots: 7, ..Config::default() };
        if !config_last {
            builder = builder.config(config());
        }
        builder = builder.workflow("echo", echo).limits(small.clone()).slots(1);
        builder = builder.recovery("echo", Recovery { attempts_max: 9, ..Recovery::default() });
        if config_last {
            builder = builder.config(config());
        }
        let engine = builder.start().await.unwrap();
        assert_eq!(engine.start("echo", "a", &large).await.unwrap_err().code(), "GS0102");
        let run = engine.start(echo, "b", &100).await.unwrap();
        let failure = failure_of(run.result().await.unwrap_err());
        assert!(failure.message.contains("64"), "{}", failure.message);
        let policy = run.summary().await.unwrap().recovery.unwrap();
        assert_eq!(policy.attempts_max, 9, "config last: {config_last}");
        engine.shutdown().await;
    }
}

#[tokio::test]
async fn the_first_mistake_of_a_builder_is_reported() {
    let scratch = Scratch::new();
    let builder = scratch.builder().await.workflow("not a name", checkout).workflow_version("w", 0, checkout);
    assert_eq!(builder.start().await.unwrap_err().code(), "GS0101");
}

/// Counts the parts that run at the same time. Each waits until `limit` parts have begun.
struct Crowd {
    now: AtomicUsize,
    most: AtomicUsize,
    gate: tokio::sync::Barrier,
}

impl Crowd {
    fn new(limit: usize) -> Self {
        Self { now: 0.into(), most: 0.into(), gate: tokio::sync::Barrier::new(limit) }
    }

    async fn part(&self, number: u32) -> goldseam::Result<u32> {
        self.most.fetch_max(self.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        self.gate.wait().await;
        self.now.fetch_sub(1, Ordering::SeqCst);
        if number == 13 { Err(Error::terminal("thirteen")) } else { Ok(number) }
    }
}

#[tokio::test]
async fn a_limited_join_runs_no_more_parts_at_once_and_keeps_their_order() {
    for (limit, count) in [(0, 3), (1, 3), (4, 12), (4, 20)] {
        let crowd = Arc::new(Crowd::new(limit.max(1)));
        let shared = Arc::clone(&crowd);
        let fan = move |ctx: Context, count: u32| {
            let crowd = Arc::clone(&shared);
            async move {
                let part = |number| crowd.part(number);
                let parts = (0..count).map(|number| ctx.step(("part", number), move || part(number)));
                ctx.join(parts).at_most(limit).await
            }
        };
        let scratch = Scratch::new();
        let engine = scratch.builder().await.workflow("fan", fan).start().await.unwrap();
        let run = engine.start("fan", "r", &count).await.unwrap();
        match run.result::<Vec<u32>>().await {
            Ok(numbers) => assert_eq!(numbers, (0..count).collect::<Vec<_>>()),
            Err(error) => assert!(count > 13 && error.to_string().contains("thirteen"), "{error}"),
        }
        assert_eq!(crowd.most.load(Ordering::SeqCst), limit.max(1));
        let history = run.history().await.unwrap();
        let done = history.iter().filter(|recorded| recorded.event.name() == "step.completed").count();
        assert_eq!(done, count as usize - usize::from(count > 13), "parts after a failed one run too");
        engine.shutdown().await;
    }
}

#[tokio::test]
async fn a_handle_does_everything_to_its_run() {
    async fn talk(ctx: Context, (): ()) -> goldseam::Result<String> {
        let first = ctx.step("first", || async { Ok(1) }).await?;
        let name: String = ctx.signal("name").await?;
        let sure: bool = ctx.ask("sure", "Are you sure?").await?;
        ctx.step("last", || async { if sure { Ok(()) } else { Err(Error::terminal("not sure")) } }).await?;
        Ok(format!("{name} {first}"))
    }
    let scratch = Scratch::new();
    let engine = scratch.builder().await.workflow("talk", talk).start().await.unwrap();
    let run = engine.start(talk, "r", &()).await.unwrap();
    run.wait_until(|run| run.status == Status::Waiting).await.unwrap();
    run.pause("lunch").await.unwrap();
    run.wait_until(|run| run.status == Status::Paused).await.unwrap();
    let by = By { who: Some("ada".to_owned()), reason: "back".to_owned(), id: None };
    assert!(run.resume(by).await.unwrap().rested);
    run.signal("name", "Ada").await.unwrap();
    run.wait_until(|run| !run.inputs.is_empty()).await.unwrap();
    let open = run.questions().await.unwrap();
    assert_eq!((open[0].path.as_str(), open[0].prompt.as_str()), ("sure", "Are you sure?"));
    assert!(run.why().await.unwrap().verdict.contains("answer"));
    let branch = run.summary().await.unwrap().branch;
    run.jump("sure", Jump::default()).await.unwrap();
    run.wait_until(|run| run.branch != branch && !run.inputs.is_empty()).await.unwrap();
    run.answer("sure", &true).await.unwrap();
    assert_eq!(run.result().await.unwrap(), "Ada 1");
    let mut follower = run.follow();
    let Followed::Events(events) = follower.next().await.unwrap() else { panic!("a stall") };
    assert_eq!(events[0].event.name(), run.history().await.unwrap()[0].event.name());
    assert!(run.retry("again").await.is_err(), "the run has not failed");
    assert_eq!(engine.handle(RunId::new("none").unwrap()).status().await.unwrap_err().code(), "GS0104");
    engine.shutdown().await;
}

#[tokio::test]
async fn a_sleep_ends_at_a_system_time() {
    async fn naps(ctx: Context, (): ()) -> goldseam::Result<bool> {
        let due = std::time::SystemTime::from(ctx.now()) + Duration::from_millis(20);
        ctx.sleep_until("nap", due).await?;
        Ok(std::time::SystemTime::from(ctx.now()) >= due)
    }
    let scratch = Scratch::new();
    let engine = scratch.builder().await.workflow("naps", naps).start().await.unwrap();
    assert!(engine.start(naps, "r", &()).await.unwrap().result().await.unwrap());
    engine.shutdown().await;
}

#[tokio::test]
async fn a_handle_by_name_reads_any_type() {
    let scratch = Scratch::new();
    let engine = scratch.builder().await.workflow("checkout", checkout).start().await.unwrap();
    engine.start("checkout", "r", &order(2)).await.unwrap();
    let handle = engine.handle(run_id("r"));
    assert_eq!(handle.result::<Payload>().await.unwrap().read::<u32>().unwrap(), 4);
    assert_eq!(handle.result::<String>().await.unwrap_err().code(), "GS0102");
    assert!(handle.jump("no-such-step", Jump::default()).await.is_err());
    assert!(Path::new("charge").is_ok());
    engine.shutdown().await;
}
