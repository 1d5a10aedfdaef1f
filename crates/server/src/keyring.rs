//! The server's cached keys, reloaded from the store when they may have changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goldseam::unstable::engine::Clock;
use goldseam_api::Problem;
use goldseam_api::credentials::cached_read::CachedRead;
use goldseam_api::credentials::keys::{self, KeyStore, StoredKey};

/// Maximum age of the cache for a new request: a key revoked elsewhere is refused after this time.
const FRESH: Duration = Duration::from_secs(1);
/// Maximum age of the cache for a waiting request, which must end within a second of the revocation.
const WATCHED: Duration = Duration::from_millis(500);
/// Minimum interval between two reloads for unknown keys.
const UNKNOWN: Duration = Duration::from_millis(100);

/// The server's cached keys.
#[derive(Debug)]
pub(crate) struct Keyring {
    keys: KeyStore,
    clock: Arc<dyn Clock>,
    known: CachedRead<Arc<KeysById>>,
    /// Time of the last reload for an unknown key.
    sought_at: Mutex<Option<Duration>>,
}

#[derive(Debug)]
struct KeysById {
    /// Unreadable keys grant nothing but still make authentication mandatory.
    is_empty: bool,
    by_id: HashMap<String, Arc<StoredKey>>,
}

impl Keyring {
    pub(crate) fn new(keys: KeyStore, clock: Arc<dyn Clock>) -> Self {
        let known = CachedRead::new(Arc::clone(&clock));
        Self { keys, clock, known, sought_at: Mutex::default() }
    }

    /// Returns whether no key exists. Without keys, the server cannot require one.
    pub(crate) async fn is_empty(&self) -> Result<bool, Problem> {
        Ok(self.known(FRESH).await?.is_empty)
    }

    /// Returns the key of a credential if the credential is valid now.
    pub(crate) async fn check(&self, credential: &str) -> Result<Option<Arc<StoredKey>>, Problem> {
        let Some((id, secret)) = keys::parse(credential) else { return Ok(None) };
        let found = self.find(id).await?;
        let now = self.clock.now();
        Ok(found.filter(|stored| stored.is_opened_by(secret) && stored.key.is_valid(now)))
    }

    /// Returns whether an unknown key may cause a reload now. Guessed keys must not load the store.
    fn may_reload(&self) -> bool {
        let now = self.clock.elapsed();
        let mut sought_at = self.sought_at.lock().unwrap_or_else(PoisonError::into_inner);
        let may = sought_at.is_none_or(|at| now.saturating_sub(at) > UNKNOWN);
        if may {
            *sought_at = Some(now);
        }
        may
    }

    /// Returns whether the key of a waiting request is still valid.
    pub(crate) async fn is_still_valid(&self, id: &str) -> Result<bool, Problem> {
        let known = self.known(WATCHED).await?;
        let now = self.clock.now();
        Ok(known.by_id.get(id).is_some_and(|stored| stored.key.is_valid(now)))
    }

    /// Returns whether a key exists and is neither revoked nor expired.
    pub(crate) async fn is_valid(&self, id: &str) -> Result<bool, Problem> {
        let found = self.find(id).await?;
        let now = self.clock.now();
        Ok(found.is_some_and(|stored| stored.key.is_valid(now)))
    }

    async fn find(&self, id: &str) -> Result<Option<Arc<StoredKey>>, Problem> {
        let found = self.known(FRESH).await?.by_id.get(id).cloned();
        match found.is_none() && self.may_reload() {
            true => Ok(self.known(Duration::ZERO).await?.by_id.get(id).cloned()),
            false => Ok(found),
        }
    }

    /// Drops the cached keys.
    pub(crate) async fn forget(&self) {
        self.known.forget().await;
    }

    async fn known(&self, fresh: Duration) -> Result<Arc<KeysById>, Problem> {
        let read = async {
            let found = self.keys.stored().await?;
            let is_empty = found.readable.is_empty() && found.unreadable == 0;
            let by_id = found.readable.into_iter().map(|s| (s.key.id.clone(), Arc::new(s))).collect();
            Ok(Arc::new(KeysById { is_empty, by_id }))
        };
        self.known.get(fresh, read).await
    }
}
