//! Servers that restart, stop, become read-only or refuse logins. Each test has its own server.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod away;
mod deadline;
mod logs;
mod nodes;
mod refused;
mod replies;
mod support;
mod tls;
