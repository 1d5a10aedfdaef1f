//! Starting runs and engines: idempotent starts, refused input, slots, hand-over.

use goldseam::prelude::*;
use goldseam::{EngineError, Limits, Payload, RunId, Status};
use goldseam_conformance::Fixture;
use goldseam_store_sqlite::testing;

use crate::support::{Counter, Scratch, eventually, ok, run_id, with_state};

async fn echo(ctx: Context, input: serde_json::Value) -> goldseam::Result<serde_json::Value> {
    ctx.step("echo", || ok(input.clone())).await
}

#[tokio::test]
async fn repeated_start_after_the_deadline_is_the_same_run() {
    let scratch = Scratch::new();
    let engine = scratch.engine("echo", echo).await;
    let client = engine.client();
    let deadline = client.store().now().await.unwrap() + Duration::from_millis(500);
    let options = || StartOptions::default().deadline(deadline.into());
    let run = engine.start_with("echo", "r", &"hi", options()).await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), "hi");
    eventually("the deadline passes", || async { client.store().now().await.unwrap() > deadline }).await;
    let again = engine.start_with("echo", "r", &"hi", options()).await.unwrap();
    assert_eq!(again.result::<String>().await.unwrap(), "hi");
    client.start_with("echo", "r", &"hi", options()).await.unwrap();
    let other = client.start_with("echo", "r", &"ho", options()).await.unwrap_err();
    assert_eq!(other.code(), "GS0108");
    let new = client.start_with("echo", "n", &"hi", options()).await.unwrap_err();
    assert_eq!(new.code(), "GS0160");
    engine.shutdown().await;
}

/// mastra-ai/mastra#13629: a retried start without an idempotency key created three tickets instead of one.
#[tokio::test]
async fn start_retry_same_run() {
    let scratch = Scratch::new();
    let engine = scratch.engine("echo", echo).await;
    for _ in 0..3 {
        let run = engine.start("echo", "same", &"hi").await.unwrap();
        assert_eq!(run.result::<String>().await.unwrap(), "hi");
    }
    let error = engine.start("echo", "same", &"other").await.unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        ("GS0108", "run same: the run already exists with different input")
    );
    let history = engine.client().history(&run_id("same")).await.unwrap();
    assert_eq!(history.iter().filter(|r| r.event.name() == "run.queued").count(), 1);
    engine.shutdown().await;
}

#[tokio::test]
async fn invalid_input_is_refused_and_writes_nothing() {
    let scratch = Scratch::new();
    let engine = scratch.engine("echo", echo).await;
    assert_eq!(engine.start("echo", "../etc", &1).await.unwrap_err().code(), "GS0101");
    assert_eq!(engine.start("echo", "", &1).await.unwrap_err().code(), "GS0101");
    let error = engine.start("unknown", "r", &1).await.unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        ("GS0103", "workflow unknown is not registered on this engine (registered: echo)")
    );
    let large = "x".repeat(256 * 1024);
    assert_eq!(engine.start("echo", "r", &large).await.unwrap_err().code(), "GS0102");
    let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
    assert!(Payload::parse(&deep, &Limits::default()).is_err());
    let unknown = run_id("unknown");
    assert_eq!(engine.client().get(&unknown).await.unwrap_err().code(), "GS0104");
    assert_eq!(engine.handle(unknown).signal("x", &1).await.unwrap_err().code(), "GS0104");
    let run = engine.start("echo", "done", &1).await.unwrap();
    run.result::<u32>().await.unwrap();
    assert_eq!(run.signal("x", &1).await.unwrap_err().code(), "GS0105");
    let filter = goldseam::unstable::store::RunFilter { limit: 10, ..Default::default() };
    assert_eq!(engine.client().list(filter).await.unwrap().items.len(), 1);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_holds_no_more_runs_than_slots() {
    const SLOTS: u32 = 8;
    let scratch = Scratch::new();
    let counter = Counter::default();
    let client = scratch.client().await;
    let ids: Vec<RunId> = (0..200).map(|index| run_id(&format!("r-{index}"))).collect();
    for id in &ids {
        client.start("crowd", id, &Payload::null()).await.unwrap();
    }
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let state = (counter.clone(), gate.clone());
    let crowd = with_state(&state, |ctx: Context, (): (), (counter, gate)| async move {
        counter.add("in");
        ctx.step("wait", || async { Ok(gate.acquire().await.map(drop)?) }).await
    });
    let engine = scratch.builder().await.slots(SLOTS).workflow("crowd", crowd).start().await.unwrap();
    eventually("every slot is taken", || async { counter.count("in") >= SLOTS }).await;
    // Runs that were claimed in addition would also have been read from the store by now.
    for id in &ids {
        client.get(id).await.unwrap();
    }
    assert_eq!((counter.count("in"), engine.live_runs()), (SLOTS, SLOTS as usize));
    gate.add_permits(ids.len());
    for id in ids {
        engine.handle(id).result::<()>().await.unwrap();
    }
    engine.shutdown().await;
}

