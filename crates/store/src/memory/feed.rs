//! The feed: events in the order of their appends.

use async_trait::async_trait;
use goldseam_core::{RunId, Seq};

use super::{MemoryStore, World};
use crate::api::Record;
use crate::error::StoreError;
use crate::feed::{Fed, Feed, Stirred, beyond_end, no_place};

/// Returns the position in the feed, from 1.
fn position(place: Option<&str>) -> Result<usize, StoreError> {
    place.map_or(Ok(0), |place| place.parse().map_err(|_| no_place(place)))
}

impl MemoryStore {
    /// Returns the events after a position, including lost and trimmed ones.
    fn behind(&self, place: Option<&str>) -> Result<Vec<(usize, RunId, Seq)>, StoreError> {
        let from = position(place)?;
        let all = |world: &mut World| {
            if from > world.order.len() {
                return Err(beyond_end(place.unwrap_or_default()));
            }
            let behind = world.order.iter().enumerate().skip(from);
            Ok(behind.map(|(at, (run, seq))| (at + 1, run.clone(), *seq)).collect())
        };
        self.with(all)
    }
}

#[async_trait]
impl Feed for MemoryStore {
    async fn fed(&self, place: Option<&str>, limit: u32) -> Result<Vec<Fed>, StoreError> {
        let behind = self.behind(place)?;
        let fed = |world: &mut World| {
            let fed = |(at, run, seq): (usize, RunId, Seq)| {
                let body = world.runs.get(&run)?.log.get(&seq)?.clone();
                Some(Fed { place: at.to_string(), run, record: Record { seq, body } })
            };
            behind.into_iter().filter_map(fed).take(limit as usize).collect()
        };
        Ok(self.with(fed))
    }

    async fn latest(&self) -> Result<Option<String>, StoreError> {
        let end = self.with(|world| world.order.len());
        Ok((end > 0).then(|| end.to_string()))
    }

    async fn stirred(&self, mark: Option<&str>) -> Result<Stirred, StoreError> {
        let end = self.with(|world| world.order.len());
        let mut runs = match mark {
            Some(_) => self.behind(mark)?.into_iter().map(|(_, run, _)| run).collect(),
            None => Vec::new(),
        };
        runs.sort_unstable();
        runs.dedup();
        Ok(Stirred { runs, mark: end.to_string() })
    }
}
