//! Keys of a server: what a caller may do, in which namespace.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use goldseam::Millis;
use goldseam::unstable::core::QueueName;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A permission of a key. No scope includes another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Read everything except keys.
    Read,
    /// Start runs and submit tasks.
    Start,
    /// Send signals and answer questions.
    Signal,
    /// Pause, resume, cancel, terminate, withdraw, jump, retry, heal; release other people's locks and tasks.
    Operate,
    /// Claim tasks and runs, hold locks, report results.
    Worker,
    /// Create and revoke keys.
    Admin,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Start, Self::Signal, Self::Operate, Self::Worker, Self::Admin];

    /// Returns the name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Start => "start",
            Self::Signal => "signal",
            Self::Operate => "operate",
            Self::Worker => "worker",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The text is not a scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidScope(String);

impl fmt::Display for InvalidScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid scope {:?}; write read, start, signal, operate, worker or admin", self.0)
    }
}

impl std::error::Error for InvalidScope {}

impl FromStr for Scope {
    type Err = InvalidScope;

    fn from_str(word: &str) -> Result<Self, InvalidScope> {
        Self::ALL
            .into_iter()
            .find(|scope| scope.as_str() == word)
            .ok_or_else(|| InvalidScope(word.chars().take(40).collect()))
    }
}

/// What the caller of a request may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = CurrentKey)]
pub struct CurrentKeyDoc {
    /// Id of the key; absent if the caller needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Who or what uses the key; `local` without a key.
    pub name: String,
    /// The namespace of the key.
    pub namespace: String,
    /// The queues whose tasks and runs it may claim; absent for all queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<BTreeSet<QueueName>>,
    /// What it may do.
    pub scopes: BTreeSet<Scope>,
}

/// A key, without its credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Key)]
pub struct KeyDoc {
    /// The id, which is not secret.
    pub id: String,
    /// Who or what uses the key.
    pub name: String,
    /// The namespace that it gives access to.
    pub namespace: String,
    /// What it may do there.
    pub scopes: BTreeSet<Scope>,
    /// The queues whose tasks and runs it may claim; absent for all queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<BTreeSet<QueueName>>,
    /// When it was created.
    pub created_at: Millis,
    /// Who created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Millis>,
}

impl KeyDoc {
    /// Whether the key is neither revoked nor expired.
    pub fn is_valid(&self, now: Millis) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
}

/// A key to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewKey {
    /// Who or what will use the key.
    pub name: String,
    /// What it may do.
    pub scopes: BTreeSet<Scope>,
    /// The queues whose tasks and runs it may claim, with the scope `worker`; defaults to all queues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<BTreeSet<QueueName>>,
    /// The namespace that it gives access to; defaults to the caller's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// How long it is valid, in milliseconds; without a limit by default.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::unstable::core::whole::optional"
    )]
    pub valid_for_ms: Option<u64>,
}

/// A new key with its credential.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = MadeKey)]
pub struct CreatedKeyDoc {
    /// The key.
    #[serde(flatten)]
    pub key: KeyDoc,
    /// The credential to send with requests. The server shows it only once.
    pub credential: String,
}
