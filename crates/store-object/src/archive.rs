//! A prefix of a bucket as an archive: one object per batch, written only if its name is free.

use async_trait::async_trait;
use goldseam_store::{Archive, StoreError};

use crate::bucket::{BucketPrefix, Put, PutCondition};
use crate::fault::damaged;
use crate::open::StoreOpening;
use crate::url::BucketOptions;

/// An archive in one prefix of a bucket. The prefix need not be empty, and may lie beside a store.
#[derive(Debug)]
pub struct BucketArchive {
    bucket: BucketPrefix,
    place: String,
}

impl BucketArchive {
    /// Creates an archive. Sends no request.
    pub fn new(options: &BucketOptions) -> Result<Self, StoreError> {
        let place = match options.prefix.as_str() {
            "" => format!("s3://{}", options.bucket),
            prefix => format!("s3://{}/{prefix}", options.bucket),
        };
        Ok(Self { bucket: StoreOpening::new(options)?.bucket, place })
    }
}

#[async_trait]
impl Archive for BucketArchive {
    fn place(&self, name: &str) -> String {
        format!("{}/{name}", self.place)
    }

    async fn put(&self, name: &str, batch: Vec<u8>) -> Result<(), StoreError> {
        match self.bucket.put_if(name, batch.into(), PutCondition::CreateOnce).await? {
            Put::Done(_) => Ok(()),
            Put::Lost(_) => Err(StoreError::Refused {
                code: "GS0133",
                what: format!("{} already exists", self.place(name)),
                hint: "prune again: the next batch gets another name".into(),
            }),
        }
    }

    async fn get(&self, name: &str) -> Result<Vec<u8>, StoreError> {
        let found = self.bucket.get(name).await?.ok_or_else(|| damaged(name, "the object does not exist"))?;
        Ok(found.body.to_vec())
    }
}
