//! Locks: held ones with their holders, all of them with their fences, which never go back.

use goldseam_core::lock::Lock;
use goldseam_store::{Expect, Unreadable, Written};

use super::Copier;
use super::crew::each;
use super::report::{CopyFinding, CopyReport, Fate, Progress, Stage};
use super::session::Session;
use super::side::{Locks, count};
use goldseam_engine::ledger::error::EngineError;

/// What is to be done about a lock that both stores have.
#[derive(Debug, PartialEq, Eq)]
enum Both {
    /// Nothing: it is as it must be.
    Fits,
    /// This is to be written over what is there.
    Write(Lock),
    /// Nothing can be: one of the two holders would lose his hold.
    Clash,
}

/// Compares a lock with what the destination has under its name.
fn both(lock: &Lock, found: Lock, merges: bool) -> Both {
    if found == *lock {
        return Both::Fits;
    }
    // Nothing but this copy has written there, so it is the same lock as it was some time ago.
    if !merges && found.version < lock.version && found.fence <= lock.fence {
        return Both::Write(lock.clone());
    }
    match (&lock.holder, &found.holder) {
        (None, _) if found.fence >= lock.fence => Both::Fits,
        (None, None) => Both::Write(Lock { fence: lock.fence, version: found.version + 1, ..found }),
        _ => Both::Clash,
    }
}

impl Copier {
    pub(super) async fn carry_locks(
        &self,
        session: &Session,
        report: &mut CopyReport,
    ) -> Result<(), EngineError> {
        self.must_be_ours(session).await?;
        let (total, mut done) = (count(Locks::of(&self.from)).await?, 0);
        let carry = |lock: Lock| {
            let (copier, session) = (self.clone(), session.clone());
            async move { copier.carry_lock(&session, &lock).await }
        };
        each(Locks::of(&self.from), carry, |fate: Fate| {
            if let Some(finding) = fate.count(&mut report.locks) {
                report.find(finding);
            }
            done += 1;
            self.tell(Progress { stage: Stage::Locks, done, total });
        })
        .await
    }

    async fn carry_lock(&self, session: &Session, lock: &Lock) -> Result<Fate, EngineError> {
        if Unreadable::is_lock(lock) {
            let what = "it cannot be read".to_owned();
            return Ok(Fate::LeftBehind(CopyFinding::new("U1", ("lock", lock.name.as_str()), what)));
        }
        let found = match session.is_dry() {
            true => self.to.lock(&lock.name).await?,
            false => match self.put_lock(lock, Expect::Absent).await? {
                Written::Done => None,
                Written::Lost(found) => found,
            },
        };
        let Some(found) = found else { return Ok(Fate::Copied) };
        let expect = Expect::Version(found.version);
        match both(lock, found, session.merges()) {
            Both::Fits => Ok(Fate::There),
            Both::Write(_) if session.is_dry() => Ok(Fate::Copied),
            Both::Write(next) => match self.put_lock(&next, expect).await? {
                Written::Lost(found) if found.as_ref() != Some(&next) => Ok(clash(lock)),
                _ => Ok(Fate::Copied),
            },
            Both::Clash => Ok(clash(lock)),
        }
    }

    async fn put_lock(&self, lock: &Lock, expect: Expect) -> Result<Written<Lock>, EngineError> {
        self.to.ask("writing a lock", || self.to.store().put_lock(lock.clone(), expect)).await
    }

    /// Whether the destination has the lock as it must be.
    pub(super) async fn has_lock(&self, session: &Session, lock: &Lock) -> Result<bool, EngineError> {
        let found = self.to.lock(&lock.name).await?;
        Ok(found.is_some_and(|found| both(lock, found, session.merges()) == Both::Fits))
    }
}

fn clash(lock: &Lock) -> Fate {
    let what = "both stores have it, and somebody holds it".to_owned();
    Fate::LeftBehind(CopyFinding::new("GS0403", ("lock", lock.name.as_str()), what))
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
    fn fences_never_go_back() {
        let free = |fence| lock(None, fence);
        assert_eq!(both(&free(3), free(5), true), Both::Fits);
        let Both::Write(raised) = both(&free(5), free(3), true) else { panic!("it must be raised") };
        assert_eq!((raised.fence, raised.holder, raised.version), (5, None, 4));
        assert_eq!(both(&free(3), lock(Some("ana"), 5), true), Both::Fits, "whoever holds it keeps it");
        assert_eq!(both(&free(5), lock(Some("ana"), 3), true), Both::Clash);
    }

    #[test]
    fn two_holds_of_one_lock_clash() {
        let (here, there) = (lock(Some("ana"), 3), lock(Some("ben"), 3));
        assert_eq!(both(&here, there, true), Both::Clash);
        assert_eq!(both(&here, lock(None, 9), true), Both::Clash, "ana's fence is over there");
        assert_eq!(both(&here, here.clone(), true), Both::Fits);
    }

    #[test]
    fn what_this_copy_brought_earlier_is_brought_up_to_date() {
        let (now, before) = (lock(Some("ana"), 4), lock(None, 3));
        assert_eq!(both(&now, before.clone(), false), Both::Write(now.clone()));
        assert_eq!(both(&now, before, true), Both::Clash, "it may be another lock of that name");
    }
}
