//! API keys: each grants scopes in one namespace. A key is stored as a lock with a reserved name in the main store.
//!
//! Invariant: only the caller that created a key has its secret. The store has a hash, and [`SecretText`] prints its text
//! only through [`SecretText::reveal`].

use std::fmt;
use std::sync::Arc;

use goldseam::unstable::core::lock::Lock;
use goldseam::unstable::core::task::note;
use goldseam::unstable::core::{LockName, Millis, argument};
use goldseam::unstable::engine::Entropy;
use goldseam::unstable::store::{Expect, LockFilter, Store, Written};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::hex;
use crate::caller::Caller;
use crate::doc::key::{KeyDoc, NewKey, Scope};
use crate::local::open_queue;
use crate::problem::Problem;

/// Prefix of the lock names of keys.
const PREFIX: &str = "goldseam.key.";
/// Prefix of every credential, so that a leaked one can be found by searching.
const MARK: &str = "gsk";
/// Keys per page when reading from the store.
const PAGE: u32 = 200;
/// Maximum length of a key's name.
pub const NAME_CHARS_MAX: usize = 100;
/// Maximum number of queues of a key.
pub const QUEUES_MAX: usize = 100;
/// Attempts to change a key that other writers change at the same time.
const TRIES: u32 = 5;

/// The stored form of a key.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct KeyRecord {
    #[serde(flatten)]
    key: KeyDoc,
    /// Hexadecimal SHA-256 of the secret.
    hash: String,
}

/// A text that `Debug` does not print.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

impl SecretText {
    /// Wraps a text.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// Returns the text, to be shown once or sent.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(…)")
    }
}

/// A key and the hash of its secret.
#[derive(Debug, Clone)]
pub struct StoredKey {
    /// The key.
    pub key: KeyDoc,
    hash: String,
}

/// The keys in a store.
#[derive(Debug, Default)]
pub struct StoredKeys {
    /// The keys that this build can decode.
    pub readable: Vec<StoredKey>,
    /// Number of keys that this build cannot decode: damaged, or written by a later version.
    pub unreadable: usize,
}

impl StoredKeys {
    fn add(&mut self, lock: &Lock) {
        match read(lock) {
            Some(KeyRecord { key, hash }) => self.readable.push(StoredKey { key, hash }),
            None => {
                tracing::warn!(name = lock.name.as_str(), "cannot decode key; it grants nothing");
                self.unreadable += 1;
            }
        }
    }
}

impl StoredKey {
    /// Compares the secret with the key's hash in constant time.
    pub fn is_opened_by(&self, secret: &str) -> bool {
        let hash = hash(secret);
        hash.as_bytes().ct_eq(self.hash.as_bytes()).into()
    }
}

/// Splits a credential into id and secret. Returns `None` if its form is invalid.
pub fn parse(credential: &str) -> Option<(&str, &str)> {
    let (mark, rest) = credential.split_once('_')?;
    let (id, secret) = rest.split_once('_')?;
    let is_hex = |text: &str, len| text.len() == len && text.bytes().all(|b| b.is_ascii_hexdigit());
    (mark == MARK && is_hex(id, 16) && is_hex(secret, 64)).then_some((id, secret))
}

fn hash(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}

/// The keys of a store.
#[derive(Debug, Clone)]
pub struct KeyStore {
    store: Arc<dyn Store>,
    entropy: Arc<dyn Entropy>,
}

impl KeyStore {
    /// Returns the keys of a store.
    pub fn new(store: Arc<dyn Store>, entropy: Arc<dyn Entropy>) -> Self {
        Self { store, entropy }
    }

