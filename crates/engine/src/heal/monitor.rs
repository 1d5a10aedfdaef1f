//! The heartbeat monitor: gives up remote steps whose workers are silent (rule H1).
//!
//! A live node watches its own steps and cancels silent attempts; a takeover continues the steps of a dead node.
//! Remote steps remain: their tasks record the last sign of life of the worker.

use std::collections::BTreeSet;

use goldseam_core::TaskId;
use goldseam_core::recovery::Code;
use goldseam_store::TaskFilter;

use super::{Found, Healed, Healer};
use crate::ledger::error::EngineError;

/// The result of a tick of the monitor.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MonitorReport {
    /// Number of tasks whose claimants were silent for too long.
    pub silent: u64,
    /// Steps that were given up; they are retried or fail.
    pub given_up: Vec<Found>,
    /// Whether more tasks are to be examined.
    pub more: bool,
}

/// Searches for silent remote steps, a batch per tick. Any number of monitors may run at once.
#[derive(Debug)]
pub struct Monitor {
    healer: Healer,
    batch: u32,
    after: Option<TaskId>,
}

impl Monitor {
    pub(crate) fn new(healer: Healer, batch: u32) -> Self {
        Self { healer, batch: batch.max(1), after: None }
    }

    /// Examines the next batch of silent tasks.
    pub async fn tick(&mut self) -> Result<MonitorReport, EngineError> {
        let liveness = self.healer.liveness().await?;
        let filter = TaskFilter {
            silent_at: Some(liveness.now),
            advance: Some(false),
            after: self.after.take(),
            limit: self.batch,
            ..TaskFilter::default()
        };
        let tasks = self.healer.ledger.store.tasks(filter).await?;
        let more = u32::try_from(tasks.len()).is_ok_and(|count| count == self.batch);
        self.after = tasks.last().filter(|_| more).map(|task| task.id.clone());
        let mut report = MonitorReport { more, ..MonitorReport::default() };
        let runs: BTreeSet<_> =
            tasks.iter().filter(|task| task.step.is_some()).filter_map(|task| task.run.clone()).collect();
        for run in runs {
            report.silent += 1;
            let examined = match self.healer.examine(&run, &liveness).await {
                Ok(examined) => examined,
                Err(EngineError::Refused { .. }) => continue,
                Err(error) => return Err(error),
            };
            for found in examined.found.into_iter().filter(|found| found.diagnosis.rule == Code::H1) {
                if let Healed::Done { .. } = self.healer.heal(&run, found.at, &found.diagnosis).await? {
                    report.given_up.push(found);
                }
            }
        }
        Ok(report)
    }
}
