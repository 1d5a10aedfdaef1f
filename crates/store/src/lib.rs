//! The seam between Goldseam and whatever keeps its bytes.
//!
//! A store is dumb: payloads are opaque text, what must be indexed travels in a
//! [`Summary`](goldseam_core::Summary), and it never decides. One conformance suite is the
//! contract; the memory store is its executable form.
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | [`api`] | the [`Store`] trait and its types |
//! | [`error`] | [`StoreError`], named by the caller's next move |
//! | [`cursor`], [`clock`] | where a page of runs ends; a clock that tests move |
//! | [`feed`] | everything that is appended to any log, in one order |
//! | [`foreign`] | states that somebody else keeps in the same place |
//! | [`pace`] | how often a store wants to be asked |
//! | [`check`] | what looking a store over reports |
//! | [`memory`] | the reference store, for tests and simulation |
//! | [`faulty`], [`traced`], [`closed`] | wrappers: every fault on demand; every call as a span; no writes at all |
//! | [`dying`] | places at which a process that is told to dies by SIGKILL (feature `crash-points`) |
//! | `conformance` | the cases that every store must pass (feature `conformance`) |

pub mod api;
pub mod archive;
pub mod backoff;
pub mod check;
pub mod clock;
pub mod closed;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod cursor;
pub mod dying;
pub mod error;
pub mod faulty;
pub mod feed;
mod filter;
pub mod foreign;
pub mod memory;
pub mod pace;
mod shown;
mod splitmix;
pub mod traced;

pub use api::{
    Append, Claim, ClaimedTasks, Expect, Head, LockFilter, NodeRecord, NodeSeen, NodeState, Page, Pulse,
    Record, RecordKind, Row, RunFilter, RunOrder, Store, TaskChange, TaskFilter, Unreadable, Written,
};
pub use archive::Archive;
pub use clock::{Clock, ManualClock};
pub use closed::{Closed, ClosedStore};
pub use cursor::{Cursor, Moment};
pub use error::StoreError;
pub use faulty::FaultyStore;
pub use feed::{Fed, Feed, Stirred};
pub use foreign::{ForeignState, ForeignStates};
pub use memory::MemoryStore;
pub use pace::Pace;
pub use shown::{shown_url, url_secrets};
pub use traced::TracedStore;
