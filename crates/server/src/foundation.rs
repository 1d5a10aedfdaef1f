//! What a server stands on besides its settings: the clock, and a store that is open already.

use std::sync::Arc;

use goldseam::unstable::engine::{Clock, SystemClock};
use goldseam::unstable::store::Store;

/// What a server stands on, besides its settings.
#[derive(Debug)]
pub(crate) struct Foundation {
    pub(crate) clock: Arc<dyn Clock>,
    /// The main store, if it is open already.
    pub(crate) store: Option<Arc<dyn Store>>,
}

impl Default for Foundation {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), store: None }
    }
}
