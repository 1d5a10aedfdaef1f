//! Every engine sweeps: what start-up and takeover do not see is found by looking over all active runs.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::recovery::{CATALOGUE, Code, Detector, Reason};

use super::Node;
use crate::heal::monitor::Monitor;
use crate::heal::sweeper::{Fate, SweepOptions, SweepReport, Sweeper};

/// Pause between two batches of one sweep: a store with a million sleeping runs is not hurried.
const BETWEEN_BATCHES: Duration = Duration::from_millis(500);

impl Node {
    /// Sweeps at start-up, healing at once, then as often as configured.
    pub(super) async fn keep_sweeping(self: &Arc<Self>) {
        let Some(every) = self.config.sweep else { return };
        let (stale_after, foreign) = (Some(Duration::ZERO), self.config.foreign.clone());
        let walk = self.config.walks(&self.pace);
        let options = SweepOptions { stale_after, foreign, walk, ..SweepOptions::default() };
        let mut sweeper = Sweeper::new(self.healer(Reason::InfrastructureRestart), options);
        let mut found: Vec<Code> = Vec::new();
        while !self.is_closed() && !self.live_runs().is_leaving() {
            match sweeper.tick().await {
                Ok(report) => {
                    self.tell(&report);
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

    /// Gives up remote steps that have fallen silent, as often as configured.
    pub(super) async fn keep_monitoring(self: &Arc<Self>) {
        let healer = self.healer(Reason::StaleDetection);
        let mut monitor = Monitor::new(healer, self.config.monitor_batch);
        while !self.is_closed() && !self.live_runs().is_leaving() {
            match monitor.tick().await {
                Ok(report) if report.more => {}
                Ok(_) => self.rest(self.config.monitor).await,
                Err(error) => {
                    tracing::warn!(node = %self.id, %error, "looking for silent steps failed");
                    self.rest(self.config.monitor).await;
                }
            }
        }
    }

    fn tell(&self, report: &SweepReport) {
        if report.healed > 0 || report.rows_rewritten > 0 {
            let (healed, rows) = (report.healed, report.rows_rewritten);
            tracing::info!(node = %self.id, healed, rows, "a sweep mended runs");
        }
        for name in report.foreign.iter().flat_map(|foreign| &foreign.unnamed) {
            tracing::warn!(name, "a foreign state has a name that no run can have; it is left alone");
        }
        for failed in report.foreign.iter().flat_map(|foreign| &foreign.stalled) {
            if let Fate::Failed(error) = &failed.fate {
                tracing::warn!(id = %failed.id, error, "a state of somebody else could not be healed");
            }
        }
    }
}
