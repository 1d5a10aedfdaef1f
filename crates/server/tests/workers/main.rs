//! Workflows that run in another process, over HTTP: the same client, tests and vectors as against the engine itself.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;
#[expect(dead_code, reason = "shared with the engine's own tests, which need more of it")]
#[path = "../../../goldseam/tests/it/support.rs"]
mod support;
#[path = "../../../goldseam/tests/it/workers/mod.rs"]
mod workers;
