//! Errors: `?` converts every error, the class of an error decides about retries, and `main` prints code and hint.
//!
//! `cargo run -p goldseam --example errors`, or with a store that does not exist, to see what `main` prints:
//! `GOLDSEAM_STORE=mysql:shop cargo run -p goldseam --example errors`

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use anyhow::Context as _;
use goldseam::EngineError;
use goldseam::prelude::*;

/// A workflow may return `anyhow::Result`; `Error::into_std` is the way from an error of the engine to `anyhow`.
async fn pay_bill(ctx: Context, text: String) -> anyhow::Result<String> {
    // A repetition would read the same text: do not retry.
    let read = ctx.step("read", || async { read(&text).terminal() }).await;
    let amount = read.map_err(Error::into_std).context("cannot read the bill")?;
    // The bank may work later: retry. An error without a class is retried, too.
    let charge = |attempt: Attempt| async move { charge(amount, attempt.number()).retryable() };
    let retry = Retry::fixed(Duration::from_millis(10)).attempts_max(3);
    let paid = ctx.step_with("charge", charge).retry(retry).await;
    paid.map_err(Error::into_std).context("cannot pay the bill")
}

/// Reads an amount. Its errors are those of `anyhow`.
fn read(text: &str) -> anyhow::Result<u32> {
    text.parse().with_context(|| format!("{text:?} is not an amount"))
}

/// Charges an amount. Its errors are those of the standard library.
fn charge(amount: u32, attempt: u32) -> std::io::Result<String> {
    match attempt {
        1 => Err(std::io::Error::other("the bank is busy")),
        _ => Ok(format!("paid {amount}")),
    }
}

/// Runs the example on the store at `url`: pays one bill, and cannot read another.
pub(crate) async fn run(url: &str) -> goldseam::Result<String> {
    let engine = Engine::open(url).await?.workflow("pay-bill", pay_bill).start().await?;
    let paid = engine.start(pay_bill, "bill-1", &"12".to_owned()).await?.result().await?;
    let unread = engine.start(pay_bill, "bill-2", &"twelve".to_owned()).await?.result().await;
    let failure = match unread {
        Err(EngineError::Ended { failure, .. }) => failure.message,
        other => format!("{other:?}"),
    };
    engine.shutdown().await;
    Ok(format!("{paid}; {failure}"))
}

#[tokio::main]
async fn main() -> goldseam::Result<()> {
    let url = std::env::var("GOLDSEAM_STORE").unwrap_or_else(|_| "sqlite:errors.db".to_owned());
    println!("{}", run(&url).await?);
    Ok(())
}