    /// Creates a key and returns its credential, which cannot be read again later. A repeat under the same idempotency
    /// key is refused and creates no second key.
    pub async fn create(&self, new: NewKey, by: &Caller) -> Result<(KeyDoc, SecretText), Problem> {
        let now = self.store.now().await?;
        let name = new.name.trim().to_owned();
        if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
            return Err(Problem::bad_request("a key needs a name of 1 to 100 characters")
                .limit(NAME_CHARS_MAX as u64));
        }
        argument::text("the name of a key", &name)?;
        if new.scopes.is_empty() {
            return Err(Problem::bad_request("a key needs at least one scope")
                .hint("read, start, signal, operate, worker, admin"));
        }
        check_queues(&new)?;
        let namespace = new.namespace.unwrap_or_else(|| super::NAMESPACE_DEFAULT.to_owned());
        let once = by.command_id("create key", &namespace);
        let id = once.as_ref().map_or_else(|| self.random(1), |once| hash(once)[..16].to_owned());
        let secret = self.random(4);
        let key = KeyDoc {
            id: id.clone(),
            name,
            namespace,
            scopes: new.scopes,
            queues: new.queues,
            created_at: now,
            created_by: by.who.clone(),
            expires_at: new.valid_for_ms.map(|ms| now + std::time::Duration::from_millis(ms)),
            revoked_at: None,
        };
        let kept = KeyRecord { key: key.clone(), hash: hash(&secret) };
        let mut lock = empty(lock_name(&id)?, now);
        write(&mut lock, &kept, now, "created")?;
        match self.store.put_lock(lock, Expect::Absent).await? {
            Written::Done => Ok((key, SecretText(format!("{MARK}_{id}_{secret}")))),
            Written::Lost(_) if once.is_some() => Err(Problem::new(
                409,
                format!("key {id} was already created under this idempotency key; its credential is shown only once"),
            )
            .code("GS0603")
            .hint(format!("if the response was lost: goldseam key revoke {id}, then create another key"))),
            Written::Lost(_) => Err(Problem::new(409, "a key with this id already exists; try again")),
        }
    }

    /// Returns every readable key, including revoked and expired ones, in order of id.
    pub async fn list(&self) -> Result<Vec<KeyDoc>, Problem> {
        Ok(self.stored().await?.readable.into_iter().map(|stored| stored.key).collect())
    }

    /// Reads all keys with their hashes.
    pub async fn stored(&self) -> Result<StoredKeys, Problem> {
        let mut found = StoredKeys::default();
        let mut after = Some(LockName::new(PREFIX.trim_end_matches('.'))?);
        loop {
            let filter = LockFilter { after: after.take(), limit: PAGE, ..LockFilter::default() };
            let page = self.store.locks(filter).await?;
            let ours = page.iter().take_while(|lock| lock.name.as_str().starts_with(PREFIX));
            let matched = ours.map(|lock| found.add(lock)).count();
            match page.last() {
                // Other locks sort after the keys, so only a page full of keys has a next page.
                Some(last) if matched == PAGE as usize => after = Some(last.name.clone()),
                _ => return Ok(found),
            }
        }
    }

    /// Returns a readable key.
    pub async fn find(&self, id: &str) -> Result<Option<KeyDoc>, Problem> {
        let Ok(name) = lock_name(id) else { return Ok(None) };
        let filter = LockFilter { name: Some(name), limit: 1, ..LockFilter::default() };
        let lock = self.store.locks(filter).await?.into_iter().next();
        Ok(lock.and_then(|lock| read(&lock)).map(|record| record.key))
    }

    /// Revokes a key permanently. Does nothing if it is already revoked.
    pub async fn revoke(&self, id: &str, by: Option<&str>) -> Result<KeyDoc, Problem> {
        let missing = || {
            Problem::not_found(format!("key {} not found", id.chars().take(40).collect::<String>()))
                .hint("goldseam key list shows all keys")
        };
        let name = lock_name(id).map_err(|_| missing())?;
        for _ in 0..TRIES {
            let filter = LockFilter { name: Some(name.clone()), limit: 1, ..LockFilter::default() };
            let mut lock = self.store.locks(filter).await?.into_iter().next().ok_or_else(missing)?;
            let mut kept = read(&lock).ok_or_else(missing)?;
            if kept.key.revoked_at.is_some() {
                return Ok(kept.key);
            }
            let now = self.store.now().await?;
            let expect = Expect::Version(lock.version);
            kept.key.revoked_at = Some(now);
            write(&mut lock, &kept, now, &format!("revoked by {}", by.unwrap_or("unknown")))?;
            if self.store.put_lock(lock, expect).await? == Written::Done {
                return Ok(kept.key);
            }
        }
        Err(Problem::new(503, "cannot revoke key: other writers changed it during every attempt; try again"))
    }

    /// Returns `words` random 64-bit numbers in hexadecimal.
    fn random(&self, words: usize) -> String {
        (0..words).map(|_| format!("{:016x}", self.entropy.next())).collect()
    }
}

/// Checks `queues`, which restricts the scope `worker` to at least one queue.
fn check_queues(new: &NewKey) -> Result<(), Problem> {
    let Some(queues) = &new.queues else { return Ok(()) };
    if !new.scopes.contains(&Scope::Worker) {
        return Err(Problem::bad_request("`queues` requires the scope worker, which this key lacks")
            .hint("add the scope worker, or omit `queues`"));
    }
    queues.iter().try_for_each(open_queue)?;
    match queues.len() {
        0 => Err(Problem::bad_request("`queues` is empty, so the key could claim nothing")
            .hint("name a queue, or omit `queues` to allow all")),
        1..=QUEUES_MAX => Ok(()),
        _ => Err(Problem::bad_request(format!("a key may name at most {QUEUES_MAX} queues"))
            .limit(QUEUES_MAX as u64)),
    }
}

fn lock_name(id: &str) -> Result<LockName, Problem> {
    Ok(LockName::new(format!("{PREFIX}{id}"))?)
}

/// Returns a lock with this name that has no holder yet.
pub fn empty(name: LockName, now: Millis) -> Lock {
    Lock {
        name,
        holder: None,
        fence: 0,
        expires_at: Millis::NEVER,
        acquired_at: now,
        node: None,
        version: 0,
        audit: Vec::new(),
    }
}

fn read(lock: &Lock) -> Option<KeyRecord> {
    serde_json::from_str(lock.holder.as_deref()?).ok()
}

fn write(lock: &mut Lock, kept: &KeyRecord, now: Millis, what: &str) -> Result<(), Problem> {
    let text = serde_json::to_string(kept).map_err(|error| Problem::new(500, error.to_string()))?;
    lock.holder = Some(text);
    lock.fence += 1;
    lock.version += 1;
    note(&mut lock.audit, now, what);
    Ok(())
}
