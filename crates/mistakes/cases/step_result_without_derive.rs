use goldseam::prelude::*;

struct Hold {
    id: u64,
}

async fn reserve() -> goldseam::Result<Hold> {
    Ok(Hold { id: 17 })
}

async fn checkout(ctx: Context, _: ()) -> goldseam::Result<u64> {
    let hold = ctx.step("reserve", || reserve()).retry(Retry::exponential()).await?;
    Ok(hold.id)
}

fn main() {}
