use goldseam::prelude::*;

struct Receipt {
    cents: u64,
}

async fn checkout(_: Context, cents: u64) -> goldseam::Result<Receipt> {
    Ok(Receipt { cents })
}

fn register(engine: goldseam::Builder) -> goldseam::Builder {
    engine.workflow("checkout", checkout)
}

fn main() {}
