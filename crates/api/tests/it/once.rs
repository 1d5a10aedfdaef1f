//! The same change under the same idempotency key is done once, and answered the same way again.

use futures_util::future::BoxFuture;
use goldseam::core::{LockName, TaskId};
use goldseam::prelude::{Context, Engine};
use goldseam::{Failure, Path, Payload, RunId};
use goldseam_api::doc::change::{NewAnswer, NewJump, NewMigration, NewRecovery, NewSignal, Reason};
use goldseam_api::doc::ending::{NewRetry, NewWithdrawal};
use goldseam_api::doc::lock::NewHold;
use goldseam_api::doc::run::NewRun;
use goldseam_api::doc::task::{Hold, NewClaim, NewFailure, NewResult, NewTask};
use goldseam_api::{Answer, Api, Caller, Local, Problem};
use serde::Serialize;
use serde_json::{Value, json};

use crate::support::Place;

/// Which of two requests for different things.
#[derive(Clone, Copy, PartialEq)]
enum Which {
    One,
    Other,
}

/// A change: its run, if it has one, and how it is asked for.
struct Change {
    name: &'static str,
    run: Option<&'static str>,
    ask: for<'a> fn(&'a Local, &'a Caller, Which) -> BoxFuture<'a, Answer<Value>>,
}

