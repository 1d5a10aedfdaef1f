//! Measures from the logs how long it took to detect a fault, to reclaim the work, and to make progress.

use goldseam::unstable::core::Recorded;
use goldseam::unstable::core::event::Event;
use goldseam::unstable::store::TaskFilter;
use goldseam::{Client, Millis, RunId, Seq};
use serde::Serialize;

use crate::error::CliError;

/// The result of one fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FaultResult {
    pub(crate) fault: &'static str,
    pub(crate) healed: bool,
    /// From the fault to its detection.
    pub(crate) detect_ms: Option<i64>,
    /// From the fault to the next claim of the work.
    pub(crate) reclaim_ms: Option<i64>,
    /// From the fault to the next progress.
    pub(crate) progress_ms: Option<i64>,
}

/// The time of a fault, and the end of the run's log at that time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FaultMark {
    at: Millis,
    end: Seq,
}

impl FaultMark {
    /// The current mark, by the store's clock, which also stamps events.
    pub(crate) async fn now(client: &Client, run: &RunId) -> Result<Self, CliError> {
        let end = client.get(run).await?.as_of;
        Ok(Self { at: client.store().now().await?, end })
    }

    /// Milliseconds from the fault to `at`.
    pub(crate) fn until(self, at: Millis) -> i64 {
        i64::try_from(at.since(self.at).as_millis()).unwrap_or(i64::MAX)
    }

    /// Reads the times of the healing so far from the log and the tasks.
    pub(crate) async fn look(self, client: &Client, run: &RunId) -> Result<Times, CliError> {
        let history = client.history(run).await?;
        let after = history.iter().skip_while(|recorded| recorded.seq <= self.end);
        let mut times = Times::default();
        for recorded in after {
            times.add(recorded);
        }
        let filter = TaskFilter { run: Some(run.clone()), limit: 16, ..TaskFilter::default() };
        let tasks = client.store().tasks(filter).await?;
        let reclaimed = tasks.iter().filter_map(|task| task.reclaimed_at(self.at)).min();
        times.noticed = [times.noticed, reclaimed].into_iter().flatten().min();
        Ok(times)
    }

    /// The result of the fault.
    pub(crate) fn fault(self, fault: &'static str, times: &Times) -> FaultResult {
        let since = |at: Option<Millis>| at.map(|at| self.until(at));
        FaultResult {
            fault,
            healed: times.moved.is_some(),
            detect_ms: since(times.noticed),
            reclaim_ms: since(times.taken),
            progress_ms: since(times.moved),
        }
    }
}

/// The times of a healing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Times {
    /// The fault was detected.
    pub(crate) noticed: Option<Millis>,
    /// A node claimed the run again.
    pub(crate) taken: Option<Millis>,
    /// The position of that claim.
    pub(crate) claim: Option<Seq>,
    /// The run made progress.
    pub(crate) moved: Option<Millis>,
}

impl Times {
    fn add(&mut self, recorded: &Recorded) {
        match &recorded.event {
            Event::RunRecovered(_) => {
                self.noticed.get_or_insert(recorded.at);
            }
            Event::RunClaimed(_) if self.noticed.is_some() => {
                self.taken.get_or_insert(recorded.at);
                self.claim.get_or_insert(recorded.seq);
            }
            event if self.taken.is_some() && (event.path().is_some() || event.is_terminal()) => {
                self.moved.get_or_insert(recorded.at);
            }
            _ => {}
        }
    }
}
