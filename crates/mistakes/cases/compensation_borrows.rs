use goldseam::prelude::*;

async fn release(_customer: String, _hold: u64) -> goldseam::Result<()> {
    Ok(())
}

async fn checkout(ctx: Context, customer: String) -> goldseam::Result<u64> {
    let reserve = ctx.step("reserve", || async { Ok(17_u64) });
    reserve.compensate(|hold| release(customer.clone(), hold)).await
}

fn main() {}
