//! Retries, timeouts, heartbeats, probes, panics, parallel steps and groups.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use goldseam::prelude::*;
use goldseam::unstable::core::event::Event;
use goldseam::{EngineError, Status};

use crate::support::{Counter, Scratch, eventually, ok, run_id, with_state};

fn quick(attempts: u32) -> Retry {
    Retry::fixed(Duration::from_millis(5)).attempts_max(attempts)
}

#[tokio::test]
async fn failing_step_is_retried_until_it_succeeds() {
    let scratch = Scratch::new();
    let counter = Counter::default();
    let flaky = with_state(&counter, move |ctx: Context, (): (), counter| async move {
        ctx.step("flaky", || async {
            match counter.add("try") {
                3 => Ok("third time lucky".to_owned()),
                n => Err(Error::retryable(format!("try {n}"))),
            }
        })
        .retry(quick(5))
        .await
    });
    let engine = scratch.engine("w", flaky).await;
    let run = engine.start("w", "r", &()).await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), "third time lucky");
    let failures = engine.client().history(run.id()).await.unwrap();
    let failures = failures.iter().filter(|r| r.event.name() == "step.failed").count();
    assert_eq!((failures, counter.count("try")), (2, 3));
    engine.shutdown().await;
}

#[tokio::test]
async fn terminal_error_fails_the_run_without_retry() {
    let scratch = Scratch::new();
    let counter = Counter::default();
    let workflow = with_state(&counter, move |ctx: Context, (): (), counter| async move {
        ctx.step("charge", || async {
            counter.add("try");
            Err::<(), _>(Error::terminal("card declined"))
        })
        .retry(quick(5))
        .await
    });
    let engine = scratch.engine("w", workflow).await;
    let run = engine.start("w", "r", &()).await.unwrap();
    let error = run.result::<()>().await.unwrap_err();
    assert!(matches!(&error, EngineError::Ended { status: Status::Failed, .. }), "{error:?}");
    assert_eq!(error.to_string(), "run r ended failed: step charge failed: card declined");
    assert_eq!(counter.count("try"), 1);
    engine.shutdown().await;
}

#[tokio::test]
async fn panic_fails_the_step_not_the_process() {
    async fn panics(text: &str) -> goldseam::Result<()> {
        panic!("{text}")
    }
    async fn in_step(ctx: Context, (): ()) -> goldseam::Result<String> {
        let failure = ctx.step("boom", || panics("out of cheese")).await.unwrap_err();
        assert_eq!(failure.code(), Some("panic"));
        ctx.step("after", || ok(())).await?;
        Ok(failure.to_string())
    }
    async fn outright(_: Context, (): ()) -> goldseam::Result<()> {
        panics("no step at all").await
    }
    let scratch = Scratch::new();
    let builder = scratch.builder().await.workflow("w", in_step).workflow("outright", outright);
    let engine = builder.start().await.unwrap();
    let run = engine.start("w", "r", &()).await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), "step boom failed: panicked: out of cheese");
    let outright = engine.start("outright", "o", &()).await.unwrap();
    let error = outright.result::<()>().await.unwrap_err();
    assert_eq!(error.to_string(), "run o ended failed: panicked: no step at all");
    engine.shutdown().await;
}

#[tokio::test]
async fn attempt_times_out() {
    let scratch = Scratch::new();
    let counter = Counter::default();
    let workflow = with_state(&counter, move |ctx: Context, (): (), counter| async move {
        ctx.step("slow", || async {
            if counter.add("try") == 1 {
                std::future::pending::<()>().await;
            }
            Ok("fast at last".to_owned())
        })
        .timeout(Duration::from_millis(20))
        .retry(quick(2))
        .await
    });
    let engine = scratch.engine("w", workflow).await;
    let run = engine.start("w", "r", &()).await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), "fast at last");
    let history = engine.client().history(run.id()).await.unwrap();
    assert!(
        history.iter().any(|r| matches!(&r.event, Event::StepTimeout { reason, .. } if reason == "timeout"))
    );
    engine.shutdown().await;
}

#[tokio::test]
async fn attempt_without_heartbeats_times_out() {
    let scratch = Scratch::new();
    let counter = Counter::default();
    let workflow = with_state(&counter, move |ctx: Context, (): (), counter| async move {
        let body = |attempt: Attempt| {
            let counter = counter.clone();
            async move {
                if counter.add("try") == 1 {
                    std::future::pending::<()>().await;
                }
                for beat in 0..70 {
                    attempt.heartbeat(&beat);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Ok(attempt.number())
            }
        };
        ctx.step_with("beats", body).heartbeat_timeout(Duration::from_secs(2)).retry(quick(2)).await
    });
    let engine = scratch.engine("w", workflow).await;
    let run = engine.start("w", "r", &()).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 2);
    assert_eq!(counter.count("try"), 2);
    engine.shutdown().await;
}

