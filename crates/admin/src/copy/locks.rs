//! The copying of locks: held ones with their holders, all with their fences, which never decrease.

use goldseam_core::lock::Lock;
use goldseam_core::reserved::{self, Named};
use goldseam_core::task::note;
use goldseam_store::{Expect, Unreadable, Written};

use super::Copier;
use super::concurrent::each;
use super::report::{CopyFinding, CopyProgress, CopyReport, CopyStage, RecordFate, RecordName};
use super::session::Session;
use super::side::{LockPages, count};
use goldseam_engine::ledger::error::EngineError;

/// How a lock that both stores have is merged.
#[derive(Debug, PartialEq, Eq)]
enum LockMerge {
    /// Nothing to do.
    Fits,
    /// Write this lock.
    Write(Lock),
    /// Impossible: one of the two holders would lose its hold.
    Conflict,
}

/// Merges a lock with the destination's lock of the same name.
fn merge(lock: &Lock, found: Lock, merges: bool) -> LockMerge {
    if found == *lock {
        return LockMerge::Fits;
    }
    // Only this copy has written there, so it is an earlier version of the same lock.
    if !merges && found.version < lock.version && found.fence <= lock.fence {
        return LockMerge::Write(lock.clone());
    }
    match (&lock.holder, &found.holder) {
        (None, _) if found.fence >= lock.fence => LockMerge::Fits,
        (None, None) => LockMerge::Write(Lock { fence: lock.fence, version: found.version + 1, ..found }),
        _ => LockMerge::Conflict,
    }
}

impl Copier {
    pub(super) async fn carry_locks(
        &self,
        session: &Session,
        report: &mut CopyReport,
    ) -> Result<(), EngineError> {
        self.must_be_ours(session).await?;
        let total = count(LockPages::of(&self.from)).await?;
        let mut done = 0;
        let carry = |lock: Lock| {
            let copier = self.clone();
            let session = session.clone();
            async move { copier.carry_lock(&session, &lock).await }
        };
        each(LockPages::of(&self.from), carry, |fate: RecordFate| {
            if let Some(finding) = fate.count(&mut report.locks) {
                report.find(finding);
            }
            done += 1;
            self.report_progress(CopyProgress { stage: CopyStage::Locks, done, total });
        })
        .await
    }

    async fn carry_lock(&self, session: &Session, lock: &Lock) -> Result<RecordFate, EngineError> {
        let lock = &kept(lock.clone(), session);
        if Unreadable::is_lock(lock) {
            let what = "the record is unreadable".to_owned();
            return Ok(RecordFate::LeftBehind(CopyFinding::new("U1", RecordName::lock(&lock.name), what)));
        }
        let found = match session.is_dry() {
            true => self.to.lock(&lock.name).await?,
            false => match self.put_lock(lock, Expect::Absent).await? {
                Written::Done => None,
                Written::Lost(found) => found,
            },
        };
        let Some(found) = found else { return Ok(RecordFate::Copied) };
        let expect = Expect::Version(found.version);
        match merge(lock, found, session.merges()) {
            LockMerge::Fits => Ok(RecordFate::There),
            LockMerge::Write(_) if session.is_dry() => Ok(RecordFate::Copied),
            LockMerge::Write(next) => match self.put_lock(&next, expect).await? {
                Written::Lost(found) if found.as_ref() != Some(&next) => Ok(conflict(lock)),
                _ => Ok(RecordFate::Copied),
            },
            LockMerge::Conflict => Ok(conflict(lock)),
        }
    }

    async fn put_lock(&self, lock: &Lock, expect: Expect) -> Result<Written<Lock>, EngineError> {
        self.to.ask("writing a lock", || self.to.store().put_lock(lock.clone(), expect)).await
    }

    /// Whether the destination has the lock as expected.
    pub(super) async fn has_lock(&self, session: &Session, lock: &Lock) -> Result<bool, EngineError> {
        let lock = &kept(lock.clone(), session);
        let found = self.to.lock(&lock.name).await?;
        Ok(found.is_some_and(|found| merge(lock, found, session.merges()) == LockMerge::Fits))
    }
}

/// The lock as it starts at the destination. A restored store releases locks that were held: their holders belong to
/// the original store. Keys and other settings are locks with reserved names, and stay as they are.
fn kept(mut lock: Lock, session: &Session) -> Lock {
    let is_setting = reserved::prefix(Named::Id, lock.name.as_str()).is_some();
    let Some(holder) = lock.holder.take_if(|_| session.ends_holds() && !is_setting) else { return lock };
    lock.node = None;
    lock.fence += 1;
    lock.version += 1;
    note(&mut lock.audit, session.at(), format!("taken from {holder}: its store was restored"));
    lock
}

fn conflict(lock: &Lock) -> RecordFate {
    let what = "both stores have it, and it is held".to_owned();
    RecordFate::LeftBehind(CopyFinding::new("GS0403", RecordName::lock(&lock.name), what))
}

#[cfg(test)]
mod tests {
    use goldseam_core::{LockName, Millis};

    use super::*;

    fn lock(holder: Option<&str>, fence: u64) -> Lock {
        Lock {
            name: LockName::new("l").unwrap(),
            holder: holder.map(str::to_owned),
            fence,
            expires_at: Millis(9),
            acquired_at: Millis(1),
            node: None,
            version: fence,
            audit: Vec::new(),
        }
    }

    #[test]
    fn fences_never_decrease() {
        let free = |fence| lock(None, fence);
        assert_eq!(merge(&free(3), free(5), true), LockMerge::Fits);
        let LockMerge::Write(raised) = merge(&free(5), free(3), true) else { panic!("it must be raised") };
        assert_eq!((raised.fence, raised.holder, raised.version), (5, None, 4));
        assert_eq!(merge(&free(3), lock(Some("ana"), 5), true), LockMerge::Fits, "its holder keeps it");
        assert_eq!(merge(&free(5), lock(Some("ana"), 3), true), LockMerge::Conflict);
    }

    #[test]
    fn two_holders_of_one_lock_conflict() {
        let here = lock(Some("ana"), 3);
        let there = lock(Some("ben"), 3);
        assert_eq!(merge(&here, there, true), LockMerge::Conflict);
        assert_eq!(
            merge(&here, lock(None, 9), true),
            LockMerge::Conflict,
            "the destination's fence is higher than ana's"
        );
        assert_eq!(merge(&here, here.clone(), true), LockMerge::Fits);
    }

    #[test]
    fn earlier_version_from_this_copy_is_updated() {
        let now = lock(Some("ana"), 4);
        let before = lock(None, 3);
        assert_eq!(merge(&now, before.clone(), false), LockMerge::Write(now.clone()));
        assert_eq!(merge(&now, before, true), LockMerge::Conflict, "it may be another lock of that name");
    }
}
