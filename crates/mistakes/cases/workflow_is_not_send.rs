use std::rc::Rc;

use goldseam::prelude::*;

async fn checkout(ctx: Context, cents: u64) -> goldseam::Result<u64> {
    let shared = Rc::new(cents);
    ctx.sleep("a-moment", secs(1)).await?;
    Ok(*shared)
}

fn register(engine: goldseam::Builder) -> goldseam::Builder {
    engine.workflow("checkout", checkout)
}

fn main() {}
