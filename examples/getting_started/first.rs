use goldseam::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
struct Order {
    item: String,
    cents: u64,
}

async fn checkout(ctx: Context, order: Order) -> goldseam::Result<String> {
    let hold = ctx.step("reserve", || reserve(&order)).await?;
    let payment = ctx.step("charge", || charge(&order)).await?;
    ctx.step("ship", || ship(&hold, &payment)).await
}

async fn reserve(order: &Order) -> goldseam::Result<String> {
    println!("reserving a {}", order.item);
    Ok(format!("{} 17", order.item))
}

async fn charge(order: &Order) -> goldseam::Result<String> {
    println!("charging {} cents …", order.cents);
    tokio::time::sleep(secs(5)).await; // a slow bank
    println!("charged");
    Ok(format!("{} cents", order.cents))
}

async fn ship(hold: &str, payment: &str) -> goldseam::Result<String> {
    println!("shipping {hold}");
    Ok(format!("shipped {hold} for {payment}"))
}

#[tokio::main]
async fn main() -> goldseam::Result<()> {
    let engine = Engine::open("sqlite:goldseam.db").await?.workflow("checkout", checkout).start().await?;
    let order = Order { item: "lamp".into(), cents: 4200 };
    let run = engine.start(checkout, "order-1", &order).await?;
    println!("{}", run.result().await?);
    engine.shutdown().await;
    Ok(())
}
