//! Waits: questions, signals, timeouts, sleeps and pauses.

use std::sync::{Arc, Mutex};

use goldseam::prelude::*;
use goldseam::{EngineError, Millis, Status};
use tokio::sync::Semaphore;

use crate::support::{Counter, Scratch, eventually, ok, reaches, run_id, with_state};

#[tokio::test]
async fn refuses_wrong_answers_and_accepts_valid_ones() {
    let scratch = Scratch::new();
    let engine = scratch
        .engine("w", |ctx: Context, (): ()| async move {
            let ship: String = ctx.ask("ship", "Ship this order?").choice(["yes", "no"]).await?;
            let why: String = ctx.ask("why", "Why?").text().await?;
            let schema = serde_json::json!({ "type": "object", "required": ["boxes"] });
            let form: serde_json::Value = ctx.ask("form", "How many boxes?").schema(schema).await?;
            Ok(format!("{ship}, {why}, {}", form["boxes"]))
        })
        .await;
    let run = engine.start("w", "r", &()).await.unwrap();
    reaches(engine.client(), "r", Status::Waiting).await;
    let error = run.answer("ship", &"perhaps").await.unwrap_err();
    assert_eq!(error.code(), "GS0107");
    assert_eq!(error.to_string(), "run r: the answer was refused: the answer must be one of: yes, no");
    let error = run.answer("nonsense", &"yes").await.unwrap_err();
    assert_eq!(error.hint().unwrap(), "open questions: ship");
    run.answer("ship", &"yes").await.unwrap();
    eventually("the next question is open", || async { run.answer("why", &"because").await.is_ok() }).await;
    eventually("the form is open", || async {
        run.answer("form", &serde_json::json!({ "boxes": 3 })).await.is_ok()
    })
    .await;
    assert_eq!(run.result::<String>().await.unwrap(), "yes, because, 3");
    assert!(matches!(run.answer("ship", &"no").await, Err(EngineError::Refused { .. })));
    engine.shutdown().await;
}

#[tokio::test]
async fn question_survives_a_crash_and_is_asked_once() {
    let scratch = Scratch::new();
    let workflow = |ctx: Context, (): ()| async move { ctx.ask::<String>("name", "Your name?").text().await };
    let first = scratch.engine("w", workflow).await;
    first.start("w", "r", &()).await.unwrap();
    reaches(first.client(), "r", Status::Waiting).await;
    first.crash();
    let client = scratch.client().await;
    let run = client.handle(run_id("r"));
    run.answer("name", &"Ada").await.unwrap();
    let second = scratch.engine("w", workflow).await;
    assert_eq!(run.result::<String>().await.unwrap(), "Ada");
    let history = client.history(run.id()).await.unwrap();
    assert_eq!(history.iter().filter(|r| r.event.name() == "input.requested").count(), 1);
    second.shutdown().await;
}

#[tokio::test]
async fn select_returns_the_first_of_signals_and_timeout() {
    let scratch = Scratch::new();
    let engine = scratch
        .engine("w", |ctx: Context, (): ()| async move {
            let first =
                ctx.select("first").signal("stop").signal("go").timeout(Duration::from_secs(600)).await?;
            let second = ctx.select("second").signal("stop").timeout(Duration::from_millis(10)).await?;
            let named = match first {
                Selected::Signal { name, .. } => name.as_str().to_owned(),
                other => format!("{other:?}"),
            };
            Ok((named, second == Selected::Timeout))
        })
        .await;
    let run = engine.start("w", "r", &()).await.unwrap();
    run.signal("go", &1).await.unwrap();
    assert_eq!(run.result::<(String, bool)>().await.unwrap(), ("go".to_owned(), true));
    engine.shutdown().await;
}

#[tokio::test]
async fn select_returns_the_first_of_answer_and_signal() {
    let scratch = Scratch::new();
    let engine = scratch
        .engine("w", |ctx: Context, (): ()| async move {
            let form = goldseam::Form::Choice(vec!["ship".into(), "hold".into()]);
            let first = ctx.select("first").signal("stop").ask("Ship it?", form).timeout(hours(1)).await?;
            Ok(matches!(first, Selected::Answer(answer) if answer.as_str() == "\"ship\""))
        })
        .await;
    let run = engine.start("w", "r", &()).await.unwrap();
    reaches(engine.client(), "r", Status::Waiting).await;
    assert!(run.answer("first", &"burn").await.is_err());
    run.answer("first", &"ship").await.unwrap();
    assert!(run.result::<bool>().await.unwrap());
    let other = engine.start("w", "other", &()).await.unwrap();
    other.signal("stop", &()).await.unwrap();
    assert!(!other.result::<bool>().await.unwrap());
    engine.shutdown().await;
}

#[tokio::test]
async fn signal_wait_times_out_with_an_error() {
    let scratch = Scratch::new();
    let engine = scratch
        .engine("w", |ctx: Context, (): ()| async move {
            let waited = ctx.signal::<u32>("never").timeout(Duration::from_millis(10)).await;
            Ok(waited.is_err_and(|error| error.is_timeout()))
        })
        .await;
    assert!(engine.start("w", "r", &()).await.unwrap().result::<bool>().await.unwrap());
    engine.shutdown().await;
}

