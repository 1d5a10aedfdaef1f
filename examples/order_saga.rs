//! A saga: when a later step fails permanently, Goldseam undoes the completed steps, latest first.
//!
//! `cargo run -p goldseam --example order_saga`

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use goldseam::prelude::*;
use goldseam::{EngineError, Status};
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
struct Order {
    item: String,
    card: String,
}

async fn checkout(ctx: Context, order: Order) -> goldseam::Result<String> {
    let hold = ctx.step("reserve", || reserve(&order)).compensate(release).await?;
    let label = ctx.step("label", || print_label(&hold)).compensate(void_label).await?;
    ctx.step("charge", || charge(&order))
        .retry(Retry::fixed(Duration::from_millis(10)).attempts_max(3))
        .await?;
    Ok(label)
}

async fn reserve(order: &Order) -> goldseam::Result<String> {
    Ok(format!("hold on {}", order.item))
}

async fn release(_hold: String) -> goldseam::Result<()> {
    Ok(())
}

async fn print_label(hold: &str) -> goldseam::Result<String> {
    Ok(format!("label for {hold}"))
}

async fn void_label(_label: String) -> goldseam::Result<()> {
    Ok(())
}

async fn charge(order: &Order) -> goldseam::Result<()> {
    match order.card.as_str() {
        "good" => Ok(()),
        "slow" => Err(Error::retryable("the bank did not answer")),
        _ => Err(Error::terminal("card declined")),
    }
}

/// Runs the example on the store at `url`: pays one order, and undoes another.
pub(crate) async fn run(url: &str) -> goldseam::Result<String> {
    let engine = Engine::open(url).await?.workflow("checkout", checkout).start().await?;
    let order = |card: &str| Order { item: "a lamp".into(), card: card.into() };
    let paid = engine.start(checkout, "order-1", &order("good")).await?.result().await?;
    let undone = engine.start(checkout, "order-2", &order("stolen")).await?;
    let failure = match undone.result().await {
        Err(EngineError::Ended { status: Status::Failed, failure, .. }) => failure.message,
        other => format!("{other:?}"),
    };
    let history = undone.history().await?;
    let undoings =
        history.iter().filter(|recorded| recorded.event.name() == "compensation.completed").count();
    engine.shutdown().await;
    Ok(format!("{paid}; order-2: {failure}, {undoings} steps undone"))
}

#[tokio::main]
async fn main() -> goldseam::Result<()> {
    println!("{}", run("sqlite:order_saga.db").await?);
    Ok(())
}
