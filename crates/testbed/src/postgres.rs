//! A private Postgres, and the faults that tests want of it.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;

use crate::Error;
use crate::keeper::{Job, Keeper};
use crate::programs::{self, command};

/// Names the server for tests that has been started already; [`shared`] takes it from here.
pub const VARIABLE: &str = "GOLDSEAM_TEST_POSTGRES";

/// The superuser, and the database that tests work in.
const NAME: &str = "goldseam";
/// Whoever is a member has to say a password; everybody else is trusted.
const WITH_PASSWORD: &str = "with_password";
/// How often a server is started that finds processes of the one before.
const START_TRIES: u32 = 100;
/// How many new sessions a change of settings may need until it is seen.
const RELOAD_TRIES: u32 = 500;

static JOB: Job = Job {
    name: "postgres",
    prepare: r#"
        "$BIN/initdb" --pgdata data --username "$NAME" --auth trust --encoding UTF8 --locale C --no-sync &&
        printf '%s' "$SETTINGS" >>data/postgresql.conf &&
        printf '%s' "$ACCESS" >data/pg_hba.conf"#,
    serve: r#"exec "$BIN/postgres" -D data -p "$arg" -k "$DIR""#,
    // Its first line is the process, its eighth what it is doing.
    ready: r#"[ "$(sed -n '1p;8p' data/postmaster.pid 2>/dev/null | tr -d ' \n')" = "${server}ready" ]"#,
    end: "QUIT",
    clean: "",
    ports: 1,
    answers: |_| true,
    refuses_root: true,
};

/// How a cluster is set up.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Whether what is committed survives a crash of the machine. Tests need no such promise, and are
    /// faster without; benchmarks do.
    pub durable: bool,
    /// Settings of the server beside ours, by name; they win.
    pub settings: Vec<(String, String)>,
}

/// How a server is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Sessions are ended, their transactions rolled back, and everything is written.
    Fast,
    /// As by a crash: the next start recovers from the log.
    Immediate,
    /// Its first process dies by SIGKILL, and the others find themselves alone.
    Kill,
}

/// A server of our own: on a port of the loopback device and on a socket, with one superuser and one database,
/// both named `goldseam`. Gone once it is dropped, or once this process is.
#[derive(Debug)]
pub struct Cluster {
    keeper: Keeper,
    programs: PathBuf,
}

