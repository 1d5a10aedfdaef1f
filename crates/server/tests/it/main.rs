//! A real server on a real store, asked over HTTP.

mod bad_input;
mod described;
mod desk;
mod followed;
mod healing;
mod keys;
mod matrix;
mod place;
mod runs;
#[expect(dead_code, reason = "shared with the engine's own tests, which need more of it")]
#[path = "../../../goldseam/tests/it/support.rs"]
mod support;
mod tasks;
#[path = "../../../goldseam/tests/it/workers/mod.rs"]
mod workers;
