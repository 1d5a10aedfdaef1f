//! A value in the log that the code's type cannot read parks the run (V1). It never fails it, and undoes nothing.

use goldseam::core::QueueName;
use goldseam::engine::client::By;
use goldseam::engine::queue::Want;
use goldseam::prelude::*;
use goldseam::{Builder, Limits, Payload, RunId, Status};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::support::{Scratch, Witness, reaches};

/// What no account of a difference may show.
const SECRET: &str = "hush-7";

trait Held: Serialize + DeserializeOwned + Send + Sync + 'static {
    fn held() -> Self;
}

/// What the first release holds.
impl Held for String {
    fn held() -> Self {
        SECRET.to_owned()
    }
}

/// What the second release holds.
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

fn id(run: &str) -> RunId {
    RunId::new(run).unwrap()
}

/// Charges, so that there is something to undo.
async fn charge(ctx: &Context, seen: &Witness) -> goldseam::Result<()> {
    let (done, undone) = (seen.clone(), seen.clone());
    let charge = ctx.step("charge", || async { Ok::<_, Error>(done.saw("charged")) });
    charge
        .compensate(move |_: u32| {
            undone.saw("refunded");
            async { Ok::<_, Error>(()) }
        })
        .await
        .map(|_| ())
}

const KINDS: [&str; 8] = ["input", "step", "group", "answer", "signal", "child", "remote", "failure"];

/// One workflow for each kind of value that a log can hold, read as `T`.
fn flows<T: Held>(mut builder: Builder, witness: &Witness) -> Builder {
    let seen = witness.clone();
    builder = builder.workflow("input", move |ctx: Context, _: T| {
        let seen = seen.clone();
        async move {
            charge(&ctx, &seen).await?;
            ctx.signal::<()>("go").await
        }
    });
    for kind in &KINDS[1..] {
        let seen = witness.clone();
        builder = builder.workflow(kind, move |ctx: Context, (): ()| {
            let seen = seen.clone();
            async move {
                charge(&ctx, &seen).await?;
                match *kind {
                    "step" => _ = ctx.step("value", || async { Ok::<_, Error>(T::held()) }).await?,
                    "group" => _ = ctx.group("value", |_| async { Ok::<_, Error>(T::held()) }).await?,
                    "answer" => _ = ctx.ask::<T>("value", "What?").await?,
                    "signal" => _ = ctx.signal::<T>("value").await?,
                    "child" => _ = ctx.child::<T>("value", "made", &()).await?,
                    "remote" => _ = ctx.remote::<T>("value", &()).queue("gpu").await?,
                    _ => assert!(ctx.child::<T>("value", "unmade", &()).await.is_err()),
                }
                ctx.signal::<()>("go").await
            }
        });
    }
    builder = builder.workflow("made", |_: Context, (): ()| async { Ok::<_, Error>(T::held()) });
    builder.workflow("unmade", |_: Context, (): ()| async { Err::<T, _>(Error::terminal("no")) })
}

async fn first_release(scratch: &Scratch, witness: &Witness) -> Engine {
    flows::<String>(scratch.builder().await, witness).start().await.unwrap()
}

