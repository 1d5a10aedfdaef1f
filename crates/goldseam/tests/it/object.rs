//! Engines on object storage: the number of requests that a run costs.

use goldseam::{Context, Engine, OpenEngine as _, Payload, connect};
use goldseam_fake_s3::{FakeS3, RequestKind, S3Request};

use crate::support::{eventually, ok, run_id};

async fn five(ctx: Context, _: ()) -> goldseam::Result<u32> {
    for step in 0..5 {
        ctx.step(("count", step), || ok(step)).await?;
    }
    Ok(5)
}

async fn engine(fake: &FakeS3) -> Engine {
    Engine::open(&fake.url("s")).await.unwrap().workflow("five", five).start().await.unwrap()
}

/// Returns whether a request belongs to a run. Nodes make the others even without runs.
fn is_of_run(request: &S3Request) -> bool {
    !request.key.starts_with("s/node/") && request.op != RequestKind::List
}

/// Counts the requests of one kind that belong to runs.
fn run_requests(fake: &FakeS3, op: RequestKind) -> usize {
    fake.count(|request| request.op == op && is_of_run(request))
}

/// Waits until only the log, the row and the list entry of the ended run are left.
async fn wait_for_cleanup(fake: &FakeS3) {
    let left = || async {
        let objects = fake.objects();
        let markers = ["s/active/", "s/now/", "s/later/", "s/task/"];
        !objects.keys().any(|key| markers.iter().any(|marker| key.starts_with(marker)))
    };
    eventually("markers and tasks are gone", left).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_steps_cost_at_most_12_writes_on_the_starting_node() {
    let fake = FakeS3::start().unwrap();
    let engine = engine(&fake).await;
    fake.forget_log();
    let run = engine.start("five", "r", &()).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 5);
    wait_for_cleanup(&fake).await;
    let puts = run_requests(&fake, RequestKind::Put);
    assert!(puts <= 12, "{puts} writes: {:#?}", fake.counts());
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_steps_cost_at_most_14_writes_on_another_node() {
    let fake = FakeS3::start().unwrap();
    let engine = engine(&fake).await;
    let client = connect(&fake.url("s")).await.unwrap();
    fake.forget_log();
    let run = client.start("five", &run_id("r"), &Payload::null()).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 5);
    wait_for_cleanup(&fake).await;
    let puts = run_requests(&fake, RequestKind::Put);
    assert!(puts <= 14, "{puts} writes: {:#?}", fake.counts());
    engine.shutdown().await;
}
