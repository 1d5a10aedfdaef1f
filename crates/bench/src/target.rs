//! The target of a measurement: a SQLite file, a Postgres server or a bucket, with scratch stores for each side of a
//! comparison.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use goldseam_testbed::postgres::{Cluster, ClusterOptions};
use goldseam_testbed::s3::{self, S3Server};
use goldseam_testbed::seaweedfs;

use crate::Fallible;
use crate::raw::postgres;

/// The target of a measurement.
pub(crate) struct Target {
    /// The store of measures that need only one.
    pub(crate) url: String,
    /// A directory for files.
    pub(crate) dir: PathBuf,
    base: Base,
}

/// The container of scratch stores.
enum Base {
    /// Files in the directory.
    Folder,
    /// Schemas in a database, removed afterwards.
    Database { url: String, schemas: RefCell<Vec<String>>, _cluster: Option<Box<Cluster>> },
    /// Prefixes in a bucket, on a server that stops on drop.
    Bucket { _server: Box<S3Server>, bucket: s3::TestBucket },
}

/// Default settings of a server; a test cluster has smaller ones.
const SETTINGS: [(&str, &str); 2] = [("shared_buffers", "128MB"), ("max_wal_size", "1GB")];

impl Target {
    /// Opens the target of `--store`: none (a scratch file), `sqlite:PATH`, `postgres://…`, or a private server that
    /// stops on drop: `postgres` (durable, on a socket) or `s3` (a bucket).
    pub(crate) fn open(store: Option<&str>, dir: &Path) -> Fallible<Self> {
        let dir = dir.to_owned();
        let (url, cluster) = match store {
            None => {
                let url = format!("sqlite:{}", dir.join("bench.db").display());
                return Ok(Self { url, dir, base: Base::Folder });
            }
            Some("postgres") => {
                let settings = SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
                let cluster = Cluster::start(&ClusterOptions { durable: true, settings })?;
                (cluster.socket_url(), Some(cluster))
            }
            Some("s3") => {
                let server = seaweedfs::start()?;
                let bucket = server.bucket();
                let url = bucket.url("bench");
                return Ok(Self { url, dir, base: Base::Bucket { _server: Box::new(server), bucket } });
            }
            Some(url) if is_postgres(url) => (url.to_owned(), None),
            Some(url) => return Ok(Self { url: url.to_owned(), dir, base: Base::Folder }),
        };
        let base = Base::Database { url, schemas: RefCell::default(), _cluster: cluster.map(Box::new) };
        let mut target = Self { url: String::new(), dir, base };
        // Measure in a new schema, not among existing runs.
        target.url = target.scratch("bench");
        Ok(target)
    }

    /// Returns the URL of a new scratch store.
    pub(crate) fn scratch(&self, name: &str) -> String {
        match &self.base {
            Base::Folder => format!("sqlite:{}", self.dir.join(format!("{name}.db")).display()),
            Base::Database { url, schemas, .. } => {
                let schema = format!("bench_{}_{}", std::process::id(), name.replace('-', "_"));
                // The application name identifies the sessions of this store.
                let scratch = with(&with(url, "schema", &schema), "application_name", &schema);
                schemas.borrow_mut().push(schema);
                scratch
            }
            Base::Bucket { bucket, .. } => bucket.url(name),
        }
    }

    /// Returns the file of a SQLite URL.
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

    /// Returns whether the target is a SQLite file.
    pub(crate) fn is_sqlite(&self) -> bool {
        matches!(self.base, Base::Folder)
    }

    /// Returns the URL that was given, for measures of an existing store.
    pub(crate) fn given(&self) -> &str {
        match &self.base {
            Base::Folder | Base::Bucket { .. } => &self.url,
            Base::Database { url, .. } => url,
        }
    }

    /// Returns the URL of the server, for measures that read its statistics.
    pub(crate) fn server(&self) -> Fallible<&str> {
        match &self.base {
            Base::Folder | Base::Bucket { .. } => {
                Err("this measure needs a server: pass --store postgres or --store postgres://…".into())
            }
            Base::Database { url, .. } => Ok(url),
        }
    }

    /// Returns whether the target is a bucket, where requests are counted.
    pub(crate) fn is_bucket(&self) -> bool {
        matches!(self.base, Base::Bucket { .. })
    }

    /// Removes the scratch stores from a server.
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

/// Returns whether this is the URL of a Postgres database.
pub(crate) fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

/// Returns the URL with an additional option, which overrides an earlier one of the same name.
pub(crate) fn with(url: &str, name: &str, value: &str) -> String {
    let mark = if url.contains('?') { '&' } else { '?' };
    format!("{url}{mark}{name}={value}")
}
