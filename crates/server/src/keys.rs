//! Keys: who may do what, in which namespace. A key is a lock of a reserved name in the main store.
//!
//! Invariant: the secret itself is nowhere but in the hands of whoever made the key. The store has its hash, and
//! [`Secret`] shows itself only to [`Secret::reveal`].

use std::fmt;
use std::sync::Arc;

use goldseam::core::lock::Lock;
use goldseam::core::task::note;
use goldseam::core::{LockName, Millis, argument};
use goldseam::engine::Entropy;
use goldseam::store::{Expect, LockFilter, Store, Written};
use goldseam_api::doc::key::{Key, NewKey, Scope};
use goldseam_api::{Caller, Problem};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::hex;

/// Names of all locks that are keys begin like this.
const PREFIX: &str = "goldseam.key.";
/// Every key begins like this, so that one that leaked can be searched for.
const MARK: &str = "gsk";
/// Keys read from the store at a time.
const PAGE: u32 = 200;
/// Longest name of a key.
pub(crate) const NAME_CHARS_MAX: usize = 100;
/// Queues that a key may name.
pub(crate) const QUEUES_MAX: usize = 100;
/// How often a change of a key that others change too is tried.
const TRIES: u32 = 5;

/// A key as the store has it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Kept {
    #[serde(flatten)]
    key: Key,
    /// SHA-256 of the secret, in hexadecimal.
    hash: String,
}

/// Text that must not be seen: it does not print.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself, to be shown once or sent.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A key together with the hash to compare with.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) key: Key,
    hash: String,
}

/// The keys that a store has.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) readable: Vec<Stored>,
    /// How many there are that say nothing to this program: damaged ones, or those of a later version.
    pub(crate) unreadable: usize,
}

impl Found {
    fn add(&mut self, lock: &Lock) {
        match read(lock) {
            Some(Kept { key, hash }) => self.readable.push(Stored { key, hash }),
            None => {
                tracing::warn!(name = lock.name.as_str(), "a key cannot be read, and opens nothing");
                self.unreadable += 1;
            }
        }
    }
}

impl Stored {
    /// Whether this is the key's secret; takes the same time whatever is wrong with it.
    pub(crate) fn is_opened_by(&self, secret: &str) -> bool {
        let hash = hash(secret);
        hash.as_bytes().ct_eq(self.hash.as_bytes()).into()
    }
}

