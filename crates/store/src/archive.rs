//! Archives for logs that are removed from a store.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::error::StoreError;

/// A place for archived logs: batches of text, each written once and never changed.
#[async_trait]
pub trait Archive: Debug + Send + Sync {
    /// Returns where a batch is kept, for people and tombstones, without secrets.
    fn place(&self, name: &str) -> String;

    /// Writes a batch under an unused name. Durable once this returns.
    async fn put(&self, name: &str, batch: Vec<u8>) -> Result<(), StoreError>;

    /// Reads a batch.
    async fn get(&self, name: &str) -> Result<Vec<u8>, StoreError>;
}
