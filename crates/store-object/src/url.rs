//! `s3://BUCKET/PREFIX?endpoint=URL&region=NAME`: the address of a bucket, and its access keys.
//!
//! Invariant: unknown options are refused, never ignored. Secrets are never shown.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use goldseam_store::{ClockFn, StoreError, shown_url};
use percent_encoding::percent_decode_str;

/// Default timeout of a request. After it, the outcome is unknown.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The options of a URL.
const OPTION_NAMES: &str =
    "endpoint, region, access_key_id, secret_access_key, session_token, insecure, requests";

/// The address of a bucket, and how to use it.
#[derive(Clone)]
pub struct BucketOptions {
    /// The name of the bucket.
    pub bucket: String,
    /// The prefix of the store, without `/` at its ends. It may be empty.
    pub prefix: String,
    /// The server; by default the environment's or Amazon's.
    pub endpoint: Option<String>,
    /// The region of the bucket; by default the environment's.
    pub region: Option<String>,
    /// Access keys; by default the environment's.
    pub(crate) keys: Option<AccessKeys>,
    /// Whether data may cross a network unencrypted.
    pub insecure: bool,
    /// Whether requests cost money.
    pub requests: RequestCost,
    /// Timeout of a request.
    pub call_timeout: Duration,
    /// A clock that replaces the server's.
    pub clock: Option<ClockFn>,
}

/// Whether requests cost money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RequestCost {
    /// They do: an idle node sends fewer than two per second, and sees changes of other nodes after a second.
    #[default]
    Paid,
    /// They do not, as on a private server: a node polls as often as on a local store.
    Free,
}

/// Access keys.
#[derive(Clone)]
pub(crate) struct AccessKeys {
    pub(crate) id: String,
    pub(crate) secret: String,
    pub(crate) token: Option<String>,
}

impl fmt::Debug for BucketOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketOptions")
            .field("bucket", &self.bucket)
            .field("prefix", &self.prefix)
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .finish_non_exhaustive()
    }
}

impl BucketOptions {
    /// The address for messages, without keys.
    pub(crate) fn place(&self) -> String {
        let folder = match self.prefix.as_str() {
            "" => format!("bucket {:?}", self.bucket),
            prefix => format!("{prefix:?} in bucket {:?}", self.bucket),
        };
        match &self.endpoint {
            Some(endpoint) => format!("{folder} at {endpoint}"),
            None => folder,
        }
    }
}

/// Whether this URL is for this store.
pub fn is_ours(url: &str) -> bool {
    url.starts_with("s3://")
}

/// Parses a URL.
pub fn parse(url: &str) -> Result<BucketOptions, StoreError> {
    let Some(rest) = url.strip_prefix("s3://") else {
        return Err(refused(url, "it does not begin with s3://"));
    };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
    let mut named = UrlOptions::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        named.take(pair).map_err(|why| refused(url, &why))?;
    }
    let keys = named.keys().map_err(|why| refused(url, &why))?;
    if let Some(endpoint) = &named.endpoint {
        check_endpoint(endpoint, named.insecure).map_err(|why| refused(url, &why))?;
    }
    Ok(BucketOptions {
        bucket: check_bucket(bucket).map_err(|why| refused(url, &why))?,
        prefix: check_prefix(prefix).map_err(|why| refused(url, &why))?,
        endpoint: named.endpoint,
        region: named.region,
        keys,
        insecure: named.insecure,
        requests: named.requests,
        call_timeout: CALL_TIMEOUT,
        clock: None,
    })
}

/// The parsed options of a URL.
#[derive(Default)]
struct UrlOptions {
    endpoint: Option<String>,
    region: Option<String>,
    id: Option<String>,
    secret: Option<String>,
    token: Option<String>,
    insecure: bool,
    requests: RequestCost,
}

