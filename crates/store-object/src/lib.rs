//! Object storage as the only dependency: everything in one prefix of an S3-compatible bucket.
//!
//! A log is a row of objects with dense numbers, each written only if it is not there; everything else is one object
//! each, written only if it is as it was read. No answer that was lost is guessed at: no two writes have the same
//! content, so whoever looks knows whose it is.
//!
//! # Guarantees
//!
//! An append is done once its batch is there, and survives what the bucket survives. The row, the tasks and the markers
//! by which they are found follow it; what a crash loses of them, rules rebuild. Nothing that must be so depends on a
//! list. All time is the server's.
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | [`url`], `connect`, `link` | `s3://BUCKET/PREFIX?…`; the way to the server; one thread for all requests |
//! | `open`, `probe` | is this prefix ours; does the server keep conditions |
//! | `bucket`, `fault`, `write` | gets, conditional puts, lists; what an answer means; names for writes |
//! | `keys` | every key |
//! | `log`, `batch`, `append`, `trim` | the log; one object of it; compare-and-append and what follows; what is left of a log |
//! | `rows`, `runs`, `walk` | cached rows; lists of them; what only a walk over everything finds |
//! | `records`, `tasks`, `keyed`, `lanes`, `locks` | records by compare-and-set; idempotency keys; lanes |
//! | `board`, `claim` | what is to be looked at; claiming |
//! | `nodes`, `watch`, `clock` | beats; waiting for changes; the server's time |
//! | `foreign` | states of others |
//! | `archive` | a prefix for logs that were removed |
//! | `tally` | requests, counted |
//! | `check`, `trial` | `goldseam store check` |
//! | `testing` | a store to test with, and harm to it (feature `testing`) |

mod append;
mod archive;
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
mod trim;
mod unreadable;
pub mod url;
mod walk;
mod watch;
mod write;

pub use archive::BucketArchive;
pub use check::{check, is_there, migrate};
pub use store::BucketStore;
pub use tally::Tally;
pub use url::{Options, Requests};
