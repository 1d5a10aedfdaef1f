//! Versions of a workflow.

use goldseam::prelude::*;
use goldseam::{Payload, Status};
use serde_json::json;

use crate::place::Place;
use crate::support::{Scratch, ok, reaches, run_id};
use crate::workers::client::Server;

#[tokio::test]
async fn run_stays_on_its_first_version() {
    let scratch = Scratch::new();
    let one = |ctx: Context, (): ()| async move { ctx.signal::<()>("go").await.map(|()| 1) };
    let two = |_: Context, (): ()| ok(2);
    let first = scratch.engine("w", one).await;
    first.start("w", "old", &()).await.unwrap();
    reaches(first.client(), "old", Status::Waiting).await;
    first.shutdown().await;
    let both =
        scratch.builder().await.workflow("w", one).workflow_version("w", 2, two).start().await.unwrap();
    assert_eq!(both.start("w", "new", &()).await.unwrap().result::<u32>().await.unwrap(), 2);
    let old = both.handle(run_id("old"));
    old.signal("go", &()).await.unwrap();
    assert_eq!(old.result::<u32>().await.unwrap(), 1);
    both.shutdown().await;
}

#[tokio::test]
async fn run_waits_for_a_node_with_its_version() {
    let scratch = Scratch::new();
    let flow = |ctx: Context, (): ()| async move { ctx.signal::<()>("go").await };
    let first = scratch.builder().await.workflow_version("w", 1, flow).start().await.unwrap();
    first.start("w", "r", &()).await.unwrap();
    reaches(first.client(), "r", Status::Waiting).await;
    first.shutdown().await;
    let later = scratch.builder().await.workflow_version("w", 3, flow).start().await.unwrap();
    let run = later.handle(run_id("r"));
    run.signal("go", &()).await.unwrap();
    let why = later.client().why(run.id()).await.unwrap();
    let evidence = &why.found[0].diagnosis.evidence;
    assert!(evidence.ends_with("(live nodes have 3): the run waits for a worker with w@1"), "{why:?}");
    assert_ne!(why.status, Status::Parked);
    let again = scratch.builder().await.workflow_version("w", 1, flow).start().await.unwrap();
    run.result::<()>().await.unwrap();
    later.shutdown().await;
    again.shutdown().await;
}

#[tokio::test]
async fn engine_does_not_claim_versions_it_lacks() {
    let scratch = Scratch::new();
    let flow = |_: Context, (): ()| ok(());
    let one = scratch.engine("w", flow).await;
    let run = one.start_with("w", "r", &(), StartOptions::default().version(2)).await.unwrap();
    assert_eq!(one.client().get(run.id()).await.unwrap().owner, None);
    let two = scratch.builder().await.workflow_version("w", 2, flow).start().await.unwrap();
    run.result::<()>().await.unwrap();
    let zero = one.start_with("w", "z", &(), StartOptions::default().version(0)).await;
    assert_eq!(zero.unwrap_err().code(), "GS0134");
    let zero = scratch.builder().await.workflow_version("w", 0, flow).start().await;
    assert_eq!(zero.unwrap_err().code(), "GS0134");
    one.shutdown().await;
    two.shutdown().await;
}

/// Claims executions for a remote worker; returns their tokens and versions.
async fn claims(server: &Place, worker: &str, wait_ms: u64) -> Vec<(String, u64)> {
    let path = format!("/v1/workers/{worker}/claim");
    let response = server.call("POST", &path, json!({ "limit": 16, "wait_ms": wait_ms })).await.unwrap();
    let pair = |one: &serde_json::Value| {
        (one["token"].as_str().unwrap().to_owned(), one["version"].as_u64().unwrap())
    };
    response["executions"].as_array().unwrap().iter().map(pair).collect()
}

async fn register(server: &Place, body: serde_json::Value) -> String {
    server.call("POST", "/v1/workers", body).await.unwrap()["worker"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn remote_workers_receive_only_their_versions() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let plans = json!({ "pv": ["a", "b"] });
    let old = json!({ "name": "old", "workflows": ["pv@1"], "slots": 16 });
    let new = json!({ "name": "new", "workflows": ["pv@1", "pv@2"], "slots": 16, "plans": plans });
    let old = register(&server, old).await;
    let new = register(&server, new).await;
    for n in 0..16 {
        let run = run_id(&format!("p-{n}"));
        let options = StartOptions::default().version(2);
        server.client.start_with("pv", &run, &Payload::null(), options).await.unwrap();
    }
    let mut done = 0;
    while done < 16 {
        let (by_old, by_new) = tokio::join!(claims(&server, &old, 100), claims(&server, &new, 5_000));
        assert_eq!(by_old, []);
        for (token, version) in by_new {
            assert_eq!(version, 2);
            let doings = json!([{ "complete": { "output": 2 } }]);
            let body = json!({ "token": token, "id": format!("a-{done}"), "after": 3, "doings": doings });
            server.call("POST", "/v1/executions/append", body).await.unwrap();
            done += 1;
        }
    }
    for n in 0..16 {
        let run = run_id(&format!("p-{n}"));
        let state = server.client.state(&run).await.unwrap();
        assert_eq!((state.summary.status, state.queued.plan.len()), (Status::Completed, 2), "{run}");
    }
}

#[tokio::test]
async fn worker_that_parks_with_e2_releases_the_run() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let worker = register(&server, json!({ "name": "w", "workflows": ["pv@2"], "slots": 1 })).await;
    let run = run_id("r");
    server.client.start("pv", &run, &Payload::null()).await.unwrap();
    let (token, _) = claims(&server, &worker, 5_000).await.remove(0);
    let doings = json!([{ "park": { "code": "E2", "reason": "unknown" } }]);
    let body = json!({ "token": token, "id": "a-1", "after": 3, "doings": doings });
    server.call("POST", "/v1/executions/append", body).await.unwrap();
    let summary = server.client.get(&run).await.unwrap();
    assert_eq!((summary.status, summary.owner), (Status::Queued, None));
}

#[tokio::test]
async fn refuses_worker_with_version_0_or_plan_of_unknown_workflow() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    for body in [
        json!({ "name": "w", "workflows": ["pv@0"], "slots": 1 }),
        json!({ "name": "w", "workflows": ["pv@1"], "slots": 1, "plans": { "other": ["a"] } }),
    ] {
        assert_eq!(server.call("POST", "/v1/workers", body).await.unwrap_err(), "GS0313");
    }
}

#[tokio::test]
async fn run_without_version_starts_on_the_newest_available() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let body = json!({ "name": "w", "workflows": ["order@2", "order@3"], "slots": 1 });
    let worker = register(&server, body).await;
    let run = run_id("o-1");
    server.client.start("order", &run, &Payload::null()).await.unwrap();
    let claimed = claims(&server, &worker, 5_000).await;
    assert_eq!(claimed[0].1, 3);
}
