//! The store as the engine uses it: a clock, ids, limits, reads, and the single loop that writes.
//!
//! Does not know nodes, claims or workflow code.

pub(crate) mod announce;
pub mod archive;
pub mod clock;
pub mod commit;
pub mod config;
pub mod copy_mark;
pub mod dialogue;
pub mod entropy;
pub mod error;
pub mod foreign;
pub mod liveness;
pub mod meter;
pub(crate) mod open_name;
pub mod page;
pub(crate) mod process;
mod read;
pub mod refusal;
pub mod retry;
pub mod salvage;
pub mod secrets;
pub mod settings;
pub mod spawn;
pub(crate) mod start_options;
pub mod step_defaults;
pub(crate) mod sync;
mod tasks;
pub mod workflow_error;
mod write;

use std::sync::Arc;

use goldseam_core::Limits;
use goldseam_store::Store;

use clock::{Clock, StoreTime};
use entropy::Entropy;
use meter::Meter;
use process::Process;
pub use read::Loaded;
use secrets::Secrets;
pub(crate) use write::{Next, Prepared, Source, Tried};

/// The store with everything that reading and writing runs takes: a clock, randomness, and bounds. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Ledger {
    /// The store beneath.
    pub store: Arc<dyn Store>,
    /// The clock of this process, set by the store's.
    pub clock: Arc<dyn Clock>,
    /// The source of write ids.
    pub entropy: Arc<dyn Entropy>,
    /// Bounds of everything that is written.
    pub limits: Arc<Limits>,
    /// The clock above, in a process that has no heartbeat to set it by.
    pub(crate) asks: Option<Arc<StoreTime>>,
    pub(crate) meter: Meter,
    pub(crate) process: Arc<dyn Process>,
    pub(crate) secrets: Arc<Secrets>,
}