#[tokio::test]
async fn heartbeat_details_reach_the_next_attempt_after_a_crash() {
    let scratch = Scratch::new();
    let counter = Counter::default();
    let workflow = |hang: bool| {
        with_state(&counter, move |ctx: Context, (): (), counter| async move {
            let body = |attempt: Attempt| {
                let counter = counter.clone();
                async move {
                    let last: u32 = attempt.last_heartbeat().unwrap_or(0);
                    if hang {
                        loop {
                            attempt.heartbeat(&41u32);
                            counter.add("beat");
                            tokio::time::sleep(Duration::from_millis(20)).await;
                        }
                    }
                    Ok(last + 1)
                }
            };
            ctx.step_with("copy", body).heartbeat_timeout(Duration::from_secs(30)).await
        })
    };
    let first = scratch.engine("w", workflow(true)).await;
    first.start("w", "r", &()).await.unwrap();
    let client = scratch.client().await;
    eventually("the details are durable", || async {
        let filter = goldseam::unstable::store::TaskFilter { limit: 100, ..Default::default() };
        client.store().tasks(filter).await.unwrap().iter().any(|task| task.kind == "heartbeat:copy")
    })
    .await;
    first.crash();
    let second = scratch.engine("w", workflow(false)).await;
    let run = second.handle(run_id("r"));
    assert_eq!(run.result::<u32>().await.unwrap(), 42);
    let left = client
        .store()
        .tasks(goldseam::unstable::store::TaskFilter { limit: 100, ..Default::default() })
        .await
        .unwrap();
    assert!(left.iter().all(|task| !task.kind.starts_with("heartbeat:")), "{left:?}");
    second.shutdown().await;
}

/// Returns the records with heartbeat details.
async fn details(client: &goldseam::Client) -> Vec<goldseam::unstable::core::task::Task> {
    let filter = goldseam::unstable::store::TaskFilter { limit: 100, ..Default::default() };
    let mut all = client.store().tasks(filter).await.unwrap();
    all.retain(|task| task.kind.starts_with("heartbeat:"));
    all
}

#[tokio::test]
async fn heartbeat_details_survive_every_kind_of_failed_attempt() {
    let scratch = Scratch::new();
    let ends = |ctx: Context, (): ()| async move {
        let body = |attempt: Attempt| async move {
            let last: u32 = attempt.last_heartbeat().unwrap_or(0);
            attempt.heartbeat(&(last + 1));
            match attempt.number() {
                1 => Err(Error::retryable("fails")),
                2 => panic!("panics"),
                // Sends no heartbeat: the details of earlier attempts are kept.
                3 | 4 => std::future::pending().await,
                _ => Ok::<u32, Error>(last),
            }
        };
        let step = ctx.step_with("copy", body).heartbeat_timeout(Duration::from_millis(300));
        step.timeout(Duration::from_millis(200)).retry(quick(9)).await
    };
    let silent = |ctx: Context, (): ()| async move {
        let body = |attempt: Attempt| async move {
            match attempt.last_heartbeat::<String>() {
                None => attempt.heartbeat(&"half way"),
                Some(last) if attempt.number() > 2 => return Ok::<String, Error>(last),
                Some(_) => {}
            }
            std::future::pending().await
        };
        ctx.step_with("copy", body).heartbeat_timeout(Duration::from_millis(100)).retry(quick(9)).await
    };
    let engine =
        scratch.builder().await.workflow("ends", ends).workflow("silent", silent).start().await.unwrap();
    let run = engine.start("ends", "r", &()).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 4);
    let run = engine.start("silent", "s", &()).await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), "half way");
    assert_eq!(details(engine.client()).await, [], "details are removed with the step");
    engine.shutdown().await;
}

