//! Starting: the same id is the same run, and bad input is refused with nothing half-written.

use goldseam::prelude::*;
use goldseam::{EngineError, Limits, Payload, RunId, Status};
use goldseam_store::conformance::Fixture;
use goldseam_store_sqlite::testing;

use crate::support::{Scratch, Witness, eventually};

async fn echo(ctx: Context, input: serde_json::Value) -> goldseam::Result<serde_json::Value> {
    ctx.step("echo", || async { Ok::<_, Error>(input.clone()) }).await
}

/// mastra-ai/mastra#13629: a start without a key of its own, tried again, made three tickets of one.
#[tokio::test]
async fn start_retry_same_run() {
    let scratch = Scratch::new();
    let engine = scratch.builder().await.workflow("echo", echo).start().await.unwrap();
    for _ in 0..3 {
        let run = engine.run("echo", "same", &"hi").await.unwrap();
        assert_eq!(run.result::<String>().await.unwrap(), "hi");
    }
    let error = engine.run("echo", "same", &"other").await.unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        ("GS0108", "run same: run same exists with other input")
    );
    let history = engine.history(&RunId::new("same").unwrap()).await.unwrap();
    assert_eq!(history.iter().filter(|r| r.event.name() == "run.queued").count(), 1);
    engine.shutdown().await;
}

#[tokio::test]
async fn bad_input_is_refused_with_a_code_and_nothing_is_written() {
    let scratch = Scratch::new();
    let engine = scratch.builder().await.workflow("echo", echo).start().await.unwrap();
    assert_eq!(engine.run("echo", "../etc", &1).await.unwrap_err().code(), "GS0101");
    assert_eq!(engine.run("echo", "", &1).await.unwrap_err().code(), "GS0101");
    let error = engine.run("unknown", "r", &1).await.unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        ("GS0103", "workflow unknown is not registered on this engine (registered: echo)")
    );
    let large = "x".repeat(256 * 1024);
    assert_eq!(engine.run("echo", "r", &large).await.unwrap_err().code(), "GS0102");
    let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
    assert!(Payload::parse(&deep, &Limits::default()).is_err());
    let nobody = RunId::new("nobody").unwrap();
    assert_eq!(engine.get(&nobody).await.unwrap_err().code(), "GS0104");
    assert_eq!(engine.handle(nobody).signal("x", &1).await.unwrap_err().code(), "GS0104");
    let run = engine.run("echo", "done", &1).await.unwrap();
    run.result::<u32>().await.unwrap();
    assert_eq!(run.signal("x", &1).await.unwrap_err().code(), "GS0105");
    let filter = goldseam::store::RunFilter { limit: 10, ..Default::default() };
    assert_eq!(engine.list(filter).await.unwrap().items.len(), 1);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_takes_no_more_runs_than_it_has_slots() {
    const SLOTS: u32 = 8;
    let (scratch, witness) = (Scratch::new(), Witness::default());
    let client = scratch.client().await;
    let ids: Vec<RunId> = (0..200).map(|index| RunId::new(format!("r-{index}")).unwrap()).collect();
    for id in &ids {
        client.start("crowd", id, Payload::null(), StartOptions::default()).await.unwrap();
    }
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let (seen, open) = (witness.clone(), gate.clone());
    let crowd = move |ctx: Context, (): ()| {
        let (seen, open) = (seen.clone(), open.clone());
        async move {
            seen.saw("in");
            ctx.step("wait", || async { Ok::<_, Error>(open.acquire().await.map(drop).is_ok()) }).await
        }
    };
    let engine = scratch.builder().await.slots(SLOTS).workflow("crowd", crowd).start().await.unwrap();
    eventually("every slot is taken", || async { witness.count("in") >= SLOTS }).await;
    // Whatever else was claimed along with them had to be read from the store too.
    for id in &ids {
        client.get(id).await.unwrap();
    }
    assert_eq!((witness.count("in"), engine.hot_runs()), (SLOTS, SLOTS as usize));
    gate.add_permits(ids.len());
    for id in ids {
        assert!(engine.handle(id).result::<bool>().await.unwrap());
    }
    engine.shutdown().await;
}

