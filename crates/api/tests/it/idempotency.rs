//! The same change under the same idempotency key is carried out once, and a repeat gets the original response.

use futures_util::future::BoxFuture;
use goldseam::prelude::{Context, Engine};
use goldseam::unstable::core::{LockName, TaskId};
use goldseam::{Failure, OpenEngine as _, Path, Payload, RunId};
use goldseam_api::doc::change::{NewAnswer, NewJump, NewMigration, NewNote, NewRecovery, NewSignal};
use goldseam_api::doc::ending::{NewRetry, NewWithdrawal};
use goldseam_api::doc::lock::NewHold;
use goldseam_api::doc::run::NewRun;
use goldseam_api::doc::task::{Hold, NewClaim, NewFailure, NewResult, NewUserTask};
use goldseam_api::{ApiResult, Caller, CommandsApi, HealingApi, LocalApi, LocksApi, Problem, TasksApi};
use serde::Serialize;
use serde_json::{Value, json};

use crate::support::Place;

/// One of two different requests.
#[derive(Clone, Copy, PartialEq)]
enum Which {
    One,
    Other,
}

/// A kind of change: its run, if it has one, and its request.
struct Change {
    name: &'static str,
    run: Option<&'static str>,
    ask: for<'a> fn(&'a LocalApi, &'a Caller, Which) -> BoxFuture<'a, ApiResult<Value>>,
}

