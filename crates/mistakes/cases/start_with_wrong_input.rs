use goldseam::prelude::*;

async fn checkout(_: Context, order: String) -> goldseam::Result<String> {
    Ok(order)
}

async fn begin(engine: &Engine) -> goldseam::Result<String> {
    let cents: u32 = 4200;
    let run = engine.start(checkout, "order-1", &cents).await?;
    Ok(run.id().to_string())
}

fn main() {}
