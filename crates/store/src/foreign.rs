//! Workflow states that another system keeps in the same place, under names that runs could have.

use std::fmt::Debug;

use async_trait::async_trait;
use goldseam_core::RunId;

use crate::error::StoreError;
use crate::types::{Page, Written};

/// A state of another system. The store does not parse it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignState {
    /// The name it is kept under.
    pub id: RunId,
    /// The version that compare-and-set compares; opaque.
    pub version: String,
    /// Text of the state.
    pub body: String,
}

/// A place where another system keeps states.
#[async_trait]
pub trait ForeignStates: Debug + Send + Sync {
    /// Returns up to `limit` states after the cursor of an earlier page, in order of id, without those that belong to
    /// a run with a log. A page may be short or empty and still not be the last.
    async fn states(&self, after: Option<&str>, limit: u32) -> Result<Page<ForeignState>, StoreError>;

    /// Marks a version as needing no further examination: later pages may omit the state until it changes. A hint
    /// that may be lost.
    fn settled(&self, _id: &RunId, _version: &str) {}

    /// Returns names of states that are not valid run ids and therefore on no page; a few of them if there are many.
    async fn unnamed(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    /// Writes `body` if the state still has this version; never creates a state.
    async fn swap(&self, id: &RunId, version: &str, body: &str) -> Result<Written<ForeignState>, StoreError>;
}

/// The foreign states of a store that has none.
#[derive(Debug)]
pub(crate) struct NoForeignStates;

#[async_trait]
impl ForeignStates for NoForeignStates {
    async fn states(&self, _: Option<&str>, _: u32) -> Result<Page<ForeignState>, StoreError> {
        Ok(Page::default())
    }

    async fn swap(&self, _: &RunId, _: &str, _: &str) -> Result<Written<ForeignState>, StoreError> {
        Ok(Written::Lost(None))
    }
}
