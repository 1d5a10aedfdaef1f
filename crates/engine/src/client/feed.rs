//! The feed of recoveries: what was healed, when and by which rule, read from the logs.

use goldseam_core::event::{Event, RunRecovered};
use goldseam_core::{Millis, RunId, Seq, WorkflowName};
use goldseam_store::{RunFilter, RunOrder};

use crate::client::Client;
use crate::ledger::error::EngineError;

/// Runs per read of the store.
const PAGE: u32 = 200;

/// One recovery of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Healing {
    /// The run.
    pub run: RunId,
    /// Its workflow.
    pub workflow: WorkflowName,
    /// Its position in the log.
    pub seq: Seq,
    /// When it happened.
    pub at: Millis,
    /// The rule, the reason and the evidence.
    pub recovered: RunRecovered,
    /// When the run first progressed after it; none: not yet.
    pub moved_at: Option<Millis>,
    /// How the rule stopped the run, if it did not heal it.
    pub ended: Option<Ending>,
}

/// How a rule stopped a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Parked until an operator acts.
    Parked,
    /// Failed.
    Failed,
    /// Fails after its compensations.
    Undoing,
}

impl Ending {
    /// The name in JSON and in output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Parked => "parked",
            Self::Failed => "failed",
            Self::Undoing => "undoing",
        }
    }

    fn of(event: &Event) -> Option<Self> {
        match event {
            Event::RunParked { .. } => Some(Self::Parked),
            Event::RunFailed { .. } => Some(Self::Failed),
            Event::CompensationStarted { .. } => Some(Self::Undoing),
            _ => None,
        }
    }
}

/// A position in the feed: time, run and position in its log.
pub type Place = (Millis, RunId, Seq);

impl Healing {
    /// The position in the feed.
    pub fn place(&self) -> Place {
        (self.at, self.run.clone(), self.seq)
    }
}

fn newest_first(healings: &mut [Healing]) {
    healings.sort_by(|a, b| (b.at, &b.run, b.seq).cmp(&(a.at, &a.run, a.seq)));
}

impl Client {
    /// Lists the latest recoveries, newest first: at most `limit`, none older than `since`.
    pub async fn recoveries(&self, since: Option<Millis>, limit: usize) -> Result<Vec<Healing>, EngineError> {
        self.recoveries_after(since, None, limit).await
    }

    /// Like [`Client::recoveries`], starting after a position in the feed.
    pub async fn recoveries_after(
        &self,
        since: Option<Millis>,
        place: Option<&Place>,
        limit: usize,
    ) -> Result<Vec<Healing>, EngineError> {
        let mut healings: Vec<Healing> = Vec::new();
        let mut after = None;
        'pages: loop {
            let filter = RunFilter {
                order: RunOrder::Recovered,
                after: after.take(),
                limit: PAGE,
                ..RunFilter::default()
            };
            let page = self.store().runs(filter).await?;
            for row in page.items {
                let latest = row.summary.recovered_at.unwrap_or_default();
                let full = healings.len() >= limit && healings.last().is_some_and(|last| last.at > latest);
                if full || since.is_some_and(|since| latest < since) {
                    break 'pages;
                }
                let more = self.healings_of(&row.summary.run, &row.summary.workflow).await?;
                let wanted = |more: &Healing| {
                    since.is_none_or(|since| more.at >= since)
                        && place.is_none_or(|place| more.place() < *place)
                };
                healings.extend(more.into_iter().filter(wanted));
                if healings.len() >= limit {
                    newest_first(&mut healings);
                    healings.truncate(limit);
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        newest_first(&mut healings);
        Ok(healings)
    }

    async fn healings_of(&self, run: &RunId, workflow: &WorkflowName) -> Result<Vec<Healing>, EngineError> {
        let history = match self.history(run).await {
            Ok(history) => history,
            // A damaged log still has the record of its recovery.
            Err(EngineError::Corrupt { .. }) => self.readable(run).await?,
            Err(error) => return Err(error),
        };
        let mut healings: Vec<Healing> = Vec::new();
        let mut write = None;
        for recorded in history {
            // A rule writes its evidence and its effect in one append.
            if write == Some(recorded.write)
                && let Some(healing) = healings.last_mut()
            {
                healing.ended = healing.ended.or(Ending::of(&recorded.event));
            }
            if matches!(recorded.event, Event::RunRecovered(_)) {
                write = Some(recorded.write);
            }
            match recorded.event {
                Event::RunRecovered(recovered) => healings.push(Healing {
                    run: run.clone(),
                    workflow: workflow.clone(),
                    seq: recorded.seq,
                    at: recorded.at,
                    recovered,
                    moved_at: None,
                    ended: None,
                }),
                event if event.path().is_some() || event.is_terminal() => {
                    for healing in healings.iter_mut().filter(|healing| healing.moved_at.is_none()) {
                        healing.moved_at = Some(recorded.at);
                    }
                }
                _ => {}
            }
        }
        Ok(healings)
    }
}
