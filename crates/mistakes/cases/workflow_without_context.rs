use goldseam::prelude::*;

async fn checkout(cents: u64) -> goldseam::Result<u64> {
    Ok(cents)
}

fn register(engine: goldseam::Builder) -> goldseam::Builder {
    engine.workflow("checkout", checkout)
}

fn main() {}
