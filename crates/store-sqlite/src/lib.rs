//! The embedded default: everything in one SQLite file, beside it a folder of liveness locks.
//!
//! One thread writes, and all jobs that wait for it share one commit. Readers have their own connections and never wait
//! for the writer. Several processes may use one file.
//!
//! # Guarantees
//!
//! An acknowledged write survives a power cut (with `durability=process`: only the end of the process). `Busy` and
//! `Full` mean that nothing was done. After a failure of the disk, all further writes are refused.
//!
//! # Layout
//!
//! A module uses only modules of earlier rows, or of its own row.
//!
//! | layer | module | holds |
//! |---|---|---|
//! | basics | `clock`, [`url`] | the store's clock; `sqlite:PATH?durability=process`, [`SqliteOptions`] |
//! | | `fault`, `sql` | SQLite's error codes as [`StoreError`](goldseam_store::StoreError); values of columns |
//! | files | `files`, [`permissions`], `file_identity` | checks of files; permissions; replaced files |
//! | | `liveness` | the OS locks that end with a process |
//! | | `migrate`, `open` | the schema; connections |
//! | threads | `job_queue`, `run_numbers` | the queue of a thread; cached numbers of runs |
//! | | `notice`, `watch` | write notices of the system; waiting for changes |
//! | | `writer` | the one writer and its group commit |
//! | records | `rows`, `list`, `read` | cached rows; lists of runs; logs, and the reader threads |
//! | | `tasks`, `claim`, `append` | tasks; claims; compare-and-append |
//! | | `locks`, `nodes` | locks; beats |
//! | calls | `store`, `feed`, `audit` | [`SqliteStore`]; all events in one order; heals of tasks and locks |
//! | reports | [`check`], [`backup`] | `goldseam store check` and `migrate`; snapshots and manifests |
//! | tests | `testing` | stores for tests, and damage to them (feature `testing`) |

mod append;
mod audit;
pub mod backup;
pub mod check;
mod claim;
mod clock;
mod fault;
mod feed;
mod file_identity;
mod files;
mod job_queue;
mod list;
mod liveness;
mod locks;
mod migrate;
mod nodes;
mod notice;
mod open;
pub mod permissions;
mod read;
mod rows;
mod run_numbers;
mod search;
mod sql;
mod store;
mod tasks;
#[cfg(feature = "testing")]
pub mod testing;
mod unproven;
pub mod url;
mod watch;
mod writer;

#[cfg(test)]
mod tests;

pub use clock::system_clock;
pub use migrate::latest as schema_latest;
pub use store::SqliteStore;
pub use url::{Durability, SqliteOptions};