#[tokio::test]
async fn a_run_of_a_workflow_that_nobody_has_waits_visibly() {
    let scratch = Scratch::new();
    let other = scratch.builder().await.workflow("other", echo).start().await.unwrap();
    let client = scratch.client().await;
    let input = Payload::parse("1", &Limits::default()).unwrap();
    let run = client.start("echo", &RunId::new("r").unwrap(), input, StartOptions::default()).await.unwrap();
    assert_eq!(run.status().await.unwrap(), Status::Queued);
    let engine = scratch.builder().await.workflow("echo", echo).start().await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 1);
    engine.shutdown().await;
    other.shutdown().await;
}

#[tokio::test]
async fn an_output_that_is_too_large_fails_its_step_and_not_the_engine() {
    let scratch = Scratch::new();
    let engine = scratch
        .builder()
        .await
        .workflow("big", |ctx: Context, (): ()| async move {
            ctx.step("big", || async { Ok::<_, Error>("x".repeat(2 * 1024 * 1024)) }).await
        })
        .start()
        .await
        .unwrap();
    let error = engine.run("big", "r", &()).await.unwrap().result::<String>().await.unwrap_err();
    assert!(error.to_string().contains("more than the limit of 262144"), "{error}");
    engine.shutdown().await;
}

#[tokio::test]
async fn tags_and_priority_are_kept_and_searched() {
    let scratch = Scratch::new();
    let engine = scratch.builder().await.workflow("echo", echo).start().await.unwrap();
    let options = StartOptions::default().tag("region", "eu").priority(7);
    engine.run_with("echo", "tagged", &1, options).await.unwrap().result::<u32>().await.unwrap();
    engine.run("echo", "plain", &1).await.unwrap().result::<u32>().await.unwrap();
    let tag = Some((goldseam::core::TagKey::new("region").unwrap(), "eu".to_owned()));
    let found =
        engine.list(goldseam::store::RunFilter { tag, limit: 10, ..Default::default() }).await.unwrap().items;
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].summary.run.as_str(), found[0].summary.priority), ("tagged", 7));
    engine.shutdown().await;
}

