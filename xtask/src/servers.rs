//! The servers for tests: one of each kind for a whole run, since every test is a separate process.

use std::io;
use std::thread;
use std::time::Instant;

use goldseam_testbed::pgbouncer::{self, Pooler};
use goldseam_testbed::postgres::{self, Cluster, ClusterOptions};
use goldseam_testbed::s3::S3Server;
use goldseam_testbed::{TestbedError, moto, rclone, seaweedfs};

/// An object store for tests.
struct Store {
    name: &'static str,
    /// The environment variable with its bucket.
    variable: &'static str,
    start: fn() -> Result<S3Server, TestbedError>,
}

const STORES: &[Store] = &[
    Store { name: "SeaweedFS", variable: seaweedfs::VARIABLE, start: seaweedfs::start },
    Store { name: "moto", variable: moto::VARIABLE, start: moto::start },
    Store { name: "rclone", variable: rclone::VARIABLE, start: rclone::start },
];

/// The servers to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// Postgres and its pooler.
    Databases,
    /// All of them.
    All,
}

/// Private servers; all end with this process, also if it is killed.
pub(crate) struct Servers {
    stores: Vec<(&'static str, S3Server)>,
    pooler: Pooler,
    cluster: Cluster,
}

impl Servers {
    /// Starts them in parallel and prints their addresses.
    pub(crate) fn start(which: Which) -> Result<Self, String> {
        println!("starting private servers for tests, installed first if they are missing");
        let stores = if which == Which::All { STORES } else { &[] };
        thread::scope(|scope| {
            let start = |store: &'static Store| {
                let endpoint = |server: &S3Server| server.bucket().endpoint;
                (store.variable, scope.spawn(move || timed(store.name, store.start, endpoint)))
            };
            let stores: Vec<_> = stores.iter().map(start).collect();
            let cluster = timed("Postgres", || Cluster::start(&ClusterOptions::default()), Cluster::url)?;
            let pooler = timed("PgBouncer", || Pooler::start(&cluster.url()), Pooler::url)?;
            let stores = stores.into_iter().map(|(variable, server)| {
                let server =
                    server.join().map_err(|_| format!("the thread that sets {variable} panicked"))??;
                Ok((variable, server))
            });
            Ok(Self { stores: stores.collect::<Result<_, String>>()?, pooler, cluster })
        })
    }

    /// The environment variables that tests read.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let databases = [(postgres::VARIABLE, self.cluster.url()), (pgbouncer::VARIABLE, self.pooler.url())];
        let stores = self.stores.iter().map(|(variable, server)| (*variable, server.bucket().url("")));
        databases.into_iter().chain(stores).collect()
    }
}

#[expect(clippy::disallowed_methods, reason = "the tooling has no other clock")]
fn timed<T>(
    name: &str,
    start: impl FnOnce() -> Result<T, TestbedError>,
    url: impl FnOnce(&T) -> String,
) -> Result<T, String> {
    let from = Instant::now();
    let server = start().map_err(|error| error.to_string())?;
    println!("{name}: {} ({:.1} s)", url(&server), from.elapsed().as_secs_f64());
    Ok(server)
}

/// `cargo xtask servers` and `postgres`: runs servers until Enter is pressed, and prints the variables for tests.
pub(crate) fn run(which: Which) -> Result<(), String> {
    let servers = Servers::start(which)?;
    for (name, url) in servers.variables() {
        println!("export {name}='{url}'");
    }
    println!("Enter or Ctrl-C ends them.");
    io::stdin().read_line(&mut String::new()).map_err(|error| error.to_string())?;
    Ok(())
}
