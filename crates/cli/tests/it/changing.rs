//! Preflight and migrate, with this test binary as the program that has the workflows.

use std::os::unix::fs::PermissionsExt;

use goldseam::prelude::*;
use goldseam::{RunId, Status};
use goldseam_store_object::testing::fresh_prefix;
use goldseam_store_postgres::testing::Schema;

use crate::guides::walk;
use crate::support::Place;

const GUIDE: &str = include_str!("../../../../docs/guides/changing-a-workflow.md");

/// The variable that selects the worker's code.
const BUILD: &str = "ORDER_BUILD";

async fn ok() -> goldseam::Result<u32> {
    Ok(1)
}

/// Some builds have the step `check`, and some have it behind a change marker.
async fn order(ctx: Context, build: &'static str) -> goldseam::Result<u32> {
    let checks = match build {
        "2" => true,
        "patched" => ctx.changed("fraud-check").await?,
        _ => false,
    };
    if checks {
        ctx.step("check", ok).await?;
    }
    ctx.step("reserve", ok).await?;
    ctx.signal::<u32>("paid").await?;
    ctx.step("ship", ok).await
}

fn register(engine: goldseam::Builder, build: &str) -> goldseam::Builder {
    let one = |ctx: Context, (): ()| order(ctx, "1");
    let two = |ctx: Context, (): ()| order(ctx, "2");
    let patched = |ctx: Context, (): ()| order(ctx, "patched");
    match build {
        "2" => engine.workflow("order", two),
        "patched" => engine.workflow("order", patched),
        "versions" => engine
            .workflow_version("order", 1, one)
            .workflow_version("order", 2, two)
            .workflow_version("order", 3, patched),
        _ => engine.workflow("order", one),
    }
}

/// The user's program. It names another store, which a preflight must not open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by the tests of this file"]
async fn order_worker() {
    let build = std::env::var(BUILD).unwrap();
    if build == "silent" {
        return;
    }
    let engine = Engine::open("sqlite:the-programs-own.db").await.unwrap();
    let engine = register(engine, &build).start().await.unwrap();
    panic!("an engine was started: {engine:?}");
}

/// Creates a worker script for each build, and run `ord-1` waiting for its payment.
fn prepared(place: &Place) {
    let program = std::env::current_exe().unwrap();
    for build in ["1", "2", "patched", "versions", "silent"] {
        let file = place.path(&format!("order-{build}"));
        let arguments = "--exact changing::order_worker --ignored --nocapture";
        let script = format!("#!/bin/sh\n{BUILD}={build} exec {} {arguments}\n", program.display());
        std::fs::write(&file, script).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    std::fs::create_dir(place.path("histories")).unwrap();
    let url = place.url();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let engine = register(Engine::open(&url).await.unwrap(), "1").start().await.unwrap();
        engine.start("order", "ord-1", &()).await.unwrap();
        let run = RunId::new("ord-1").unwrap();
        loop {
            let summary = engine.client().get(&run).await.unwrap();
            if summary.status == Status::Waiting && summary.owner.is_none() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        engine.shutdown().await;
    });
}

fn walk_the_guide(place: &Place) {
    prepared(place);
    assert!(walk(place, GUIDE) >= 9);
    assert!(!place.path("the-programs-own.db").exists(), "a preflight opened the program's own store");
}

#[test]
fn guide_changing_a_workflow_matches_on_sqlite() {
    walk_the_guide(&Place::new());
}

#[test]
fn guide_changing_a_workflow_matches_on_postgres() {
    let schema = Schema::fresh();
    walk_the_guide(&Place::with_store(schema.url()));
}

#[test]
fn guide_changing_a_workflow_matches_on_s3() {
    let bucket = goldseam_testbed::seaweedfs::shared().unwrap();
    walk_the_guide(&Place::with_store(format!("{}&requests=free", bucket.url(&fresh_prefix()))));
}

#[test]
fn preflight_reports_as_json_and_by_exit_code() {
    let place = Place::new();
    prepared(&place);
    let program = |build: &str| place.path(&format!("order-{build}")).display().to_string();
    let safe = place.run(&["preflight", "--program", &program("1"), "--json"]).json();
    assert_eq!((&safe["groups"][0]["safe"], &safe["findings"]), (&1.into(), &serde_json::json!([])));
    let parks = place.run(&["preflight", "--program", &program("2"), "--json"]);
    assert_eq!(parks.code, 20, "{}", parks.err);
    let parks: serde_json::Value = serde_json::from_str(&parks.out).unwrap();
    let finding = &parks["findings"][0];
    assert_eq!(
        (&finding["run"], &finding["verdict"], &finding["code"]),
        (&"ord-1".into(), &"parks".into(), &"V1".into())
    );
    assert_eq!(place.run(&["preflight", "ord-1", "-q", "--program", &program("2")]).out, "ord-1\n");
    place.run(&["preflight", "ord-9", "--program", &program("1")]).fails(3, "GS0104");
    place.run(&["preflight", "--program", &program("silent")]).fails(1, "GS0125");
    let missing = ["--store", "sqlite:missing.db", "preflight", "--program", &program("1")];
    place.run(&missing).fails(7, "GS0205");
    place.run(&["preflight", "--program", &program("none")]).fails(1, "GS0125");
    let untried = place.run(&["migrate", "ord-1", "--to-version", "9", "--program", &program("1")]);
    untried.fails(21, "GS0124");
}

#[test]
fn migrate_without_a_preflight_needs_force() {
    let place = Place::new();
    prepared(&place);
    assert_eq!(place.run(&["migrate", "ord-1", "--to-version", "2"]).code, 2);
    assert_eq!(place.run(&["migrate", "ord-1", "--to-version", "0", "--force"]).code, 2);
    let program = place.path("order-versions").display().to_string();
    let moved = ["migrate", "ord-1", "--to-version", "2", "--program", &program];
    place.run(&moved).fails(20, "GS0124");
    let done = place.run(&[&moved[..], &["--force", "--json", "--reason", "now"]].concat()).json();
    assert_eq!(done["run"], "ord-1");
    assert_eq!(place.run(&["show", "ord-1", "--json"]).json()["version"], 2);
    place.run(&["migrate", "ord-1", "--to-version", "2", "--force"]).fails(6, "GS0110");
}
