//! Reaching a bucket: on real servers, as they are and as they should not be.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod accepted;
mod damage;
mod faults;
mod feed;
mod refused;
mod support;