#[tokio::test]
async fn a_graceful_shutdown_hands_over_and_counts_no_attempt() {
    let scratch = Scratch::new();
    let witness = Witness::default();
    let flow = |hang: bool| {
        let witness = witness.clone();
        move |ctx: Context, (): ()| {
            let witness = witness.clone();
            async move {
                ctx.step("long", || async {
                    witness.saw("long");
                    if hang {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, Error>(())
                })
                .await
            }
        }
    };
    let config = goldseam::Config { drain: Duration::from_millis(20), ..goldseam::Config::default() };
    for deploy in 1..=3 {
        let engine =
            scratch.builder().await.config(config.clone()).workflow("w", flow(true)).start().await.unwrap();
        if deploy == 1 {
            engine.run("w", "r", &()).await.unwrap();
        }
        eventually("the step runs", || async { witness.count("long") == deploy }).await;
        engine.shutdown().await;
    }
    let last = scratch.builder().await.workflow("w", flow(false)).start().await.unwrap();
    let run = last.handle(RunId::new("r").unwrap());
    run.result::<()>().await.unwrap();
    let summary = last.get(run.id()).await.unwrap();
    assert_eq!((summary.attempt, summary.recoveries), (0, 0));
    last.shutdown().await;
}

/// hindsight#2675, llama-agents#607, iterate#2573: a crash counted as no attempt, and the same work was ground again without end.
#[tokio::test]
async fn sigkill_counts_as_attempt() {
    let scratch = Scratch::new();
    let witness = Witness::default();
    let flow = || {
        let witness = witness.clone();
        move |ctx: Context, (): ()| {
            let witness = witness.clone();
            async move {
                ctx.step("stuck", || async {
                    witness.saw("stuck");
                    std::future::pending::<()>().await;
                    Ok::<_, Error>(())
                })
                .await
            }
        }
    };
    for crash in 1..=2u32 {
        let engine = scratch.builder().await.workflow("w", flow()).start().await.unwrap();
        if crash == 1 {
            engine.run("w", "r", &()).await.unwrap();
        }
        eventually("the step runs", || async { witness.count("stuck") == crash }).await;
        engine.crash();
    }
    let client = scratch.client().await;
    let summary = client.get(&RunId::new("r").unwrap()).await.unwrap();
    assert_eq!((summary.attempt, summary.recoveries), (1, 1));
}

/// Two engines in one process share a store, so the process that lives on says nothing about the first one.
async fn a_dropped_engine_is_taken_over(fixture: Fixture) {
    let witness = Witness::default();
    let flow = |hang: bool| {
        let witness = witness.clone();
        move |ctx: Context, (): ()| {
            let witness = witness.clone();
            async move {
                ctx.step("long", || async {
                    witness.saw("long");
                    if hang {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, Error>(())
                })
                .await
            }
        }
    };
    // Nobody waits for silence to last so long: if the run goes on, the dropped engine was known to be gone.
    let config = goldseam::Config { silence_max: Duration::from_secs(3_600), ..goldseam::Config::default() };
    let start = |hang| {
        let builder = Engine::on(fixture.store.clone()).config(config.clone());
        builder.workflow("w", flow(hang)).start()
    };
    let first = start(true).await.unwrap();
    first.run("w", "r", &()).await.unwrap();
    eventually("the step runs", || async { witness.count("long") == 1 }).await;
    let second = start(false).await.unwrap();
    let gone = first.node_id().clone();
    drop(first);
    let run = second.handle(RunId::new("r").unwrap());
    tokio::time::timeout(Duration::from_secs(20), run.result::<()>()).await.unwrap().unwrap();
    let summary = second.get(run.id()).await.unwrap();
    assert_eq!((summary.recoveries, summary.recovered_at.is_some()), (1, true), "it is like a crash");
    eventually("the dead are forgotten", || async {
        fixture.store.nodes().await.unwrap().iter().all(|seen| seen.record.id != gone)
    })
    .await;
    second.shutdown().await;
    eventually("nobody is left", || async { fixture.store.nodes().await.unwrap().is_empty() }).await;
}

#[tokio::test]
async fn a_dropped_engine_is_taken_over_at_once_on_sqlite() {
    a_dropped_engine_is_taken_over(testing::fixture_on_real_clock().await).await;
}

#[tokio::test]
async fn a_dropped_engine_is_taken_over_at_once_in_memory() {
    a_dropped_engine_is_taken_over(Fixture::memory_on(goldseam_store_sqlite::system_clock())).await;
}

#[tokio::test]
async fn a_store_that_cannot_be_opened_says_why() {
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

/// A step that never yields, on a runtime with one thread only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_loop_cannot_keep_what_its_node_had() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    let scratch = Scratch::new();
    let released = Arc::new(AtomicBool::new(false));
    let witness = Witness::default();
    let config = goldseam::Config {
        beat: Duration::from_millis(50),
        wedged_after: Duration::from_millis(300),
        ..goldseam::Config::default()
    };
    let flow = |endless: bool, released: Arc<AtomicBool>, witness: Witness| {
        move |ctx: Context, loops: bool| {
            let (released, witness) = (Arc::clone(&released), witness.clone());
            async move {
                let first = ctx.step("first", || {
                    let (released, witness) = (Arc::clone(&released), witness.clone());
                    async move {
                        witness.saw(format!("first {endless}"));
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
    let (url, stuck) = (scratch.url(), flow(true, Arc::clone(&released), witness.clone()));
    let own = config.clone();
    let thread = std::thread::Builder::new().name("stuck".to_owned());
    let thread = thread.spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let engine =
                Engine::open(&url).await.unwrap().config(own).workflow("flow", stuck).start().await.unwrap();
            engine.run("flow", "well", &false).await.unwrap();
            engine.run("flow", "loops", &true).await.unwrap();
            // Never reached before the loop is released.
            tokio::task::yield_now().await;
        });
    });
    eventually("it loops", || async { witness.count("first true") == 2 }).await;
    let other = flow(false, Arc::clone(&released), witness.clone());
    let engine = scratch.builder().await.config(config).workflow("flow", other).start().await.unwrap();
    for run in ["well", "loops"] {
        let run = engine.handle(RunId::new(run).unwrap());
        assert_eq!(run.result::<u32>().await.unwrap(), 1);
    }
    released.store(true, Ordering::Relaxed);
    thread.unwrap().join().unwrap();
    engine.shutdown().await;
}
