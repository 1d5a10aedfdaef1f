//! The embedded default: everything in one SQLite file, beside it a folder of liveness locks.
//!
//! One thread writes, and whatever waits for it at a moment shares one commit; readers have their
//! own connections and never wait for it. Several processes may use one file.
//!
//! # Guarantees
//!
//! An acknowledged write survives a power cut (`durability=process`: the end of the process only).
//! `Busy` and `Full` mean that nothing was done; after a failure of the disk nothing more is written.
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | [`url`] | `sqlite:PATH?durability=process`, [`Options`] |
//! | `open`, `migrate` | is this file ours and whole; its schema |
//! | [`private`] | files that only their owner may read |
//! | `writer`, `job_queue` | the one writer and its group commit |
//! | `append` | compare-and-append |
//! | `rows`, `list` | cached rows: written; listed |
//! | `tasks`, `claim`, `locks` | queue and locks by compare-and-set |
//! | `nodes` | beats and the OS locks that die with a process |
//! | `read`, `watch`, `feed` | reading; waiting for changes; everything in one order |
//! | `fault` | SQLite's error codes as [`StoreError`](goldseam_store::StoreError) |
//! | [`check`] | `goldseam store check` and `migrate` |
//! | `testing` | a store to test with, and harm to it (feature `testing`) |

mod append;
pub mod check;
mod claim;
mod clock;
mod fault;
mod feed;
mod file_identity;
mod job_queue;
mod list;
mod locks;
mod migrate;
mod nodes;
mod notice;
mod open;
pub mod private;
mod read;
mod rows;
mod store;
mod tasks;
#[cfg(feature = "testing")]
pub mod testing;
pub mod url;
mod watch;
mod writer;

#[cfg(test)]
mod tests;

pub use clock::system_clock;
pub use migrate::latest as schema_latest;
pub use store::SqliteStore;
pub use url::{Durability, Options};
