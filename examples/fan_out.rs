//! Fan-out: many steps in parallel, each recorded once, joined in order.
//!
//! `cargo run -p goldseam --example fan_out`

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use goldseam::prelude::*;

async fn resize_all(ctx: Context, images: Vec<String>) -> goldseam::Result<Vec<String>> {
    let parts = images.iter().map(|image| ctx.step(("resize", image), move || resize(image)));
    // At most two at the same time.
    let resized = ctx.join(parts).at_most(2).await?;
    // Each part has several steps and gets its own arm, so the paths of its steps do not depend on timing.
    let left = ctx.arm("left")?;
    let right = ctx.arm("right")?;
    let (front, back) = tokio::join!(publish(left, &resized, 0), publish(right, &resized, 1));
    Ok([front?, back?].concat())
}

async fn resize(image: &str) -> goldseam::Result<String> {
    Ok(format!("{image}@2x"))
}

async fn publish(ctx: Context, images: &[String], half: usize) -> goldseam::Result<Vec<String>> {
    let mine: Vec<String> = images.iter().skip(half).step_by(2).cloned().collect();
    let uploaded = ctx.step("upload", || async { Ok(mine.clone()) }).await?;
    ctx.step("announce", || async { Ok(()) }).await?;
    Ok(uploaded)
}

/// Runs the example on the store at `url`.
pub(crate) async fn run(url: &str) -> goldseam::Result<String> {
    let engine = Engine::open(url).await?.workflow("resize", resize_all).start().await?;
    let images = ["cat", "dog", "emu"].map(String::from).to_vec();
    let done = engine.start(resize_all, "album-1", &images).await?.result().await?;
    engine.shutdown().await;
    Ok(done.join(" "))
}

#[tokio::main]
async fn main() -> goldseam::Result<()> {
    println!("{}", run("sqlite:fan_out.db").await?);
    Ok(())
}
