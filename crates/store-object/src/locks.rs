//! Named locks: one object each.

use goldseam_core::LockName;
use goldseam_core::lock::Lock;
use goldseam_store::{Expect, LockFilter, StoreError, Unreadable, Written};

use crate::keys;
use crate::records::{Held, Wrote};
use crate::store::Inner;

impl Inner {
    pub(crate) async fn put_lock(&self, lock: Lock, expect: Expect) -> Result<Written<Lock>, StoreError> {
        let key = keys::lock(&lock.name);
        let mut before = match expect {
            Expect::Absent => None,
            Expect::Version(version) => match self.locks.at(&self.bucket, &key, version).await? {
                Ok(held) => Some(held),
                Err(other) => return Ok(Written::Lost(self.held(other, &lock))),
            },
        };
        for _ in 0..2 {
            match self.locks.write(&self.bucket, (&key, &lock), before.as_ref(), &self.writes).await? {
                Wrote::Done => {
                    self.watch.bump();
                    return Ok(Written::Done);
                }
                // What was last seen was outdated, and the lock has the version that is asked for.
                Wrote::Lost(Some(held)) if Expect::Version(held.record.version) == expect => {
                    before = Some(held);
                }
                Wrote::Lost(held) => return Ok(Written::Lost(self.held(held, &lock))),
            }
        }
        Ok(Written::Lost(before.map(|held| held.record)))
    }

    /// A lock as it was found; one that cannot be read is held, as far as can be known.
    fn held(&self, found: Option<Held<Lock>>, wanted: &Lock) -> Option<Lock> {
        let unreadable = || self.locks.why_unreadable(&keys::lock(&wanted.name)).is_some();
        let stands = || unreadable().then(|| Unreadable::lock(wanted.name.clone()));
        found.map(|held| held.record).or_else(stands)
    }

    pub(crate) async fn list_locks(&self, filter: &LockFilter) -> Result<Vec<Lock>, StoreError> {
        let mut found: Vec<Lock> = match &filter.name {
            Some(name) => {
                let held = self.locks.get(&self.bucket, &keys::lock(name)).await?;
                held.into_iter().map(|held| held.record).collect()
            }
            None => self.locks.all(&self.bucket).await?,
        };
        let unreadable = match &filter.name {
            Some(name) => {
                let reason = self.locks.why_unreadable(&keys::lock(name));
                reason.map(|_| Unreadable::lock(name.clone())).into_iter().collect()
            }
            None => self.locks.unreadable_names(|name| LockName::new(name).ok().map(Unreadable::lock)),
        };
        found.extend(unreadable);
        let after = |lock: &Lock| filter.after.as_ref().is_none_or(|after| lock.name > *after);
        found.retain(|lock| after(lock) && filter.selects(lock));
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found.truncate(filter.limit as usize);
        Ok(found)
    }
}
