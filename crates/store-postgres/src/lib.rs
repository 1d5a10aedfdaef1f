//! Many machines: everything in one schema of a Postgres database.
//!
//! Every call is one statement: one round trip, one transaction, and safe behind a pooler that shares sessions. Appends
//! that wait on a node at the same moment share a transaction. A node has at most six connections.
//!
//! # Guarantees
//!
//! An acknowledged write survives what the server's `synchronous_commit` survives. `Busy` and `Full` mean that nothing
//! was done. A lost response is `Unknown`, and the write is never silently repeated. All time is the database's.
//!
//! # Layout
//!
//! A module uses only modules of earlier rows, or of its own row.
//!
//! | layer | module | holds |
//! |---|---|---|
//! | basics | [`url`], `clock` | `postgres://…?schema=…&pooler=transaction`, [`PostgresOptions`]; the database's time |
//! | | `fault`, `sql` | SQLSTATEs as [`StoreError`](goldseam_store::StoreError); columns, statements |
//! | | `watch`, `advisory_lock` | waiting for changes; keys of advisory locks |
//! | connections | `tls`, `connection` | certificates; connections that are opened again when lost |
//! | | `liveness` | the session whose locks end with the process |
//! | | `migrate`, `open` | tables and functions; opening a schema |
//! | | `write_context`, `writer` | what all writes share; group writes |
//! | records | `rows`, `list`, `read` | cached rows; lists of runs; logs |
//! | | `tasks`, `claim`, `append` | tasks; claims; compare-and-append |
//! | | `locks`, `nodes` | locks; beats |
//! | calls | `store`, `feed`, `audit` | [`PostgresStore`]; all events in one order; heals of tasks and locks |
//! | reports | [`check`] | `goldseam store check` and `migrate` |
//! | tests | `testing` | stores for tests, and damage to them (feature `testing`) |

mod advisory_lock;
mod append;
mod audit;
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
mod search;
mod sql;
mod store;
mod tasks;
#[cfg(feature = "testing")]
pub mod testing;
mod tls;
mod unproven;
pub mod url;
mod watch;
mod write_context;
mod writer;

pub use migrate::latest as schema_latest;
pub use store::PostgresStore;
pub use url::PostgresOptions;
