//! Several versions of one workflow.

use goldseam::prelude::*;
use goldseam::{Payload, RunId, Status};
use serde_json::json;

use crate::place::Place;
use crate::support::{Scratch, reaches};
use crate::workers::client::Server;

#[tokio::test]
async fn a_run_stays_on_the_version_it_began_with() {
    let scratch = Scratch::new();
    let one = |ctx: Context, (): ()| async move { ctx.signal::<()>("go").await.map(|()| 1) };
    let two = |_: Context, (): ()| async move { Ok::<_, Error>(2) };
    let first = scratch.builder().await.workflow("w", one).start().await.unwrap();
    first.run("w", "old", &()).await.unwrap();
    reaches(&first, "old", Status::Waiting).await;
    first.shutdown().await;
    let both =
        scratch.builder().await.workflow("w", one).workflow_version("w", 2, two).start().await.unwrap();
    assert_eq!(both.run("w", "new", &()).await.unwrap().result::<u32>().await.unwrap(), 2);
    let old = both.handle(RunId::new("old").unwrap());
    old.signal("go", &()).await.unwrap();
    assert_eq!(old.result::<u32>().await.unwrap(), 1);
    both.shutdown().await;
}

#[tokio::test]
async fn a_run_whose_version_nobody_knows_is_parked_and_says_so() {
    let scratch = Scratch::new();
    let flow = |ctx: Context, (): ()| async move { ctx.signal::<()>("go").await };
    let first = scratch.builder().await.workflow_version("w", 1, flow).start().await.unwrap();
    first.run("w", "r", &()).await.unwrap();
    reaches(&first, "r", Status::Waiting).await;
    first.shutdown().await;
    let later = scratch.builder().await.workflow_version("w", 3, flow).start().await.unwrap();
    let run = later.handle(RunId::new("r").unwrap());
    run.signal("go", &()).await.unwrap();
    reaches(&later, "r", Status::Parked).await;
    let trouble = later.get(run.id()).await.unwrap().trouble.unwrap();
    assert_eq!(trouble.code.as_deref(), Some("E2"));
    later.shutdown().await;
}

#[tokio::test]
async fn a_run_without_a_version_begins_with_the_newest_that_a_worker_has() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let body = json!({ "name": "w", "workflows": ["order@2", "order@3"], "slots": 1 });
    let told = server.call("POST", "/v1/workers", body).await.unwrap();
    let (run, input) = (RunId::new("o-1").unwrap(), Payload::null());
    server.client.start("order", &run, input, StartOptions::default()).await.unwrap();
    let path = format!("/v1/workers/{}/claim", told["worker"].as_str().unwrap());
    let told = server.call("POST", &path, json!({ "limit": 1, "wait_ms": 5_000 })).await.unwrap();
    assert_eq!(told["executions"][0]["version"], 3);
}