#[tokio::test]
async fn run_of_an_unregistered_workflow_stays_queued() {
    let scratch = Scratch::new();
    let other = scratch.engine("other", echo).await;
    let client = scratch.client().await;
    let input = Payload::parse("1", &Limits::default()).unwrap();
    let run = client.start("echo", &run_id("r"), &input).await.unwrap();
    assert_eq!(run.status().await.unwrap(), Status::Queued);
    let engine = scratch.engine("echo", echo).await;
    assert_eq!(run.result::<u32>().await.unwrap(), 1);
    engine.shutdown().await;
    other.shutdown().await;
}

#[tokio::test]
async fn too_large_output_fails_the_step_not_the_engine() {
    let scratch = Scratch::new();
    let engine = scratch
        .engine("big", |ctx: Context, (): ()| async move {
            ctx.step("big", || ok("x".repeat(2 * 1024 * 1024))).await
        })
        .await;
    let error = engine.start("big", "r", &()).await.unwrap().result::<String>().await.unwrap_err();
    assert!(error.to_string().contains("more than the limit of 262144"), "{error}");
    engine.shutdown().await;
}

#[tokio::test]
async fn tags_and_priority_are_stored_and_searchable() {
    let scratch = Scratch::new();
    let engine = scratch.engine("echo", echo).await;
    let options = StartOptions::default().tag("region", "eu").priority(7);
    engine.start_with("echo", "tagged", &1, options).await.unwrap().result::<u32>().await.unwrap();
    engine.start("echo", "plain", &1).await.unwrap().result::<u32>().await.unwrap();
    let tag = Some((goldseam::unstable::core::TagKey::new("region").unwrap(), "eu".to_owned()));
    let found = engine
        .client()
        .list(goldseam::unstable::store::RunFilter { tag, limit: 10, ..Default::default() })
        .await
        .unwrap()
        .items;
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].summary.run.as_str(), found[0].summary.priority), ("tagged", 7));
    engine.shutdown().await;
}

#[tokio::test]
async fn graceful_shutdown_counts_no_attempt() {
    let scratch = Scratch::new();
    let counter = Counter::default();
    let flow = |hang: bool| {
        with_state(&counter, move |ctx: Context, (): (), counter| async move {
            ctx.step("long", || counter.step_or_hang("long", hang)).await
        })
    };
    let config = goldseam::Config { drain: Duration::from_millis(20), ..goldseam::Config::default() };
    for deploy in 1..=3 {
        let engine =
            scratch.builder().await.config(config.clone()).workflow("w", flow(true)).start().await.unwrap();
        if deploy == 1 {
            engine.start("w", "r", &()).await.unwrap();
        }
        eventually("the step runs", || async { counter.count("long") == deploy }).await;
        engine.shutdown().await;
    }
    let last = scratch.engine("w", flow(false)).await;
    let run = last.handle(run_id("r"));
    run.result::<()>().await.unwrap();
    let summary = last.client().get(run.id()).await.unwrap();
    assert_eq!((summary.attempt, summary.recoveries), (0, 0));
    last.shutdown().await;
}

/// hindsight#2675, llama-agents#607, iterate#2573: a crash counted no attempt, and the same work was retried forever.
#[tokio::test]
async fn sigkill_counts_as_attempt() {
    let scratch = Scratch::new();
    let counter = Counter::default();
    let flow = || {
        with_state(&counter, move |ctx: Context, (): (), counter| async move {
            ctx.step("stuck", || counter.step_or_hang("stuck", true)).await
        })
    };
    for crash in 1..=2u32 {
        let engine = scratch.engine("w", flow()).await;
        if crash == 1 {
            engine.start("w", "r", &()).await.unwrap();
        }
        eventually("the step runs", || async { counter.count("stuck") == crash }).await;
        engine.crash();
    }
    let client = scratch.client().await;
    let summary = client.get(&run_id("r")).await.unwrap();
    assert_eq!((summary.attempt, summary.recoveries), (1, 1));
}

