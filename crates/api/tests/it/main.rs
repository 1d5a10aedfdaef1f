//! The interface on a real SQLite store.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod documents;
mod limits;
mod once;
#[cfg(feature = "remote")]
mod remote;
mod support;
