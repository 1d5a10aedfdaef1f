//! Engines on object storage: what a run costs, where every question is a request.

use goldseam::{Context, Engine, Payload, RunId, StartOptions, connect};
use goldseam_fake_s3::{FakeS3, Op, Request};

use crate::support::eventually;

async fn five(ctx: Context, _: ()) -> goldseam::Result<u32> {
    for step in 0..5 {
        ctx.step(("count", step), || async move { Ok::<_, goldseam::Error>(step) }).await?;
    }
    Ok(5)
}

async fn engine(fake: &FakeS3) -> Engine {
    Engine::open(&fake.url("s")).await.unwrap().workflow("five", five).start().await.unwrap()
}

/// Whether it is a request of this run: all but what a node asks whether there are runs or not.
fn is_of_run(request: &Request) -> bool {
    !request.key.starts_with("s/node/") && request.op != Op::List
}

/// The requests of one kind that were made for runs.
fn made(fake: &FakeS3, op: Op) -> usize {
    fake.count(|request| request.op == op && is_of_run(request))
}

/// Nothing of a run that is over is left but its log, its row and its place in the list.
async fn is_tidied(fake: &FakeS3) {
    let left = || async {
        let objects = fake.objects();
        let markers = ["s/active/", "s/now/", "s/later/", "s/task/"];
        !objects.keys().any(|key| markers.iter().any(|marker| key.starts_with(marker)))
    };
    eventually("markers and tasks are gone", left).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_of_five_steps_costs_its_starter_at_most_twelve_writes() {
    let fake = FakeS3::start().unwrap();
    let engine = engine(&fake).await;
    fake.forget_log();
    let run = engine.run("five", "r", &()).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 5);
    is_tidied(&fake).await;
    let puts = made(&fake, Op::Put);
    assert!(puts <= 12, "{puts} writes: {:#?}", fake.counts());
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_another_node_claims_costs_at_most_fourteen_writes() {
    let fake = FakeS3::start().unwrap();
    let engine = engine(&fake).await;
    let client = connect(&fake.url("s")).await.unwrap();
    fake.forget_log();
    let (id, options) = (RunId::new("r").unwrap(), StartOptions::default());
    let run = client.start("five", &id, Payload::null(), options).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 5);
    is_tidied(&fake).await;
    let puts = made(&fake, Op::Put);
    assert!(puts <= 14, "{puts} writes: {:#?}", fake.counts());
    engine.shutdown().await;
}
