use goldseam::prelude::*;

struct Order {
    cents: u64,
}

async fn checkout(_: Context, order: Order) -> goldseam::Result<u64> {
    Ok(order.cents)
}

fn register(engine: goldseam::Builder) -> goldseam::Builder {
    engine.workflow("checkout", checkout)
}

fn main() {}
