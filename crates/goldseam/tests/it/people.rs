//! Waiting: questions to people, signals against each other and the clock, sleeps, pauses.

use goldseam::prelude::*;
use goldseam::{EngineError, Millis, RunId, Status};

use crate::support::{Scratch, Witness, eventually, reaches};

#[tokio::test]
async fn a_wrong_answer_is_refused_and_a_right_one_goes_on() {
    let scratch = Scratch::new();
    let engine = scratch
        .builder()
        .await
        .workflow("w", |ctx: Context, (): ()| async move {
            let ship: String = ctx.ask("ship", "Ship this order?").choice(["yes", "no"]).await?;
            let why: String = ctx.ask("why", "Why?").text().await?;
            let schema = serde_json::json!({ "type": "object", "required": ["boxes"] });
            let form: serde_json::Value = ctx.ask("form", "How many boxes?").schema(schema).await?;
            Ok::<_, Error>(format!("{ship}, {why}, {}", form["boxes"]))
        })
        .start()
        .await
        .unwrap();
    let run = engine.run("w", "r", &()).await.unwrap();
    reaches(&engine, "r", Status::Waiting).await;
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
async fn a_question_survives_a_crash_and_is_asked_once() {
    let scratch = Scratch::new();
    let workflow = |ctx: Context, (): ()| async move { ctx.ask::<String>("name", "Your name?").text().await };
    let first = scratch.builder().await.workflow("w", workflow).start().await.unwrap();
    first.run("w", "r", &()).await.unwrap();
    reaches(&first, "r", Status::Waiting).await;
    first.crash();
    let client = scratch.client().await;
    let run = client.handle(RunId::new("r").unwrap());
    run.answer("name", &"Ada").await.unwrap();
    let second = scratch.builder().await.workflow("w", workflow).start().await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), "Ada");
    let history = client.history(run.id()).await.unwrap();
    assert_eq!(history.iter().filter(|r| r.event.name() == "input.requested").count(), 1);
    second.shutdown().await;
}

#[tokio::test]
async fn the_first_of_several_things_wins_and_a_timeout_is_one_of_them() {
    let scratch = Scratch::new();
    let engine = scratch
        .builder()
        .await
        .workflow("w", |ctx: Context, (): ()| async move {
            let first =
                ctx.select("first").signal("stop").signal("go").timeout(Duration::from_secs(600)).await?;
            let second = ctx.select("second").signal("stop").timeout(Duration::from_millis(10)).await?;
            let named = match first {
                Selected::Signal { name, .. } => name.as_str().to_owned(),
                other => format!("{other:?}"),
            };
            Ok::<_, Error>((named, second == Selected::Timeout))
        })
        .start()
        .await
        .unwrap();
    let run = engine.run("w", "r", &()).await.unwrap();
    run.signal("go", &1).await.unwrap();
    assert_eq!(run.result::<(String, bool)>().await.unwrap(), ("go".to_owned(), true));
    engine.shutdown().await;
}

#[tokio::test]
async fn a_person_or_a_signal_whoever_is_first() {
    let scratch = Scratch::new();
    let engine = scratch
        .builder()
        .await
        .workflow("w", |ctx: Context, (): ()| async move {
            let form = goldseam::Form::Choice(vec!["ship".into(), "hold".into()]);
            let first = ctx.select("first").signal("stop").ask("Ship it?", form).timeout(hours(1)).await?;
            Ok::<_, Error>(matches!(first, Selected::Answer(answer) if answer.as_str() == "\"ship\""))
        })
        .start()
        .await
        .unwrap();
    let run = engine.run("w", "r", &()).await.unwrap();
    reaches(&engine, "r", Status::Waiting).await;
    assert!(run.answer("first", &"burn").await.is_err());
    run.answer("first", &"ship").await.unwrap();
    assert!(run.result::<bool>().await.unwrap());
    let other = engine.run("w", "other", &()).await.unwrap();
    other.signal("stop", &()).await.unwrap();
    assert!(!other.result::<bool>().await.unwrap());
    engine.shutdown().await;
}

#[tokio::test]
async fn a_signal_that_never_comes_times_out_as_an_error() {
    let scratch = Scratch::new();
    let engine = scratch
        .builder()
        .await
        .workflow("w", |ctx: Context, (): ()| async move {
            let waited = ctx.signal::<u32>("never").timeout(Duration::from_millis(10)).await;
            Ok::<_, Error>(waited.is_err_and(|error| error.is_timeout()))
        })
        .start()
        .await
        .unwrap();
    assert!(engine.run("w", "r", &()).await.unwrap().result::<bool>().await.unwrap());
    engine.shutdown().await;
}

