//! Refusals of a copy and of a worker in another process. Errors name them, so they live below both.

use goldseam_core::RunId;

/// Why a copy is refused as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CopyRefusal {
    /// Somebody may be executing runs.
    #[error("{store} is in use by {}", .nodes.join(", "))]
    InUse {
        /// The store.
        store: String,
        /// The nodes that live, or may.
        nodes: Vec<String>,
    },
    /// Another copy into the same store has begun since.
    #[error("another copy into {store} has begun since")]
    Overtaken {
        /// The store.
        store: String,
    },
    /// The destination has something that this copy did not bring.
    #[error("{store} is not empty")]
    NotEmpty {
        /// The store.
        store: String,
    },
    /// The destination takes part in another copy.
    #[error("{store} takes part in another copy: it is {words}")]
    OtherCopy {
        /// The store.
        store: String,
        /// What it is to that copy.
        words: String,
    },
    /// Both are one.
    #[error("{store} is the source itself")]
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
    pub fn hint(&self) -> String {
        match self {
            Self::InUse { .. } => {
                "stop its engines first, then copy; runs in flight go on at the destination"
            }
            Self::Overtaken { .. } => "let that one finish",
            Self::NotEmpty { .. } => "name an empty store, or say --merge if both are to become one",
            Self::OtherCopy { .. } => "finish that copy, or name another store",
            Self::Same { .. } => "name another store to copy to",
        }
        .to_owned()
    }
}

/// Why something that a worker wants cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteRefusal {
    /// Register, and claim again.
    #[error("worker {0} is not registered here, or was silent for longer than its lease")]
    NoSuchWorker(String),
    /// Use a token as it was given.
    #[error("this is no token of an execution")]
    NoSuchToken,
    /// Mend the request.
    #[error("the request makes no sense: {0}")]
    Malformed(String),
    /// Send the same doings again, or give these doings an id of their own.
    #[error("the append id {id} was used before, for other doings, on run {run}")]
    IdReused {
        /// The id of the append.
        id: String,
        /// The run.
        run: RunId,
    },
    /// Come again later, or go to another server.
    #[error("no worker is taken in now: {0}")]
    NotNow(&'static str),
    /// Let a worker leave first, or give one more slots.
    #[error("{whose} {limit} workers registered, as many as may be")]
    TooManyWorkers {
        /// `this key has` or `this server has`.
        whose: &'static str,
        /// How many.
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
