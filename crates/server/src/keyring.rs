//! The keys as a running server knows them: read from the store again when they may have changed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use goldseam::engine::Clock;
use goldseam_api::Problem;
use tokio::sync::RwLock;

use crate::keys::{self, Keys, Stored};

/// A key that was revoked elsewhere opens nothing after so long.
const FRESH: Duration = Duration::from_secs(1);
/// Keys that nobody knows are looked for at once, but no more often than this.
const UNKNOWN: Duration = Duration::from_millis(100);
/// While the store does not answer, keys that were read so long ago still hold; then nobody is let in.
const STALE_MAX: Duration = Duration::from_secs(60);

/// The keys as this server knows them.
#[derive(Debug)]
pub(crate) struct Keyring {
    pub(crate) keys: Keys,
    clock: Arc<dyn Clock>,
    known: RwLock<Known>,
}

#[derive(Debug, Default)]
struct Known {
    read_at: Option<Duration>,
    /// When a key that nobody knew was last looked for.
    sought_at: Option<Duration>,
    by_id: HashMap<String, Arc<Stored>>,
}

impl Keyring {
    pub(crate) fn new(keys: Keys, clock: Arc<dyn Clock>) -> Self {
        Self { keys, clock, known: RwLock::default() }
    }

    /// Whether there is any key at all: while there is none, nobody can be asked for one.
    pub(crate) async fn is_empty(&self) -> Result<bool, Problem> {
        self.refresh(FRESH).await?;
        Ok(self.known.read().await.by_id.is_empty())
    }

    /// The key that a credential opens with, if it is one and valid now.
    pub(crate) async fn check(&self, credential: &str) -> Result<Option<Arc<Stored>>, Problem> {
        let Some((id, secret)) = keys::parse(credential) else { return Ok(None) };
        self.refresh(FRESH).await?;
        let mut found = self.known.read().await.by_id.get(id).cloned();
        if found.is_none() && self.may_seek().await {
            self.refresh(Duration::ZERO).await?;
            found = self.known.read().await.by_id.get(id).cloned();
        }
        let now = self.clock.now();
        Ok(found.filter(|stored| stored.is_opened_by(secret) && stored.key.is_valid(now)))
    }

    /// Whether a key that nobody knows is looked for now: guessing must not keep the store busy.
    async fn may_seek(&self) -> bool {
        let (now, mut known) = (self.clock.elapsed(), self.known.write().await);
        let may = known.sought_at.is_none_or(|at| now.saturating_sub(at) > UNKNOWN);
        if may {
            known.sought_at = Some(now);
        }
        may
    }

    /// Whether the key that somebody came with is still valid.
    pub(crate) async fn is_still_valid(&self, id: &str) -> Result<bool, Problem> {
        self.refresh(FRESH).await?;
        let now = self.clock.now();
        Ok(self.known.read().await.by_id.get(id).is_some_and(|stored| stored.key.is_valid(now)))
    }

    /// What is known is not true any more.
    pub(crate) async fn forget(&self) {
        self.known.write().await.read_at = None;
    }

    async fn refresh(&self, fresh: Duration) -> Result<(), Problem> {
        let is_fresh = |read_at: Option<Duration>, bound: Duration| {
            read_at.is_some_and(|at| self.clock.elapsed().saturating_sub(at) <= bound)
        };
        if is_fresh(self.known.read().await.read_at, fresh) {
            return Ok(());
        }
        let mut known = self.known.write().await;
        if is_fresh(known.read_at, fresh) {
            return Ok(());
        }
        match self.keys.stored().await {
            Ok(stored) => {
                known.by_id = stored.into_iter().map(|s| (s.key.id.clone(), Arc::new(s))).collect();
                known.read_at = Some(self.clock.elapsed());
                Ok(())
            }
            Err(problem) if is_fresh(known.read_at, STALE_MAX) => {
                tracing::warn!(%problem, "the keys could not be read again");
                Ok(())
            }
            Err(problem) => Err(problem),
        }
    }
}
