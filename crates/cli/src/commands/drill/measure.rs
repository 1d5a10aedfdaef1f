//! How long it took to notice a fault, to have the work in hand again, and to get on with it: read from the logs.

use goldseam::core::event::Event;
use goldseam::core::{Recorded, task::Task};
use goldseam::store::TaskFilter;
use goldseam::{Client, Millis, RunId, Seq};
use serde::Serialize;

use crate::fail::Fail;

/// What became of one fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Fault {
    /// Its name.
    pub(crate) fault: &'static str,
    /// Whether everything was as before, in time.
    pub(crate) healed: bool,
    /// From the fault to its being noticed.
    pub(crate) detect_ms: Option<i64>,
    /// From the fault to somebody's having the work again.
    pub(crate) reclaim_ms: Option<i64>,
    /// From the fault to the first progress.
    pub(crate) progress_ms: Option<i64>,
}

/// The moment of a fault, and where the run's log ended then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    at: Millis,
    end: Seq,
}

impl Mark {
    /// Now, by the store's clock, which events bear too.
    pub(crate) async fn now(client: &Client, run: &RunId) -> Result<Self, Fail> {
        let end = client.get(run).await?.as_of;
        Ok(Self { at: client.store().now().await?, end })
    }

    /// Milliseconds since then.
    pub(crate) fn until(self, at: Millis) -> i64 {
        i64::try_from(at.since(self.at).as_millis()).unwrap_or(i64::MAX)
    }

    /// What the log and the task tell about the healing so far.
    pub(crate) async fn look(self, client: &Client, run: &RunId) -> Result<Times, Fail> {
        let history = client.history(run).await?;
        let after = history.iter().skip_while(|recorded| recorded.seq <= self.end);
        let mut times = Times::default();
        for recorded in after {
            times.take(recorded);
        }
        let filter = TaskFilter { run: Some(run.clone()), limit: 16, ..TaskFilter::default() };
        let tasks = client.store().tasks(filter).await?;
        let put_back = tasks.iter().filter_map(|task| put_back(task, self.at)).min();
        times.noticed = [times.noticed, put_back].into_iter().flatten().min();
        Ok(times)
    }

    /// The fault as it is reported.
    pub(crate) fn fault(self, fault: &'static str, times: &Times) -> Fault {
        let since = |at: Option<Millis>| at.map(|at| self.until(at));
        Fault {
            fault,
            healed: times.moved.is_some(),
            detect_ms: since(times.noticed),
            reclaim_ms: since(times.taken),
            progress_ms: since(times.moved),
        }
    }
}

/// When the run's task was put back into its queue, if it was since `since`.
fn put_back(task: &Task, since: Millis) -> Option<Millis> {
    let entry =
        |audit: &&goldseam::core::task::Audit| audit.at >= since && audit.what.starts_with("reclaimed");
    task.audit.iter().find(entry).map(|audit| audit.at)
}

/// The moments of a healing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Times {
    /// Somebody saw what was wrong.
    pub(crate) noticed: Option<Millis>,
    /// Somebody had the run again.
    pub(crate) taken: Option<Millis>,
    /// The claim with which that was.
    pub(crate) claim: Option<Seq>,
    /// The run went on.
    pub(crate) moved: Option<Millis>,
}

impl Times {
    fn take(&mut self, recorded: &Recorded) {
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
