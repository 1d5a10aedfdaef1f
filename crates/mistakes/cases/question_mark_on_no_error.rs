use goldseam::prelude::*;

struct Declined;

fn charge() -> Result<String, Declined> {
    Err(Declined)
}

async fn checkout(_: Context, _: ()) -> goldseam::Result<String> {
    let receipt = charge()?;
    Ok(receipt)
}

fn main() {}
