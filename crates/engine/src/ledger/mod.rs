//! The store as the engine uses it: a clock, ids, limits, reads, and the single loop that writes.
//!
//! Does not know nodes, claims or workflow code.

pub mod clock;
pub mod commit;
pub mod config;
pub mod copy_mark;
pub(crate) mod delivery;
pub mod entropy;
pub mod error;
pub mod foreign;
pub mod liveness;
pub mod meter;
pub mod page;
mod patience;
pub(crate) mod process;
mod recall;
pub mod refusal;
pub(crate) mod retry;
pub mod salvage;
pub mod secrets;
pub(crate) mod spawn;
pub(crate) mod sync;
mod tasks;
