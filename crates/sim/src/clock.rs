//! Virtual time: tokio's paused clock, seen through each node's own offset and drift.

pub use goldseam_engine::testing::{SimClock, TrueTime};
