//! Opaque tokens: text that only this store's servers can have made, for one purpose and one namespace.

use std::sync::Arc;

use goldseam::core::LockName;
use goldseam::core::lock::Lock;
use goldseam::engine::Entropy;
use goldseam::store::{Expect, LockFilter, Store, Written};
use goldseam_api::Problem;
use hmac::{Hmac, KeyInit, Mac};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::Sha256;

use crate::{hex, keys, unhex};

/// The lock that holds what all servers of a store sign with.
const NAME: &str = "goldseam.secret";
/// Bytes of a signature that are kept.
const MAC_BYTES: usize = 16;
/// Longest token.
const TOKEN_BYTES_MAX: usize = 4096;

/// Makes and reads tokens.
#[derive(Clone)]
pub struct Tokens {
    secret: Arc<[u8]>,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tokens(…)")
    }
}

/// The secrets in a lock, the present one first; there is at least one.
pub(crate) async fn secrets(
    store: &dyn Store,
    entropy: &dyn Entropy,
    name: &str,
) -> Result<Vec<Tokens>, Problem> {
    let name = LockName::new(name)?;
    loop {
        let found = read(store, &name).await?.and_then(|lock| lock.holder);
        let secrets = found.iter().flat_map(|holder| holder.split(' ')).filter_map(unhex);
        let tokens: Vec<Tokens> = secrets.map(|secret| Tokens { secret: secret.into() }).collect();
        if !tokens.is_empty() {
            return Ok(tokens);
        }
        let mut lock = keys::empty(name.clone(), store.now().await?);
        lock.holder = Some(random(entropy));
        (lock.fence, lock.version) = (1, 1);
        if let Written::Lost(None) = store.put_lock(lock, Expect::Absent).await? {
            return Err(Problem::new(503, "the store refuses to keep what servers sign with"));
        }
    }
}

/// A lock, if it is there.
pub(crate) async fn read(store: &dyn Store, name: &LockName) -> Result<Option<Lock>, Problem> {
    let filter = LockFilter { name: Some(name.clone()), limit: 1, ..LockFilter::default() };
    Ok(store.locks(filter).await?.into_iter().next())
}

/// A new secret.
pub(crate) fn random(entropy: &dyn Entropy) -> String {
    (0..4).map(|_| format!("{:016x}", entropy.next())).collect()
}

impl Tokens {
    /// What this store's servers sign with; made if this is the first of them.
    pub async fn of(store: &dyn Store, entropy: &dyn Entropy) -> Result<Self, Problem> {
        let mut secrets = secrets(store, entropy, NAME).await?;
        Ok(secrets.swap_remove(0))
    }

    /// What follows from a text for whoever signs, and for nobody else.
    pub(crate) fn derive(&self, purpose: &str, text: &str) -> String {
        hex(&self.mac(purpose, "derived", text.as_bytes()).finalize().into_bytes())
    }

    /// A token with this content, good for this purpose in this namespace.
    pub fn seal<T: Serialize>(&self, purpose: &str, namespace: &str, content: &T) -> Result<String, Problem> {
        let body = serde_json::to_vec(content).map_err(|error| Problem::new(500, error.to_string()))?;
        let mac = self.mac(purpose, namespace, &body).finalize().into_bytes();
        Ok(format!("{}.{}", hex(&body), hex(&mac[..MAC_BYTES])))
    }

    /// What is in a token, if it was made for this purpose in this namespace.
    pub fn open<T: DeserializeOwned>(&self, purpose: &str, namespace: &str, token: &str) -> Option<T> {
        let (body, mac) = Some(token).filter(|token| token.len() <= TOKEN_BYTES_MAX)?.split_once('.')?;
        let (body, mac) = (unhex(body)?, unhex(mac).filter(|mac| mac.len() == MAC_BYTES)?);
        self.mac(purpose, namespace, &body).verify_truncated_left(&mac).ok()?;
        serde_json::from_slice(&body).ok()
    }

    fn mac(&self, purpose: &str, namespace: &str, body: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret)
            .unwrap_or_else(|_| unreachable!("a key of any length will do"));
        for part in [purpose.as_bytes(), namespace.as_bytes(), body] {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac
    }
}
