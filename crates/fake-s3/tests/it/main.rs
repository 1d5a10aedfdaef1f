//! The fake does what it says, as seen through the client that stores use; and real servers do what it does.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod client;
mod faults;
mod peers;
mod traps;
