//! Connects to a bucket: access keys, address, timeouts.

use std::sync::Arc;
use std::time::Duration;

use goldseam_store::StoreError;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential, S3ConditionalPut};
use object_store::{BackoffConfig, ClientConfigKey, RetryConfig, StaticCredentialProvider};

use crate::bucket::BucketPrefix;
use crate::clock::BucketClock;
use crate::fault;
use crate::http::{Connector, ResponseObserver};
use crate::request_counter::RequestCounter;
use crate::url::{BucketOptions, check_endpoint};

/// Longest time to establish a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Creates the bucket of these options. Sends no request.
pub(crate) fn connect(
    options: &BucketOptions,
    clock: Arc<BucketClock>,
    counter: Arc<RequestCounter>,
) -> Result<BucketPrefix, StoreError> {
    let observer = Arc::new(ResponseObserver::new(clock, Arc::clone(&counter)));
    let mut builder = AmazonS3Builder::from_env();
    if let Some(endpoint) = &options.endpoint {
        // This name has precedence over all others.
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
    }
    if let Some(region) = &options.region {
        builder = builder.with_region(region);
    }
    if let Some(keys) = &options.keys {
        // All keys or none: a session token of the environment belongs to other keys.
        builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(AwsCredential {
            key_id: keys.id.clone(),
            secret_key: keys.secret.clone(),
            token: keys.token.clone(),
        })));
    }
    let endpoint = [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint]
        .iter()
        .find_map(|key| builder.get_config_value(key));
    if let Some(endpoint) = &endpoint {
        check_endpoint(endpoint, options.insecure).map_err(|why| misconfigured(options, &why))?;
    }
    let imds_v1_fallback =
        builder.get_config_value(&AmazonS3ConfigKey::ImdsV1Fallback).as_deref() == Some("true");
    let plain = endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"));
    let limit = |span: Duration| format!("{} ms", span.as_millis());
    let client = |key| AmazonS3ConfigKey::Client(key);
    let s3 = builder
        .with_bucket_name(&options.bucket)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_skip_signature(false)
        .with_config(AmazonS3ConfigKey::DisableBulkDelete, "true")
        .with_config(client(ClientConfigKey::AllowHttp), plain.to_string())
        .with_config(
            client(ClientConfigKey::ConnectTimeout),
            limit(CONNECT_TIMEOUT.min(options.call_timeout)),
        )
        .with_config(client(ClientConfigKey::Timeout), limit(options.call_timeout))
        .with_config(client(ClientConfigKey::UserAgent), concat!("goldseam/", env!("CARGO_PKG_VERSION")))
        // The bucket retries itself, because it must know whether an earlier attempt may have been done.
        .with_retry(RetryConfig {
            max_retries: 0,
            retry_timeout: options.call_timeout,
            backoff: BackoffConfig::default(),
        })
        .with_http_connector(Connector { observer: Arc::clone(&observer), imds_v1_fallback })
        .build()
        .map_err(|error| misconfigured(options, &fault::message(&error)))?;
    Ok(BucketPrefix::new(Arc::new(s3), &options.prefix, counter).with_observer(observer))
}

/// The refusal of a URL that contradicts the environment or itself.
fn misconfigured(options: &BucketOptions, why: &str) -> StoreError {
    StoreError::Refused {
        code: "GS0206",
        what: format!("cannot use s3://{}/{}: {why}", options.bucket, options.prefix),
        hint: "check the URL and the environment variables that begin with AWS_".into(),
    }
}