#[tokio::test]
async fn repeated_signal_id_is_delivered_once() {
    let scratch = Scratch::new();
    let engine = scratch
        .engine("w", |ctx: Context, (): ()| async move {
            let one: u32 = ctx.signal("n").await?;
            let two: u32 = ctx.signal("n").await?;
            Ok(one * 10 + two)
        })
        .await;
    let run = engine.start("w", "r", &()).await.unwrap();
    for (value, id) in [("1", "a"), ("1", "a"), ("2", "b")] {
        let payload = goldseam::Payload::parse(value, &goldseam::Limits::default()).unwrap();
        engine.client().signal(run.id(), "n", payload, Some(id.to_owned())).await.unwrap();
    }
    assert_eq!(run.result::<u32>().await.unwrap(), 12);
    engine.shutdown().await;
}

#[tokio::test]
async fn sleep_continues_with_remaining_time_after_a_crash() {
    let scratch = Scratch::new();
    let workflow = |ctx: Context, (): ()| async move { ctx.sleep("nap", Duration::from_millis(1500)).await };
    let first = scratch.engine("w", workflow).await;
    let run = first.start("w", "r", &()).await.unwrap();
    reaches(first.client(), "r", Status::Sleeping).await;
    let due = first.client().get(run.id()).await.unwrap().due().unwrap();
    eventually("the run left memory", || async { first.live_runs() == 0 }).await;
    first.crash();
    let second = scratch.engine("w", workflow).await;
    second.handle(run_id("r")).result::<()>().await.unwrap();
    let finished = second.client().get(run.id()).await.unwrap().finished_at.unwrap();
    assert!(finished >= due, "it woke too early");
    assert!(finished.since(due) < Duration::from_secs(5), "it woke too late");
    second.shutdown().await;
}

#[tokio::test]
async fn paused_run_begins_no_step_until_resumed() {
    let scratch = Scratch::new();
    let counter = Counter::default();
    let workflow = with_state(&counter, |ctx: Context, (): (), counter| async move {
        let (): () = ctx.signal("go").await?;
        ctx.step("after", || counter.step("after")).await
    });
    let engine = scratch.engine("w", workflow).await;
    let run = engine.start("w", "r", &()).await.unwrap();
    reaches(engine.client(), "r", Status::Waiting).await;
    engine.client().pause(run.id(), Default::default()).await.unwrap();
    run.signal("go", &()).await.unwrap();
    eventually("the run left memory", || async { engine.live_runs() == 0 }).await;
    assert_eq!(run.status().await.unwrap(), Status::Paused);
    assert_eq!(counter.count("after"), 0);
    assert_eq!(engine.client().pause(run.id(), Default::default()).await.unwrap_err().code(), "GS0110");
    engine.client().resume(run.id(), Default::default()).await.unwrap();
    run.result::<()>().await.unwrap();
    engine.shutdown().await;
}

#[tokio::test]
async fn run_paused_in_its_last_step_ends_when_resumed() {
    let scratch = Scratch::new();
    let counter = Counter::default();
    let gate = Arc::new(Semaphore::new(0));
    let state = (counter.clone(), Arc::clone(&gate));
    let workflow = with_state(&state, |ctx: Context, (): (), (counter, gate)| async move {
        let last = || async {
            counter.add("last");
            gate.acquire().await.map(drop).map_err(|error| Error::terminal(error.to_string()))
        };
        ctx.step("last", last).await
    });
    let engine = scratch.engine("w", workflow).await;
    let run = engine.start("w", "r", &()).await.unwrap();
    eventually("the step runs", || async { counter.count("last") == 1 }).await;
    engine.client().pause(run.id(), Default::default()).await.unwrap();
    gate.add_permits(1);
    eventually("the run left memory", || async { engine.live_runs() == 0 }).await;
    assert_eq!(run.status().await.unwrap(), Status::Paused);
    engine.client().resume(run.id(), Default::default()).await.unwrap();
    run.result::<()>().await.unwrap();
    assert_eq!(counter.count("last"), 1, "the result is kept over the pause");
    engine.shutdown().await;
}

#[tokio::test]
async fn now_random_and_uuid_are_the_same_in_every_replay() {
    let scratch = Scratch::new();
    let seen: Arc<Mutex<Vec<(Millis, u64, String)>>> = Arc::default();
    let workflow = || {
        with_state(&seen, |ctx: Context, (): (), seen| async move {
            ctx.step("one", || ok(())).await?;
            seen.lock().unwrap().push((ctx.now(), ctx.random(), ctx.uuid()));
            ctx.signal::<()>("go").await
        })
    };
    let first = scratch.engine("w", workflow()).await;
    first.start("w", "r", &()).await.unwrap();
    reaches(first.client(), "r", Status::Waiting).await;
    first.crash();
    let second = scratch.engine("w", workflow()).await;
    let run = second.handle(run_id("r"));
    run.signal("go", &()).await.unwrap();
    run.result::<()>().await.unwrap();
    let seen = seen.lock().unwrap().clone();
    assert!(seen.len() >= 2 && seen.iter().all(|each| *each == seen[0]), "{seen:?}");
    second.shutdown().await;
}