/// Brings the remote step's result.
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
async fn every_kind_of_value_that_does_not_fit_parks_and_goes_on_after_a_rollback() {
    let (scratch, witness) = (Scratch::new(), Witness::default());
    let old = first_release(&scratch, &witness).await;
    old.run("input", "input", &SECRET).await.unwrap();
    for kind in &KINDS[1..] {
        old.run(kind, kind, &()).await.unwrap();
    }
    reaches(&old, "answer", Status::Waiting).await;
    old.handle(id("answer")).answer("value", &SECRET).await.unwrap();
    old.handle(id("signal")).signal("value", &SECRET).await.unwrap();
    work(&old).await;
    for kind in KINDS {
        crate::support::eventually(&format!("{kind} waits for go"), || async {
            let summary = old.get(&id(kind)).await.unwrap();
            summary.waits.iter().any(|wait| wait.path.as_str() == "go")
        })
        .await;
    }
    old.shutdown().await;
    let new = flows::<Hold>(scratch.builder().await, &witness).start().await.unwrap();
    for kind in KINDS {
        new.handle(id(kind)).signal("go", &()).await.unwrap();
    }
    reaches(&new, "failure", Status::Completed).await;
    for kind in &KINDS[..7] {
        reaches(&new, kind, Status::Parked).await;
        let trouble = new.get(&id(kind)).await.unwrap().trouble.unwrap();
        assert_eq!(trouble.code.as_deref(), Some("V1"), "{kind}: {}", trouble.message);
        let said = trouble.message;
        let place = if *kind == "input" { "the input" } else { "value" };
        assert!(
            said.contains(place) && said.contains("expected Hold {id: a text, shelf: "),
            "{kind}: {said}"
        );
        assert!(said.contains("got a text") && !said.contains(SECRET), "{kind}: {said}");
    }
    new.shutdown().await;
    let back = first_release(&scratch, &witness).await;
    for kind in &KINDS[..7] {
        back.resume(&id(kind), By::default()).await.unwrap();
        reaches(&back, kind, Status::Completed).await;
    }
    assert_eq!((witness.count("charged"), witness.count("refunded")), (8, 0));
    back.shutdown().await;
}

#[tokio::test]
async fn an_undoing_whose_value_does_not_fit_parks_and_goes_on_after_a_rollback() {
    let (scratch, witness) = (Scratch::new(), Witness::default());
    fn flow<T: Held>(
        witness: &Witness,
        works: bool,
    ) -> impl Fn(Context, ()) -> futures_util::future::BoxFuture<'static, goldseam::Result<()>>
    + Send
    + Sync
    + 'static {
        let witness = witness.clone();
        move |ctx, ()| {
            let seen = witness.clone();
            Box::pin(async move {
                let charge = ctx.step("charge", || async { Ok::<_, Error>(T::held()) });
                charge
                    .compensate(move |_: T| {
                        seen.saw("tried");
                        async move { if works { Ok(()) } else { Err(Error::terminal("down")) } }
                    })
                    .await?;
                Err(Error::terminal("no"))
            })
        }
    }
    let old = scratch.builder().await.workflow("w", flow::<String>(&witness, false)).start().await.unwrap();
    old.run("w", "r", &()).await.unwrap();
    reaches(&old, "r", Status::Parked).await;
    old.shutdown().await;
    let new = scratch.builder().await.workflow("w", flow::<Hold>(&witness, true)).start().await.unwrap();
    new.resume(&id("r"), By::default()).await.unwrap();
    crate::support::eventually("parked by V1", || async {
        let trouble = new.get(&id("r")).await.unwrap().trouble;
        trouble.is_some_and(|trouble| trouble.code.as_deref() == Some("V1"))
    })
    .await;
    assert_eq!(witness.count("tried"), 1);
    new.shutdown().await;
    let back = scratch.builder().await.workflow("w", flow::<String>(&witness, true)).start().await.unwrap();
    back.resume(&id("r"), By::default()).await.unwrap();
    reaches(&back, "r", Status::Failed).await;
    assert_eq!(witness.count("tried"), 2);
    back.shutdown().await;
}

#[tokio::test]
async fn a_fixed_type_reads_what_the_first_release_wrote() {
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
    let (scratch, witness) = (Scratch::new(), Witness::default());
    let old = first_release(&scratch, &witness).await;
    old.run("step", "step", &()).await.unwrap();
    reaches(&old, "step", Status::Waiting).await;
    old.shutdown().await;
    let fixed = flows::<Either>(scratch.builder().await, &witness).start().await.unwrap();
    fixed.handle(id("step")).signal("go", &()).await.unwrap();
    reaches(&fixed, "step", Status::Completed).await;
    fixed.shutdown().await;
}

#[derive(Deserialize)]
struct Approval {
    ok: bool,
    by: Option<String>,
}

