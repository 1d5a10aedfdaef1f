//! The feed: events in the order of their appends.

use async_trait::async_trait;
use goldseam_core::{RunId, Seq};

use super::{MemoryState, MemoryStore};
use crate::api::Record;
use crate::error::StoreError;
use crate::feed::{ChangedRuns, Feed, FeedEvent, place_beyond_end, unknown_place};

/// Returns the position in the feed, from 1.
fn position(place: Option<&str>) -> Result<usize, StoreError> {
    place.map_or(Ok(0), |place| place.parse().map_err(|_| unknown_place(place)))
}

impl MemoryStore {
    /// Returns the events after a position, including lost and trimmed ones.
    fn behind(&self, place: Option<&str>) -> Result<Vec<(usize, RunId, Seq)>, StoreError> {
        let from = position(place)?;
        let all = |state: &mut MemoryState| {
            if from > state.order.len() {
                return Err(place_beyond_end(place.unwrap_or_default()));
            }
            let behind = state.order.iter().enumerate().skip(from);
            Ok(behind.map(|(at, (run, seq))| (at + 1, run.clone(), *seq)).collect())
        };
        self.with(all)
    }
}

#[async_trait]
impl Feed for MemoryStore {
    async fn events_after(&self, place: Option<&str>, limit: u32) -> Result<Vec<FeedEvent>, StoreError> {
        let behind = self.behind(place)?;
        let events = |state: &mut MemoryState| {
            let event = |(at, run, seq): (usize, RunId, Seq)| {
                let body = state.runs.get(&run)?.log.get(&seq)?.clone();
                Some(FeedEvent { place: at.to_string(), run, record: Record { seq, body } })
            };
            behind.into_iter().filter_map(event).take(limit as usize).collect()
        };
        Ok(self.with(events))
    }

    async fn latest(&self) -> Result<Option<String>, StoreError> {
        let end = self.with(|state| state.order.len());
        Ok((end > 0).then(|| end.to_string()))
    }

    async fn changed_runs(&self, mark: Option<&str>) -> Result<ChangedRuns, StoreError> {
        let end = self.with(|state| state.order.len());
        let mut runs = match mark {
            Some(_) => self.behind(mark)?.into_iter().map(|(_, run, _)| run).collect(),
            None => Vec::new(),
        };
        runs.sort_unstable();
        runs.dedup();
        Ok(ChangedRuns { runs, mark: end.to_string() })
    }
}
