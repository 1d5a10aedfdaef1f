//! Named locks: acquired atomically, released by holder and fence. A lost hold cannot be extended.

use std::time::Duration;

use goldseam_core::lock::{Ask, Lock, LockRefusal, Until};
use goldseam_core::{LockName, argument};
use goldseam_store::{Expect, LockFilter, StoreError, Written};

use crate::ledger::clock::pause;
use crate::ledger::commit::Ledger;
use crate::ledger::error::EngineError;
use crate::ledger::retry::{ATTEMPTS_MAX, PAUSE};

/// The locks of a store. Cheap to clone.
///
/// ```
/// use goldseam::secs;
/// use goldseam::unstable::core::LockName;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
/// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
/// let locks = goldseam::Client::new(goldseam::open_store(&url).await?).locks();
/// let name = LockName::new("printer")?;
/// let held = locks.acquire(&name, "ada", secs(60)).await?;
/// assert!(locks.acquire(&name, "bob", secs(60)).await.is_err());
/// locks.extend(&name, "ada", held.fence, secs(60)).await?;
/// assert!(locks.release(&name, "ada", held.fence).await?);
/// assert!(!locks.is_stale(&name).await?);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Locks {
    ledger: Ledger,
}

/// The command and the credential with which a caller acquires a lock.
#[derive(Debug, Clone, Copy, Default)]
pub struct AcquiredBy<'a> {
    /// The id of the command, by which a repeat is recognised ([`Lock::was_taken_by`]).
    pub id: Option<&'a str>,
    /// The credential of the caller ([`Lock::credential`]).
    pub credential: Option<&'a str>,
}

impl Locks {
    pub(crate) fn new(ledger: Ledger) -> Self {
        Self { ledger }
    }

    /// Acquires a free or expired lock for `ttl` from now.
    pub async fn acquire(&self, name: &LockName, holder: &str, ttl: Duration) -> Result<Lock, EngineError> {
        self.acquire_as(name, holder, ttl, AcquiredBy::default()).await
    }

    /// Like [`Locks::acquire`], as the command of a caller.
    pub async fn acquire_as(
        &self,
        name: &LockName,
        holder: &str,
        ttl: Duration,
        by: AcquiredBy<'_>,
    ) -> Result<Lock, EngineError> {
        let AcquiredBy { id, credential } = by;
        argument::name("the holder", holder)?;
        let node = self.ledger.process.node().map(|node| node.as_str().to_owned());
        let change = |lock: Option<Lock>, now| {
            let ask = Ask { name, holder, node: node.as_deref(), ttl };
            let taken = Lock::acquired(lock, ask, now)?;
            let taken = id.into_iter().fold(taken, |taken, id| taken.taken_by(id));
            Ok(Some(credential.into_iter().fold(taken, |taken, key| taken.taken_with(key))))
        };
        let taken = self.change(name, change).await?;
        taken.ok_or(EngineError::Contended { doing: "taking a lock" })
    }

    /// Releases a lock. Returns `false` if the hold had ended.
    pub async fn release(&self, name: &LockName, holder: &str, fence: u64) -> Result<bool, EngineError> {
        let change = |lock: Option<Lock>, _| Ok(lock.and_then(|lock| lock.released(holder, fence)));
        Ok(self.change(name, change).await?.is_some())
    }

    /// Like [`Locks::release`], at the request of a person: the audit of the lock records who it was.
    pub async fn release_by_hand(
        &self,
        name: &LockName,
        holder: &str,
        fence: u64,
        who: Option<&str>,
    ) -> Result<bool, EngineError> {
        let change =
            |lock: Option<Lock>, now| Ok(lock.and_then(|lock| lock.released_by(holder, fence, who, now)));
        Ok(self.change(name, change).await?.is_some())
    }

    /// Extends a hold to `ttl` from now. Refused if the hold has ended.
    pub async fn extend(
        &self,
        name: &LockName,
        holder: &str,
        fence: u64,
        ttl: Duration,
    ) -> Result<Lock, EngineError> {
        let change = |lock: Option<Lock>, now| match lock {
            Some(lock) => lock.extended(holder, fence, Until { now, ttl }).map(Some),
            None => Err(LockRefusal::Lost { name: name.clone(), fence }),
        };
        let extended = self.change(name, change).await?;
        extended.ok_or(EngineError::Contended { doing: "extending a lock" })
    }

    /// Reads a lock; none if it was never acquired.
    pub async fn get(&self, name: &LockName) -> Result<Option<Lock>, EngineError> {
        let filter = LockFilter { name: Some(name.clone()), limit: 1, ..LockFilter::default() };
        Ok(self.ledger.store.locks(filter).await?.into_iter().next())
    }

    /// Whether the lock is held past its expiry, by the store's clock.
    pub async fn is_stale(&self, name: &LockName) -> Result<bool, EngineError> {
        let now = self.ledger.store.now().await?;
        Ok(self.get(name).await?.is_some_and(|lock| lock.is_stale(now)))
    }

    /// Lists all locks, ordered by name.
    pub async fn list(&self, after: Option<LockName>, limit: u32) -> Result<Vec<Lock>, EngineError> {
        Ok(self.ledger.store.locks(LockFilter { after, limit, ..LockFilter::default() }).await?)
    }

    /// Reads, changes and writes a lock; repeats if another writer was faster. If `change` returns none, writes
    /// nothing.
    async fn change<F>(&self, name: &LockName, change: F) -> Result<Option<Lock>, EngineError>
    where
        F: Fn(Option<Lock>, goldseam_core::Millis) -> Result<Option<Lock>, LockRefusal>,
    {
        let mut pause_for = PAUSE;
        let mut wrote: Option<Lock> = None;
        for attempt in 1..=ATTEMPTS_MAX * 2 {
            let lock = self.get(name).await?;
            if wrote.is_some() && lock == wrote {
                return Ok(wrote);
            }
            let now = self.ledger.store.now().await?;
            let expect = lock.as_ref().map_or(Expect::Absent, |lock| Expect::Version(lock.version));
            let Some(next) = change(lock, now)? else { return Ok(None) };
            match self.ledger.store.put_lock(next.clone(), expect).await {
                Ok(Written::Done) => return Ok(Some(next)),
                Ok(Written::Lost(_)) => continue,
                Err(StoreError::Unknown { .. }) if attempt < ATTEMPTS_MAX => wrote = Some(next),
                Err(StoreError::Busy { .. }) if attempt < ATTEMPTS_MAX => {}
                Err(error) => return Err(error.into()),
            }
            pause(pause_for).await;
            pause_for *= 2;
        }
        Err(EngineError::Contended { doing: "updating a lock" })
    }
}
