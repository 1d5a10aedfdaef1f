//! Object storage as the only dependency: everything in one prefix of an S3-compatible bucket.

mod append;
mod batch;
mod board;
mod bucket;
mod check;
mod claim;
mod clock;
mod connect;
mod fault;
mod foreign;
mod keyed;
mod keys;
mod lanes;
mod link;
mod locks;
mod log;
mod nodes;
mod open;
mod probe;
mod records;
mod rows;
mod runs;
mod store;
mod tally;
mod tasks;
#[cfg(feature = "testing")]
pub mod testing;
mod trial;
pub mod url;
mod walk;
mod watch;
mod write;

pub use check::{check, is_there, migrate};
pub use store::BucketStore;
pub use tally::Tally;
pub use url::{Options, Requests};
