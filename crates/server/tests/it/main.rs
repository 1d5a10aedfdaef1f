//! Tests of a running server over HTTP.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_input;
mod client_limits;
mod credentials;
mod dashboard;
mod description;
mod dialogue;
mod example;
mod fairness;
mod fuzz;
mod guide;
mod healing;
mod idempotency;
mod interface;
mod key_rights;
mod keys;
mod metrics;
mod passes;
mod place;
mod protocol;
mod proxies;
mod prune;
mod revocation;
mod runs;
mod search;
mod secrets;
mod shutdown;
mod stores;
mod streams;
#[expect(dead_code, reason = "shared with the engine's own tests, which need more of it")]
#[path = "../../../goldseam/tests/it/support.rs"]
mod support;
mod tasks;
mod test_server;
mod tls;
mod traces;
#[path = "../../../goldseam/tests/it/workers/mod.rs"]
mod workers;
