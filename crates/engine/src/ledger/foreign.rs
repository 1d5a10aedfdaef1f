//! Options for foreign states: workflow states that other programs keep beside the runs.

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use goldseam_core::QueueName;
use goldseam_core::recovery::foreign::{ORCHESTRATE, TaskStanding};

use crate::ledger::config::default_queue;

/// How foreign states are healed.
#[derive(Debug, Clone)]
pub struct ForeignOptions {
    /// Queue of the tasks that healing creates.
    pub queue: QueueName,
    /// Kind of the tasks that healing creates.
    pub kind: String,
    /// Where the tasks that states name are looked up; none: in the store's own queue.
    pub lookup: Option<Arc<dyn TaskLookup>>,
}

impl Default for ForeignOptions {
    fn default() -> Self {
        Self { queue: default_queue(), kind: ORCHESTRATE.to_owned(), lookup: None }
    }
}

impl PartialEq for ForeignOptions {
    fn eq(&self, other: &Self) -> bool {
        let same = match (&self.lookup, &other.lookup) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        same && self.queue == other.queue && self.kind == other.kind
    }
}

impl Eq for ForeignOptions {}

/// The queue that foreign states belong to, if it is not the store's own.
#[async_trait]
pub trait TaskLookup: Debug + Send + Sync {
    /// Returns the state of the task that a foreign state names. If this fails, the sweeper skips the state and
    /// reports the
    /// error.
    async fn look_up(&self, task: &str) -> Result<TaskStanding, Box<dyn Error + Send + Sync>>;
}
