//! The interface on a real SQLite store.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod documents;
mod idempotency;
mod limits;
mod next_steps;
mod operations;
mod prune;
#[cfg(feature = "remote")]
mod remote;
mod support;
