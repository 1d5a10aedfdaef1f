//! The Postgres and the pooler that tests work with: one of each for a whole run, since every test is a process
//! of its own.

use std::io::{self, Write};
use std::time::Instant;

use goldseam_testbed::pgbouncer::{self, Pooler};
use goldseam_testbed::postgres::{self, Cluster, Options};

/// Servers of our own; both end with this process, whatever its end is.
pub(crate) struct Servers {
    pooler: Pooler,
    cluster: Cluster,
}

impl Servers {
    /// Starts both, and says so.
    pub(crate) fn start() -> Result<Self, String> {
        let cluster = timed("Postgres", || Cluster::start(&Options::default()), Cluster::url)?;
        let pooler = timed("PgBouncer", || Pooler::start(&cluster.url()), Pooler::url)?;
        Ok(Self { pooler, cluster })
    }

    /// What tests find them by.
    pub(crate) fn variables(&self) -> [(&'static str, String); 2] {
        [(postgres::VARIABLE, self.cluster.url()), (pgbouncer::VARIABLE, self.pooler.url())]
    }
}

#[expect(clippy::disallowed_methods, reason = "the tooling has no other clock")]
fn timed<T>(
    name: &str,
    start: impl FnOnce() -> Result<T, goldseam_testbed::Error>,
    url: impl FnOnce(&T) -> String,
) -> Result<T, String> {
    print!("starting a private {name} for tests, installed first if it is missing: ");
    io::stdout().flush().map_err(|error| error.to_string())?;
    let from = Instant::now();
    let server = start().map_err(|error| error.to_string())?;
    println!("{} ({:.1} s)", url(&server), from.elapsed().as_secs_f64());
    Ok(server)
}

/// `cargo xtask postgres`: both servers until Enter is pressed, and what to tell the tests.
pub(crate) fn run() -> Result<(), String> {
    let servers = Servers::start()?;
    for (name, url) in servers.variables() {
        println!("export {name}={url}");
    }
    println!("Enter or Ctrl-C ends both.");
    io::stdin().read_line(&mut String::new()).map_err(|error| error.to_string())?;
    Ok(())
}
