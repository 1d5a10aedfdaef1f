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
//! | [`url`], `connect`, `http` | `s3://BUCKET/PREFIX?…`; the way to the server; one thread for all requests |
//! | `open`, `probe` | is this prefix ours; does the server keep conditions |
//! | `bucket`, `fault`, `write_ids` | gets, conditional puts, lists; what an answer means; names for writes |
//! | `keys` | every key |
//! | `log`, `batch`, `append`, `trim` | the log; one object of it; compare-and-append and what follows; what is left of a log |
//! | `rows`, `list`, `full_scan` | cached rows; lists of them; what only a walk over everything finds |
//! | `records`, `tasks`, `idempotency_keys`, `lanes`, `locks` | records by compare-and-set; idempotency keys; lanes |
//! | `ready_index`, `claim` | what is to be looked at; claiming |
//! | `nodes`, `watch`, `clock` | beats; waiting for changes; the server's time |
//! | `foreign` | states of others |
//! | `archive` | a prefix for logs that were removed |
//! | `request_counter` | requests, counted |
//! | `check`, `soak_test` | `goldseam store check` |
//! | `testing` | a store to test with, and harm to it (feature `testing`) |

mod append;
mod archive;
mod batch;
mod bucket;
mod check;
mod claim;
mod clock;
mod connect;
mod fault;
mod foreign;
mod full_scan;
mod http;
mod idempotency_keys;
mod keys;
mod lanes;
mod list;
mod locks;
mod log;
mod nodes;
mod open;
mod probe;
mod ready_index;
mod records;
mod request_counter;
mod rows;
mod soak_test;
mod store;
mod tasks;
#[cfg(feature = "testing")]
pub mod testing;
mod trim;
mod unreadable;
pub mod url;
mod watch;
mod write_ids;

pub use archive::BucketArchive;
pub use check::{check, is_there, migrate};
pub use request_counter::Tally;
pub use store::BucketStore;
pub use url::{Options, Requests};
