//! A prefix on a real server, and its objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::TryStreamExt;
use goldseam_store::StoreError;
use goldseam_testbed::s3::TestBucket;
use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

/// Returns a new prefix.
pub(crate) fn prefix() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("reach-{}/{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// A client of the bucket, past the store.
pub(crate) fn plain(bucket: &TestBucket) -> Arc<dyn ObjectStore> {
    let s3 = AmazonS3Builder::new()
        .with_bucket_name(&bucket.name)
        .with_endpoint(&bucket.endpoint)
        .with_region(&bucket.region)
        .with_access_key_id(&bucket.access_key_id)
        .with_secret_access_key(&bucket.secret_access_key)
        .with_allow_http(true);
    Arc::new(s3.build().unwrap())
}

/// All keys below a prefix, without it.
pub(crate) async fn keys(bucket: &TestBucket, prefix: &str) -> Vec<String> {
    let path = Path::from(prefix);
    let listed: Vec<_> = plain(bucket).list(Some(&path)).try_collect().await.unwrap();
    let mut keys: Vec<String> = listed.into_iter().map(|meta| meta.location.to_string()).collect();
    keys.sort();
    keys.iter().map(|key| key.strip_prefix(prefix).unwrap().trim_start_matches('/').to_owned()).collect()
}

pub(crate) async fn put(bucket: &TestBucket, key: &str, body: &str) {
    plain(bucket).put(&Path::from(key), body.to_owned().into()).await.unwrap();
}

/// A refusal as users see it, without the parts that differ between servers.
pub(crate) fn shown<T: std::fmt::Debug>(
    result: Result<T, StoreError>,
    endpoint: &str,
    prefix: &str,
) -> String {
    match result.unwrap_err() {
        StoreError::Refused { code, what, hint } => {
            let what = what.replace(endpoint, "SERVER").replace(prefix, "PREFIX");
            format!("{code}: {what}\nhint: {hint}")
        }
        error => panic!("{error:?}"),
    }
}

/// The code of a refusal.
pub(crate) fn code<T: std::fmt::Debug>(result: Result<T, StoreError>) -> &'static str {
    match result.unwrap_err() {
        StoreError::Refused { code, .. } => code,
        error => panic!("{error:?}"),
    }
}
