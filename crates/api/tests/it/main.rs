//! The interface on a real SQLite store.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod documents;
mod idempotency;
mod limits;
#[cfg(feature = "remote")]
mod remote;
mod support;
