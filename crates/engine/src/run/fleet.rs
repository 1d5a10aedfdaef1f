//! The version of a new run.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::WorkflowName;
use goldseam_core::version::UNDECIDED;

use crate::ledger::commit::Ledger;
use crate::ledger::config::{Config, Newest};
use crate::ledger::error::EngineError;
use crate::ledger::liveness::Thresholds;
use crate::ledger::retry::RetryWindow;
use crate::run::live_runs::LiveRuns;

/// Maximum age of a reading of the live nodes' versions: many starts share one reading.
const FRESH: Duration = Duration::from_secs(1);

impl LiveRuns {
    /// Returns the newest version of this process, otherwise the newest of a live node, otherwise [`UNDECIDED`]: the
    /// first claim decides.
    pub(crate) async fn newest_live(
        &self,
        ledger: &Ledger,
        workflow: &WorkflowName,
    ) -> Result<u32, EngineError> {
        if let Some(version) = self.newest(workflow) {
            return Ok(version);
        }
        Ok(self.newest_of_nodes(ledger).await?.get(workflow).copied().unwrap_or(UNDECIDED))
    }

    /// The newest versions of live nodes, by a recent reading.
    async fn newest_of_nodes(&self, ledger: &Ledger) -> Result<Arc<Newest>, EngineError> {
        let now = ledger.clock.elapsed();
        let pace = ledger.store.pace();
        if let Some(known) = self.fleet(now.saturating_sub(FRESH.max(pace.look_every))) {
            return Ok(known);
        }
        let thresholds = Thresholds::of(&Config::default().at_pace(&pace));
        let mut window = RetryWindow::new(ledger, "reading the nodes");
        let liveness = window.retry(ledger, || ledger.liveness(thresholds)).await?;
        let newest = Arc::new(liveness.newest());
        self.remember_fleet(now, Arc::clone(&newest));
        Ok(newest)
    }
}
