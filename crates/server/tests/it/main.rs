//! A real server on a real store, asked over HTTP.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_input;
mod described;
mod desk;
mod followed;
mod fuzzed;
mod guide;
mod healing;
mod hostile;
mod keys;
mod leaving;
mod matrix;
mod memory;
mod passes;
mod place;
mod protocol;
mod proxied;
mod pruned;
mod repeats;
mod revoked;
mod runs;
mod secrets;
mod secured;
mod shares;
mod stores;
#[expect(dead_code, reason = "shared with the engine's own tests, which need more of it")]
#[path = "../../../goldseam/tests/it/support.rs"]
mod support;
mod tasks;
mod traced;
#[path = "../../../goldseam/tests/it/workers/mod.rs"]
mod workers;