/// Asks for a type without a form, then waits for a signal with a type.
async fn asks(ctx: Context, (): ()) -> goldseam::Result<(bool, Option<String>, String, u32)> {
    let Approval { ok, by } = ctx.ask("approve", "Ship it?").await?;
    let word: String = ctx.ask("word", "Say something").await?;
    let count: u32 = ctx.signal("count").await?;
    Ok((ok, by, word, count))
}

/// The JSON that a line suggests.
fn suggested(lines: &[String], start: &str) -> serde_json::Value {
    let line = lines.iter().find_map(|line| line.strip_prefix(start)).unwrap_or_else(|| panic!("{lines:?}"));
    serde_json::from_str(line.trim_matches('\'')).unwrap()
}

#[tokio::test]
async fn answers_and_signals_are_checked_against_the_type_and_suggestions_fit() {
    let scratch = Scratch::new();
    let engine = scratch.builder().await.workflow("w", asks).start().await.unwrap();
    let run = engine.run("w", "r", &()).await.unwrap();
    let open = |question: &'static str| {
        let engine = &engine;
        crate::support::eventually(question, move || async move {
            engine.get(&id("r")).await.unwrap().inputs.iter().any(|input| input.path.as_str() == question)
        })
    };
    open("approve").await;
    for wrong in [serde_json::json!({}), serde_json::json!("yes"), serde_json::json!({ "ok": "yes" })] {
        let refused = run.answer("approve", &wrong).await.unwrap_err();
        assert_eq!(refused.code(), "GS0107", "{refused}");
    }
    let explained = engine.why(&id("r")).await.unwrap();
    let fitting = suggested(&explained.you_can, "goldseam answer r approve ");
    run.answer("approve", &fitting).await.unwrap();
    open("word").await;
    assert_eq!(run.answer("word", &serde_json::json!({})).await.unwrap_err().code(), "GS0107");
    // Early: nobody looks for it yet, so nobody can say what it must be.
    run.signal("count", &"seven").await.unwrap();
    run.signal("other", &()).await.unwrap();
    let links = engine.why(&id("r")).await.unwrap().links;
    let unread = |what: &str| links.iter().any(|link| link.what == what);
    assert!(unread("1 unread signal `other`: the run does not wait for it yet"), "{links:?}");
    run.answer("word", &"hello").await.unwrap();
    crate::support::eventually("it waits for count", || async {
        engine.get(&id("r")).await.unwrap().waits.iter().any(|wait| wait.path.as_str() == "count")
    })
    .await;
    let refused = run.signal("count", &"eight").await.unwrap_err();
    assert_eq!(refused.code(), "GS0123");
    assert!(refused.to_string().ends_with("expected a whole number from 0, got a text"), "{refused}");
    let explained = engine.why(&id("r")).await.unwrap();
    let codes: Vec<&str> = explained.found.iter().map(|found| found.diagnosis.rule.as_str()).collect();
    assert_eq!(codes, ["W2"], "{explained:?}");
    let fitting = suggested(&explained.you_can, "goldseam signal r count --data ");
    run.signal("count", &fitting).await.unwrap();
    let (ok, by, word, count) = run.result::<(bool, Option<String>, String, u32)>().await.unwrap();
    assert_eq!((ok, by, word.as_str(), count), (true, None, "hello", 1));
    engine.shutdown().await;
}

#[tokio::test]
async fn a_value_that_passes_its_schema_and_does_not_fit_parks_the_run() {
    let scratch = Scratch::new();
    let flow = |ctx: Context, (): ()| async move {
        let small: u8 = ctx.signal("n").schema(serde_json::json!({ "type": "integer" })).await?;
        Ok::<_, Error>(small)
    };
    let engine = scratch.builder().await.workflow("w", flow).start().await.unwrap();
    let run = engine.run("w", "r", &()).await.unwrap();
    reaches(&engine, "r", Status::Waiting).await;
    assert_eq!(run.signal("n", &"x").await.unwrap_err().code(), "GS0123");
    run.signal("n", &70_000).await.unwrap();
    reaches(&engine, "r", Status::Parked).await;
    assert_eq!(engine.get(&id("r")).await.unwrap().trouble.unwrap().code.as_deref(), Some("V1"));
    engine.shutdown().await;
}
