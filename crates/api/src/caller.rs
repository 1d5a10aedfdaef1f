//! Who asks for a change.

use goldseam::client::By;
use sha2::{Digest, Sha256};

/// Ids that were made from an idempotency key begin like this.
pub(crate) const KEY_MARK: &str = "k-";

/// Who asks for a change, and under which idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caller {
    /// Who: a user's name, or the name of a key.
    pub who: Option<String>,
    /// Makes a repeat of the same change harmless; none: every change is a new one.
    pub key: Option<String>,
    /// The id of the credential that it came with; none where none is asked for.
    pub credential: Option<String>,
}

impl Caller {
    /// A caller without an idempotency key.
    pub fn named(who: Option<String>) -> Self {
        Self { who, ..Self::default() }
    }

    /// The id under which a change of `subject` by `operation` stands in a log: the same caller, key, operation and
    /// subject give the same id, and nothing else does.
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

    /// As the engine takes it.
    pub fn by(&self, operation: &str, subject: &str, reason: &str) -> By {
        By { who: self.who.clone(), reason: reason.to_owned(), id: self.command_id(operation, subject) }
    }
}
