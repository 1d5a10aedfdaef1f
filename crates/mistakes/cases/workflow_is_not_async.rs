use goldseam::prelude::*;

fn greet(_: Context, name: String) -> goldseam::Result<String> {
    Ok(format!("Hello, {name}!"))
}

fn register(engine: goldseam::Builder) -> goldseam::Builder {
    engine.workflow("greet", greet)
}

fn main() {}
