//! A node of a fleet: the same program on every machine, on the store that `GOLDSEAM_STORE` names. On SIGTERM it hands
//! its runs over; if it crashes, another node takes them over.
//!
//! `GOLDSEAM_STORE=postgres://ada@db.example/orders cargo run -p goldseam --example fleet`, or with a bucket,
//! `GOLDSEAM_STORE='s3://my-bucket/orders?region=eu-west-1'`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use goldseam::prelude::*;
use tokio::signal::unix::{SignalKind, signal};

async fn pack(ctx: Context, order: String) -> goldseam::Result<String> {
    let parcel = ctx.step("collect", || collect(&order)).await?;
    ctx.sleep("settle", Duration::from_millis(50)).await?;
    ctx.step("label", || label(&parcel)).await
}

async fn collect(order: &str) -> goldseam::Result<String> {
    Ok(format!("a parcel for {order}"))
}

async fn label(parcel: &str) -> goldseam::Result<String> {
    Ok(format!("{parcel}, labelled"))
}

async fn node(url: &str) -> goldseam::Result<Engine> {
    Ok(Engine::open(url).await?.workflow("pack", pack).slots(64).start().await?)
}

/// Starts two nodes; the second one continues the run when the first one leaves.
pub(crate) async fn run(url: &str) -> goldseam::Result<String> {
    let first = node(url).await?;
    let second = node(url).await?;
    let order = "order-7".to_owned();
    first.start(pack, "pack-7", &order).await?;
    first.shutdown().await;
    let parcel = second.start(pack, "pack-7", &order).await?.result().await?;
    second.shutdown().await;
    Ok(parcel)
}

#[tokio::main]
async fn main() -> goldseam::Result<()> {
    let url = std::env::var("GOLDSEAM_STORE").unwrap_or_else(|_| "sqlite:fleet.db".to_owned());
    if std::env::args().nth(1).as_deref() == Some("once") {
        println!("{}", run(&url).await?);
        return Ok(());
    }
    let engine = node(&url).await?;
    println!("node {} is up", engine.node_id());
    let mut stop = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = stop.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    engine.shutdown().await;
    println!("handed over");
    Ok(())
}
