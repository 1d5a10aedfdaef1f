//! Reaching the bucket: keys, address, time limits.

use std::sync::Arc;
use std::time::Duration;

use goldseam_store::StoreError;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential, S3ConditionalPut};
use object_store::{BackoffConfig, ClientConfigKey, RetryConfig, StaticCredentialProvider};

use crate::bucket::Bucket;
use crate::clock::StoreClock;
use crate::fault;
use crate::http::{Connector, Heard};
use crate::request_counter::Tallies;
use crate::url::{Options, check_endpoint};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The bucket behind `options`. Nothing is sent yet.
pub(crate) fn connect(
    options: &Options,
    clock: Arc<StoreClock>,
    tallies: Arc<Tallies>,
) -> Result<Bucket, StoreError> {
    let heard = Arc::new(Heard::new(clock, Arc::clone(&tallies)));
    let mut builder = AmazonS3Builder::from_env();
    if let Some(endpoint) = &options.endpoint {
        // The name that goes before all others.
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
    }
    if let Some(region) = &options.region {
        builder = builder.with_region(region);
    }
    if let Some(keys) = &options.keys {
        // All of them or none: a token of the environment belongs to other keys.
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
    let older_way = builder.get_config_value(&AmazonS3ConfigKey::ImdsV1Fallback).as_deref() == Some("true");
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
        // Whoever tries again must know whether the try before may have been done.
        .with_retry(RetryConfig {
            max_retries: 0,
            retry_timeout: options.call_timeout,
            backoff: BackoffConfig::default(),
        })
        .with_http_connector(Connector { heard: Arc::clone(&heard), older_way })
        .build()
        .map_err(|error| misconfigured(options, &fault::words(&error)))?;
    Ok(Bucket::new(Arc::new(s3), &options.prefix, tallies).listening(heard))
}

/// What the URL and the environment say together makes no sense.
fn misconfigured(options: &Options, why: &str) -> StoreError {
    StoreError::Refused {
        code: "GS0206",
        what: format!("cannot use s3://{}/{}: {why}", options.bucket, options.prefix),
        hint: "check the URL and the environment variables that begin with AWS_".to_owned(),
    }
}