#[tokio::test]
async fn heartbeat_details_survive_a_restart_between_attempts() {
    let scratch = Scratch::new();
    let flow = |ctx: Context, (): ()| async move {
        let body = |attempt: Attempt| async move {
            attempt.heartbeat(&"page 7");
            attempt.last_heartbeat::<String>().ok_or_else(|| Error::retryable("down"))
        };
        let retry = Retry::fixed(Duration::from_secs(2)).attempts_max(3);
        ctx.step_with("copy", body).heartbeat_timeout(Duration::from_secs(30)).retry(retry).await
    };
    let first = scratch.engine("w", flow).await;
    first.start("w", "r", &()).await.unwrap();
    let client = scratch.client().await;
    let failed = || async {
        let log = client.history(&run_id("r")).await.unwrap();
        log.iter().any(|recorded| recorded.event.name() == "step.failed")
    };
    eventually("the first attempt failed", failed).await;
    let kept = details(&client).await;
    assert_eq!((kept.len(), kept[0].owner.as_deref()), (1, None), "the record has no owner: {kept:?}");
    first.crash();
    let second = scratch.engine("w", flow).await;
    let run = second.handle(run_id("r"));
    assert_eq!(run.result::<String>().await.unwrap(), "page 7");
    assert_eq!(details(&client).await, []);
    second.shutdown().await;
}

#[tokio::test]
async fn heartbeat_details_are_removed_when_the_step_fails() {
    let scratch = Scratch::new();
    let flow = |ctx: Context, (): ()| async move {
        let body = |attempt: Attempt| async move {
            attempt.heartbeat(&1);
            Err::<u32, _>(Error::retryable("down"))
        };
        ctx.step_with("copy", body).heartbeat_timeout(Duration::from_secs(30)).retry(quick(2)).await
    };
    let engine = scratch.engine("w", flow).await;
    let run = engine.start("w", "r", &()).await.unwrap();
    assert!(run.result::<u32>().await.is_err());
    assert_eq!(details(engine.client()).await, []);
    engine.shutdown().await;
}

/// Crashes an engine during the step `send`, then starts another engine on which the step does not hang.
async fn crash_during_send<F, Fut>(scratch: &Scratch, counter: &Counter, workflow: F) -> Engine
where
    F: Fn(Context, Counter, bool) -> Fut + Copy + Send + Sync + 'static,
    Fut: Future<Output = goldseam::Result<String>> + Send + 'static,
{
    let flow =
        |hangs: bool| with_state(counter, move |ctx: Context, (): (), counter| workflow(ctx, counter, hangs));
    let first = scratch.engine("w", flow(true)).await;
    first.start("w", "r", &()).await.unwrap();
    eventually("the step began", || async { counter.count("send") == 1 }).await;
    first.crash();
    scratch.engine("w", flow(false)).await
}

async fn send(counter: Counter, hangs: bool) -> goldseam::Result<String> {
    counter.step_or_hang("send", hangs).await?;
    Ok("sent".to_owned())
}

#[tokio::test]
async fn at_most_once_step_is_not_repeated_after_a_crash() {
    async fn workflow(ctx: Context, counter: Counter, hangs: bool) -> goldseam::Result<String> {
        ctx.step("send", || send(counter.clone(), hangs)).at_most_once().await
    }
    let scratch = Scratch::new();
    let counter = Counter::default();
    let engine = crash_during_send(&scratch, &counter, workflow).await;
    let run = engine.handle(run_id("r"));
    let error = run.result::<String>().await.unwrap_err();
    let EngineError::Ended { failure, .. } = &error else { panic!("{error:?}") };
    assert_eq!(failure.code.as_deref(), Some("outcome-unknown"));
    assert_eq!(counter.count("send"), 1);
    engine.shutdown().await;
}

#[tokio::test]
async fn probe_that_finds_the_effect_provides_the_result() {
    async fn workflow(ctx: Context, counter: Counter, hangs: bool) -> goldseam::Result<String> {
        let probe = || ok(Probe::Done("found".to_owned()));
        ctx.step("send", || send(counter.clone(), hangs)).probe(probe).await
    }
    let scratch = Scratch::new();
    let counter = Counter::default();
    let engine = crash_during_send(&scratch, &counter, workflow).await;
    let run = engine.handle(run_id("r"));
    assert_eq!(run.result::<String>().await.unwrap(), "found");
    assert_eq!(counter.count("send"), 1);
    engine.shutdown().await;
}

#[tokio::test]
async fn undecided_probe_asks_a_person() {
    async fn workflow(ctx: Context, counter: Counter, hangs: bool) -> goldseam::Result<String> {
        let probe = || ok(Probe::<String>::Ask);
        ctx.step("send", || send(counter.clone(), hangs)).probe(probe).await
    }
    let scratch = Scratch::new();
    let counter = Counter::default();
    let engine = crash_during_send(&scratch, &counter, workflow).await;
    let run = engine.handle(run_id("r"));
    crate::support::reaches(engine.client(), "r", Status::Waiting).await;
    let question = engine.client().get(run.id()).await.unwrap().inputs[0].path.clone();
    run.answer(question.as_str(), &serde_json::json!({ "done": true, "result": "by post" })).await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), "by post");
    assert_eq!(counter.count("send"), 1);
    engine.shutdown().await;
}

