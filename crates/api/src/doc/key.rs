//! Keys of a server: who may do what, in which namespace.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use goldseam::Millis;
use goldseam::core::QueueName;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a key may do. None of them includes another: a key has what it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Look at everything but keys.
    Read,
    /// Start runs and submit tasks.
    Start,
    /// Send signals and answer questions.
    Signal,
    /// Pause, resume, cancel, terminate, withdraw, jump, retry, heal; release other people's locks and tasks.
    Operate,
    /// Claim tasks and runs, hold locks, bring results.
    Worker,
    /// Make and revoke keys.
    Admin,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Start, Self::Signal, Self::Operate, Self::Worker, Self::Admin];

    /// The word.
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

/// The word is no scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoScope(String);

impl fmt::Display for NoScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no scope: write read, start, signal, operate, worker or admin", self.0)
    }
}

impl std::error::Error for NoScope {}

impl FromStr for Scope {
    type Err = NoScope;

    fn from_str(word: &str) -> Result<Self, NoScope> {
        Self::ALL
            .into_iter()
            .find(|scope| scope.as_str() == word)
            .ok_or_else(|| NoScope(word.chars().take(40).collect()))
    }
}

/// A key as everybody may see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Key {
    /// Names it; no secret.
    pub id: String,
    /// For people: who or what uses it.
    pub name: String,
    /// The namespace that it opens.
    pub namespace: String,
    /// What it may do there.
    pub scopes: BTreeSet<Scope>,
    /// The queues whose tasks and runs it may claim; all of them if this is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<BTreeSet<QueueName>>,
    /// When it was made.
    pub created_at: Millis,
    /// Who made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// When it ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Millis>,
}

impl Key {
    /// Whether it opens anything at this moment.
    pub fn is_valid(&self, now: Millis) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
}

/// What a new key is to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewKey {
    /// For people: who or what uses it.
    pub name: String,
    /// What it may do.
    pub scopes: BTreeSet<Scope>,
    /// The queues whose tasks and runs it may claim, with the scope `worker`; all of them unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<BTreeSet<QueueName>>,
    /// The namespace that it opens; that of whoever makes it unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// For how long it is valid, in milliseconds; for ever unless given.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::core::whole::optional"
    )]
    pub valid_for_ms: Option<u64>,
}

/// A key that was just made.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct MadeKey {
    /// The key.
    #[serde(flatten)]
    pub key: Key,
    /// What to send; it is not told again.
    pub credential: String,
}
