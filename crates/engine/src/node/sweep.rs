//! Every engine sweeps: what start-up and takeover do not see is found by looking over all active runs.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::recovery::Reason;

use super::Node;
use crate::healer::sweeper::{SweepOptions, SweepReport, Sweeper};

/// Pause between two batches of one sweep: a store with a million sleeping runs is not hurried.
const BETWEEN_BATCHES: Duration = Duration::from_millis(500);

impl Node {
    /// Sweeps at start-up, healing at once, then as often as configured.
    pub(super) async fn keep_sweeping(self: &Arc<Self>) {
        let Some(every) = self.config.sweep else { return };
        let options = SweepOptions { stale_after: Some(Duration::ZERO), ..SweepOptions::default() };
        let mut sweeper = Sweeper::new(self.healer(Reason::InfrastructureRestart), options);
        while !self.is_closed() && !self.hub().is_leaving() {
            match sweeper.tick().await {
                Ok(report) => {
                    self.tell(&report);
                    if report.more {
                        self.rest(BETWEEN_BATCHES).await;
                        continue;
                    }
                    // From now on a finding must have held: another node may be about to mend it.
                    sweeper.heal_after(None, Reason::StaleDetection);
                }
                Err(error) => tracing::warn!(node = %self.id, %error, "a sweep failed half-way"),
            }
            // Two nodes that started together do not sweep together for ever.
            let spread = every.mul_f64((self.ledger.entropy.next() % 1000) as f64 / 10_000.0);
            self.rest(every + spread).await;
        }
    }

    fn tell(&self, report: &SweepReport) {
        if report.healed > 0 || report.rows_rewritten > 0 {
            let (healed, rows) = (report.healed, report.rows_rewritten);
            tracing::info!(node = %self.id, healed, rows, "a sweep mended runs");
        }
    }
}