fn run(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

fn payload(value: &Value) -> Payload {
    Payload::of(value, &goldseam::Limits::default()).unwrap()
}

fn reason(which: Which) -> NewNote {
    NewNote { by: None, reason: if which == Which::One { "stock is counted" } else { "it rains" }.to_owned() }
}

fn as_json<T: Serialize>(answer: ApiResult<T>) -> ApiResult<Value> {
    answer.map(|document| serde_json::to_value(document).unwrap())
}

fn new_run(which: Which) -> NewRun {
    let tags = match which {
        Which::One => [("region".to_owned(), "eu".to_owned())].into(),
        Which::Other => [("region".to_owned(), "us".to_owned())].into(),
    };
    let input = payload(&json!("ship"));
    let attributes = Default::default();
    NewRun {
        workflow: "order".into(),
        id: None,
        input,
        tags,
        attributes,
        priority: 0,
        queue: None,
        version: None,
        timeout_ms: None,
        deadline_ms: None,
        delay_ms: None,
        start_at_ms: None,
        lane: None,
    }
}

fn new_task(which: Which) -> NewUserTask {
    let payload = payload(&json!({ "to": if which == Which::One { "ana" } else { "ben" } }));
    NewUserTask {
        kind: "email".into(),
        queue: None,
        payload,
        id: None,
        key: None,
        lane: None,
        priority: 0,
        delay_ms: 0,
        attempts_max: 2,
        silence_max_ms: None,
    }
}

fn jump(which: Which) -> NewJump {
    let to = if which == Which::One { "charge" } else { "reserve" }.to_owned();
    NewJump {
        to,
        input: None,
        drop_mail: false,
        compensate: false,
        dry_run: false,
        drop_cancel: false,
        by: None,
        reason: String::new(),
    }
}

fn migration(which: Which) -> NewMigration {
    let to_version = if which == Which::One { 2 } else { 3 };
    NewMigration { to_version, by: None, reason: String::new() }
}

fn recovery(which: Which) -> NewRecovery {
    NewRecovery { reason: reason(which).reason, ..NewRecovery::default() }
}

/// Every change of a run, and the creation of runs and tasks.
const CHANGES: &[Change] = &[
    Change {
        name: "start",
        run: None,
        ask: |api, caller, which| Box::pin(async move { as_json(api.start(caller, new_run(which)).await) }),
    },
    Change {
        name: "start with other input",
        run: None,
        ask: |api, caller, which| {
            let input = payload(&json!(if which == Which::One { "ship" } else { "wait" }));
            Box::pin(async move { as_json(api.start(caller, NewRun { input, ..new_run(Which::One) }).await) })
        },
    },
    Change {
        name: "submit",
        run: None,
        ask: |api, caller, which| Box::pin(async move { as_json(api.submit(caller, new_task(which)).await) }),
    },
    Change {
        name: "signal",
        run: Some("waits"),
        ask: |api, caller, which| {
            let new =
                NewSignal { name: "paid".into(), payload: payload(&json!(which == Which::One)), id: None };
            Box::pin(async move { as_json(api.signal(caller, &run("waits"), new).await) })
        },
    },
    Change {
        name: "answer",
        run: Some("asks"),
        ask: |api, caller, which| {
            let new =
                NewAnswer { answer: payload(&json!(which == Which::One)), since: None, by: None, id: None };
            let question = Path::new("review").unwrap();
            Box::pin(async move { as_json(api.answer(caller, &run("asks"), &question, new).await) })
        },
    },
    Change {
        name: "note",
        run: Some("waits"),
        ask: |api, caller, which| {
            Box::pin(async move { as_json(api.note_run(caller, &run("waits"), reason(which)).await) })
        },
    },
    Change {
        name: "requeue",
        run: Some("waits"),
        ask: |api, caller, which| {
            Box::pin(async move { as_json(api.requeue(caller, &run("waits"), reason(which)).await) })
        },
    },
    Change {
        name: "migrate",
        run: Some("waits"),
        ask: |api, caller, which| {
            Box::pin(async move { as_json(api.migrate(caller, &run("waits"), migration(which)).await) })
        },
    },
    Change {
        name: "reset",
        run: Some("waits"),
        ask: |api, caller, which| {
            Box::pin(async move { as_json(api.reset(caller, &run("waits"), reason(which)).await) })
        },
    },
    Change {
        name: "pause",
        run: Some("waits"),
        ask: |api, caller, which| {
            Box::pin(async move { as_json(api.pause(caller, &run("waits"), reason(which)).await) })
        },
    },
    Change {
        name: "resume",
        run: Some("waits"),
        ask: |api, caller, which| {
            Box::pin(async move { as_json(api.resume(caller, &run("waits"), reason(which)).await) })
        },
    },
    Change {
        name: "jump",
        run: Some("done"),
        ask: |api, caller, which| {
            Box::pin(async move { as_json(api.jump(caller, &run("done"), jump(which)).await) })
        },
    },
    Change {
        name: "retry",
        run: Some("failed"),
        ask: |api, caller, which| {
            let new = NewRetry { reason: reason(which).reason, ..NewRetry::default() };
            Box::pin(async move { as_json(api.retry(caller, &run("failed"), new).await) })
        },
    },
    Change {
        name: "recover",
        run: Some("hidden"),
        ask: |api, caller, which| {
            Box::pin(async move { as_json(api.recover(caller, &run("hidden"), recovery(which)).await) })
        },
    },
    Change {
        name: "undo-recovery",
        run: Some("hidden"),
        ask: |api, caller, which| {
            Box::pin(async move { as_json(api.undo_recovery(caller, &run("hidden"), reason(which)).await) })
        },
    },
    Change {
        name: "cancel",
        run: Some("waits"),
        ask: |api, caller, which| {
            Box::pin(async move { as_json(api.cancel(caller, &run("waits"), reason(which)).await) })
        },
    },
    Change {
        name: "withdraw",
        run: Some("waits"),
        ask: |api, caller, which| {
            let new = NewWithdrawal { reason: reason(which).reason, ..NewWithdrawal::default() };
            Box::pin(async move { as_json(api.withdraw(caller, &run("waits"), new).await) })
        },
    },
    Change {
        name: "terminate",
        run: Some("waits"),
        ask: |api, caller, which| {
            Box::pin(async move { as_json(api.terminate(caller, &run("waits"), reason(which)).await) })
        },
    },
];

async fn sick() -> Place {
    let runs = [("done", "ship"), ("failed", "break"), ("asks", "ask"), ("waits", "wait"), ("hidden", "ask")];
    let place = Place::with(&runs).await;
    place.hide_question("hidden").await;
    place
}

async fn events(api: &LocalApi, name: Option<&str>) -> usize {
    match name {
        Some(name) => api.client().history(&run(name)).await.unwrap().len(),
        None => 0,
    }
}

fn is_reused(answer: ApiResult<Value>) -> bool {
    matches!(answer, Err(Problem { status: 409, code: Some(code), .. }) if &*code == "GS0603")
}

#[tokio::test]
async fn a_repeat_with_the_same_key_gets_the_original_response() {
    let place = sick().await;
    let api = &place.api;
    for Change { name, run, ask } in CHANGES {
        let caller =
            Caller { who: Some("ana".into()), key: Some(format!("key of {name}")), ..Caller::default() };
        let before = events(api, *run).await;
        let first =
            ask(api, &caller, Which::One).await.unwrap_or_else(|problem| panic!("{name}: {problem:?}"));
        let after = events(api, *run).await;
        assert!(run.is_none() || after > before, "{name} appends to the log");
        let again =
            ask(api, &caller, Which::One).await.unwrap_or_else(|problem| panic!("{name}: {problem:?}"));
        assert_eq!(again, first, "{name}");
        let other = ask(api, &caller, Which::Other).await;
        assert!(is_reused(other), "{name}: the same key for a different request");
        assert_eq!(events(api, *run).await, after, "{name} was carried out once");
    }
}

#[tokio::test]
async fn keys_of_different_callers_do_not_collide() {
    let place = Place::with(&[("waits", "wait")]).await;
    for who in ["ana", "ben"] {
        let caller = Caller { who: Some(who.into()), key: Some("1".into()), ..Caller::default() };
        place.api.note_run(&caller, &run("waits"), reason(Which::One)).await.unwrap();
    }
    let history = place.api.client().history(&run("waits")).await.unwrap();
    assert_eq!(history.iter().filter(|recorded| recorded.event.name() == "note.added").count(), 2);
}

#[tokio::test]
async fn requests_without_a_key_are_never_deduplicated() {
    let place = Place::with(&[("waits", "wait")]).await;
    let keyless = Caller::default();
    let first = place.api.note_run(&keyless, &run("waits"), reason(Which::One)).await.unwrap();
    let second = place.api.note_run(&keyless, &run("waits"), reason(Which::One)).await.unwrap();
    assert!(second.event > first.event);
    let starts = [new_run(Which::One), new_run(Which::One)].map(|new| place.api.start(&keyless, new));
    let [one, two] = starts.map(|start| async { start.await.unwrap().run });
    assert_ne!(one.await, two.await);
}

#[tokio::test]
async fn a_repeated_signal_is_answered_after_the_run_ended() {
    let place = Place::with(&[("waits", "wait")]).await;
    let caller = Caller { who: None, key: Some("1".into()), ..Caller::default() };
    let signal = || NewSignal { name: "paid".into(), payload: payload(&json!(1)), id: None };
    let first = place.api.signal(&caller, &run("waits"), signal()).await.unwrap();
    place.api.cancel(&Caller::default(), &run("waits"), NewNote::default()).await.unwrap();
    assert_eq!(place.api.signal(&caller, &run("waits"), signal()).await.unwrap(), first);
}

#[tokio::test]
async fn repeats_of_task_and_lock_changes_get_the_original_response() {
    let place = Place::empty().await;
    let api = &place.api;
    let keyed = |key: &str| Caller { who: None, key: Some(key.to_owned()), ..Caller::default() };
    let id = TaskId::new("mail-1").unwrap();
    api.submit(&keyed("1"), NewUserTask { id: Some("mail-1".into()), ..new_task(Which::One) }).await.unwrap();
    let claim = async || {
        let want = NewClaim { owner: "w".into(), queue: None, kind: None, limit: None, wait_ms: Some(5_000) };
        api.claim(&keyed("2"), want).await.unwrap().items.remove(0).task.fence
    };
    let hold = Hold { fence: Some(claim().await), token: None };
    let released = api.release(&keyed("3"), &id, hold.clone()).await.unwrap();
    assert_eq!(api.release(&keyed("3"), &id, hold.clone()).await.unwrap(), released);
    assert_eq!(
        api.release(&Caller::default(), &id, hold).await.unwrap_err().status,
        409,
        "without a key it is not a repeat"
    );

    let fence = Some(claim().await);
    let fail = || NewFailure { fence, token: None, failure: Failure::retryable("503") };
    let failed = api.fail(&keyed("4"), &id, fail()).await.unwrap();
    assert_eq!(api.fail(&keyed("4"), &id, fail()).await.unwrap(), failed);

    let done = || NewResult { fence: None, token: None, result: payload(&json!(1)) };
    let fence = Some(claim().await);
    let first = api.complete(&keyed("5"), &id, NewResult { fence, ..done() }).await.unwrap();
    assert_eq!(api.complete(&keyed("5"), &id, NewResult { fence, ..done() }).await.unwrap(), first);
    assert_eq!(
        api.complete(&keyed("5"), &id, done()).await.unwrap_err().status,
        400,
        "neither fence nor token"
    );

    let second = api.submit(&keyed("6"), new_task(Which::One)).await.unwrap().id;
    let cancelled = api.cancel_task(&keyed("7"), &second).await.unwrap();
    assert_eq!(api.cancel_task(&keyed("7"), &second).await.unwrap(), cancelled);

    let lock = LockName::new("nightly").unwrap();
    let hold = NewHold { holder: "ana".into(), ttl_ms: None };
    let taken = api.acquire_lock(&keyed("8"), &lock, hold.clone()).await.unwrap();
    assert_eq!(api.acquire_lock(&keyed("8"), &lock, hold.clone()).await.unwrap(), taken);
    let refused = api.acquire_lock(&keyed("9"), &lock, hold).await.unwrap_err();
    assert_eq!((refused.status, refused.code.as_deref()), (409, Some("GS0302")), "another command");
}

/// Receives 41 signals, continues as new, and then waits for the signal `end`.
async fn tally(ctx: Context, round: u32) -> goldseam::Result<u32> {
    if round == 0 {
        for _ in 0..41 {
            ctx.signal::<Value>("n").await?;
        }
        return ctx.continue_as_new(&1);
    }
    ctx.signal::<Value>("end").await?;
    Ok(round)
}

#[tokio::test]
async fn keys_are_known_after_many_signals_and_continue_as_new() {
    let place = Place::empty().await;
    let api = &place.api;
    let keyless = Caller::default();
    let r = run("t");
    let engine = Engine::open(&place.url).await.unwrap().workflow("tally", tally).start().await.unwrap();
    engine.start("tally", "t", &0u32).await.unwrap();
    let keyed = Caller { who: None, key: Some("K".into()), ..Caller::default() };
    let signal = |id: Option<&str>, number: u32| {
        let id = id.map(str::to_owned);
        NewSignal { name: "n".into(), payload: payload(&json!(number)), id }
    };
    let first = api.signal(&keyed, &r, signal(None, 0)).await.unwrap();
    let named = api.signal(&keyless, &r, signal(Some("named"), 1)).await.unwrap();
    let noted = api.note_run(&keyed, &r, reason(Which::One)).await.unwrap();
    for number in 2..41 {
        api.signal(&keyless, &r, signal(None, number)).await.unwrap();
    }
    let mut mark = 0;
    while engine.client().get(&r).await.unwrap().base.0 == 1 {
        mark = engine.client().wait_for_change(mark).await.unwrap();
    }
    let events = events(api, Some("t")).await;
    assert_eq!(api.signal(&keyed, &r, signal(None, 0)).await.unwrap(), first);
    assert_eq!(api.signal(&keyless, &r, signal(Some("named"), 1)).await.unwrap(), named);
    assert_eq!(api.note_run(&keyed, &r, reason(Which::One)).await.unwrap(), noted);
    assert!(is_reused(as_json(api.signal(&keyed, &r, signal(None, 7)).await)));
    let history = api.client().history(&r).await.unwrap();
    let received = history.iter().filter(|recorded| recorded.event.name() == "signal.received").count();
    assert_eq!((received, history.len() >= events), (41, true), "each signal once");
    api.signal(&Caller { who: None, key: Some("L".into()), ..Caller::default() }, &r, signal(None, 41))
        .await
        .unwrap();
    engine.shutdown().await;
}

#[tokio::test]
async fn an_explicit_id_repeats_the_same_request_or_is_refused() {
    let place = Place::with(&[("asks", "ask"), ("waits", "wait")]).await;
    let api = &place.api;
    let keyless = Caller::default();
    let start = |which| NewRun { id: Some("named".into()), ..new_run(which) };
    let first = api.start(&keyless, start(Which::One)).await.unwrap();
    assert_eq!(api.start(&keyless, start(Which::One)).await.unwrap(), first);
    assert!(is_reused(as_json(api.start(&keyless, start(Which::Other)).await)), "other tags");

    let task = |which| NewUserTask { id: Some("mail-1".into()), ..new_task(which) };
    let first = api.submit(&keyless, task(Which::One)).await.unwrap();
    assert_eq!(api.submit(&keyless, task(Which::One)).await.unwrap(), first);
    assert!(is_reused(as_json(api.submit(&keyless, task(Which::Other)).await)), "another payload");

    let signal = |number: u32| NewSignal {
        name: "paid".into(),
        payload: payload(&json!(number)),
        id: Some("s-1".into()),
    };
    let first = api.signal(&keyless, &run("waits"), signal(1)).await.unwrap();
    assert_eq!(api.signal(&keyless, &run("waits"), signal(1)).await.unwrap(), first);
    assert!(is_reused(as_json(api.signal(&keyless, &run("waits"), signal(2)).await)), "another payload");

    let question = Path::new("review").unwrap();
    let answer = |text: &str| NewAnswer {
        answer: payload(&json!(text)),
        since: None,
        by: None,
        id: Some("a-1".into()),
    };
    let first = api.answer(&keyless, &run("asks"), &question, answer("yes")).await.unwrap();
    assert_eq!(api.answer(&keyless, &run("asks"), &question, answer("yes")).await.unwrap(), first);
    assert!(is_reused(as_json(api.answer(&keyless, &run("asks"), &question, answer("no")).await)));
}
