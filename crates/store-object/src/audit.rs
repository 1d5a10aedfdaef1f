//! The audit: one object per heal, the newest first.
//!
//! The record is written first and its audit entry right after it. The record has the same entry, so any process that
//! lists tasks or locks writes an entry that a crash in between lost.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use goldseam_core::Millis;
use goldseam_core::lock::Lock;
use goldseam_core::task::{Audit, Task};
use goldseam_store::audit::{PlaceParts, place_bound};
use goldseam_store::{AuditEntry, AuditFilter, AuditKind, AuditLog, Page, StoreError};

use crate::bucket::{CONCURRENT_GETS, PutCondition};
use crate::inner::BucketState;
use crate::keys;
use crate::records::{decode, encode};

/// Entries of this age are no longer completed: a trim may have removed them.
const COMPLETE_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Keys per list.
const CHUNK: usize = 1_000;

impl BucketState {
    /// Writes the audit entries of a heal that was just done. After a failure a later list of the records completes
    /// them.
    pub(crate) async fn record_audit(&self, entries: Vec<AuditEntry>) {
        for entry in entries {
            if let Err(error) = self.write_audit(&entry).await {
                let kind = entry.kind.as_str();
                let subject = &entry.subject;
                tracing::warn!(kind, subject, %error, "failed to write audit entry; retrying later");
            }
        }
    }

    async fn write_audit(&self, entry: &AuditEntry) -> Result<(), StoreError> {
        let key = keys::audit(&entry.place());
        if self.audited.has(&key) {
            return Ok(());
        }
        let body = encode(&entry.audit(), &self.write_ids);
        // If the object exists, another process wrote the entry.
        self.bucket.put_if(&key, body, PutCondition::CreateOnce).await?;
        self.audited.add(key);
        Ok(())
    }

    /// Writes recent entries of these tasks that are not in the audit.
    pub(crate) async fn complete_task_audit(&self, tasks: &[Task]) {
        for task in tasks {
            self.complete_audit(AuditKind::Task, task.id.as_str(), &task.audit).await;
        }
    }

    /// Writes recent entries of these locks that are not in the audit.
    pub(crate) async fn complete_lock_audit(&self, locks: &[Lock]) {
        for lock in locks {
            self.complete_audit(AuditKind::Lock, lock.name.as_str(), &lock.audit).await;
        }
    }

    async fn complete_audit(&self, kind: AuditKind, subject: &str, audit: &[Audit]) {
        let oldest = self.clock.now() - COMPLETE_MAX;
        let recent = audit.iter().filter(|entry| entry.heal.is_some() && entry.at >= oldest);
        self.record_audit(recent.filter_map(|entry| AuditEntry::new(kind, subject, entry)).collect()).await;
    }

    /// Reads the entries at these places. Skips those that were removed meanwhile, and unreadable ones.
    async fn read_audit(&self, places: &[String]) -> Result<Vec<AuditEntry>, StoreError> {
        let mut entries = Vec::new();
        let names = places.iter().map(|place| keys::audit(place)).collect();
        for (place, object) in places.iter().zip(self.bucket.get_all(names).await?) {
            let (Some(object), Some(parts)) = (object, PlaceParts::of(place)) else { continue };
            match decode::<Audit>(place, &object.body) {
                Ok(audit) => entries.extend(AuditEntry::new(parts.kind, parts.subject, &audit)),
                Err(error) => tracing::warn!(place, %error, "skipping unreadable audit entry"),
            }
        }
        Ok(entries)
    }

    /// Lists up to `limit` places that the filter selects, the newest first.
    async fn audit_places(&self, filter: &AuditFilter, limit: usize) -> Result<Vec<String>, StoreError> {
        let (after, until) = filter.bounds();
        let mut from = keys::audit(&after);
        let mut chosen = Vec::new();
        loop {
            let listed = self.bucket.list(keys::AUDIT, Some(&from), CHUNK).await?;
            let is_last = listed.len() < CHUNK;
            for entry in listed {
                let Some(place) = entry.key.strip_prefix(keys::AUDIT) else { continue };
                if *place >= *until || chosen.len() >= limit {
                    return Ok(chosen);
                }
                let rule = PlaceParts::of(place).map(|parts| parts.rule);
                if rule.is_some_and(|rule| filter.rule.as_deref().is_none_or(|wanted| wanted == rule)) {
                    chosen.push(place.to_owned());
                }
                from = entry.key;
            }
            if is_last {
                return Ok(chosen);
            }
        }
    }
}

#[async_trait]
impl AuditLog for BucketState {
    async fn audit_entries(&self, filter: AuditFilter) -> Result<Page<AuditEntry>, StoreError> {
        let limit = filter.limit as usize;
        let mut places = self.audit_places(&filter, limit + 1).await?;
        let has_more = places.len() > limit;
        places.truncate(limit);
        let next = places.last().filter(|_| has_more).cloned();
        Ok(Page { items: self.read_audit(&places).await?, next, ..Page::default() })
    }

    async fn trim_audit(&self, before: Millis, limit: u32) -> Result<u64, StoreError> {
        let from = keys::audit(&place_bound(before));
        let old = self.bucket.list(keys::AUDIT, Some(&from), limit as usize).await?;
        for entries in old.chunks(CONCURRENT_GETS) {
            try_join_all(entries.iter().map(|entry| self.bucket.delete(&entry.key))).await?;
        }
        Ok(old.len() as u64)
    }
}