/// inngest/inngest#4897, #2775, #906: parallel steps ran twice.
#[tokio::test]
async fn parallel_steps_once() {
    async fn pick(counter: Counter, line: u32, hangs: bool) -> goldseam::Result<u32> {
        counter.step_or_hang(&format!("pick {line}"), hangs).await?;
        Ok(line * 10)
    }
    let scratch = Scratch::new();
    let counter = Counter::default();
    let hang = Arc::new(AtomicBool::new(true));
    let state = (counter.clone(), Arc::clone(&hang));
    let workflow = || {
        with_state(&state, |ctx: Context, count: u32, state| async move {
            let picks = (0..count).map(|line| {
                let (counter, hang) = state.clone();
                ctx.step(("pick", line), move || {
                    pick(counter.clone(), line, line == 7 && hang.load(Ordering::SeqCst))
                })
            });
            ctx.join(picks).await
        })
    };
    let first = scratch.engine("w", workflow()).await;
    let run = first.start("w", "r", &10u32).await.unwrap().id().clone();
    eventually("nine picks are durable", || async {
        let history = first.client().history(&run).await.unwrap();
        history.iter().filter(|r| r.event.name() == "step.completed").count() == 9
    })
    .await;
    first.crash();
    hang.store(false, Ordering::SeqCst);
    let second = scratch.engine("w", workflow()).await;
    let picked: Vec<u32> = second.handle(run_id("r")).result().await.unwrap();
    assert_eq!(picked, (0..10).map(|line| line * 10).collect::<Vec<_>>());
    for line in 0..10 {
        assert_eq!(counter.count(&format!("pick {line}")), if line == 7 { 2 } else { 1 });
    }
    second.shutdown().await;
}

#[tokio::test]
async fn completed_group_is_not_executed_again() {
    let scratch = Scratch::new();
    let counter = Counter::default();
    let workflow = || {
        with_state(&counter, move |ctx: Context, (): (), counter| async move {
            let inner = |ctx: Context| {
                let counter = counter.clone();
                async move {
                    counter.add("body");
                    let one = ctx.step("one", || ok(1)).await?;
                    let two = ctx.step("two", || ok(2)).await?;
                    Ok(one + two)
                }
            };
            let sum = ctx.group("both", inner).await?;
            let (): () = ctx.signal("go").await?;
            Ok(sum)
        })
    };
    let first = scratch.engine("w", workflow()).await;
    let run = first.start("w", "r", &()).await.unwrap().id().clone();
    crate::support::reaches(first.client(), "r", Status::Waiting).await;
    let paths: Vec<String> = first
        .client()
        .history(&run)
        .await
        .unwrap()
        .iter()
        .filter(|r| r.event.name() == "step.completed")
        .filter_map(|r| r.event.path().map(|path| path.as_str().to_owned()))
        .collect();
    assert_eq!(paths, ["both/one", "both/two", "both"]);
    first.crash();
    let second = scratch.engine("w", workflow()).await;
    let run = second.handle(run_id("r"));
    run.signal("go", &()).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 3);
    assert_eq!(counter.count("body"), 1);
    second.shutdown().await;
}

#[tokio::test]
async fn idempotency_key_is_stable_over_attempts_and_crashes() {
    let scratch = Scratch::new();
    let keys: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let workflow = |hang: bool| {
        with_state(&keys, move |ctx: Context, (): (), keys| async move {
            let body = |attempt: Attempt| {
                let keys = Arc::clone(&keys);
                async move {
                    keys.lock().unwrap().push(attempt.idempotency_key().to_owned());
                    if keys.lock().unwrap().len() == 1 {
                        return Err(Error::retryable("once"));
                    }
                    if hang {
                        std::future::pending::<()>().await;
                    }
                    Ok(())
                }
            };
            ctx.step_with("pay", body).retry(quick(3)).await
        })
    };
    let first = scratch.engine("w", workflow(true)).await;
    first.start("w", "r", &()).await.unwrap();
    eventually("the second attempt began", || async { keys.lock().unwrap().len() == 2 }).await;
    first.crash();
    let second = scratch.engine("w", workflow(false)).await;
    second.handle(run_id("r")).result::<()>().await.unwrap();
    let keys = keys.lock().unwrap().clone();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| *key == keys[0]));
    second.shutdown().await;
}
