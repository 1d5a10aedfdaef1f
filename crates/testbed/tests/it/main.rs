//! Servers respond, fail on demand, and leave nothing behind.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod gone;
mod pgbouncer;
mod postgres;
mod s3;