impl UrlOptions {
    fn take(&mut self, pair: &str) -> Result<(), String> {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        // The value may be a secret, so no message repeats it.
        let value = percent_decode_str(value)
            .decode_utf8()
            .map_err(|_| format!("the value of {name} is not UTF-8 text"))?
            .into_owned();
        if value.is_empty() {
            return Err(format!("{name} has no value"));
        }
        let place = match name {
            "endpoint" => &mut self.endpoint,
            "region" => &mut self.region,
            "access_key_id" => &mut self.id,
            "secret_access_key" => &mut self.secret,
            "session_token" => &mut self.token,
            "requests" => {
                self.requests = match value.as_str() {
                    "paid" => RequestCost::Paid,
                    "free" => RequestCost::Free,
                    _ => {
                        return Err(format!(
                            "unknown value requests={value:?}: write requests=paid or requests=free"
                        ));
                    }
                };
                return Ok(());
            }
            "insecure" if value == "allow" => {
                self.insecure = true;
                return Ok(());
            }
            "insecure" => {
                return Err(format!("unknown value insecure={value:?}: write insecure=allow, or omit it"));
            }
            _ => return Err(format!("unknown option {name:?}; the options are {OPTION_NAMES}")),
        };
        match place.replace(value) {
            None => Ok(()),
            Some(_) => Err(format!("{name} occurs twice")),
        }
    }

    fn keys(&mut self) -> Result<Option<AccessKeys>, String> {
        match (self.id.take(), self.secret.take(), self.token.take()) {
            (Some(id), Some(secret), token) => Ok(Some(AccessKeys { id, secret, token })),
            (None, None, None) => Ok(None),
            (None, _, _) => Err("secret_access_key or session_token is set without access_key_id".to_owned()),
            (_, None, _) => Err("access_key_id is set without secret_access_key".to_owned()),
        }
    }
}

/// Refuses a bucket name that S3 does not allow.
fn check_bucket(name: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let good = (3..=63).contains(&name.len())
        && name.chars().all(|c| plain(c) || c == '-' || c == '.')
        && name.starts_with(plain)
        && name.ends_with(plain)
        && !name.contains("..");
    if good {
        return Ok(name.to_owned());
    }
    if name.contains('@') {
        return Err(
            "access keys cannot precede the bucket name: use access_key_id= and secret_access_key=, \
            or the environment"
                .to_owned(),
        );
    }
    Err(format!("invalid bucket name {name:?}: use 3 to 63 lower-case letters, digits, dots and hyphens"))
}

/// Refuses a prefix that servers or tools could interpret differently.
fn check_prefix(prefix: &str) -> Result<String, String> {
    let prefix = prefix.strip_suffix('/').filter(|prefix| !prefix.is_empty()).unwrap_or(prefix);
    let good = |part: &str| {
        !matches!(part, "" | "." | "..")
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
    };
    if prefix.is_empty() || (prefix.len() <= 256 && prefix.split('/').all(good)) {
        return Ok(prefix.to_owned());
    }
    Err(format!(
        "invalid prefix {prefix:?}: use at most 256 letters, digits, dots, underscores and hyphens, with single \
         slashes between"
    ))
}

/// Refuses an invalid address, and one that sends data over a network unencrypted.
pub(crate) fn check_endpoint(endpoint: &str, insecure: bool) -> Result<(), String> {
    let (plain, rest) = match (endpoint.strip_prefix("http://"), endpoint.strip_prefix("https://")) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => {
            return Err(format!("endpoint {endpoint:?} begins with neither https:// nor http://"));
        }
    };
    if rest.is_empty() || rest.contains(|c: char| c.is_whitespace() || c.is_control() || "@?#%\\".contains(c))
    {
        return Err("the endpoint is not a plain address: write https://HOST:PORT, without keys".to_owned());
    }
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.chars().all(|c| c.is_ascii_digit()) => {
            port.parse::<u16>().map_err(|_| format!("invalid port {port:?}"))?;
            host
        }
        _ => authority,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return Err(format!("endpoint {endpoint:?} has no host"));
    }
    let here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    if plain && !here && !insecure {
        return Err(format!(
            "endpoint {endpoint:?} would send all data unencrypted: use https://, or add insecure=allow on a \
             network that you trust"
        ));
    }
    Ok(())
}

