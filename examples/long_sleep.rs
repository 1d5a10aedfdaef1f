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
    let run = first.run("trial", "trial-ada", &("ada", 1_200u64)).await?;
    let mut mark = 0;
    while first.hot_runs() > 0 {
        mark = first.wait_for_change(mark).await?;
    }
    let id = run.id().clone();
    first.shutdown().await;
    let second = Engine::open(url).await?.workflow("trial", trial).start().await?;
    let last = second.handle(id).result().await?;
    second.shutdown().await;
    Ok(last)
}

#[tokio::main]
async fn main() -> goldseam::Result<()> {
    println!("{}", run("sqlite:long_sleep.db").await?);
    Ok(())
}
