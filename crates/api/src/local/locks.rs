//! Named locks, without those that are reserved for the engine.

use std::time::Duration;

use async_trait::async_trait;
use goldseam::EngineError;
use goldseam::unstable::core::lock::{Lock, LockRefusal, TTL_DEFAULT};
use goldseam::unstable::core::reserved::Named;
use goldseam::unstable::core::{LockName, argument};
use goldseam::unstable::engine::claims::StaleLock;
use goldseam::unstable::engine::locks::AcquiredBy;

use super::{LocalApi, limit};
use crate::api::{ApiResult, LocksApi};
use crate::caller::Caller;
use crate::doc::lock::{LocksQuery, NewExtension, NewHold, NewRelease, ReleasedDoc};
use crate::doc::{ItemsDoc, PageDoc};
use crate::problem::Problem;

/// Default number of locks in a page.
const LOCKS_DEFAULT: u32 = 100;

fn ttl(ttl_ms: Option<u64>) -> Result<Duration, Problem> {
    ttl_ms.map_or(Ok(()), |ms| argument::positive("the time to live", u128::from(ms)))?;
    Ok(ttl_ms.map_or(TTL_DEFAULT, Duration::from_millis))
}

#[async_trait]
impl LocksApi for LocalApi {
    async fn locks(&self, query: LocksQuery) -> ApiResult<PageDoc<Lock>> {
        let most = limit::page(query.limit, LOCKS_DEFAULT)?;
        let mut after = query.after.map(LockName::new).transpose()?;
        let mut items: Vec<Lock> = Vec::new();
        let wanted = usize::try_from(most).unwrap_or(usize::MAX);
        loop {
            let page = self.client.locks().list(after.clone(), most + 1).await?;
            let last = page.len() <= wanted;
            after = page.last().map(|lock| lock.name.clone());
            items.extend(page.into_iter().filter(|lock| !limit::is_reserved(lock.name.as_str())));
            if last || items.len() > wanted {
                break;
            }
        }
        let more = items.len() > wanted;
        items.truncate(wanted);
        let next = items.last().map(|lock| lock.name.to_string()).filter(|_| more);
        Ok(PageDoc::new(items, next))
    }

    async fn lock(&self, name: &LockName) -> ApiResult<Lock> {
        limit::open(Named::Id, name.as_str())?;
        let missing =
            || Problem::not_found(format!("lock {name} does not exist")).hint("goldseam lock ls lists them");
        self.client.locks().get(name).await?.ok_or_else(missing)
    }

    async fn stale_locks(&self) -> ApiResult<ItemsDoc<StaleLock>> {
        let stale = self.client.claims().stale_locks().await?;
        let open = stale.into_iter().filter(|stale| !limit::is_reserved(stale.lock.name.as_str()));
        Ok(open.collect::<Vec<_>>().into())
    }

    async fn acquire_lock(&self, caller: &Caller, name: &LockName, new: NewHold) -> ApiResult<Lock> {
        limit::open(Named::Id, name.as_str())?;
        self.check_text("the holder", &new.holder)?;
        let id = caller.command_id("acquire", name.as_str());
        let locks = self.client.locks();
        let by = AcquiredBy { id: id.as_deref(), credential: caller.credential.as_deref() };
        let acquired = locks.acquire_as(name, &new.holder, ttl(new.ttl_ms)?, by).await;
        match (acquired, id) {
            (Err(EngineError::Lock(LockRefusal::Held { holder, name, expires_at })), Some(id)) => {
                // A repeat of the command that acquired the lock gets the lock.
                let lock = locks.get(&name).await?.filter(|lock| lock.was_taken_by(&id));
                match lock {
                    Some(lock) if holder == new.holder => Ok(lock),
                    Some(_) => Err(Problem::key_reused(&name)),
                    None => Err(EngineError::Lock(LockRefusal::Held { name, holder, expires_at }).into()),
                }
            }
            (acquired, _) => Ok(acquired?),
        }
    }

    async fn extend_lock(&self, _: &Caller, name: &LockName, new: NewExtension) -> ApiResult<Lock> {
        limit::open(Named::Id, name.as_str())?;
        Ok(self.client.locks().extend(name, &new.holder, new.fence, ttl(new.ttl_ms)?).await?)
    }

    async fn release_lock(
        &self,
        caller: &Caller,
        name: &LockName,
        new: NewRelease,
    ) -> ApiResult<ReleasedDoc> {
        limit::open(Named::Id, name.as_str())?;
        let locks = self.client.locks();
        let who = caller.who.as_deref();
        let released = locks.release_by_hand(name, &new.holder, new.fence, who).await?;
        Ok(ReleasedDoc { name: name.clone(), released })
    }
}
