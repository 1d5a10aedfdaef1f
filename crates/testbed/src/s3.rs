//! What the servers that speak S3 have in common: how they run, and how tests name a bucket on them.

use std::env;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use crate::Error;
use crate::keeper::{Job, Keeper};

/// The bucket that each server has from its start.
pub const BUCKET: &str = "goldseam";
/// May do everything on every server: an access key and its secret.
pub const WRITER: (&str, &str) = ("goldseam-writer", "writer-secret");
/// May read and list, and nothing else, where a server knows of rights (SeaweedFS does).
pub const READER: (&str, &str) = ("goldseam-reader", "reader-secret");

/// How long a question that should be answered at once may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A server of our own on the loopback device. Gone once it is dropped, or once this process is.
#[derive(Debug)]
pub struct Server {
    keeper: Keeper,
    job: &'static Job,
}

impl Server {
    pub(crate) fn start(job: &'static Job, values: &[(&str, String)]) -> Result<Self, Error> {
        Keeper::start(job, values).map(|keeper| Self { keeper, job })
    }

    /// The bucket that it has, for somebody who may do everything.
    pub fn bucket(&self) -> Bucket {
        Bucket {
            name: BUCKET.to_owned(),
            endpoint: format!("http://127.0.0.1:{}", self.keeper.port()),
            region: "us-east-1".to_owned(),
            access_key_id: WRITER.0.to_owned(),
            secret_access_key: WRITER.1.to_owned(),
        }
    }

    /// The folder that everything of it is in.
    pub fn folder(&self) -> &Path {
        self.keeper.folder()
    }

    /// Ends it as a crash does, and returns once it is gone. What it stored on disk is kept.
    pub fn stop(&self) -> Result<(), Error> {
        self.keeper.stop(self.job.end)
    }

    /// Starts a server that was stopped, at the same address.
    pub fn start_again(&self) -> Result<(), Error> {
        self.keeper.start_again()
    }
}

/// A bucket, and as whom it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// Its name on the server.
    pub name: String,
    /// The address of the server.
    pub endpoint: String,
    /// What the client has to sign for.
    pub region: String,
    /// Whose the request is.
    pub access_key_id: String,
    /// What it is signed with.
    pub secret_access_key: String,
}

impl Bucket {
    /// The address of what begins with `prefix` in it: `s3://BUCKET/PREFIX?endpoint=…&region=…` and the keys.
    pub fn url(&self, prefix: &str) -> String {
        let Self { name, endpoint, region, access_key_id: id, secret_access_key: secret } = self;
        let access = format!("access_key_id={id}&secret_access_key={secret}");
        format!("s3://{name}/{prefix}?endpoint={endpoint}&region={region}&{access}")
    }

    /// The same bucket, used by somebody else: an access key and its secret.
    #[must_use]
    pub fn accessed_by(&self, (id, secret): (&str, &str)) -> Self {
        Self { access_key_id: id.to_owned(), secret_access_key: secret.to_owned(), ..self.clone() }
    }

    /// Another bucket on the same server; it need not be there.
    #[must_use]
    pub fn named(&self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self.clone() }
    }

    /// The bucket of an address as [`url`](Self::url) writes it, whatever the prefix is.
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

/// A bucket, and the server that it is on if that is ours.
pub(crate) type Shared = OnceLock<Result<(Bucket, Option<Server>), Error>>;

/// The bucket that the environment names in `variable`, else that of a server that is started now.
pub(crate) fn shared(
    shared: &'static Shared,
    variable: &str,
    start: fn() -> Result<Server, Error>,
) -> Result<&'static Bucket, Error> {
    let found = || match env::var(variable) {
        Ok(url) if !url.is_empty() => match Bucket::parse(&url) {
            Some(bucket) => Ok((bucket, None)),
            None => Err(Error::failed(format!("reading a bucket from {variable}"), url)),
        },
        _ => start().map(|server| (server.bucket(), Some(server))),
    };
    shared.get_or_init(found).as_ref().map(|(bucket, _)| bucket).map_err(Clone::clone)
}

/// The status that a server on the loopback device answers with, if it answers.
pub(crate) fn status(port: u16, method: &str, path: &str) -> Option<u16> {
    let mut stream =
        TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
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
    fn a_bucket_is_what_its_address_says() {
        let url =
            "s3://goldseam/a/b?endpoint=http://127.0.0.1:1&region=eu&access_key_id=i&secret_access_key=s";
        let bucket = Bucket::parse(url).unwrap();
        assert_eq!(bucket.url("a/b"), url);
        assert_eq!(bucket.accessed_by(("j", "t")).named("x").url(""), {
            "s3://x/?endpoint=http://127.0.0.1:1&region=eu&access_key_id=j&secret_access_key=t"
        });
        assert_eq!(Bucket::parse("s3:///a?endpoint=x"), None);
        assert_eq!(Bucket::parse("s3://goldseam/a"), None);
    }
}
