//! A recorded value that does not fit the type in the code parks the run (V1). The run neither fails nor compensates.

use goldseam::prelude::*;
use goldseam::unstable::core::QueueName;
use goldseam::unstable::engine::client::By;
use goldseam::unstable::engine::queue::Want;
use goldseam::{Builder, Hint, Limits, NextStep, Payload, Status};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::support::{Counter, Scratch, ok, reaches, run_id, with_state};

/// Must not appear in a description of a difference.
const SECRET: &str = "hush-7";

trait Held: Serialize + DeserializeOwned + Send + Sync + 'static {
    fn held() -> Self;
}

/// The type of the first release.
impl Held for String {
    fn held() -> Self {
        SECRET.to_owned()
    }
}

/// The type of the second release.
#[derive(Serialize, Deserialize)]
struct Hold {
    id: String,
    shelf: Option<u8>,
}

impl Held for Hold {
    fn held() -> Self {
        Self { id: SECRET.to_owned(), shelf: None }
    }
}

/// Charges, with a refund as compensation.
async fn charge(ctx: &Context, seen: &Counter) -> goldseam::Result<()> {
    let done = seen.clone();
    let undone = seen.clone();
    let charge = ctx.step("charge", || ok(done.add("charged")));
    charge.compensate(move |_: u32| undone.step("refunded")).await.map(|_| ())
}

const KINDS: [&str; 8] = ["input", "step", "group", "answer", "signal", "child", "remote", "failure"];

/// Registers one workflow per kind of recorded value, read as `T`.
fn flows<T: Held>(mut builder: Builder, counter: &Counter) -> Builder {
    builder = builder.workflow(
        "input",
        with_state(counter, move |ctx: Context, _: T, counter| async move {
            charge(&ctx, &counter).await?;
            ctx.signal::<()>("go").await
        }),
    );
    for kind in &KINDS[1..] {
        builder = builder.workflow(
            kind,
            with_state(counter, move |ctx: Context, (): (), counter| async move {
                charge(&ctx, &counter).await?;
                match *kind {
                    "step" => _ = ctx.step("value", || ok(T::held())).await?,
                    "group" => _ = ctx.group("value", |_| ok(T::held())).await?,
                    "answer" => _ = ctx.ask::<T>("value", "What?").await?,
                    "signal" => _ = ctx.signal::<T>("value").await?,
                    "child" => _ = ctx.child::<T>("value", "made", &()).await?,
                    "remote" => _ = ctx.remote::<T>("value", &()).queue("gpu").await?,
                    _ => assert!(ctx.child::<T>("value", "unmade", &()).await.is_err()),
                }
                ctx.signal::<()>("go").await
            }),
        );
    }
    builder = builder.workflow("made", |_: Context, (): ()| ok(T::held()));
    builder.workflow("unmade", |_: Context, (): ()| async { Err::<T, _>(Error::terminal("no")) })
}

async fn first_release(scratch: &Scratch, counter: &Counter) -> Engine {
    flows::<String>(scratch.builder().await, counter).start().await.unwrap()
}

