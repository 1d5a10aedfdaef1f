//! A long sleep costs a row, not memory, and survives restarts: it ends at its original time.
//!
//! `cargo run -p goldseam --example long_sleep`

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use goldseam::prelude::*;

async fn trial(ctx: Context, (user, span_ms): (String, u64)) -> goldseam::Result<String> {
    ctx.step("welcome", || mail(&user, "welcome")).await?;
    ctx.sleep("trial", Duration::from_millis(span_ms)).await?;
    ctx.step("remind", || mail(&user, "your trial ends")).await
}

async fn mail(user: &str, text: &str) -> goldseam::Result<String> {
    Ok(format!("to {user}: {text}"))
}

/// Runs the example on the store at `url`: one engine begins the sleep, and another one ends it.
pub(crate) async fn run(url: &str) -> goldseam::Result<String> {
    let first = Engine::open(url).await?.workflow("trial", trial).start().await?;
    let ada = ("ada".to_owned(), 1_200);
    let run = first.start(trial, "trial-ada", &ada).await?;
    // The run sleeps, and soon leaves memory.
    run.wait_until(|_| first.live_runs() == 0).await?;
    first.shutdown().await;
    let second = Engine::open(url).await?.workflow("trial", trial).start().await?;
    // The same id is the same run.
    let last = second.start(trial, "trial-ada", &ada).await?.result().await?;
    second.shutdown().await;
    Ok(last)
}

#[tokio::main]
async fn main() -> goldseam::Result<()> {
    println!("{}", run("sqlite:long_sleep.db").await?);
    Ok(())
}
