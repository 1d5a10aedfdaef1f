//! Named locks: one object each, changed by compare-and-set on its version.

use goldseam_core::LockName;
use goldseam_core::lock::Lock;
use goldseam_store::{AuditEntry, Expect, LockFilter, StoreError, Unreadable, Written};

use crate::inner::BucketState;
use crate::keys;
use crate::records::{RecordWrite, Tagged};

impl BucketState {
    pub(crate) async fn put_lock(&self, lock: Lock, expect: Expect) -> Result<Written<Lock>, StoreError> {
        let key = keys::lock(&lock.name);
        let mut before = match expect {
            Expect::Absent => None,
            Expect::Version(version) => match self.locks.at(&key, version).await? {
                Ok(found) => Some(found),
                Err(other) => return Ok(Written::Lost(self.stored_lock(other, &lock.name))),
            },
        };
        for _ in 0..2 {
            match self.locks.write(&key, &lock, before.as_ref()).await? {
                RecordWrite::Done => {
                    self.record_audit(AuditEntry::of_lock(&lock)).await;
                    self.watch.bump();
                    return Ok(Written::Done);
                }
                // The remembered record was outdated, but the stored one has the expected version.
                RecordWrite::Lost(Some(found)) if Expect::Version(found.record.version) == expect => {
                    before = Some(found);
                }
                RecordWrite::Lost(found) => return Ok(Written::Lost(self.stored_lock(found, &lock.name))),
            }
        }
        Ok(Written::Lost(before.map(|found| found.record)))
    }

    /// A stored lock as callers see it. An unreadable lock counts as held.
    fn stored_lock(&self, found: Option<Tagged<Lock>>, name: &LockName) -> Option<Lock> {
        let unreadable =
            || self.locks.is_unreadable(&keys::lock(name)).then(|| Unreadable::lock(name.clone()));
        found.map(|found| found.record).or_else(unreadable)
    }

    pub(crate) async fn list_locks(&self, filter: &LockFilter) -> Result<Vec<Lock>, StoreError> {
        let mut found: Vec<Lock> = match &filter.name {
            Some(name) => {
                let stored = self.locks.get(&keys::lock(name)).await?;
                self.stored_lock(stored, name).into_iter().collect()
            }
            None => {
                let mut all = self.locks.all().await?;
                self.complete_lock_audit(&all).await;
                let unreadable = |name| LockName::new(name).ok().map(Unreadable::lock);
                all.extend(self.locks.unreadable_names(unreadable));
                all
            }
        };
        let is_after = |lock: &Lock| filter.after.as_ref().is_none_or(|after| lock.name > *after);
        found.retain(|lock| is_after(lock) && filter.selects(lock));
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found.truncate(filter.limit as usize);
        Ok(found)
    }
}
