//! The heartbeat monitor: steps that others do and that have fallen silent are given up in time (rule H1).
//!
//! A step inside a live node is watched by that node itself, which cancels the attempt first; a step of a dead node
//! goes on by takeover. What is left are remote steps: their tasks say when somebody was last heard.

use std::collections::BTreeSet;

use goldseam_core::TaskId;
use goldseam_core::recovery::Code;
use goldseam_store::TaskFilter;

use super::{Found, Healed, Healer};
use crate::ledger::error::EngineError;

/// What a tick of the monitor did.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MonitorReport {
    /// Tasks that were silent for too long.
    pub silent: u64,
    /// Steps that were given up, to be tried again or to fail.
    pub given_up: Vec<Found>,
    /// Whether there is more to look at.
    pub more: bool,
}

/// Looks for silent remote steps, a batch per tick. Any number of them at once is safe.
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

    /// Looks at the next batch of silent tasks.
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
