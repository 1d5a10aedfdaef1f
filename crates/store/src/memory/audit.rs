//! The audit: entries by place, which sorts the newest first.

use std::ops::Bound;

use async_trait::async_trait;
use goldseam_core::Millis;

use super::{MemoryState, MemoryStore};
use crate::api::Page;
use crate::audit::{AuditEntry, AuditFilter, AuditLog, place_bound};
use crate::error::StoreError;

impl MemoryState {
    pub(super) fn record(&mut self, entries: Vec<AuditEntry>) {
        self.audit.extend(entries.into_iter().map(|entry| (entry.place(), entry)));
    }
}

#[async_trait]
impl AuditLog for MemoryStore {
    async fn audit_entries(&self, filter: AuditFilter) -> Result<Page<AuditEntry>, StoreError> {
        let (after, until) = filter.bounds();
        // A range must not end before it begins.
        if after >= until {
            return Ok(Page::default());
        }
        let list = |state: &mut MemoryState| {
            let later = (Bound::Excluded(after), Bound::Excluded(until));
            let is_wanted =
                |entry: &&AuditEntry| filter.rule.as_ref().is_none_or(|rule| *rule == entry.heal.rule);
            let found = state.audit.range(later).map(|(_, entry)| entry).filter(is_wanted);
            let entry = |entry: &AuditEntry| (entry.place(), Some(entry.clone()));
            filter.page(found.take(filter.limit as usize + 1).map(entry).collect())
        };
        Ok(self.with(list))
    }

    async fn trim_audit(&self, before: Millis, limit: u32) -> Result<u64, StoreError> {
        let trim = |state: &mut MemoryState| {
            let old = state.audit.range(place_bound(before)..).rev().take(limit as usize);
            let old: Vec<String> = old.map(|(place, _)| place.clone()).collect();
            old.iter().for_each(|place| {
                state.audit.remove(place);
            });
            old.len() as u64
        };
        Ok(self.with(trim))
    }
}
