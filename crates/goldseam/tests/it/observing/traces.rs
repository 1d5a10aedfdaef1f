//! The trace context of a starter reaches the run, its steps, children and remote steps.

use std::sync::{Arc, Mutex};

use goldseam::client::{By, Jump};
use goldseam::prelude::*;
use goldseam::unstable::core::{Event, QueueName};
use goldseam::unstable::engine::queue::Want;
use goldseam::{Path, Status, TraceContext};

use super::builders;
use crate::support::{Scratch, eventually, ok, reaches, run_id, with_state};

const STARTER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn starter() -> TraceContext {
    TraceContext::new(STARTER).unwrap().with_state("vendor=1")
}

fn traced() -> StartOptions {
    StartOptions::default().trace(starter())
}

/// What user code saw, by place.
type Seen = Arc<Mutex<Vec<(String, Option<TraceContext>)>>>;

fn note(seen: &Seen, place: &str, ctx: &Context) {
    seen.lock().unwrap().push((place.to_owned(), ctx.trace_context()));
}

fn at(seen: &Seen, place: &str) -> Vec<TraceContext> {
    let seen = seen.lock().unwrap();
    seen.iter().filter(|(at, _)| at == place).map(|(_, trace)| trace.clone().unwrap()).collect()
}

async fn leaf(ctx: Context, _: (), seen: Seen) -> goldseam::Result<()> {
    note(&seen, "child", &ctx);
    ctx.step("work", || async {
        note(&seen, "child step", &ctx);
        Ok(())
    })
    .await
}

async fn parent(ctx: Context, _: (), seen: Seen) -> goldseam::Result<()> {
    note(&seen, "run", &ctx);
    ctx.step_with("pay", |attempt: Attempt| {
        let ctx = &ctx;
        let seen = &seen;
        async move {
            tokio::task::yield_now().await;
            note(seen, attempt.idempotency_key(), ctx);
            note(seen, "step", ctx);
            Ok(())
        }
    })
    .await?;
    ctx.child::<()>("leaf", "leaf", &()).await?;
    ctx.remote("resize", &1).queue("gpu").await
}

#[tokio::test]
async fn trace_of_the_starter_reaches_steps_children_and_remote_steps() {
    let scratch = Scratch::new();
    let seen = Seen::default();
    let builder = scratch.builder().await.workflow("parent", with_state(&seen, parent));
    let engine = builder.workflow("leaf", with_state(&seen, leaf)).start().await.unwrap();
    let run = engine.start_with("parent", "p", &(), traced()).await.unwrap();
    let want = || Want { owner: "w".to_owned(), queue: QueueName::new("gpu").unwrap(), kind: None, limit: 1 };
    let queue = engine.client().queue();
    let claimed = Mutex::new(None);
    eventually("the remote step is handed out", || async {
        let task = queue.claim(want()).await.unwrap().pop();
        *claimed.lock().unwrap() = task;
        claimed.lock().unwrap().is_some()
    })
    .await;
    let task = claimed.into_inner().unwrap().unwrap();
    queue.complete(&task.id, task.fence, goldseam::Payload::null()).await.unwrap();
    run.result::<()>().await.unwrap();
    let p = run_id("p");
    let starter = starter();
    assert_eq!(at(&seen, "run"), [starter.within_run(&p)]);
    let step = at(&seen, "step").pop().unwrap();
    let places: Vec<String> = seen.lock().unwrap().iter().map(|(place, _)| place.clone()).collect();
    assert_eq!(step, starter.within(&places[1]), "the span follows from the idempotency key");
    assert_eq!(step.tracestate(), Some("vendor=1"));
    let step = task.step.unwrap();
    assert_eq!(step.trace, Some(starter.within(&step.key)));
    let child = at(&seen, "child").pop().unwrap();
    let history = engine.client().history(&p).await.unwrap();
    let id = history.iter().find_map(|recorded| match &recorded.event {
        Event::ChildStarted(started) => Some(started.run.clone()),
        _ => None,
    });
    let id = id.unwrap();
    let queued = engine.client().state(&id).await.unwrap().queued;
    assert_eq!(queued.trace, Some(starter.within_run(&p)), "the child's parent is the span of the run");
    assert_eq!(child, starter.within_run(&id));
    assert_eq!(at(&seen, "child step")[0].trace_id(), starter.trace_id());
    engine.shutdown().await;
}

