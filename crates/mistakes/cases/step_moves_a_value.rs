use goldseam::prelude::*;

async fn charge(_card: String) -> goldseam::Result<()> {
    Ok(())
}

async fn checkout(ctx: Context, card: String) -> goldseam::Result<()> {
    ctx.step("charge", || charge(card)).await
}

fn main() {}
