//! Foreign states: only tests that play the other system create them.

use std::ops::Bound;

use async_trait::async_trait;
use goldseam_core::RunId;

use super::{MemoryState, MemoryStore};
use crate::api::{Page, Written};
use crate::error::StoreError;
use crate::foreign::{ForeignState, ForeignStates};

impl MemoryState {
    fn foreign_state(&self, id: &RunId) -> Option<ForeignState> {
        let (version, body) = self.foreign.get(id)?;
        Some(ForeignState { id: id.clone(), version: version.to_string(), body: body.clone() })
    }

    fn foreign_page(&self, after: Option<&str>, limit: u32) -> Page<ForeignState> {
        let behind = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let theirs = |id: &&RunId| self.runs.get(*id).is_none_or(|run| run.log.is_empty());
        let mut ids = self.foreign.range::<str, _>(behind).map(|(id, _)| id).filter(theirs);
        let items: Vec<_> =
            ids.by_ref().take(limit as usize).filter_map(|id| self.foreign_state(id)).collect();
        let next = ids.next().and(items.last()).map(|last| last.id.as_str().to_owned());
        Page { items, next, unreadable: Vec::new() }
    }

    fn swap_foreign(&mut self, id: &RunId, version: &str, body: &str) -> Written<ForeignState> {
        match self.foreign.get_mut(id) {
            Some((now, text)) if now.to_string() == version => {
                *now += 1;
                body.clone_into(text);
                Written::Done
            }
            _ => Written::Lost(self.foreign_state(id)),
        }
    }
}

impl MemoryStore {
    /// Writes a state as the other system would, over its previous state.
    pub fn put_foreign(&self, id: &RunId, body: &str) {
        self.with(|state| {
            let (version, text) = state.foreign.entry(id.clone()).or_default();
            *version += 1;
            body.clone_into(text);
        });
    }
}

#[async_trait]
impl ForeignStates for MemoryStore {
    async fn states(&self, after: Option<&str>, limit: u32) -> Result<Page<ForeignState>, StoreError> {
        Ok(self.with(|state| state.foreign_page(after, limit)))
    }

    async fn swap(&self, id: &RunId, version: &str, body: &str) -> Result<Written<ForeignState>, StoreError> {
        Ok(self.with(|state| state.swap_foreign(id, version, body)))
    }
}
