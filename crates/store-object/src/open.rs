//! Opening a store.

use std::sync::Arc;

use goldseam_store::StoreError;

use crate::clock::StoreClock;
use crate::connect::connect;
use crate::store::BucketStore;
use crate::tally::Tallies;
use crate::url::{self, Options};

impl BucketStore {
    /// Opens a store, and makes it if there is none.
    pub async fn open(options: Options) -> Result<Self, StoreError> {
        let clock = Arc::new(StoreClock::new(options.clock.clone()));
        let bucket = connect(&options, Arc::clone(&clock), Arc::new(Tallies::default()))?;
        bucket.get("goldseam.json").await?;
        Ok(Self::on(bucket, clock, options.requests))
    }

    /// Opens what a URL names: `s3://BUCKET/PREFIX?endpoint=URL`.
    pub async fn open_url(text: &str) -> Result<Self, StoreError> {
        Self::open(url::parse(text)?).await
    }
}