fn run(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

fn payload(value: &Value) -> Payload {
    Payload::of(value, &goldseam::Limits::default()).unwrap()
}

fn reason(which: Which) -> Reason {
    Reason { by: None, reason: if which == Which::One { "stock is counted" } else { "it rains" }.to_owned() }
}

fn told<T: Serialize>(answer: Answer<T>) -> Answer<Value> {
    answer.map(|document| serde_json::to_value(document).unwrap())
}

fn new_run(which: Which) -> NewRun {
    let tags = match which {
        Which::One => [("region".to_owned(), "eu".to_owned())].into(),
        Which::Other => [("region".to_owned(), "us".to_owned())].into(),
    };
    let input = payload(&json!("ship"));
    NewRun { workflow: "order".into(), id: None, input, tags, priority: 0, queue: None, version: None }
}

fn new_task(which: Which) -> NewTask {
    let payload = payload(&json!({ "to": if which == Which::One { "ana" } else { "ben" } }));
    NewTask {
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
    let (by, reason) = (None, String::new());
    let (drop_mail, compensate, dry_run, drop_cancel) = (false, false, false, false);
    NewJump { to, input: None, drop_mail, compensate, dry_run, drop_cancel, by, reason }
}

fn migration(which: Which) -> NewMigration {
    let to_version = if which == Which::One { 2 } else { 3 };
    NewMigration { to_version, by: None, reason: String::new() }
}

fn recovery(which: Which) -> NewRecovery {
    NewRecovery { reason: reason(which).reason, ..NewRecovery::default() }
}

/// Every change of a run, and what makes runs and tasks.
const CHANGES: &[Change] = &[
    Change {
        name: "start",
        run: None,
        ask: |api, caller, which| Box::pin(async move { told(api.start(caller, new_run(which)).await) }),
    },
    Change {
        name: "start with other input",
        run: None,
        ask: |api, caller, which| {
            let input = payload(&json!(if which == Which::One { "ship" } else { "wait" }));
            Box::pin(async move { told(api.start(caller, NewRun { input, ..new_run(Which::One) }).await) })
        },
    },
    Change {
        name: "submit",
        run: None,
        ask: |api, caller, which| Box::pin(async move { told(api.submit(caller, new_task(which)).await) }),
    },
    Change {
        name: "signal",
        run: Some("waits"),
        ask: |api, caller, which| {
            let new =
                NewSignal { name: "paid".into(), payload: payload(&json!(which == Which::One)), id: None };
            Box::pin(async move { told(api.signal(caller, &run("waits"), new).await) })
        },
    },
    Change {
        name: "answer",
        run: Some("asks"),
        ask: |api, caller, which| {
            let new =
                NewAnswer { answer: payload(&json!(which == Which::One)), since: None, by: None, id: None };
            let question = Path::new("review").unwrap();
            Box::pin(async move { told(api.answer(caller, &run("asks"), &question, new).await) })
        },
    },
    Change {
        name: "note",
        run: Some("waits"),
        ask: |api, caller, which| {
            Box::pin(async move { told(api.annotate(caller, &run("waits"), reason(which)).await) })
        },
    },
    Change {
        name: "requeue",
        run: Some("waits"),
        ask: |api, caller, which| {
            Box::pin(async move { told(api.requeue(caller, &run("waits"), reason(which)).await) })
        },
    },
    Change {
        name: "migrate",
        run: Some("waits"),
        ask: |api, caller, which| {
            Box::pin(async move { told(api.migrate(caller, &run("waits"), migration(which)).await) })
        },
    },
    Change {
        name: "reset",
        run: Some("waits"),
        ask: |api, caller, which| {
            Box::pin(async move { told(api.reset(caller, &run("waits"), reason(which)).await) })
        },
    },
    Change {
        name: "pause",
        run: Some("waits"),
        ask: |api, caller, which| {
            Box::pin(async move { told(api.pause(caller, &run("waits"), reason(which)).await) })
        },
    },
    Change {
        name: "resume",
        run: Some("waits"),
        ask: |api, caller, which| {
            Box::pin(async move { told(api.resume(caller, &run("waits"), reason(which)).await) })
        },
    },
    Change {
        name: "jump",
        run: Some("done"),
        ask: |api, caller, which| {
            Box::pin(async move { told(api.jump(caller, &run("done"), jump(which)).await) })
        },
    },
    Change {
        name: "retry",
        run: Some("failed"),
        ask: |api, caller, which| {
            let new = NewRetry { reason: reason(which).reason, ..NewRetry::default() };
            Box::pin(async move { told(api.retry(caller, &run("failed"), new).await) })
        },
    },
    Change {
        name: "recover",
        run: Some("hidden"),
        ask: |api, caller, which| {
            Box::pin(async move { told(api.recover(caller, &run("hidden"), recovery(which)).await) })
        },
    },
    Change {
        name: "undo-recovery",
        run: Some("hidden"),
        ask: |api, caller, which| {
            Box::pin(async move { told(api.undo_recovery(caller, &run("hidden"), reason(which)).await) })
        },
    },
    Change {
        name: "cancel",
        run: Some("waits"),
        ask: |api, caller, which| {
            Box::pin(async move { told(api.cancel(caller, &run("waits"), reason(which)).await) })
        },
    },
    Change {
        name: "withdraw",
        run: Some("waits"),
        ask: |api, caller, which| {
            let new = NewWithdrawal { reason: reason(which).reason, ..NewWithdrawal::default() };
            Box::pin(async move { told(api.withdraw(caller, &run("waits"), new).await) })
        },
    },
    Change {
        name: "terminate",
        run: Some("waits"),
        ask: |api, caller, which| {
            Box::pin(async move { told(api.terminate(caller, &run("waits"), reason(which)).await) })
        },
    },
];

async fn sick() -> Place {
    let runs = [("done", "ship"), ("failed", "break"), ("asks", "ask"), ("waits", "wait"), ("hidden", "ask")];
    let place = Place::with(&runs).await;
    place.hide_question("hidden").await;
    place
}

async fn events(api: &Local, name: Option<&str>) -> usize {
    match name {
        Some(name) => api.client().history(&run(name)).await.unwrap().len(),
        None => 0,
    }
}

fn is_reused(answer: Answer<Value>) -> bool {
    matches!(answer, Err(Problem { status: 409, code: Some(code), .. }) if &*code == "GS0603")
}

#[tokio::test]
async fn a_repeat_under_the_same_key_changes_nothing_and_is_answered_the_same() {
    let place = sick().await;
    let api = &place.api;
    for Change { name, run, ask } in CHANGES {
        let caller =
            Caller { who: Some("ana".into()), key: Some(format!("key of {name}")), ..Caller::default() };
        let before = events(api, *run).await;
        let first =
            ask(api, &caller, Which::One).await.unwrap_or_else(|problem| panic!("{name}: {problem:?}"));
        let after = events(api, *run).await;
        assert!(run.is_none() || after > before, "{name} leaves something in the log");
        let again =
            ask(api, &caller, Which::One).await.unwrap_or_else(|problem| panic!("{name}: {problem:?}"));
        assert_eq!(again, first, "{name}");
        let other = ask(api, &caller, Which::Other).await;
        assert!(is_reused(other), "{name}: the same key for something else");
        assert_eq!(events(api, *run).await, after, "{name} was done once");
    }
}

#[tokio::test]
async fn keys_of_different_callers_are_different_keys() {
    let place = Place::with(&[("waits", "wait")]).await;
    for who in ["ana", "ben"] {
        let caller = Caller { who: Some(who.into()), key: Some("1".into()), ..Caller::default() };
        place.api.annotate(&caller, &run("waits"), reason(Which::One)).await.unwrap();
    }
    let history = place.api.client().history(&run("waits")).await.unwrap();
    assert_eq!(history.iter().filter(|recorded| recorded.event.name() == "note.added").count(), 2);
}

#[tokio::test]
async fn without_a_key_every_change_is_a_new_one() {
    let place = Place::with(&[("waits", "wait")]).await;
    let nobody = Caller::default();
    let first = place.api.annotate(&nobody, &run("waits"), reason(Which::One)).await.unwrap();
    let second = place.api.annotate(&nobody, &run("waits"), reason(Which::One)).await.unwrap();
    assert!(second.event > first.event);
    let starts = [new_run(Which::One), new_run(Which::One)].map(|new| place.api.start(&nobody, new));
    let [one, two] = starts.map(|start| async { start.await.unwrap().run });
    assert_ne!(one.await, two.await);
}

#[tokio::test]
async fn whoever_repeats_an_answer_after_the_run_is_over_is_answered() {
    let place = Place::with(&[("waits", "wait")]).await;
    let caller = Caller { who: None, key: Some("1".into()), ..Caller::default() };
    let signal = || NewSignal { name: "paid".into(), payload: payload(&json!(1)), id: None };
    let first = place.api.signal(&caller, &run("waits"), signal()).await.unwrap();
    place.api.cancel(&Caller::default(), &run("waits"), Reason::default()).await.unwrap();
    assert_eq!(place.api.signal(&caller, &run("waits"), signal()).await.unwrap(), first);
}

#[tokio::test]
async fn tasks_and_locks_are_changed_once_under_a_key() {
    let place = Place::empty().await;
    let api = &place.api;
    let keyed = |key: &str| Caller { who: None, key: Some(key.to_owned()), ..Caller::default() };
    let id = TaskId::new("mail-1").unwrap();
    api.submit(&keyed("1"), NewTask { id: Some("mail-1".into()), ..new_task(Which::One) }).await.unwrap();
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
        "no key, no repeat"
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

    let (lock, hold) = (LockName::new("nightly").unwrap(), NewHold { holder: "ana".into(), ttl_ms: None });
    let taken = api.acquire_lock(&keyed("8"), &lock, hold.clone()).await.unwrap();
    assert_eq!(api.acquire_lock(&keyed("8"), &lock, hold.clone()).await.unwrap(), taken);
    let refused = api.acquire_lock(&keyed("9"), &lock, hold).await.unwrap_err();
    assert_eq!((refused.status, refused.code.as_deref()), (409, Some("GS0302")), "another command");
}

/// Hears forty-one numbers, begins anew, and then waits for the end.
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
async fn a_key_is_known_to_a_run_that_heard_a_lot_since_and_began_anew() {
    let place = Place::empty().await;
    let (api, nobody, r) = (&place.api, Caller::default(), run("t"));
    let engine = Engine::open(&place.url).await.unwrap().workflow("tally", tally).start().await.unwrap();
    engine.run("tally", "t", &0u32).await.unwrap();
    let keyed = Caller { who: None, key: Some("K".into()), ..Caller::default() };
    let signal = |id: Option<&str>, number: u32| {
        let id = id.map(str::to_owned);
        NewSignal { name: "n".into(), payload: payload(&json!(number)), id }
    };
    let first = api.signal(&keyed, &r, signal(None, 0)).await.unwrap();
    let named = api.signal(&nobody, &r, signal(Some("named"), 1)).await.unwrap();
    let noted = api.annotate(&keyed, &r, reason(Which::One)).await.unwrap();
    for number in 2..41 {
        api.signal(&nobody, &r, signal(None, number)).await.unwrap();
    }
    let mut mark = 0;
    while engine.get(&r).await.unwrap().base.0 == 1 {
        mark = engine.wait_for_change(mark).await.unwrap();
    }
    let events = events(api, Some("t")).await;
    assert_eq!(api.signal(&keyed, &r, signal(None, 0)).await.unwrap(), first);
    assert_eq!(api.signal(&nobody, &r, signal(Some("named"), 1)).await.unwrap(), named);
    assert_eq!(api.annotate(&keyed, &r, reason(Which::One)).await.unwrap(), noted);
    assert!(is_reused(told(api.signal(&keyed, &r, signal(None, 7)).await)));
    let history = api.client().history(&r).await.unwrap();
    let heard = history.iter().filter(|recorded| recorded.event.name() == "signal.received").count();
    assert_eq!((heard, history.len() >= events), (41, true), "each one once");
    api.signal(&Caller { who: None, key: Some("L".into()), ..Caller::default() }, &r, signal(None, 41))
        .await
        .unwrap();
    engine.shutdown().await;
}

#[tokio::test]
async fn an_id_that_is_named_twice_is_the_same_thing_or_refused() {
    let place = Place::with(&[("asks", "ask"), ("waits", "wait")]).await;
    let (api, nobody) = (&place.api, Caller::default());
    let start = |which| NewRun { id: Some("named".into()), ..new_run(which) };
    let first = api.start(&nobody, start(Which::One)).await.unwrap();
    assert_eq!(api.start(&nobody, start(Which::One)).await.unwrap(), first);
    assert!(is_reused(told(api.start(&nobody, start(Which::Other)).await)), "other tags");

    let task = |which| NewTask { id: Some("mail-1".into()), ..new_task(which) };
    let first = api.submit(&nobody, task(Which::One)).await.unwrap();
    assert_eq!(api.submit(&nobody, task(Which::One)).await.unwrap(), first);
    assert!(is_reused(told(api.submit(&nobody, task(Which::Other)).await)), "another payload");

    let signal = |number: u32| NewSignal {
        name: "paid".into(),
        payload: payload(&json!(number)),
        id: Some("s-1".into()),
    };
    let first = api.signal(&nobody, &run("waits"), signal(1)).await.unwrap();
    assert_eq!(api.signal(&nobody, &run("waits"), signal(1)).await.unwrap(), first);
    assert!(is_reused(told(api.signal(&nobody, &run("waits"), signal(2)).await)), "another payload");

    let question = Path::new("review").unwrap();
    let answer = |text: &str| NewAnswer {
        answer: payload(&json!(text)),
        since: None,
        by: None,
        id: Some("a-1".into()),
    };
    let first = api.answer(&nobody, &run("asks"), &question, answer("yes")).await.unwrap();
    assert_eq!(api.answer(&nobody, &run("asks"), &question, answer("yes")).await.unwrap(), first);
    assert!(is_reused(told(api.answer(&nobody, &run("asks"), &question, answer("no")).await)));
}
