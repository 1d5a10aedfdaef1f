//! The versions that a start takes in a process that does not have the workflow itself.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::WorkflowName;
use goldseam_core::recovery::Reason;
use goldseam_core::version::UNDECIDED;

use crate::commit::{Ledger, Patience};
use crate::config::Config;
use crate::error::EngineError;
use crate::healer::{Healer, Rules};
use crate::node::Newest;

/// How old a look at all nodes may be that a start goes by: many starts share one look.
const FRESH: Duration = Duration::from_secs(1);

impl Ledger {
    /// The version that a new run begins with: the newest of this process, else the newest that a live node has, else
    /// undecided: the first claim decides it.
    pub(crate) async fn newest(&self, workflow: &WorkflowName) -> Result<u32, EngineError> {
        if let Some(version) = self.hub.newest(workflow) {
            return Ok(version);
        }
        Ok(self.fleet().await?.get(workflow).copied().unwrap_or(UNDECIDED))
    }

    /// The newest versions that live nodes have, as they were a moment ago.
    async fn fleet(&self) -> Result<Arc<Newest>, EngineError> {
        let (now, pace) = (self.clock.elapsed(), self.store.pace());
        if let Some(known) = self.hub.fleet(now.saturating_sub(FRESH.max(pace.look_every))) {
            return Ok(known);
        }
        let rules = Rules::of(&Config::default().at_pace(&pace));
        let healer = Healer::new(self.clone(), rules, Reason::Manual);
        let liveness = Patience::new(self, "a look at all nodes").insist(self, || healer.liveness()).await?;
        let newest = Arc::new(liveness.newest());
        self.hub.remember_fleet(now, Arc::clone(&newest));
        Ok(newest)
    }
}
