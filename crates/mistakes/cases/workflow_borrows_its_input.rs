use goldseam::prelude::*;

async fn greet(_: Context, name: &str) -> goldseam::Result<String> {
    Ok(format!("Hello, {name}!"))
}

fn register(engine: goldseam::Builder) -> goldseam::Builder {
    engine.workflow("greet", greet)
}

fn main() {}
