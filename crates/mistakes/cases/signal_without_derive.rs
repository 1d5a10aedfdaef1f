use goldseam::prelude::*;

struct Paid {
    cents: u64,
}

async fn checkout(ctx: Context, _: ()) -> goldseam::Result<u64> {
    let paid: Paid = ctx.signal("paid").await?;
    Ok(paid.cents)
}

fn main() {}
