#![deny(unused_must_use)]

use goldseam::prelude::*;

async fn checkout(ctx: Context, _: ()) -> goldseam::Result<()> {
    ctx.step("charge", || async { Ok(()) });
    ctx.signal::<u64>("paid");
    Ok(())
}

fn main() {}
