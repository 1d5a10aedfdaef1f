//! Object storage as the only dependency: everything in one prefix of an S3-compatible bucket.
#![expect(dead_code, reason = "being built")]

mod bucket;
mod clock;
mod fault;
mod tally;
mod write;

pub use tally::Tally;
