//! Everything that is appended to any log, in one order.

use std::fmt::Debug;

use async_trait::async_trait;
use goldseam_core::RunId;

use crate::api::Record;
use crate::error::StoreError;

/// One event in the order of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fed {
    /// Where it stands; means nothing but to the store.
    pub place: String,
    /// Whose it is.
    pub run: RunId,
    /// What it is.
    pub record: Record,
}

/// Runs whose logs may have grown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stirred {
    /// Each of them; some may not have grown at all.
    pub runs: Vec<RunId>,
    /// What to ask with next time.
    pub mark: String,
}

/// A store that can tell what was appended anywhere, without being asked about each run.
#[async_trait]
pub trait Feed: Debug + Send + Sync {
    /// Up to `limit` events behind `place`, oldest first; none: from the very first.
    ///
    /// Events of one run come in order of position, and nothing ever appears before a place that was given out. An
    /// event may come a moment after its append was acknowledged, while appends that began earlier are under way. A place
    /// behind the end of the order is refused ([`beyond_end`]): what is appended would not be told for a long time.
    async fn fed(&self, place: Option<&str>, limit: u32) -> Result<Vec<Fed>, StoreError>;

    /// The place behind everything that could be read at this moment.
    async fn latest(&self) -> Result<Option<String>, StoreError>;

    /// Runs whose logs may have grown since the mark, none left out. Without a mark: none, and the mark of now.
    async fn stirred(&self, mark: Option<&str>) -> Result<Stirred, StoreError>;
}

/// The place is not one that this store gave out.
pub fn no_place(place: &str) -> StoreError {
    StoreError::Refused {
        code: "GS0612",
        what: format!("{:?} is no place in this store's order", place.chars().take(40).collect::<String>()),
        hint: "begin anew, without one".to_owned(),
    }
}

/// The place is behind everything that this store has ever had.
pub fn beyond_end(place: &str) -> StoreError {
    StoreError::Refused {
        code: "GS0612",
        what: format!("{:?} is behind the end of this store's order", place.chars().take(40).collect::<String>()),
        hint: "another store gave it out, or this one before it was restored from a backup: follow from the start, or from now"
            .to_owned(),
    }
}
