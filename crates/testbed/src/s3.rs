//! What all S3 servers share: how they run, and how tests name a bucket.

use std::env;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use crate::TestbedError;
use crate::keeper::{Keeper, ServerScript};

/// The bucket of every server.
pub const BUCKET: &str = "goldseam";
/// Access key and secret with all permissions.
pub const WRITER: (&str, &str) = ("goldseam-writer", "writer-secret");
/// Access key and secret that may only read and list, on a server with permissions (SeaweedFS).
pub const READER: (&str, &str) = ("goldseam-reader", "reader-secret");

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A private server on loopback. It ends when it is dropped, or when this process ends.
#[derive(Debug)]
pub struct S3Server {
    keeper: Keeper,
    script: &'static ServerScript,
}

impl S3Server {
    pub(crate) fn start(
        script: &'static ServerScript,
        values: &[(&str, String)],
    ) -> Result<Self, TestbedError> {
        Keeper::start(script, values).map(|keeper| Self { keeper, script })
    }

    /// Its bucket, with all permissions.
    pub fn bucket(&self) -> TestBucket {
        TestBucket {
            name: BUCKET.to_owned(),
            endpoint: format!("http://127.0.0.1:{}", self.keeper.port()),
            region: "us-east-1".to_owned(),
            access_key_id: WRITER.0.to_owned(),
            secret_access_key: WRITER.1.to_owned(),
        }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.keeper.folder()
    }

    /// Kills it, and returns once it has ended. Keeps its data on disk.
    pub fn stop(&self) -> Result<(), TestbedError> {
        self.keeper.stop(self.script.end)
    }

    /// Starts the stopped server at the same address.
    pub fn start_again(&self) -> Result<(), TestbedError> {
        self.keeper.start_again()
    }
}

/// A bucket and its access keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestBucket {
    /// Its name on the server.
    pub name: String,
    /// The address of the server.
    pub endpoint: String,
    /// The region of signatures.
    pub region: String,
    /// The access key id.
    pub access_key_id: String,
    /// The secret of signatures.
    pub secret_access_key: String,
}

impl TestBucket {
    /// The store URL of a prefix: `s3://BUCKET/PREFIX?endpoint=…&region=…` with the keys.
    pub fn url(&self, prefix: &str) -> String {
        let Self { name, endpoint, region, access_key_id: id, secret_access_key: secret } = self;
        let access = format!("access_key_id={id}&secret_access_key={secret}");
        format!("s3://{name}/{prefix}?endpoint={endpoint}&region={region}&{access}")
    }

    /// The same bucket with another access key and secret.
    #[must_use]
    pub fn accessed_by(&self, (id, secret): (&str, &str)) -> Self {
        Self { access_key_id: id.to_owned(), secret_access_key: secret.to_owned(), ..self.clone() }
    }

    /// Another bucket on the same server. It need not exist.
    #[must_use]
    pub fn named(&self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self.clone() }
    }

    /// Parses a URL of [`url`](Self::url) with any prefix.
    pub fn parse(url: &str) -> Option<Self> {
        let (place, query) = url.strip_prefix("s3://")?.split_once('?')?;
        let value = |key: &str| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.into_iter().find(|(name, _)| *name == key).map(|(_, value)| value.to_owned())
        };
        Some(Self {
            name: place.split('/').next().filter(|name| !name.is_empty())?.to_owned(),
            endpoint: value("endpoint")?,
            region: value("region")?,
            access_key_id: value("access_key_id")?,
            secret_access_key: value("secret_access_key")?,
        })
    }
}

/// A bucket, and its server if this process started it.
pub(crate) type SharedBucket = OnceLock<Result<(TestBucket, Option<S3Server>), TestbedError>>;

/// The bucket in the environment variable, else that of a server that is started now.
pub(crate) fn shared(
    shared: &'static SharedBucket,
    variable: &str,
    start: fn() -> Result<S3Server, TestbedError>,
) -> Result<&'static TestBucket, TestbedError> {
    let found = || match env::var(variable) {
        Ok(url) if !url.is_empty() => match TestBucket::parse(&url) {
            Some(bucket) => Ok((bucket, None)),
            None => Err(TestbedError::failed(format!("reading a bucket from {variable}"), url)),
        },
        _ => start().map(|server| (server.bucket(), Some(server))),
    };
    shared.get_or_init(found).as_ref().map(|(bucket, _)| bucket).map_err(Clone::clone)
}

/// The status of a response of a loopback server, if there is one.
pub(crate) fn status(port: u16, method: &str, path: &str) -> Option<u16> {
    let mut stream =
        TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), TIMEOUT).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).ok()?;
    // HTTP/1.1 200
    std::str::from_utf8(&answer).ok()?.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_url_of_a_bucket() {
        let url =
            "s3://goldseam/a/b?endpoint=http://127.0.0.1:1&region=eu&access_key_id=i&secret_access_key=s";
        let bucket = TestBucket::parse(url).unwrap();
        assert_eq!(bucket.url("a/b"), url);
        assert_eq!(bucket.accessed_by(("j", "t")).named("x").url(""), {
            "s3://x/?endpoint=http://127.0.0.1:1&region=eu&access_key_id=j&secret_access_key=t"
        });
        assert_eq!(TestBucket::parse("s3:///a?endpoint=x"), None);
        assert_eq!(TestBucket::parse("s3://goldseam/a"), None);
    }
}
