use goldseam::prelude::*;

async fn charge(cents: u64) -> goldseam::Result<String> {
    Ok(format!("paid {cents}"))
}

async fn checkout(ctx: Context, cents: u64) -> goldseam::Result<String> {
    ctx.step("charge", charge(cents)).await
}

fn main() {}
