//! A server that restarts, goes away, becomes read-only, lets nobody in: each test has one of its own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod away;
mod deadline;
mod logs;
mod nodes;
mod refused;
mod replies;
mod support;
mod tls;