/// Two engines in one process share a store: the live process does not prove that the first engine lives.
async fn dropped_engine_is_taken_over(fixture: Fixture) {
    let counter = Counter::default();
    let flow = |hang: bool| {
        with_state(&counter, move |ctx: Context, (): (), counter| async move {
            ctx.step("long", || counter.step_or_hang("long", hang)).await
        })
    };
    // The test ends long before `silence_max`: if the run continues, the store reported the dropped engine as dead.
    let config = goldseam::Config { silence_max: Duration::from_secs(3_600), ..goldseam::Config::default() };
    let start = |hang| {
        let builder = Engine::on(fixture.store.clone()).config(config.clone());
        builder.workflow("w", flow(hang)).start()
    };
    let first = start(true).await.unwrap();
    first.start("w", "r", &()).await.unwrap();
    eventually("the step runs", || async { counter.count("long") == 1 }).await;
    let second = start(false).await.unwrap();
    let gone = first.node_id().clone();
    drop(first);
    let run = second.handle(run_id("r"));
    tokio::time::timeout(Duration::from_secs(20), run.result::<()>()).await.unwrap().unwrap();
    let summary = second.client().get(run.id()).await.unwrap();
    assert_eq!((summary.recoveries, summary.recovered_at.is_some()), (1, true), "a drop counts as a crash");
    eventually("the dropped node is forgotten", || async {
        fixture.store.nodes().await.unwrap().iter().all(|seen| seen.record.id != gone)
    })
    .await;
    second.shutdown().await;
    eventually("no node is left", || async { fixture.store.nodes().await.unwrap().is_empty() }).await;
}

#[tokio::test]
async fn dropped_engine_is_taken_over_at_once_on_sqlite() {
    dropped_engine_is_taken_over(testing::fixture_on_real_clock().await).await;
}

#[tokio::test]
async fn dropped_engine_is_taken_over_at_once_in_memory() {
    dropped_engine_is_taken_over(Fixture::memory_on(goldseam_store_sqlite::system_clock())).await;
}

#[tokio::test]
async fn open_errors_have_a_code_and_a_hint() {
    for (url, code) in [
        ("mysql:x", "GS0206"),
        ("sqlite:x.db?durabilty=process", "GS0206"),
        ("sqlite:/nowhere/at/all/x.db", "GS0205"),
    ] {
        let error = goldseam::connect(url).await.unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(matches!(error, EngineError::Store(_)) && error.hint().is_some());
    }
}

/// A step that never yields, on a runtime with one thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_wedged_by_an_endless_loop_loses_its_runs() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    let scratch = Scratch::new();
    let released = Arc::new(AtomicBool::new(false));
    let counter = Counter::default();
    let config = goldseam::Config {
        beat: Duration::from_millis(50),
        wedged_after: Duration::from_millis(300),
        ..goldseam::Config::default()
    };
    let flow = |endless: bool, released: Arc<AtomicBool>, counter: Counter| {
        move |ctx: Context, loops: bool| {
            let released = Arc::clone(&released);
            let counter = counter.clone();
            async move {
                let first = ctx.step("first", || {
                    let released = Arc::clone(&released);
                    let counter = counter.clone();
                    async move {
                        counter.add(format!("first {endless}"));
                        while endless && loops && !released.load(Ordering::Relaxed) {
                            std::hint::spin_loop();
                        }
                        if endless && !loops {
                            std::future::pending::<()>().await;
                        }
                        Ok::<u32, Error>(1)
                    }
                });
                first.await
            }
        }
    };
    let url = scratch.url();
    let stuck = flow(true, Arc::clone(&released), counter.clone());
    let own = config.clone();
    let thread = std::thread::Builder::new().name("stuck".to_owned());
    let thread = thread.spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let engine =
                Engine::open(&url).await.unwrap().config(own).workflow("flow", stuck).start().await.unwrap();
            engine.start("flow", "well", &false).await.unwrap();
            engine.start("flow", "loops", &true).await.unwrap();
            // Returns only after the loop ends.
            tokio::task::yield_now().await;
        });
    });
    eventually("the step loops", || async { counter.count("first true") == 2 }).await;
    let other = flow(false, Arc::clone(&released), counter.clone());
    let engine = scratch.builder().await.config(config).workflow("flow", other).start().await.unwrap();
    for run in ["well", "loops"] {
        let run = engine.handle(run_id(run));
        assert_eq!(run.result::<u32>().await.unwrap(), 1);
    }
    released.store(true, Ordering::Relaxed);
    thread.unwrap().join().unwrap();
    engine.shutdown().await;
}
