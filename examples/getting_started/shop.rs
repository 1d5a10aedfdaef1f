use goldseam::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
struct Order {
    item: String,
    cents: u64,
}

#[derive(Serialize, Deserialize)]
struct Address {
    name: String,
    city: String,
}

async fn checkout(ctx: Context, order: Order) -> goldseam::Result<String> {
    let hold = ctx.step("reserve", || reserve(&order)).await?;

    // At most five attempts, one second apart.
    let retry = Retry::fixed(secs(1)).attempts_max(5);
    ctx.step_with("charge", |attempt| charge(&order, attempt)).retry(retry).await?;

    // A message from outside. The run waits as long as it takes.
    let to: Address = ctx.signal("address").await?;

    // A question to a person.
    let wrap: bool = ctx.ask("wrap", format!("Is the {} a gift?", order.item)).await?;

    ctx.step("ship", || ship(&hold, &to, wrap)).await
}

async fn reserve(order: &Order) -> goldseam::Result<String> {
    println!("reserving a {}", order.item);
    Ok(format!("{} 17", order.item))
}

async fn charge(order: &Order, attempt: Attempt) -> goldseam::Result<()> {
    println!("charging {} cents, attempt {}", order.cents, attempt.number());
    if attempt.number() < 3 {
        return Err(Error::retryable("the bank is busy"));
    }
    // A real bank gets `attempt.idempotency_key()`, which is the same for every attempt.
    Ok(())
}

async fn ship(hold: &str, to: &Address, wrap: bool) -> goldseam::Result<String> {
    let what = if wrap { format!("{hold} in gift wrap") } else { hold.to_owned() };
    println!("shipping {what}");
    Ok(format!("shipped {what} to {}, {}", to.name, to.city))
}

#[tokio::main]
async fn main() -> goldseam::Result<()> {
    let engine = Engine::open("sqlite:goldseam.db").await?.workflow("checkout", checkout).start().await?;
    let order = Order { item: "lamp".into(), cents: 4200 };
    let run = engine.start(checkout, "order-2", &order).await?;
    println!("{}", run.result().await?);
    engine.shutdown().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use goldseam::testing::Tester;

    use super::*;

    #[test]
    fn checkout_survives_every_crash() {
        let order = Order { item: "lamp".into(), cents: 4200 };
        let to = Address { name: "Ada".into(), city: "Kyoto".into() };
        let report = Tester::new(|engine, _| engine.workflow("checkout", checkout))
            .run("checkout", &order)
            .signal("address", &to)
            .answer("wrap", &true)
            .every_crash()
            .unwrap();
        assert_eq!(report.outcome::<String>().unwrap(), "shipped lamp 17 in gift wrap to Ada, Kyoto");
        assert!(report.crashes() > 10);
    }
}
