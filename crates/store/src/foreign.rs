//! States that somebody else keeps in the same place, under names that our runs could have.

use std::fmt::Debug;

use async_trait::async_trait;
use goldseam_core::RunId;

use crate::api::{Page, Written};
use crate::error::StoreError;

/// A state object that is not ours. The store does not read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignState {
    /// The name it is kept under.
    pub id: RunId,
    /// The compare in compare-and-set; means nothing but to the store.
    pub version: String,
    /// Its text.
    pub body: String,
}

/// A place where others keep states, too.
#[async_trait]
pub trait ForeignStates: Debug + Send + Sync {
    /// Up to `limit` of them after the cursor that an earlier page gave, in order of id. What belongs to a run with a log
    /// is none of them. A page may be short or empty and still not be the last.
    async fn states(&self, after: Option<&str>, limit: u32) -> Result<Page<ForeignState>, StoreError>;

    /// This version needs no further look: later pages may leave the state out until it changes. A hint that may be lost.
    fn settled(&self, _id: &RunId, _version: &str) {}

    /// Names under which states are kept that no run can have, so that no page has them; a few of them if there are many.
    async fn unnamed(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    /// Writes `body` if the state still has this version; one that is not there is not made.
    async fn swap(&self, id: &RunId, version: &str, body: &str) -> Result<Written<ForeignState>, StoreError>;
}
