//! Object storage as the only dependency: everything in one prefix of an S3-compatible bucket.
#![expect(dead_code, reason = "being built")]

mod bucket;
mod clock;
mod connect;
mod fault;
mod link;
mod tally;
mod url;
mod write;

pub use tally::Tally;
pub use url::{Options, is_ours, parse};
