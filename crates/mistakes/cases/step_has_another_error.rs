use goldseam::prelude::*;

async fn read(path: &str) -> std::io::Result<String> {
    std::fs::read_to_string(path)
}

async fn import(ctx: Context, path: String) -> goldseam::Result<String> {
    ctx.step("read", || read(&path)).await
}

fn main() {}
