//! What a key may do: one word per kind of doing.

use std::fmt;
use std::str::FromStr;

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
    /// Pause, resume, cancel, jump, retry, heal; release other people's locks and tasks.
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
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no scope: write read, start, signal, operate, worker or admin")]
pub struct NoScope(String);

impl FromStr for Scope {
    type Err = NoScope;

    fn from_str(word: &str) -> Result<Self, NoScope> {
        Self::ALL
            .into_iter()
            .find(|scope| scope.as_str() == word)
            .ok_or_else(|| NoScope(word.chars().take(40).collect()))
    }
}
