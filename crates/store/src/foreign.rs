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

    /// Writes `body` if the state still has this version; one that is not there is not made.
    async fn swap(&self, id: &RunId, version: &str, body: &str) -> Result<Written<ForeignState>, StoreError>;
}
