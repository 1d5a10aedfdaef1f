//! Where is measured: a SQLite file, a Postgres server or a bucket, with scratch stores for each side of a comparison.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use goldseam_testbed::postgres::{Cluster, Options};
use goldseam_testbed::s3::{self, Server};
use goldseam_testbed::seaweedfs;

use crate::Fallible;
use crate::raw::postgres;

/// Where to measure.
pub(crate) struct Place {
    /// The store of measures that need no more than one.
    pub(crate) url: String,
    /// A folder for files.
    pub(crate) dir: PathBuf,
    base: Base,
}

/// What scratch stores are made in.
enum Base {
    /// Files in the folder.
    Folder,
    /// Schemas in a database, which are ours to remove.
    Database { url: String, schemas: RefCell<Vec<String>>, _cluster: Option<Box<Cluster>> },
    /// Prefixes in a bucket, on a server that ends with this.
    Bucket { _server: Box<Server>, bucket: s3::Bucket },
}

/// Settings that a server has if nobody sets them; those of a test's server are smaller.
const SETTINGS: [(&str, &str); 2] = [("shared_buffers", "128MB"), ("max_wal_size", "1GB")];

impl Place {
    /// What `--store` names: nothing (a scratch file), `sqlite:PATH`, `postgres://…`, or a private server that ends with
    /// this: `postgres` for a durable one on a socket, `s3` for a bucket.
    pub(crate) fn open(store: Option<&str>, dir: &Path) -> Fallible<Self> {
        let dir = dir.to_owned();
        let (url, cluster) = match store {
            None => {
                let url = format!("sqlite:{}", dir.join("bench.db").display());
                return Ok(Self { url, dir, base: Base::Folder });
            }
            Some("postgres") => {
                let settings = SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
                let cluster = Cluster::start(&Options { durable: true, settings })?;
                (cluster.socket_url(), Some(cluster))
            }
            Some("s3") => {
                let server = seaweedfs::start()?;
                let bucket = server.bucket();
                let (url, _server) = (bucket.url("bench"), Box::new(server));
                return Ok(Self { url, dir, base: Base::Bucket { _server, bucket } });
            }
            Some(url) if is_postgres(url) => (url.to_owned(), None),
            Some(url) => return Ok(Self { url: url.to_owned(), dir, base: Base::Folder }),
        };
        let base = Base::Database { url, schemas: RefCell::default(), _cluster: cluster.map(Box::new) };
        let mut place = Self { url: String::new(), dir, base };
        // Nothing is measured among somebody's own runs.
        place.url = place.scratch("bench");
        Ok(place)
    }

    /// A scratch store of its own for one side of a comparison.
    pub(crate) fn scratch(&self, name: &str) -> String {
        match &self.base {
            Base::Folder => format!("sqlite:{}", self.dir.join(format!("{name}.db")).display()),
            Base::Database { url, schemas, .. } => {
                let schema = format!("bench_{}_{}", std::process::id(), name.replace('-', "_"));
                // A session says whose it is.
                let scratch = with(&with(url, "schema", &schema), "application_name", &schema);
                schemas.borrow_mut().push(schema);
                scratch
            }
            Base::Bucket { bucket, .. } => bucket.url(name),
        }
    }

    /// The file behind a URL.
    pub(crate) fn file(url: &str) -> PathBuf {
        PathBuf::from(url.trim_start_matches("sqlite:").split('?').next().unwrap_or_default())
    }

    pub(crate) fn label(&self) -> String {
        let scheme = self.url.split(':').next().unwrap_or_default();
        scheme.to_owned()
    }

    pub(crate) fn is_postgres(&self) -> bool {
        is_postgres(&self.url)
    }

    /// The server, for measures that ask it about itself.
    pub(crate) fn server(&self) -> Fallible<&str> {
        match &self.base {
            Base::Folder | Base::Bucket { .. } => {
                Err("this is measured on a server only: --store postgres, or postgres://…".into())
            }
            Base::Database { url, .. } => Ok(url),
        }
    }

    /// Whether every call is a request that is counted.
    pub(crate) fn is_bucket(&self) -> bool {
        matches!(self.base, Base::Bucket { .. })
    }

    /// Removes the scratch stores that a server would keep.
    pub(crate) async fn clear(&self) -> Fallible<()> {
        let Base::Database { url, schemas, .. } = &self.base else { return Ok(()) };
        let names = schemas.borrow().clone();
        let client = postgres::connect(url).await?;
        for schema in names {
            client.batch_execute(&format!("DROP SCHEMA IF EXISTS {schema} CASCADE")).await?;
        }
        Ok(())
    }
}

/// Whether a URL names a Postgres database.
pub(crate) fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

/// The URL with one more option; of two of the same name the last one counts.
pub(crate) fn with(url: &str, name: &str, value: &str) -> String {
    let mark = if url.contains('?') { '&' } else { '?' };
    format!("{url}{mark}{name}={value}")
}
