//! Named locks: acquired atomically, released by holder and fence, never revived once lost.

use std::time::Duration;

use goldseam_core::lock::{Ask, Lock, LockRefusal, Until};
use goldseam_core::{LockName, argument};
use goldseam_store::{Expect, LockFilter, StoreError, Written};

use crate::ledger::clock::pause;
use crate::ledger::commit::Ledger;
use crate::ledger::error::EngineError;
use crate::ledger::tries::{PAUSE, TRIES};

/// The locks of a store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Locks {
    ledger: Ledger,
}

impl Locks {
    pub(crate) fn new(ledger: Ledger) -> Self {
        Self { ledger }
    }

    /// Takes a lock that is free or expired, for `ttl` from now.
    pub async fn acquire(&self, name: &LockName, holder: &str, ttl: Duration) -> Result<Lock, EngineError> {
        self.acquire_as(name, holder, ttl, (None, None)).await
    }

    /// The same by a command that can be recognised ([`Lock::was_taken_by`]), with a credential ([`Lock::credential`]).
    pub async fn acquire_as(
        &self,
        name: &LockName,
        holder: &str,
        ttl: Duration,
        (id, credential): (Option<&str>, Option<&str>),
    ) -> Result<Lock, EngineError> {
        argument::name("the holder", holder)?;
        let node = self.ledger.process.node().map(|node| node.as_str().to_owned());
        let change = |lock: Option<Lock>, now| {
            let ask = Ask { name, holder, node: node.as_deref(), ttl };
            let taken = Lock::acquired(lock, ask, now)?;
            let taken = id.into_iter().fold(taken, |taken, id| taken.taken_by(id));
            Ok(Some(credential.into_iter().fold(taken, |taken, key| taken.taken_with(key))))
        };
        let taken = self.change(name, change).await?;
        taken.ok_or(EngineError::Patience { doing: "taking a lock", seconds: 0 })
    }

    /// Lets go. `false` if the hold was over already.
    pub async fn release(&self, name: &LockName, holder: &str, fence: u64) -> Result<bool, EngineError> {
        let change = |lock: Option<Lock>, _| Ok(lock.and_then(|lock| lock.released(holder, fence)));
        Ok(self.change(name, change).await?.is_some())
    }

    /// Holds on for `ttl` from now. A hold that is over is refused, never revived.
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
        extended.ok_or(EngineError::Patience { doing: "extending a lock", seconds: 0 })
    }

    /// The lock as it is now, if it ever was.
    pub async fn get(&self, name: &LockName) -> Result<Option<Lock>, EngineError> {
        let filter = LockFilter { name: Some(name.clone()), limit: 1, ..LockFilter::default() };
        Ok(self.ledger.store.locks(filter).await?.into_iter().next())
    }

    /// Whether the lock is held past its expiry, by the store's clock.
    pub async fn is_stale(&self, name: &LockName) -> Result<bool, EngineError> {
        let now = self.ledger.store.now().await?;
        Ok(self.get(name).await?.is_some_and(|lock| lock.is_stale(now)))
    }

    /// All locks, in order of name.
    pub async fn list(&self, after: Option<LockName>, limit: u32) -> Result<Vec<Lock>, EngineError> {
        Ok(self.ledger.store.locks(LockFilter { after, limit, ..LockFilter::default() }).await?)
    }

    /// Reads, changes and writes; again if somebody was faster. `None` from `change` writes nothing.
    async fn change<F>(&self, name: &LockName, change: F) -> Result<Option<Lock>, EngineError>
    where
        F: Fn(Option<Lock>, goldseam_core::Millis) -> Result<Option<Lock>, LockRefusal>,
    {
        let mut pause_for = PAUSE;
        let mut wrote: Option<Lock> = None;
        for attempt in 1..=TRIES * 2 {
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
                Err(StoreError::Unknown { .. }) if attempt < TRIES => wrote = Some(next),
                Err(StoreError::Busy { .. }) if attempt < TRIES => {}
                Err(error) => return Err(error.into()),
            }
            pause(pause_for).await;
            pause_for *= 2;
        }
        Err(EngineError::Patience { doing: "a change of a lock", seconds: 0 })
    }
}
