//! Object storage as the only dependency: everything in one prefix of an S3-compatible bucket.
//!
//! A log is a sequence of objects with dense numbers, each created only if it does not exist. Everything else is one
//! object each, written only if it is unchanged since it was read. Every object has unique content, so a writer whose
//! response was lost reads the object and knows whether the write was its own.
//!
//! # Guarantees
//!
//! An append is done once its batch is stored, and survives what the bucket survives. Row, tasks and markers follow it;
//! rules rebuild what a crash loses of them. Correctness never depends on a list. All time is the server's.
//!
//! # Layout
//!
//! A module uses only modules of earlier rows, or of its own row.
//!
//! | layer | module | holds |
//! |---|---|---|
//! | basics | [`url`], `fault`, `clock` | `s3://BUCKET/PREFIX?…`; errors; the server's time |
//! | | `keys`, `write_ids`, `request_counter` | every key; write-ids; counts of requests |
//! | requests | `http`, `bucket`, `connect` | one thread for all requests; gets, conditional puts, lists; access keys |
//! | opening | `probe`, `open`, `archive` | tests of conditional writes; opening a prefix; archives |
//! | state | `batch`, `log` | one object of a log; where logs end |
//! | | `records`, `row_cache`, `beats`, `lane_table` | objects by compare-and-set; `state.json`; beats; lanes |
//! | | `feed_log`, `feed_state`, `audited_entries` | pages of the feed; what is known of the feed and of the audit |
//! | | `ready_index`, `full_scan`, `watch` | markers of ready tasks; full scans of `workflow/`; wakes waiters |
//! | | `inner` | all state of a store |
//! | operations | `idempotency_keys`, `tasks`, `lanes`, `claim` | keys, tasks and lanes; claims |
//! | | `rows`, `append`, `trim`, `list` | cached rows; compare-and-append; trims; lists of runs |
//! | | `locks`, `nodes`, `foreign`, `unreadable`, `polling` | locks; beats; foreign and unreadable objects; waiting |
//! | | `audit`, `feed` | heals of records without a log; all appends in one order |
//! | | `store` | [`BucketStore`] |
//! | reports | `soak_test`, `check` | `goldseam store check` |
//! | tests | `testing` | stores for tests, and damage to them (feature `testing`) |

mod append;
mod archive;
mod audit;
mod audited_entries;
mod batch;
mod beats;
mod bucket;
mod check;
mod claim;
mod clock;
mod connect;
mod fault;
mod feed;
mod feed_log;
mod feed_state;
mod foreign;
mod full_scan;
mod http;
mod idempotency_keys;
mod inner;
mod keys;
mod lane_table;
mod lanes;
mod list;
mod locks;
mod log;
mod nodes;
mod open;
mod polling;
mod probe;
mod ready_index;
mod records;
mod request_counter;
mod row_cache;
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
pub use check::{check, exists, migrate};
pub use request_counter::RequestCounts;
pub use store::BucketStore;
pub use url::{BucketOptions, RequestCost};