/// Completes the remote step.
async fn work(client: &Client) {
    let want = || Want { owner: "w".into(), queue: QueueName::new("gpu").unwrap(), kind: None, limit: 1 };
    let client = client.clone();
    crate::support::eventually("a task is done", || async {
        let Some(task) = client.queue().claim(want()).await.unwrap().pop() else { return false };
        let result = Payload::of(&SECRET, &Limits::default()).unwrap();
        client.queue().complete(&task.id, task.fence, result).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn unreadable_values_park_and_continue_after_a_rollback() {
    let scratch = Scratch::new();
    let counter = Counter::default();
    let old = first_release(&scratch, &counter).await;
    old.start("input", "input", &SECRET).await.unwrap();
    for kind in &KINDS[1..] {
        old.start(*kind, kind, &()).await.unwrap();
    }
    reaches(old.client(), "answer", Status::Waiting).await;
    old.handle(run_id("answer")).answer("value", &SECRET).await.unwrap();
    old.handle(run_id("signal")).signal("value", &SECRET).await.unwrap();
    work(old.client()).await;
    for kind in KINDS {
        crate::support::eventually(&format!("{kind} waits for go"), || async {
            let summary = old.client().get(&run_id(kind)).await.unwrap();
            summary.waits.iter().any(|wait| wait.path.as_str() == "go")
        })
        .await;
    }
    old.shutdown().await;
    let new = flows::<Hold>(scratch.builder().await, &counter).start().await.unwrap();
    for kind in KINDS {
        new.handle(run_id(kind)).signal("go", &()).await.unwrap();
    }
    reaches(new.client(), "failure", Status::Completed).await;
    for kind in &KINDS[..7] {
        reaches(new.client(), kind, Status::Parked).await;
        let trouble = new.client().get(&run_id(kind)).await.unwrap().trouble.unwrap();
        assert_eq!(trouble.code.as_deref(), Some("V1"), "{kind}: {}", trouble.message);
        let message = trouble.message;
        let place = if *kind == "input" { "the input" } else { "value" };
        assert!(
            message.contains(place) && message.contains("expected Hold {id: a text, shelf: "),
            "{kind}: {message}"
        );
        assert!(message.contains("got a text") && !message.contains(SECRET), "{kind}: {message}");
    }
    new.shutdown().await;
    let back = first_release(&scratch, &counter).await;
    for kind in &KINDS[..7] {
        back.client().resume(&run_id(kind), By::default()).await.unwrap();
        reaches(back.client(), kind, Status::Completed).await;
    }
    assert_eq!((counter.count("charged"), counter.count("refunded")), (8, 0));
    back.shutdown().await;
}

/// Charges, then fails. The compensation works or fails.
async fn charge_and_fail<T: Held>(
    ctx: Context,
    (): (),
    (counter, works): (Counter, bool),
) -> goldseam::Result<()> {
    let undo = move |_: T| {
        counter.add("tried");
        async move { if works { Ok(()) } else { Err(Error::terminal("down")) } }
    };
    ctx.step("charge", || ok(T::held())).compensate(undo).await?;
    Err(Error::terminal("no"))
}

#[tokio::test]
async fn unreadable_compensation_value_parks_until_a_rollback() {
    let scratch = Scratch::new();
    let counter = Counter::default();
    let old = scratch.engine("w", with_state(&(counter.clone(), false), charge_and_fail::<String>)).await;
    old.start("w", "r", &()).await.unwrap();
    reaches(old.client(), "r", Status::Parked).await;
    old.shutdown().await;
    let new = scratch.engine("w", with_state(&(counter.clone(), true), charge_and_fail::<Hold>)).await;
    new.client().resume(&run_id("r"), By::default()).await.unwrap();
    crate::support::eventually("parked by V1", || async {
        let trouble = new.client().get(&run_id("r")).await.unwrap().trouble;
        trouble.is_some_and(|trouble| trouble.code.as_deref() == Some("V1"))
    })
    .await;
    assert_eq!(counter.count("tried"), 1);
    new.shutdown().await;
    let back = scratch.engine("w", with_state(&(counter.clone(), true), charge_and_fail::<String>)).await;
    back.client().resume(&run_id("r"), By::default()).await.unwrap();
    reaches(back.client(), "r", Status::Failed).await;
    assert_eq!(counter.count("tried"), 2);
    back.shutdown().await;
}

#[tokio::test]
async fn fixed_type_reads_values_of_the_first_release() {
    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Either {
        New(Hold),
        Old(String),
    }
    impl Held for Either {
        fn held() -> Self {
            Self::New(Hold::held())
        }
    }
    let scratch = Scratch::new();
    let counter = Counter::default();
    let old = first_release(&scratch, &counter).await;
    old.start("step", "step", &()).await.unwrap();
    reaches(old.client(), "step", Status::Waiting).await;
    old.shutdown().await;
    let fixed = flows::<Either>(scratch.builder().await, &counter).start().await.unwrap();
    fixed.handle(run_id("step")).signal("go", &()).await.unwrap();
    reaches(fixed.client(), "step", Status::Completed).await;
    fixed.shutdown().await;
}

#[derive(Deserialize)]
struct Approval {
    ok: bool,
    by: Option<String>,
}

/// Asks two questions without a form, then waits for a typed signal.
async fn asks(ctx: Context, (): ()) -> goldseam::Result<(bool, Option<String>, String, u32)> {
    let Approval { ok, by } = ctx.ask("approve", "Ship it?").await?;
    let word: String = ctx.ask("word", "Say something").await?;
    let count: u32 = ctx.signal("count").await?;
    Ok((ok, by, word, count))
}

/// Returns the JSON in the suggested command that begins with `start`.
fn suggested(hints: &[Hint], verb: &str) -> serde_json::Value {
    let value = |step: &NextStep| match step {
        NextStep::Answer { value, .. } if verb == "answer" => Some(value.clone()),
        NextStep::Signal { data, .. } if verb == "signal" => data.clone(),
        _ => None,
    };
    hints.iter().flat_map(Hint::steps).find_map(value).unwrap_or_else(|| panic!("{hints:?}"))
}

#[tokio::test]
async fn answers_and_signals_are_checked_against_the_type() {
    let scratch = Scratch::new();
    let engine = scratch.engine("w", asks).await;
    let run = engine.start("w", "r", &()).await.unwrap();
    let open = |question: &'static str| {
        let engine = &engine;
        crate::support::eventually(question, move || async move {
            engine
                .client()
                .get(&run_id("r"))
                .await
                .unwrap()
                .inputs
                .iter()
                .any(|input| input.path.as_str() == question)
        })
    };
    open("approve").await;
    for wrong in [serde_json::json!({}), serde_json::json!("yes"), serde_json::json!({ "ok": "yes" })] {
        let refused = run.answer("approve", &wrong).await.unwrap_err();
        assert_eq!(refused.code(), "GS0107", "{refused}");
    }
    let explained = engine.client().why(&run_id("r")).await.unwrap();
    let fitting = suggested(&explained.you_can, "answer");
    run.answer("approve", &fitting).await.unwrap();
    open("word").await;
    assert_eq!(run.answer("word", &serde_json::json!({})).await.unwrap_err().code(), "GS0107");
    // Early: no wait exists yet, so the signal cannot be checked against a type.
    run.signal("count", &"seven").await.unwrap();
    run.signal("other", &()).await.unwrap();
    let links = engine.client().why(&run_id("r")).await.unwrap().links;
    let unread = |what: &str| links.iter().any(|link| link.what == what);
    assert!(unread("1 unread signal `other`: the run does not wait for it yet"), "{links:?}");
    run.answer("word", &"hello").await.unwrap();
    crate::support::eventually("it waits for count", || async {
        engine
            .client()
            .get(&run_id("r"))
            .await
            .unwrap()
            .waits
            .iter()
            .any(|wait| wait.path.as_str() == "count")
    })
    .await;
    let refused = run.signal("count", &"eight").await.unwrap_err();
    assert_eq!(refused.code(), "GS0123");
    assert!(refused.to_string().ends_with("expected a whole number from 0, got a text"), "{refused}");
    let explained = engine.client().why(&run_id("r")).await.unwrap();
    let codes: Vec<&str> = explained.found.iter().map(|found| found.diagnosis.rule.as_str()).collect();
    assert_eq!(codes, ["W2"], "{explained:?}");
    let fitting = suggested(&explained.you_can, "signal");
    run.signal("count", &fitting).await.unwrap();
    let (ok, by, word, count) = run.result::<(bool, Option<String>, String, u32)>().await.unwrap();
    assert_eq!((ok, by, word.as_str(), count), (true, None, "hello", 1));
    engine.shutdown().await;
}

#[tokio::test]
async fn value_that_fits_the_schema_but_not_the_type_parks() {
    let scratch = Scratch::new();
    let flow = |ctx: Context, (): ()| async move {
        let small: u8 = ctx.signal("n").schema(serde_json::json!({ "type": "integer" })).await?;
        Ok(small)
    };
    let engine = scratch.engine("w", flow).await;
    let run = engine.start("w", "r", &()).await.unwrap();
    reaches(engine.client(), "r", Status::Waiting).await;
    assert_eq!(run.signal("n", &"x").await.unwrap_err().code(), "GS0123");
    run.signal("n", &70_000).await.unwrap();
    reaches(engine.client(), "r", Status::Parked).await;
    assert_eq!(engine.client().get(&run_id("r")).await.unwrap().trouble.unwrap().code.as_deref(), Some("V1"));
    engine.shutdown().await;
}
