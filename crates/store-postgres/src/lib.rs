//! Many machines: everything in one schema of a Postgres database.
//!
//! Every call is one statement, so it is one round trip, one transaction, and safe behind a pooler that shares
//! sessions. Appends that wait on a node at a moment go together. A node has at most six connections.
//!
//! # Guarantees
//!
//! An acknowledged write survives what the server's `synchronous_commit` survives. `Busy` and `Full` mean that
//! nothing was done; a reply that was lost is `Unknown`, never silently repeated. All time is the database's.
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | [`url`] | `postgres://…?schema=…&pooler=transaction`, [`Options`] |
//! | `open`, `migrate` | is this schema ours and whole; its tables and calls |
//! | `tls` | certificates |
//! | `connection` | one connection: made when needed, made again when lost |
//! | `writer` | what waits together is written together |
//! | `append` | compare-and-append |
//! | `rows`, `list` | cached rows: written; listed |
//! | `tasks`, `claim`, `locks` | queue and locks by compare-and-set |
//! | `nodes`, `liveness` | beats; the session whose locks die with the process |
//! | `read`, `watch` | reading; waiting for changes |
//! | `clock` | the database's time, between two calls |
//! | `fault` | SQLSTATEs as [`StoreError`](goldseam_store::StoreError) |
//! | [`check`] | `goldseam store check` and `migrate` |
//! | `testing` | a store to test with, and harm to it (feature `testing`) |

mod append;
pub mod check;
mod claim;
mod clock;
mod connection;
mod fault;
mod feed;
mod list;
mod liveness;
mod locks;
mod migrate;
mod nodes;
mod open;
mod read;
mod rows;
mod store;
mod tasks;
#[cfg(feature = "testing")]
pub mod testing;
mod tls;
pub mod url;
mod watch;
mod writer;

pub use migrate::latest as schema_latest;
pub use store::PostgresStore;
pub use url::Options;