/// The id and the secret of a credential; none if it does not look like one.
pub(crate) fn parse(credential: &str) -> Option<(&str, &str)> {
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
pub struct Keys {
    store: Arc<dyn Store>,
    entropy: Arc<dyn Entropy>,
}

impl Keys {
    /// The keys of this store.
    pub fn new(store: Arc<dyn Store>, entropy: Arc<dyn Entropy>) -> Self {
        Self { store, entropy }
    }

    /// Makes a key. Its credential is told here and never again; asked again under the same idempotency key, another one is
    /// not made.
    pub async fn create(&self, new: NewKey, by: &Caller) -> Result<(Key, Secret), Problem> {
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
        let namespace = new.namespace.unwrap_or_else(|| crate::NAMESPACE_DEFAULT.to_owned());
        let once = by.command_id("create key", &namespace);
        let id = once.as_ref().map_or_else(|| self.random(1), |once| hash(once)[..16].to_owned());
        let secret = self.random(4);
        let key = Key {
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
        let kept = Kept { key: key.clone(), hash: hash(&secret) };
        let mut lock = empty(lock_name(&id)?, now);
        write(&mut lock, &kept, now, "created")?;
        match self.store.put_lock(lock, Expect::Absent).await? {
            Written::Done => Ok((key, Secret(format!("{MARK}_{id}_{secret}")))),
            Written::Lost(_) if once.is_some() => Err(Problem::new(
                409,
                format!("key {id} was made under this idempotency key, and its credential was told then"),
            )
            .code("GS0603")
            .hint(format!("if the answer was lost: goldseam key revoke {id}, and make another"))),
            Written::Lost(_) => Err(Problem::new(409, "a key of this id is there already; try again")),
        }
    }

    /// Every key that was ever made and can be read, in order of id.
    pub async fn list(&self) -> Result<Vec<Key>, Problem> {
        Ok(self.stored().await?.readable.into_iter().map(|stored| stored.key).collect())
    }

    pub(crate) async fn stored(&self) -> Result<Found, Problem> {
        let (mut found, mut after) = (Found::default(), Some(LockName::new(PREFIX.trim_end_matches('.'))?));
        loop {
            let filter = LockFilter { after: after.take(), limit: PAGE, ..LockFilter::default() };
            let page = self.store.locks(filter).await?;
            let ours = page.iter().take_while(|lock| lock.name.as_str().starts_with(PREFIX));
            let matched = ours.map(|lock| found.add(lock)).count();
            match page.last() {
                // Names of other locks stand behind those of keys: a page of keys only has a next one.
                Some(last) if matched == PAGE as usize => after = Some(last.name.clone()),
                _ => return Ok(found),
            }
        }
    }

    /// Revokes a key, for good. One that is revoked already stays as it is.
    pub async fn revoke(&self, id: &str, by: Option<&str>) -> Result<Key, Problem> {
        let missing = || {
            Problem::not_found(format!("there is no key {}", id.chars().take(40).collect::<String>()))
                .hint("goldseam key list lists them")
        };
        let name = lock_name(id).map_err(|_| missing())?;
        for _ in 0..TRIES {
            let filter = LockFilter { name: Some(name.clone()), limit: 1, ..LockFilter::default() };
            let mut lock = self.store.locks(filter).await?.into_iter().next().ok_or_else(missing)?;
            let mut kept = read(&lock).ok_or_else(missing)?;
            if kept.key.revoked_at.is_some() {
                return Ok(kept.key);
            }
            let (now, expect) = (self.store.now().await?, Expect::Version(lock.version));
            kept.key.revoked_at = Some(now);
            write(&mut lock, &kept, now, &format!("revoked by {}", by.unwrap_or("somebody")))?;
            if self.store.put_lock(lock, expect).await? == Written::Done {
                return Ok(kept.key);
            }
        }
        Err(Problem::new(503, "the key changed under every try to revoke it; try again"))
    }

    /// So many random numbers, in hexadecimal.
    fn random(&self, words: usize) -> String {
        (0..words).map(|_| format!("{:016x}", self.entropy.next())).collect()
    }
}

/// Queues narrow what a worker may claim: without the scope, or without any queue, there is nothing to narrow.
fn check_queues(new: &NewKey) -> Result<(), Problem> {
    let Some(queues) = &new.queues else { return Ok(()) };
    if !new.scopes.contains(&Scope::Worker) {
        return Err(Problem::bad_request(
            "queues are for keys with the scope worker, and this one has it not",
        )
        .hint("add the scope worker, or name no queue"));
    }
    queues.iter().try_for_each(goldseam_api::open_queue)?;
    match queues.len() {
        0 => Err(Problem::bad_request("a key for no queue at all can claim nothing")
            .hint("name a queue, or leave queues out for all of them")),
        1..=QUEUES_MAX => Ok(()),
        _ => Err(Problem::bad_request(format!("a key may name {QUEUES_MAX} queues at the most"))
            .limit(QUEUES_MAX as u64)),
    }
}

fn lock_name(id: &str) -> Result<LockName, Problem> {
    Ok(LockName::new(format!("{PREFIX}{id}"))?)
}

pub(crate) fn empty(name: LockName, now: Millis) -> Lock {
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

fn read(lock: &Lock) -> Option<Kept> {
    serde_json::from_str(lock.holder.as_deref()?).ok()
}

fn write(lock: &mut Lock, kept: &Kept, now: Millis, what: &str) -> Result<(), Problem> {
    let text = serde_json::to_string(kept).map_err(|error| Problem::new(500, error.to_string()))?;
    lock.holder = Some(text);
    lock.fence += 1;
    lock.version += 1;
    note(&mut lock.audit, now, what);
    Ok(())
}
