//! Signals: a wait with a timeout, a wait for the first of several, and a signal that comes before the run waits.
//!
//! `cargo run -p goldseam --example signals`

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use goldseam::prelude::*;

const ORDER: Workflow<Duration, String> = Workflow::named("order");

async fn order(ctx: Context, patience: Duration) -> goldseam::Result<String> {
    let address: String = ctx.signal("address").await?;
    let note = match ctx.signal::<String>("gift-note").timeout(patience).await {
        Err(error) if error.is_timeout() => "no note".to_owned(),
        note => note?,
    };
    let end = match ctx.select("end").signal("paid").signal("called-off").timeout(patience).await? {
        Selected::Signal { name, payload } if name.as_str() == "paid" => {
            format!("paid {}", payload.read::<u32>()?)
        }
        Selected::Signal { .. } => "called off".to_owned(),
        _ => "expired".to_owned(),
    };
    Ok(format!("{address}: {note}, {end}"))
}

/// Runs the example on the store at `url`: one order gets all signals, the other only an address.
pub(crate) async fn run(url: &str) -> goldseam::Result<String> {
    // No engine runs yet. The signals are kept until the runs wait for them.
    let client = Client::new(goldseam::open_store(url).await?);
    let prompt = client.start(&ORDER, "order-1", &hours(1)).await?;
    let slow = client.start(&ORDER, "order-2", &Duration::from_millis(20)).await?;
    // If the example runs a second time, the runs have ended and refuse signals.
    let _ = prompt.signal("paid", &12).await;
    let _ = prompt.signal("gift-note", "for Ada").await;
    let _ = prompt.signal("address", "Kyoto").await;
    let _ = slow.signal("address", "Oslo").await;
    let engine = Engine::open(url).await?.workflow("order", order).start().await?;
    let results = (prompt.result().await?, slow.result().await?);
    engine.shutdown().await;
    Ok(format!("{}; {}", results.0, results.1))
}

#[tokio::main]
async fn main() -> goldseam::Result<()> {
    println!("{}", run("sqlite:signals.db").await?);
    Ok(())
}