impl Cluster {
    /// Makes a new cluster and starts it. Installs Debian's server first if there is none and we are root.
    pub fn start(options: &Options) -> Result<Self, Error> {
        let programs = programs::postgres()?;
        let values = [
            ("BIN", programs.display().to_string()),
            ("NAME", NAME.to_owned()),
            ("SETTINGS", settings(options)),
            ("ACCESS", access()),
        ];
        let keeper = Keeper::start(&JOB, &values)?;
        let cluster = Self { keeper, programs };
        let values = [("name", NAME), ("group", WITH_PASSWORD)];
        cluster.psql("postgres", r#"CREATE DATABASE :"name"; CREATE ROLE :"group";"#, &values)?;
        Ok(cluster)
    }

    /// Its address over TCP.
    pub fn url(&self) -> String {
        format!("postgres://{NAME}@127.0.0.1:{}/{NAME}", self.keeper.port())
    }

    /// Its address over its socket.
    pub fn socket_url(&self) -> String {
        let folder = self.keeper.folder().display();
        format!("postgres:///{NAME}?host={folder}&port={}&user={NAME}", self.keeper.port())
    }

    /// The folder that everything of it is in.
    pub fn folder(&self) -> &Path {
        self.keeper.folder()
    }

    /// Makes a role that has to say its password, and returns the address it has to use. It has no rights.
    pub fn user(&self, name: &str, password: &str) -> Result<String, Error> {
        let values = [("name", name), ("password", password), ("group", WITH_PASSWORD)];
        self.psql(NAME, r#"CREATE ROLE :"name" LOGIN PASSWORD :'password' IN ROLE :"group";"#, &values)?;
        Ok(format!("postgres://{name}:{password}@127.0.0.1:{}/{NAME}", self.keeper.port()))
    }

    /// Runs statements as the superuser by `psql`, each in its own transaction. Returns rows as lines, columns
    /// separated by `|`.
    pub fn sql(&self, statements: &str) -> Result<String, Error> {
        self.psql(NAME, statements, &[])
    }

    /// Changes a setting of the running server, for sessions there are and sessions to come.
    ///
    /// New sessions have it on return; one that is busy takes it after its statement.
    pub fn set(&self, name: &str, value: &str) -> Result<(), Error> {
        let before = self.sql("SELECT pg_conf_load_time();")?;
        let values = [("name", name), ("value", value)];
        self.psql(NAME, r#"ALTER SYSTEM SET :"name" = :'value'; SELECT pg_reload_conf();"#, &values)?;
        for _ in 0..RELOAD_TRIES {
            if self.sql("SELECT pg_conf_load_time();")? != before {
                return Ok(());
            }
        }
        Err(Error::failed(format!("setting {name}"), "the server did not reload its settings"))
    }

    /// Ends the server and starts it again at the same addresses.
    pub fn restart(&self, shutdown: Shutdown) -> Result<(), Error> {
        self.stop(shutdown)?;
        self.start_again()
    }

    /// Ends the server, and returns once it is gone. What it stored is kept.
    pub fn stop(&self, shutdown: Shutdown) -> Result<(), Error> {
        self.keeper.stop(match shutdown {
            Shutdown::Fast => "INT",
            Shutdown::Immediate => "QUIT",
            Shutdown::Kill => "KILL",
        })
    }

    /// Starts a server that was stopped, at the same addresses.
    pub fn start_again(&self) -> Result<(), Error> {
        for _ in 1..START_TRIES {
            match self.keeper.start_again() {
                // Processes of a server that was killed have not all noticed it yet, and nobody may join them.
                Err(error) if error.to_string().contains("pre-existing shared memory block") => {}
                outcome => return outcome,
            }
        }
        self.keeper.start_again()
    }

    /// `values` are named in `statements` as `:"identifier"` and `:'literal'`.
    fn psql(&self, database: &str, statements: &str, values: &[(&str, &str)]) -> Result<String, Error> {
        let failed = |said: &dyn std::fmt::Display| Error::failed("psql", said);
        let mut psql = command(self.programs.join("psql"));
        psql.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--set=ON_ERROR_STOP=1"]);
        psql.args(values.iter().map(|(name, value)| format!("--set={name}={value}")));
        psql.arg("--host").arg(self.keeper.folder()).arg(format!("--port={}", self.keeper.port()));
        psql.args(["--username", NAME, "--dbname", database]);
        psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = psql.spawn().map_err(|error| failed(&error))?;
        if let Some(mut input) = process.stdin.take() {
            // If it has ended early, it says why.
            let _ = input.write_all(statements.as_bytes());
        }
        let output = process.wait_with_output().map_err(|error| failed(&error))?;
        if !output.status.success() {
            return Err(failed(&String::from_utf8_lossy(&output.stderr)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }
}

fn settings(options: &Options) -> String {
    let mut lines = vec![
        ("listen_addresses", "127.0.0.1"),
        ("max_connections", "300"),
        ("shared_buffers", "64MB"),
        ("max_wal_size", "256MB"),
        ("timezone", "UTC"),
    ];
    if !options.durable {
        lines.extend([("fsync", "off"), ("synchronous_commit", "off"), ("full_page_writes", "off")]);
    }
    lines.extend(options.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    lines.iter().map(|(name, value)| format!("{name} = '{}'\n", value.replace('\'', "''"))).collect()
}

/// The first line that fits counts.
fn access() -> String {
    let line = |who: &str, how: &str| format!("local all {who} {how}\nhost all {who} 127.0.0.1/32 {how}\n");
    line(&format!("+{WITH_PASSWORD}"), "scram-sha-256") + &line("all", "trust")
}

/// The address of a server that all tests of a run share: the one that the environment names
/// (`cargo xtask test` starts it), else one that this process starts and that ends with it.
pub fn shared() -> Result<&'static str, Error> {
    static SHARED: OnceLock<Result<(String, Option<Cluster>), Error>> = OnceLock::new();
    let start = || match env::var(VARIABLE) {
        Ok(url) if !url.is_empty() => Ok((url, None)),
        _ => Cluster::start(&Options::default()).map(|cluster| (cluster.url(), Some(cluster))),
    };
    SHARED.get_or_init(start).as_ref().map(|(url, _)| url.as_str()).map_err(Clone::clone)
}
