//! Where logs go that are removed from a store.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::error::StoreError;

/// A place for archived logs: batches of text, each written once and never changed.
#[async_trait]
pub trait Archive: Debug + Send + Sync {
    /// Where a batch is kept, as people and tombstones say it: no password stands in it.
    fn place(&self, name: &str) -> String;

    /// Keeps a batch under a name that nothing has yet. Durable once this returns.
    async fn put(&self, name: &str, batch: Vec<u8>) -> Result<(), StoreError>;

    /// Reads a batch back from where it is kept.
    async fn get(&self, name: &str) -> Result<Vec<u8>, StoreError>;
}
