//! A client without retries, so that tests see each response.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use goldseam_fake_s3::FakeS3;
use goldseam_testbed::s3::TestBucket;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{
    ClientOptions, Error, GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions, RetryConfig,
    UpdateVersion,
};

/// The operations of tests.
pub(crate) struct Client {
    store: AmazonS3,
}

impl Client {
    pub(crate) fn of(fake: &FakeS3) -> Self {
        Self::new(&TestBucket::parse(&fake.url("")).unwrap(), 0)
    }

    /// A client with this number of retries.
    pub(crate) fn with_retries(fake: &FakeS3, retries_max: usize) -> Self {
        Self::new(&TestBucket::parse(&fake.url("")).unwrap(), retries_max)
    }

    pub(crate) fn new(bucket: &TestBucket, retries_max: usize) -> Self {
        let retry = RetryConfig { max_retries: retries_max, ..RetryConfig::default() };
        let options = ClientOptions::new().with_allow_http(true).with_timeout(Duration::from_secs(30));
        let store = AmazonS3Builder::new()
            .with_client_options(options)
            .with_retry(retry)
            .with_endpoint(&bucket.endpoint)
            .with_bucket_name(&bucket.name)
            .with_region(&bucket.region)
            .with_access_key_id(&bucket.access_key_id)
            .with_secret_access_key(&bucket.secret_access_key)
            .build()
            .unwrap();
        Self { store }
    }

    /// Returns the new ETag.
    pub(crate) async fn put(&self, key: &str, text: &str) -> Result<String, Error> {
        self.put_if(key, text, PutMode::Overwrite).await
    }

    pub(crate) async fn create(&self, key: &str, text: &str) -> Result<String, Error> {
        self.put_if(key, text, PutMode::Create).await
    }

    pub(crate) async fn update(&self, key: &str, text: &str, etag: &str) -> Result<String, Error> {
        let version = UpdateVersion { e_tag: Some(etag.to_owned()), version: None };
        self.put_if(key, text, PutMode::Update(version)).await
    }

    async fn put_if(&self, key: &str, text: &str, mode: PutMode) -> Result<String, Error> {
        let options = PutOptions { mode, ..PutOptions::default() };
        let result = self.store.put_opts(&Path::from(key), text.to_owned().into(), options).await?;
        Ok(result.e_tag.unwrap())
    }

    pub(crate) async fn get(&self, key: &str) -> Result<String, Error> {
        let bytes = self.store.get(&Path::from(key)).await?.bytes().await?;
        Ok(String::from_utf8(bytes.to_vec()).unwrap())
    }

    pub(crate) async fn get_unless(&self, key: &str, etag: &str) -> Result<(), Error> {
        let options = GetOptions { if_none_match: Some(etag.to_owned()), ..GetOptions::default() };
        self.store.get_opts(&Path::from(key), options).await.map(|_| ())
    }

    pub(crate) async fn get_range(&self, key: &str, range: std::ops::Range<u64>) -> Result<String, Error> {
        let bytes = self.store.get_range(&Path::from(key), range).await?;
        Ok(String::from_utf8(bytes.to_vec()).unwrap())
    }

    /// The size, and the time of the last change in milliseconds since 1970.
    pub(crate) async fn head(&self, key: &str) -> Result<(u64, i64), Error> {
        let meta = self.store.head(&Path::from(key)).await?;
        Ok((meta.size, meta.last_modified.timestamp_millis()))
    }

    pub(crate) async fn delete(&self, keys: &[&str]) -> Result<(), Error> {
        let keys: Vec<_> = keys.iter().map(|key| Ok(Path::from(*key))).collect();
        self.store
            .delete_stream(futures_util::stream::iter(keys).boxed())
            .try_collect::<Vec<_>>()
            .await
            .map(|_| ())
    }

    pub(crate) async fn list(&self, prefix: &str) -> Result<Vec<String>, Error> {
        let listed: Vec<_> = self.store.list(Some(&Path::from(prefix))).try_collect().await?;
        Ok(listed.into_iter().map(|meta| meta.location.to_string()).collect())
    }

    pub(crate) async fn list_after(&self, prefix: &str, after: &str) -> Result<Vec<String>, Error> {
        let listed = self.store.list_with_offset(Some(&Path::from(prefix)), &Path::from(after));
        let listed: Vec<_> = listed.try_collect().await?;
        Ok(listed.into_iter().map(|meta| meta.location.to_string()).collect())
    }

    /// The folders and the keys directly below a prefix.
    pub(crate) async fn list_level(&self, prefix: &str) -> Result<[Vec<String>; 2], Error> {
        let listed = self.store.list_with_delimiter(Some(&Path::from(prefix))).await?;
        let folders = listed.common_prefixes.iter().map(ToString::to_string).collect();
        Ok([folders, listed.objects.iter().map(|meta| meta.location.to_string()).collect()])
    }
}

/// The kind of a result.
pub(crate) fn kind<T: std::fmt::Debug>(result: &Result<T, Error>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(Error::AlreadyExists { .. }) => "already exists",
        Err(Error::Precondition { .. }) => "precondition",
        Err(Error::NotFound { .. }) => "not found",
        Err(Error::NotModified { .. }) => "not modified",
        Err(Error::PermissionDenied { .. }) => "denied",
        Err(_) => "other",
    }
}
