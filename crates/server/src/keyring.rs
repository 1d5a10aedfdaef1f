//! The keys as a running server knows them: read from the store again when they may have changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goldseam::Millis;
use goldseam::engine::Clock;
use goldseam_api::Problem;

use crate::cached_read::CachedRead;
use crate::keys::{self, Keys, Stored};

/// A key that was revoked elsewhere opens nothing after so long.
const FRESH: Duration = Duration::from_secs(1);
/// The same for what still waits with a key: looked at often enough to end within a second.
const WATCHED: Duration = Duration::from_millis(500);
/// Keys that nobody knows are looked for at once, but no more often than this.
const UNKNOWN: Duration = Duration::from_millis(100);

/// The keys as this server knows them.
#[derive(Debug)]
pub(crate) struct Keyring {
    pub(crate) keys: Keys,
    clock: Arc<dyn Clock>,
    known: CachedRead<Arc<Known>>,
    /// When a key that nobody knew was last looked for.
    sought_at: Mutex<Option<Duration>>,
}

#[derive(Debug)]
struct Known {
    /// One that cannot be read is a key all the same: it opens nothing, and it keeps the door shut.
    is_empty: bool,
    by_id: HashMap<String, Arc<Stored>>,
}

impl Keyring {
    pub(crate) fn new(keys: Keys, clock: Arc<dyn Clock>) -> Self {
        let known = CachedRead::new(Arc::clone(&clock));
        Self { keys, clock, known, sought_at: Mutex::default() }
    }

    /// Whether there is any key at all: while there is none, nobody can be asked for one.
    pub(crate) async fn is_empty(&self) -> Result<bool, Problem> {
        Ok(self.known(FRESH).await?.is_empty)
    }

    /// The key that a credential opens with, if it is one and valid now.
    pub(crate) async fn check(&self, credential: &str) -> Result<Option<Arc<Stored>>, Problem> {
        let Some((id, secret)) = keys::parse(credential) else { return Ok(None) };
        let (found, now) = (self.find(id).await?, self.clock.now());
        Ok(found.filter(|stored| stored.is_opened_by(secret) && stored.key.is_valid(now)))
    }

    /// Whether a key that nobody knows is looked for now: guessing must not keep the store busy.
    fn may_seek(&self) -> bool {
        let now = self.clock.elapsed();
        let mut sought_at = self.sought_at.lock().unwrap_or_else(PoisonError::into_inner);
        let may = sought_at.is_none_or(|at| now.saturating_sub(at) > UNKNOWN);
        if may {
            *sought_at = Some(now);
        }
        may
    }

    /// Whether the key of a request that still waits is valid.
    pub(crate) async fn is_still_valid(&self, id: &str) -> Result<bool, Problem> {
        let (known, now) = (self.known(WATCHED).await?, self.clock.now());
        Ok(known.by_id.get(id).is_some_and(|stored| stored.key.is_valid(now)))
    }

    /// Whether a key is known, not revoked and not expired.
    pub(crate) async fn is_valid(&self, id: &str) -> Result<bool, Problem> {
        let (found, now) = (self.find(id).await?, self.clock.now());
        Ok(found.is_some_and(|stored| stored.key.is_valid(now)))
    }

    /// When a key expires, if it does.
    pub(crate) async fn expiry(&self, id: &str) -> Result<Option<Millis>, Problem> {
        Ok(self.find(id).await?.and_then(|stored| stored.key.expires_at))
    }

    async fn find(&self, id: &str) -> Result<Option<Arc<Stored>>, Problem> {
        let found = self.known(FRESH).await?.by_id.get(id).cloned();
        match found.is_none() && self.may_seek() {
            true => Ok(self.known(Duration::ZERO).await?.by_id.get(id).cloned()),
            false => Ok(found),
        }
    }

    /// What is known is not true any more.
    pub(crate) async fn forget(&self) {
        self.known.forget().await;
    }

    async fn known(&self, fresh: Duration) -> Result<Arc<Known>, Problem> {
        let read = async {
            let found = self.keys.stored().await?;
            let is_empty = found.readable.is_empty() && found.unreadable == 0;
            let by_id = found.readable.into_iter().map(|s| (s.key.id.clone(), Arc::new(s))).collect();
            Ok(Arc::new(Known { is_empty, by_id }))
        };
        self.known.get(fresh, read).await
    }
}
