//! The interface between Goldseam and the storage of its data.
//!
//! A [`Store`] keeps logs, cached rows, tasks, locks and node records. It never decides: payloads are opaque text,
//! and everything that it must index is in a [`Summary`](goldseam_core::Summary). The conformance suite
//! (`goldseam-conformance`) is the contract; the memory store is its reference implementation.
//!
//! # Layout
//!
//! A module uses only modules of its own layer and of the layers above it.
//!
//! | layer | module | holds |
//! |---|---|---|
//! | values | [`error`] | [`StoreError`], named by the caller's next action |
//! | | [`clock`], [`pace`], [`sync`] | clocks as values; how often a store may be asked; locking |
//! | | [`change_mark`] | wakes waiters after a change |
//! | | `url_redact`, [`splitmix`] | URLs without secrets; reproducible random numbers |
//! | records | [`types`] with `filter` and [`cursor`] | records, filters and conditions |
//! | | [`check`], [`schema`] | reports of checking a store; migrations |
//! | | [`sql_list`] | lists of runs in a database |
//! | interfaces | [`feed`], [`foreign`], [`archive`], [`audit`] | all appends in one order; states of another system; archives; heals of records without a log |
//! | | [`api`] | the [`Store`] trait |
//! | reference | [`memory`] | the store for tests and simulation |
//! | wrappers | [`faulty`], [`traced`], [`read_only`] | faults on demand; calls as spans; no writes |
//! | | [`crash_points`] | crash points (feature `crash-points`) |

pub mod api;
pub mod archive;
pub mod audit;
pub mod backoff;
pub mod change_mark;
pub mod check;
pub mod clock;
pub mod crash_points;
pub mod cursor;
pub mod error;
pub mod faulty;
pub mod feed;
mod filter;
pub mod foreign;
mod forward;
pub mod memory;
pub mod pace;
pub mod read_only;
pub mod schema;
pub mod splitmix;
pub mod sql_list;
pub mod sql_search;
pub mod sync;
pub mod traced;
pub mod types;
pub mod unproven;
mod url_redact;

pub use api::Store;
pub use archive::Archive;
pub use audit::{AuditEntry, AuditFilter, AuditKind, AuditLog};
pub use change_mark::ChangeMark;
pub use clock::{ClockFn, ManualClock};
pub use cursor::{BoundList, Cursor, OrderKey};
pub use error::StoreError;
pub use faulty::FaultyStore;
pub use feed::{ChangedRuns, Feed, FeedEvent};
pub use foreign::{ForeignState, ForeignStates};
pub use memory::MemoryStore;
pub use pace::StorePace;
pub use read_only::{Closed, ClosedStore};
pub use schema::{Migration, OpenMode};
pub use traced::TracedStore;
pub use types::{
    Append, ClaimRequest, ClaimedTasks, Expect, GroupQuery, Groups, Head, LockFilter, NodeRecord, NodeSeen,
    NodeState, Page, Pulse, Record, RecordKind, Row, RunFilter, RunOrder, TaskChange, TaskFilter, Timing,
    Unproven, UnprovenFilter, UnprovenScope, Unreadable, Written,
};
pub use url_redact::{shown_url, url_secrets};
