//! The fake server behaves as documented, seen through the client that stores use, and like real servers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod client;
mod faults;
mod peers;
mod traps;
