//! Refusals of a copy and of a remote worker. The error type contains them, so they are in the lowest layer.

use goldseam_core::RunId;
use goldseam_core::next_step::{Hint, NextStep, Setting};

/// Why a copy is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CopyRefusal {
    /// A node may be executing runs on the store.
    #[error("{store} is in use by {}", .nodes.join(", "))]
    InUse {
        /// The store.
        store: String,
        /// The nodes that live or may live.
        nodes: Vec<String>,
    },
    /// Another copy into the same store began later.
    #[error("a later copy into {store} has begun")]
    Overtaken {
        /// The store.
        store: String,
    },
    /// The destination has records that this copy did not bring.
    #[error("{store} is not empty")]
    NotEmpty {
        /// The store.
        store: String,
        /// Whether the copy may merge both stores.
        may_merge: bool,
    },
    /// The destination takes part in another copy.
    #[error("{store} takes part in another copy: it is {words}")]
    OtherCopy {
        /// The store.
        store: String,
        /// The role of the store in that copy.
        words: String,
    },
    /// Source and destination are the same store.
    #[error("{store} is both source and destination")]
    Same {
        /// The store.
        store: String,
    },
}

impl CopyRefusal {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InUse { .. } | Self::Overtaken { .. } => "GS0401",
            Self::NotEmpty { .. } | Self::OtherCopy { .. } | Self::Same { .. } => "GS0402",
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Hint {
        match self {
            Self::InUse { .. } => {
                "stop its engines first, then copy; active runs continue at the destination".into()
            }
            Self::Overtaken { .. } => "let that copy finish".into(),
            Self::NotEmpty { may_merge: false, .. } => "name an empty store".into(),
            Self::NotEmpty { .. } => Hint::from("name an empty store, or pass ")
                .step(NextStep::Repeat { setting: Setting::Merge })
                .text(" to merge both stores"),
            Self::OtherCopy { .. } => "finish that copy, or name another store".into(),
            Self::Same { .. } => "name another store to copy to".into(),
        }
    }
}

/// Why a request of a remote worker is refused. Each variant's comment is the worker's next action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteRefusal {
    /// Register again, then claim again.
    #[error("worker {0} is not registered on this server, or its lease expired")]
    NoSuchWorker(String),
    /// Send the token unchanged.
    #[error("invalid execution token")]
    NoSuchToken,
    /// Correct the request.
    #[error("malformed request: {0}")]
    Malformed(String),
    /// Send the same doings again, or use a new id for these doings.
    #[error("append id {id} was already used on run {run} for other doings")]
    IdReused {
        /// The id of the append.
        id: String,
        /// The run.
        run: RunId,
    },
    /// Retry later, or use another server.
    #[error("this server does not register workers now: {0}")]
    NotNow(&'static str),
    /// Let a worker leave first, or register one worker with more slots.
    #[error("{whose} {limit} workers registered, which is the limit")]
    TooManyWorkers {
        /// `this key has` or `this server has`.
        whose: &'static str,
        /// The limit.
        limit: usize,
    },
    /// Use another queue or name, or another credential.
    #[error("{0}")]
    Forbidden(String),
}

impl RemoteRefusal {
    /// The stable code, with a page in `docs/codes`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoSuchWorker(_) => "GS0311",
            Self::NoSuchToken => "GS0312",
            Self::Malformed(_) => "GS0313",
            Self::NotNow(_) | Self::TooManyWorkers { .. } => "GS0314",
            Self::Forbidden(_) => "GS0602",
            Self::IdReused { .. } => "GS0603",
        }
    }
}
