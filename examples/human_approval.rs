//! A person decides. The question stays open until it is answered; an answer that does not match is refused.
//!
//! `cargo run -p goldseam --example human_approval`, then from another terminal:
//! `goldseam --store sqlite:human_approval.db answer expense-7 approve yes`

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use goldseam::prelude::*;

async fn expense(ctx: Context, amount: u32) -> goldseam::Result<String> {
    if amount < 100 {
        return Ok("approved by rule".to_owned());
    }
    let answer: String = ctx.ask("approve", format!("Pay {amount}?")).choice(["yes", "no"]).await?;
    match answer.as_str() {
        "yes" => ctx.step("pay", || pay(amount)).await,
        _ => Ok("declined".to_owned()),
    }
}

async fn pay(amount: u32) -> goldseam::Result<String> {
    Ok(format!("paid {amount}"))
}

/// Runs the example on the store at `url` and answers the question.
pub(crate) async fn run(url: &str) -> goldseam::Result<String> {
    let engine = Engine::open(url).await?.workflow("expense", expense).start().await?;
    let run = engine.start(expense, "expense-7", &250).await?;
    run.wait_until(|run| !run.inputs.is_empty()).await?;
    let refused = run.answer("approve", "perhaps").await.is_err();
    // If the example runs a second time, the question was already answered.
    let _ = run.answer("approve", "yes").await;
    let result = run.result().await?;
    engine.shutdown().await;
    Ok(format!("perhaps refused: {refused}; {result}"))
}

#[tokio::main]
async fn main() -> goldseam::Result<()> {
    println!("{}", run("sqlite:human_approval.db").await?);
    Ok(())
}
