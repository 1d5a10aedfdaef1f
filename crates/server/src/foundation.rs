//! What a server stands on besides its settings: the clock, a store that is open already, and settings of nodes.

use std::sync::Arc;

use goldseam::unstable::engine::{Clock, SystemClock};
use goldseam::unstable::store::Store;

/// What a server stands on, besides its settings.
#[derive(Debug)]
pub(crate) struct Foundation {
    pub(crate) clock: Arc<dyn Clock>,
    /// The main store, if it is open already.
    pub(crate) store: Option<Arc<dyn Store>>,
    /// Settings of the engine and of the nodes of workers, except limits and recovery.
    pub(crate) nodes: goldseam::Config,
}

impl Default for Foundation {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), store: None, nodes: goldseam::Config::default() }
    }
}