#[tokio::test]
async fn a_repeated_signal_id_is_taken_once() {
    let scratch = Scratch::new();
    let engine = scratch
        .builder()
        .await
        .workflow("w", |ctx: Context, (): ()| async move {
            let one: u32 = ctx.signal("n").await?;
            let two: u32 = ctx.signal("n").await?;
            Ok::<_, Error>(one * 10 + two)
        })
        .start()
        .await
        .unwrap();
    let run = engine.run("w", "r", &()).await.unwrap();
    for (value, id) in [("1", "a"), ("1", "a"), ("2", "b")] {
        let payload = goldseam::Payload::parse(value, &goldseam::Limits::default()).unwrap();
        engine.signal(run.id(), "n", payload, Some(id.to_owned())).await.unwrap();
    }
    assert_eq!(run.result::<u32>().await.unwrap(), 12);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_sleep_goes_on_with_the_remaining_time_after_a_crash() {
    let scratch = Scratch::new();
    let workflow = |ctx: Context, (): ()| async move { ctx.sleep("nap", Duration::from_millis(1500)).await };
    let first = scratch.builder().await.workflow("w", workflow).start().await.unwrap();
    let run = first.run("w", "r", &()).await.unwrap();
    reaches(&first, "r", Status::Sleeping).await;
    let due = first.get(run.id()).await.unwrap().due().unwrap();
    eventually("the run left memory", || async { first.hot_runs() == 0 }).await;
    first.crash();
    let second = scratch.builder().await.workflow("w", workflow).start().await.unwrap();
    second.handle(RunId::new("r").unwrap()).result::<()>().await.unwrap();
    let finished = second.get(run.id()).await.unwrap().finished_at.unwrap();
    assert!(finished >= due, "it woke too early");
    assert!(finished.since(due) < Duration::from_secs(5), "it woke too late");
    second.shutdown().await;
}

#[tokio::test]
async fn a_paused_run_begins_no_effect_until_it_is_resumed() {
    let scratch = Scratch::new();
    let witness = Witness::default();
    let seen = witness.clone();
    let engine = scratch
        .builder()
        .await
        .workflow("w", move |ctx: Context, (): ()| {
            let seen = seen.clone();
            async move {
                let (): () = ctx.signal("go").await?;
                ctx.step("after", || async {
                    seen.saw("after");
                    Ok::<_, Error>(())
                })
                .await
            }
        })
        .start()
        .await
        .unwrap();
    let run = engine.run("w", "r", &()).await.unwrap();
    reaches(&engine, "r", Status::Waiting).await;
    engine.pause(run.id(), Default::default()).await.unwrap();
    run.signal("go", &()).await.unwrap();
    eventually("the run rests", || async { engine.hot_runs() == 0 }).await;
    assert_eq!(run.status().await.unwrap(), Status::Paused);
    assert_eq!(witness.count("after"), 0);
    assert_eq!(engine.pause(run.id(), Default::default()).await.unwrap_err().code(), "GS0110");
    engine.resume(run.id(), Default::default()).await.unwrap();
    run.result::<()>().await.unwrap();
    engine.shutdown().await;
}

#[tokio::test]
async fn a_run_that_is_paused_during_its_last_step_ends_when_it_is_resumed() {
    let (scratch, witness) = (Scratch::new(), Witness::default());
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let (seen, held) = (witness.clone(), std::sync::Arc::clone(&gate));
    let engine = scratch
        .builder()
        .await
        .workflow("w", move |ctx: Context, (): ()| {
            let (seen, held) = (seen.clone(), std::sync::Arc::clone(&held));
            async move {
                let last = || async {
                    seen.saw("last");
                    held.acquire().await.map(drop).map_err(|error| Error::terminal(error.to_string()))
                };
                ctx.step("last", last).await
            }
        })
        .start()
        .await
        .unwrap();
    let run = engine.run("w", "r", &()).await.unwrap();
    eventually("the step runs", || async { witness.count("last") == 1 }).await;
    engine.pause(run.id(), Default::default()).await.unwrap();
    gate.add_permits(1);
    eventually("the run rests", || async { engine.hot_runs() == 0 }).await;
    assert_eq!(run.status().await.unwrap(), Status::Paused);
    engine.resume(run.id(), Default::default()).await.unwrap();
    run.result::<()>().await.unwrap();
    assert_eq!(witness.count("last"), 1, "its result was kept");
    engine.shutdown().await;
}

#[tokio::test]
async fn now_random_and_uuid_are_the_same_in_every_replay() {
    let scratch = Scratch::new();
    let seen: std::sync::Arc<std::sync::Mutex<Vec<(Millis, u64, String)>>> = Default::default();
    let workflow = || {
        let seen = std::sync::Arc::clone(&seen);
        move |ctx: Context, (): ()| {
            let seen = std::sync::Arc::clone(&seen);
            async move {
                ctx.step("one", || async { Ok::<_, Error>(()) }).await?;
                seen.lock().unwrap().push((ctx.now(), ctx.random(), ctx.uuid()));
                ctx.signal::<()>("go").await
            }
        }
    };
    let first = scratch.builder().await.workflow("w", workflow()).start().await.unwrap();
    first.run("w", "r", &()).await.unwrap();
    reaches(&first, "r", Status::Waiting).await;
    first.crash();
    let second = scratch.builder().await.workflow("w", workflow()).start().await.unwrap();
    let run = second.handle(RunId::new("r").unwrap());
    run.signal("go", &()).await.unwrap();
    run.result::<()>().await.unwrap();
    let seen = seen.lock().unwrap().clone();
    assert!(seen.len() >= 2 && seen.iter().all(|each| *each == seen[0]), "{seen:?}");
    second.shutdown().await;
}
