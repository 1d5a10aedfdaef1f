//! The identity of a caller and its idempotency key.

use std::collections::BTreeSet;

use goldseam::TraceContext;
use goldseam::client::By;
use goldseam::unstable::core::QueueName;
use goldseam::unstable::engine::remote::Holder;
use sha2::{Digest, Sha256};

/// The prefix of ids that are derived from an idempotency key.
pub(crate) const KEY_MARK: &str = "k-";

/// The actor of a change, with its idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caller {
    /// A user's name, or the name of a key.
    pub who: Option<String>,
    /// The idempotency key. Without one, every request is a new change.
    pub key: Option<String>,
    /// The id of the credential, if the server requires one.
    pub credential: Option<String>,
    /// The queues that the credential may use; `None` allows all.
    pub queues: Option<BTreeSet<QueueName>>,
    /// Whether the credential may act for workers of other credentials.
    pub operates: bool,
    /// The place of the caller in a distributed trace. Not part of a change: a repeat may have another one.
    pub trace: Option<TraceContext>,
}

impl Caller {
    /// Creates a caller without an idempotency key.
    pub fn named(who: Option<String>) -> Self {
        Self { who, ..Self::default() }
    }

    /// Derives the command id for the log from caller, idempotency key, operation and subject. Different inputs give
    /// different ids.
    pub fn command_id(&self, operation: &str, subject: &str) -> Option<String> {
        let key = self.key.as_ref()?;
        let mut hash = Sha256::new();
        for part in [self.who.as_deref().unwrap_or_default(), operation, subject, key] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let hex: String = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Some(format!("{KEY_MARK}{hex}"))
    }

    /// Converts the caller to the engine's holder of workers and executions.
    pub fn holder(&self) -> Holder {
        Holder { key: self.credential.clone(), queues: self.queues.clone(), operates: self.operates }
    }

    /// Converts the caller to the engine's `By`.
    pub fn by(&self, operation: &str, subject: &str, reason: &str) -> By {
        By { who: self.who.clone(), reason: reason.to_owned(), id: self.command_id(operation, subject) }
    }
}
