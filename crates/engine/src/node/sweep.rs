//! Sweeps of an engine: find stalled runs that start-up and takeover do not see.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::recovery::{CATALOGUE, Code, Detector, Reason};

use super::Node;
use crate::heal::monitor::Monitor;
use crate::heal::sweeper::{Fate, SweepOptions, SweepReport, Sweeper};

/// Pause between two batches of one sweep, to limit the load on the store.
const BETWEEN_BATCHES: Duration = Duration::from_millis(500);

impl Node {
    /// Sweeps at start-up, healing at once, then as often as configured.
    pub(super) async fn keep_sweeping(self: &Arc<Self>) {
        let Some(every) = self.config.sweep else { return };
        let stale_after = Some(Duration::ZERO);
        let foreign = self.config.foreign.clone();
        let walk = self.config.walks(&self.pace);
        // Where each read is a request, even the first sweep reads only a slice.
        let slice = self.config.walk_slice(&self.pace, every);
        let is_remote = !self.pace.sweep.is_zero();
        let options = SweepOptions {
            stale_after,
            foreign,
            walk,
            slice: is_remote.then(|| slice.clone()),
            ..SweepOptions::default()
        };
        let mut sweeper = Sweeper::new(self.healer(Reason::InfrastructureRestart), options);
        let mut found: Vec<Code> = Vec::new();
        while !self.is_closed() && !self.live_runs().is_leaving() {
            match sweeper.tick().await {
                Ok(report) => {
                    self.log_report(&report);
                    found.extend(report.stalled.iter().map(|stalled| stalled.found.diagnosis.rule));
                    if report.more {
                        self.rest(BETWEEN_BATCHES).await;
                        continue;
                    }
                    self.ledger.meter.swept();
                    for rule in CATALOGUE.iter().filter(|rule| matches!(rule.detector, Detector::Run(_))) {
                        let count = found.iter().filter(|found| **found == rule.code).count();
                        self.ledger.meter.findings(rule.code.as_str(), count as u64);
                    }
                    found.clear();
                    // From now on a finding must hold for a while: another node may be about to heal it.
                    sweeper.heal_after(None, Reason::StaleDetection);
                    if self.ledger.store.watches() {
                        sweeper.read_slices(Some(slice.clone()));
                    }
                }
                Err(error) => tracing::warn!(node = %self.id, %error, "sweep failed"),
            }
            // Spread the sweeps of nodes that started together.
            let spread = every.mul_f64((self.ledger.entropy.next() % 1000) as f64 / 10_000.0);
            self.rest(every + spread).await;
        }
    }

    /// Gives up remote steps of silent workers, as often as configured.
    pub(super) async fn keep_monitoring(self: &Arc<Self>) {
        let healer = self.healer(Reason::StaleDetection);
        let mut monitor = Monitor::new(healer, self.config.monitor_batch);
        while !self.is_closed() && !self.live_runs().is_leaving() {
            match monitor.tick().await {
                Ok(report) if report.more => {}
                Ok(_) => self.rest(self.config.monitor).await,
                Err(error) => {
                    tracing::warn!(node = %self.id, %error, "failed to search for silent remote steps");
                    self.rest(self.config.monitor).await;
                }
            }
        }
    }

    fn log_report(&self, report: &SweepReport) {
        if report.healed > 0 || report.rows_rewritten > 0 {
            let healed = report.healed;
            let rows = report.rows_rewritten;
            tracing::info!(node = %self.id, healed, rows, "sweep healed runs");
        }
        for name in report.foreign.iter().flat_map(|foreign| &foreign.unnamed) {
            tracing::warn!(name, "skipping foreign state: its name is not a valid run id");
        }
        for failed in report.foreign.iter().flat_map(|foreign| &foreign.stalled) {
            if let Fate::Failed(error) = &failed.fate {
                tracing::warn!(id = %failed.id, error, "failed to heal foreign workflow state");
            }
        }
    }
}
