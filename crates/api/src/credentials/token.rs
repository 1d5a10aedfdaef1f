//! Opaque tokens signed by the servers of one store, each for one purpose and one namespace.

use std::path::Path;
use std::sync::Arc;

use goldseam::unstable::core::LockName;
use goldseam::unstable::core::lock::Lock;
use goldseam::unstable::engine::Entropy;
use goldseam::unstable::store::{Expect, LockFilter, Store, Written};
use hmac::{Hmac, KeyInit, Mac};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::Sha256;

use super::{file_mode, hex, keys, unhex};
use crate::problem::Problem;

/// The lock that holds the signing secret shared by all servers of a store.
const NAME: &str = "goldseam.secret";
/// Length of a truncated signature.
const MAC_BYTES: usize = 16;
/// Minimum size of `secret_file`.
const FILE_BYTES_MIN: usize = 32;
/// Maximum length of a token.
const TOKEN_BYTES_MAX: usize = 4096;

/// A signing secret: creates and verifies tokens.
#[derive(Clone)]
pub struct TokenSigner {
    secret: Arc<[u8]>,
}

impl std::fmt::Debug for TokenSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenSigner(…)")
    }
}

/// The content of `secret_file`. It is mixed into every secret of the store: access to the store alone is not enough to
/// sign.
#[derive(Clone, Default)]
pub struct FileSecret(Option<Arc<[u8]>>);

impl std::fmt::Debug for FileSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FileSecret(…)")
    }
}

impl FileSecret {
    /// Reads the file, if one is named. It must have at least 32 bytes and no permissions for other users. A final line
    /// break is ignored.
    pub fn read(file: Option<&Path>) -> Result<Self, Problem> {
        let Some(file) = file else { return Ok(Self(None)) };
        let bad = |what: String| {
            Problem::new(500, format!("cannot use secret_file {}: {what}", file.display()))
                .code("GS0610")
                .hint(format!("create one: (umask 077 && openssl rand -hex 32 > {})", file.display()))
        };
        file_mode::check("secret_file", file)?;
        let content = std::fs::read(file).map_err(|error| bad(format!("cannot read it: {error}")))?;
        if content.len() < FILE_BYTES_MIN {
            return Err(bad(format!("it has {} bytes, fewer than {FILE_BYTES_MIN}", content.len())));
        }
        let content = content.strip_suffix(b"\n").unwrap_or(&content);
        Ok(Self(Some(content.strip_suffix(b"\r").unwrap_or(content).into())))
    }

    /// Combines the file's secret with a secret of the store.
    fn mixed_into(&self, stored: Vec<u8>) -> Arc<[u8]> {
        let Some(own) = &self.0 else { return stored.into() };
        let mut mac = keyed(own);
        mac.update(&stored);
        mac.finalize().into_bytes().as_slice().into()
    }
}

fn keyed(secret: &[u8]) -> Hmac<Sha256> {
    Hmac::<Sha256>::new_from_slice(secret).unwrap_or_else(|_| unreachable!("HMAC accepts keys of any length"))
}

/// Reads the secrets in a lock, the current one first, and creates the first one if necessary.
pub(super) async fn secrets(
    store: &dyn Store,
    entropy: &dyn Entropy,
    name: &str,
    own: &FileSecret,
) -> Result<Vec<TokenSigner>, Problem> {
    let name = LockName::new(name)?;
    loop {
        let found = read(store, &name).await?.and_then(|lock| lock.holder);
        let secrets = found.iter().flat_map(|holder| holder.split(' ')).filter_map(unhex);
        let signers: Vec<TokenSigner> =
            secrets.map(|secret| TokenSigner { secret: own.mixed_into(secret) }).collect();
        if !signers.is_empty() {
            return Ok(signers);
        }
        let mut lock = keys::empty(name.clone(), store.now().await?);
        lock.holder = Some(random(entropy));
        lock.fence = 1;
        lock.version = 1;
        if let Written::Lost(None) = store.put_lock(lock, Expect::Absent).await? {
            return Err(Problem::new(503, "the store refuses to save the signing secret"));
        }
    }
}

/// Reads a lock.
pub(super) async fn read(store: &dyn Store, name: &LockName) -> Result<Option<Lock>, Problem> {
    let filter = LockFilter { name: Some(name.clone()), limit: 1, ..LockFilter::default() };
    Ok(store.locks(filter).await?.into_iter().next())
}

/// Generates a secret.
pub(super) fn random(entropy: &dyn Entropy) -> String {
    (0..4).map(|_| format!("{:016x}", entropy.next())).collect()
}

impl TokenSigner {
    /// Reads the signing secret of a store, or creates it.
    pub async fn of(store: &dyn Store, entropy: &dyn Entropy, own: &FileSecret) -> Result<Self, Problem> {
        let mut secrets = secrets(store, entropy, NAME, own).await?;
        Ok(secrets.swap_remove(0))
    }

    /// Derives a secret from a text. It cannot be computed without the signing secret.
    pub(super) fn derive(&self, purpose: &str, text: &str) -> String {
        hex(&self.mac(purpose, "derived", text.as_bytes()).finalize().into_bytes())
    }

    /// Returns a token with this content, valid for one purpose in one namespace.
    pub fn seal<T: Serialize>(&self, purpose: &str, namespace: &str, content: &T) -> Result<String, Problem> {
        let body = serde_json::to_vec(content).map_err(|error| Problem::new(500, error.to_string()))?;
        let mac = self.mac(purpose, namespace, &body).finalize().into_bytes();
        Ok(format!("{}.{}", hex(&body), hex(&mac[..MAC_BYTES])))
    }

    /// Returns the content of a token that is valid for this purpose in this namespace.
    pub fn open<T: DeserializeOwned>(&self, purpose: &str, namespace: &str, token: &str) -> Option<T> {
        let (body, mac) = Some(token).filter(|token| token.len() <= TOKEN_BYTES_MAX)?.split_once('.')?;
        let body = unhex(body)?;
        let mac = unhex(mac).filter(|mac| mac.len() == MAC_BYTES)?;
        self.mac(purpose, namespace, &body).verify_truncated_left(&mac).ok()?;
        serde_json::from_slice(&body).ok()
    }

    fn mac(&self, purpose: &str, namespace: &str, body: &[u8]) -> Hmac<Sha256> {
        let mut mac = keyed(&self.secret);
        for part in [purpose.as_bytes(), namespace.as_bytes(), body] {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac
    }
}