pub(crate) fn refused(url: &str, why: &str) -> StoreError {
    StoreError::Refused {
        code: "GS0206",
        what: format!("invalid store URL {}: {why}", shown_url(url)),
        hint: "write s3://BUCKET/PREFIX?region=NAME; add endpoint=URL for a server other than Amazon S3"
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_bucket_prefix_endpoint_and_keys() {
        let options = parse(
            "s3://my-bucket.1/a/B_2.c?endpoint=http://127.0.0.1:9000&region=eu-west-1\
             &access_key_id=AK&secret_access_key=a%2Fb%2Bc+d==&session_token=t",
        )
        .unwrap();
        assert_eq!((options.bucket.as_str(), options.prefix.as_str()), ("my-bucket.1", "a/B_2.c"));
        assert_eq!(options.endpoint.as_deref(), Some("http://127.0.0.1:9000"));
        assert_eq!(options.region.as_deref(), Some("eu-west-1"));
        let keys = options.keys.unwrap();
        assert_eq!((keys.id.as_str(), keys.secret.as_str()), ("AK", "a/b+c+d=="));
        assert_eq!(keys.token.as_deref(), Some("t"));
        let options = parse("s3://bucket").unwrap();
        assert!(options.prefix.is_empty() && options.endpoint.is_none() && options.keys.is_none());
        assert_eq!(parse("s3://bucket/a/").unwrap().prefix, "a");
        parse("s3://bucket/a?endpoint=http://minio:9000/x&insecure=allow").unwrap();
        parse("s3://bucket/a?endpoint=http://[::1]:9000").unwrap();
    }

    #[test]
    fn a_mistyped_url_is_refused() {
        for url in [
            "s3://ab/x",
            "s3://Bucket/x",
            "s3://-bucket/x",
            "s3://buc..ket/x",
            "s3://key:word@bucket/x",
            "s3:///x",
            "s3://bucket/a//b",
            "s3://bucket//",
            "s3://bucket/a/../b",
            "s3://bucket/./b",
            "s3://bucket/a b",
            "s3://bucket/%61",
            "s3://bucket/é",
            "s3://bucket/a?prefix=b",
            "s3://bucket/a?region=",
            "s3://bucket/a?region=x&region=y",
            "s3://bucket/a?access_key_id=a",
            "s3://bucket/a?secret_access_key=a",
            "s3://bucket/a?session_token=a",
            "s3://bucket/a?insecure=yes",
            "s3://bucket/a?endpoint=minio:9000",
            "s3://bucket/a?endpoint=http://",
            "s3://bucket/a?endpoint=https://key:word@host",
            "s3://bucket/a?endpoint=https://host:99999",
            "gs://bucket/a",
        ] {
            assert!(matches!(parse(url), Err(StoreError::Refused { code: "GS0206", .. })), "{url}");
        }
        let error = parse("s3://bucket/a?reggion=x").unwrap_err().to_string();
        assert!(error.contains(OPTION_NAMES), "{error}");
    }

    #[test]
    fn refuses_unencrypted_endpoints_unless_allowed() {
        for host in ["minio", "10.0.0.1", "localhost.evil.example", "127.0.0.1.evil.example", "[fe80::1]:1"] {
            let error = parse(&format!("s3://bucket/a?endpoint=http://{host}")).unwrap_err().to_string();
            assert!(error.contains("unencrypted"), "{host}: {error}");
        }
        for host in ["localhost:1", "127.0.0.1:9000", "127.1.2.3", "[::1]:9000"] {
            parse(&format!("s3://bucket/a?endpoint=http://{host}")).unwrap();
        }
    }

    #[test]
    fn a_secret_is_never_shown() {
        let keys = "access_key_id=AK&secret_access_key=s3cret&session_token=s3cret";
        for url in [
            format!("s3://bucket/a?{keys}&nonsense=1"),
            format!("s3://bucket/a?{keys}&secret_access_key=s3cret"),
            format!("s3://B/a?{keys}"),
        ] {
            let error = parse(&url).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
        }
        let options = parse(&format!("s3://bucket/a?{keys}")).unwrap();
        assert!(!format!("{options:?} {}", options.place()).contains("s3cret"));
    }
}
