//! Changes of a workflow while its runs wait: a patch inside one version, and a second version.
//!
//! `cargo run -p goldseam --example versions`

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use goldseam::prelude::*;
use goldseam::{RunId, Status};

/// Version 1, as it was deployed first.
async fn first(ctx: Context, item: String) -> goldseam::Result<String> {
    let bill = ctx.step("charge", || charge(&item)).await?;
    ctx.signal::<()>("paid").await?;
    Ok(bill)
}

/// Version 1 with a patch: new runs check the item. A run that is past this place keeps the old path.
async fn patched(ctx: Context, item: String) -> goldseam::Result<String> {
    let mut bill = String::new();
    if ctx.changed("check-item").await? {
        bill = ctx.step("check", || check(&item)).await?;
    }
    bill += &ctx.step("charge", || charge(&item)).await?;
    ctx.signal::<()>("paid").await?;
    Ok(bill)
}

/// Version 2 takes another course. Runs of version 1 stay on version 1.
async fn second(ctx: Context, item: String) -> goldseam::Result<String> {
    ctx.step("gift", || async { Ok(format!("{item} is free in version {}", ctx.version())) }).await
}

async fn check(item: &str) -> goldseam::Result<String> {
    Ok(format!("{item} checked, "))
}

async fn charge(item: &str) -> goldseam::Result<String> {
    Ok(format!("bill for {item}"))
}

/// Runs the example on the store at `url`: deploys one build, then another.
pub(crate) async fn run(url: &str) -> goldseam::Result<String> {
    let engine = Engine::open(url).await?.workflow("order", first).start().await?;
    let old = engine.start(first, "order-1", &"tea".to_owned()).await?;
    old.wait_until(|run| run.status == Status::Waiting).await?;
    engine.shutdown().await;

    let builder = Engine::open(url).await?.workflow_version("order", 1, patched);
    let engine = builder.workflow_version("order", 2, second).start().await?;
    let old = engine.handle(RunId::new("order-1")?);
    let patched = engine.start(patched, "order-2", &"milk".to_owned()).await?;
    // If the example runs a second time, the runs have ended and refuse signals.
    let _ = old.signal("paid", &()).await;
    let _ = patched.signal("paid", &()).await;
    let new = engine.start(second, "order-3", &"cake".to_owned()).await?;
    let results = [old.result().await?, patched.result().await?, new.result().await?];
    engine.shutdown().await;
    Ok(results.join("; "))
}

#[tokio::main]
async fn main() -> goldseam::Result<()> {
    println!("{}", run("sqlite:versions.db").await?);
    Ok(())
}
