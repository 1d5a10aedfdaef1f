//! A preflight predicts what the live engine does, for every small change of a workflow.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::{RunId, Status};
use goldseam_engine::preflight::{Preflight, Verdict};
use goldseam_engine::{Builder, Clock, Config, Context, Engine, Result, SystemClock};
use goldseam_store::{MemoryStore, Store};

/// The operations of a workflow, in order: `?` waits for the signal, `g` is a group with a step and a wait, `h` the same
/// group without the wait, all else are steps.
async fn perform(ctx: Context, script: &'static str) -> Result<u32> {
    for name in script.split_whitespace() {
        match name {
            "?" => ctx.signal::<u32>("go").await?,
            "g" => {
                ctx.group("g", |ctx| async move {
                    ctx.step("x", || async { Ok::<u32, goldseam_engine::Error>(1) }).await?;
                    ctx.signal::<u32>("go").await
                })
                .await?
            }
            "h" => {
                ctx.group("g", |ctx| async move {
                    ctx.step("x", || async { Ok::<u32, goldseam_engine::Error>(1) }).await
                })
                .await?
            }
            name => ctx.step(name, || async { Ok::<u32, goldseam_engine::Error>(1) }).await?,
        };
    }
    Ok(1)
}

fn build(store: &Arc<dyn Store>, script: &'static str) -> Builder {
    let config = Config { linger: Duration::from_millis(2), ..Config::default() };
    let work = move |ctx: Context, (): ()| perform(ctx, script);
    Engine::builder(Arc::clone(store)).config(config).workflow("order", work)
}

fn run() -> RunId {
    RunId::new("r").unwrap()
}

/// Returns once the run waits or has ended.
async fn settles(engine: &Engine) -> Status {
    let rests = async {
        loop {
            let summary = engine.client().get(&run()).await.unwrap();
            let rests =
                summary.status == Status::Waiting && summary.owner.is_none() && summary.mail_unread == 0;
            if rests || !summary.status.is_active() {
                return summary.status;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    match tokio::time::timeout(Duration::from_secs(20), rests).await {
        Ok(status) => status,
        Err(_) => panic!("it does not settle: {:?}", engine.client().history(&run()).await),
    }
}

/// The verdict of the live engine under the new code: none, or why the run parked.
async fn live(store: &Arc<dyn Store>, script: &'static str) -> Option<String> {
    let engine = build(store, script).start().await.unwrap();
    // Code without waits may have ended the run already.
    drop(engine.handle(run()).signal("go", &1).await);
    let status = settles(&engine).await;
    let trouble = engine.client().get(&run()).await.unwrap().trouble;
    engine.shutdown().await;
    (status == Status::Parked).then(|| trouble.unwrap().message)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preflight_parks_exactly_what_a_node_parks() {
    let before = ["? a b", "a ? b", "a b ?", "a b ? c", "g c", "a g"];
    let after = [
        "a b ?", "b a ?", "a ? b", "? a b", "a b ? c", "a c ? b", "b ? c", "a", "a b", "c a b ?", "a ? c",
        "g c", "h c", "a g", "g a", "? a b c", "",
    ];
    let mut parked = 0;
    let mut went_on = 0;
    for old in before {
        for new in after {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Arc::new(|| SystemClock.now())));
            let engine = build(&store, old).start().await.unwrap();
            engine.start("order", "r", &()).await.unwrap();
            settles(&engine).await;
            engine.shutdown().await;
            let report = build(&store, new).preflight(Preflight::all()).await.unwrap();
            assert_eq!(
                (report.total(), report.unknown(), report.fails()),
                (1, 0, 0),
                "{old} → {new}: {report}"
            );
            let predicted = report.findings.first().map(|finding| finding.verdict.clone());
            match (live(&store, new).await, predicted) {
                (None, None) => {
                    assert_ne!(new, "", "code that asks for nothing leaves out what the log of {old} has");
                    went_on += 1;
                }
                (Some(reason), Some(Verdict::Parks { code, reason: predicted })) => {
                    assert_eq!((code.as_str(), predicted), ("V1", reason), "{old} → {new}");
                    parked += 1;
                }
                (live, predicted) => {
                    panic!("{old} → {new}: the node said {live:?}, the preflight {predicted:?}")
                }
            }
            if old == new {
                assert!(report.is_safe(), "{old}: {report}");
            }
        }
    }
    assert!(parked > 20 && went_on > 10, "{parked} parked, {went_on} went on");
}
