//! The smallest workflow: two steps and a sleep. Kill it in the middle and start it again.
//!
//! `cargo run -p goldseam --example hello`

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use goldseam::prelude::*;

async fn greet(ctx: Context, name: String) -> goldseam::Result<String> {
    let greeting = ctx.step("compose", || compose(&name)).await?;
    ctx.sleep("breathe", Duration::from_millis(50)).await?;
    ctx.step("polish", || polish(&greeting)).await
}

async fn compose(name: &str) -> goldseam::Result<String> {
    Ok(format!("hello, {name}"))
}

async fn polish(greeting: &str) -> goldseam::Result<String> {
    Ok(format!("{}!", greeting.replacen('h', "H", 1)))
}

/// Runs the example on the store at `url`. A second start with the same id returns the result of the first.
pub(crate) async fn run(url: &str) -> goldseam::Result<String> {
    let engine = Engine::open(url).await?.workflow("greet", greet).start().await?;
    let greeting = engine.start(greet, "greet-ada", &"Ada".to_owned()).await?.result().await?;
    engine.shutdown().await;
    Ok(greeting)
}

#[tokio::main]
async fn main() -> goldseam::Result<()> {
    println!("{}", run("sqlite:hello.db").await?);
    Ok(())
}