#[tokio::test]
async fn repeated_start_with_another_trace_is_the_same_run() {
    let scratch = Scratch::new();
    for builder in builders(&scratch).await {
        let flow = |ctx: Context, (): ()| async move { Ok::<_, Error>(ctx.trace_context()) };
        let engine = builder.workflow("w", flow).start().await.unwrap();
        let run = engine.start_with("w", "r", &(), traced()).await.unwrap();
        run.outcome().await.unwrap();
        let other = TraceContext::new(&STARTER.replace("4bf9", "ffff")).unwrap();
        for options in [StartOptions::default(), StartOptions::default().trace(other)] {
            engine.start_with("w", "r", &(), options).await.unwrap();
        }
        let trace = engine.client().state(run.id()).await.unwrap().queued.trace;
        assert_eq!(trace, Some(starter()));
        let plain = engine.start("w", "untraced", &()).await.unwrap();
        assert_eq!(plain.result::<Option<serde_json::Value>>().await.unwrap(), None);
        engine.shutdown().await;
    }
}

#[tokio::test]
async fn trace_survives_continue_as_new_and_a_crash() {
    let scratch = Scratch::new();
    let seen = Seen::default();
    let flow = || {
        with_state(&seen, |ctx: Context, left: u32, seen| async move {
            ctx.step("tick", || async {
                note(&seen, "tick", &ctx);
                Ok(())
            })
            .await?;
            if left > 0 {
                return ctx.continue_as_new(&(left - 1));
            }
            ctx.signal::<()>("go").await
        })
    };
    let first = scratch.engine("w", flow()).await;
    first.start_with("w", "r", &2_u32, traced()).await.unwrap();
    reaches(first.client(), "r", Status::Waiting).await;
    first.crash();
    let second = scratch.engine("w", flow()).await;
    second.handle(run_id("r")).signal("go", &()).await.unwrap();
    second.handle(run_id("r")).result::<()>().await.unwrap();
    let ticks = at(&seen, "tick");
    assert_eq!(ticks.len(), 3);
    assert!(ticks.iter().all(|tick| tick.trace_id() == starter().trace_id()));
    let mut spans: Vec<&str> = ticks.iter().map(TraceContext::parent_id).collect();
    spans.sort_unstable();
    spans.dedup();
    assert_eq!(spans.len(), 3, "each execution of the step has its own span");
    second.shutdown().await;
}

#[tokio::test]
async fn jump_and_retry_begin_new_spans_in_the_same_trace() {
    let scratch = Scratch::new();
    let seen = Seen::default();
    let flow = with_state(&seen, |ctx: Context, (): (), seen| async move {
        ctx.step("one", || async {
            note(&seen, "one", &ctx);
            Ok(())
        })
        .await?;
        ctx.step("two", || async {
            note(&seen, "two", &ctx);
            let count = seen.lock().unwrap().iter().filter(|(place, _)| place == "two").count();
            if count == 1 { Err(Error::terminal("no")) } else { Ok(()) }
        })
        .await
    });
    let engine = scratch.engine("w", flow).await;
    let run = engine.start_with("w", "r", &(), traced()).await.unwrap();
    run.outcome().await.unwrap();
    engine.client().retry(run.id(), By::default()).await.unwrap();
    run.result::<()>().await.unwrap();
    engine.client().jump(run.id(), &Path::new("one").unwrap(), Jump::default()).await.unwrap();
    eventually("the jump is done", || async { at(&seen, "two").len() == 3 }).await;
    reaches(engine.client(), "r", Status::Completed).await;
    for place in ["one", "two"] {
        let spans: Vec<String> = at(&seen, place).iter().map(|trace| trace.parent_id().to_owned()).collect();
        let distinct: std::collections::BTreeSet<_> = spans.iter().collect();
        assert_eq!(distinct.len(), spans.len(), "{place}: {spans:?}");
    }
    engine.shutdown().await;
}

#[tokio::test]
async fn secret_in_a_tracestate_is_not_recorded() {
    let scratch = Scratch::new();
    let builder = scratch.builder().await.secret("bank", "opensesame".into());
    let engine = builder.workflow("w", |_: Context, (): ()| ok(())).start().await.unwrap();
    let trace = TraceContext::new(STARTER).unwrap().with_state("vendor=opensesame");
    let run = engine.start_with("w", "r", &(), StartOptions::default().trace(trace)).await.unwrap();
    run.result::<()>().await.unwrap();
    let trace = engine.client().state(run.id()).await.unwrap().queued.trace.unwrap();
    assert_eq!((trace.traceparent(), trace.tracestate()), (STARTER, None));
    engine.shutdown().await;
}
