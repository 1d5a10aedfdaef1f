//! A private Postgres server, and its faults.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;

use crate::TestbedError;
use crate::keeper::{Keeper, ServerScript};
use crate::programs::{self, command};

/// The variable with the URL of a running server, which [`shared`] uses.
pub const VARIABLE: &str = "GOLDSEAM_TEST_POSTGRES";

/// The name of the superuser and of the database.
const NAME: &str = "goldseam";
/// The role whose members need a password; other users are trusted.
const WITH_PASSWORD: &str = "with_password";
/// Most attempts to start while processes of the previous server run.
const START_ATTEMPTS: u32 = 100;
/// Most checks until a change of settings is effective.
const RELOAD_CHECKS: u32 = 500;

static JOB: ServerScript = ServerScript {
    name: "postgres",
    prepare: r#"
        "$BIN/initdb" --pgdata data --username "$NAME" --auth trust --encoding UTF8 --locale C --no-sync &&
        printf '%s' "$SETTINGS" >>data/postgresql.conf &&
        printf '%s' "$ACCESS" >data/pg_hba.conf"#,
    serve: r#"exec "$BIN/postgres" -D data -p "$arg" -k "$DIR""#,
    // The first line is the process id, the eighth the state.
    ready: r#"[ "$(sed -n '1p;8p' data/postmaster.pid 2>/dev/null | tr -d ' \n')" = "${server}ready" ]"#,
    end: "QUIT",
    clean: "",
    ports: 1,
    answers: |_| true,
    refuses_root: true,
};

/// The settings of a cluster.
#[derive(Debug, Clone, Default)]
pub struct ClusterOptions {
    /// Whether commits survive a crash of the machine. Tests do not need it, and are faster without; benchmarks need
    /// it.
    pub durable: bool,
    /// Further settings by name, with precedence.
    pub settings: Vec<(String, String)>,
}

/// How to end a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Ends sessions, rolls back their transactions, and writes all data.
    Fast,
    /// Like a crash: the next start recovers from the log.
    Immediate,
    /// Kills the first process; the others end when they notice.
    Kill,
}

/// A private server on a loopback port and on a socket, with one superuser and one database, both named `goldseam`. It
/// ends when it is dropped, or when this process ends.
#[derive(Debug)]
pub struct Cluster {
    keeper: Keeper,
    programs: PathBuf,
}

impl Cluster {
    /// Creates a cluster and starts it. Installs the Debian package first if it is missing and this process is root.
    pub fn start(options: &ClusterOptions) -> Result<Self, TestbedError> {
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

    /// Its URL over TCP.
    pub fn url(&self) -> String {
        format!("postgres://{NAME}@127.0.0.1:{}/{NAME}", self.keeper.port())
    }

    /// Its URL over its socket.
    pub fn socket_url(&self) -> String {
        let folder = self.keeper.folder().display();
        format!("postgres:///{NAME}?host={folder}&port={}&user={NAME}", self.keeper.port())
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.keeper.folder()
    }

    /// Creates a role with a password and without privileges. Returns its URL.
    pub fn user(&self, name: &str, password: &str) -> Result<String, TestbedError> {
        let values = [("name", name), ("password", password), ("group", WITH_PASSWORD)];
        self.psql(NAME, r#"CREATE ROLE :"name" LOGIN PASSWORD :'password' IN ROLE :"group";"#, &values)?;
        Ok(format!("postgres://{name}:{password}@127.0.0.1:{}/{NAME}", self.keeper.port()))
    }

    /// Runs statements as the superuser with `psql`, each in its own transaction. Returns rows as lines with columns
    /// separated by `|`.
    pub fn sql(&self, statements: &str) -> Result<String, TestbedError> {
        self.psql(NAME, statements, &[])
    }

    /// Changes a setting of the running server, for existing and new sessions.
    ///
    /// It is effective in new sessions on return; a busy session takes it after its statement.
    pub fn set(&self, name: &str, value: &str) -> Result<(), TestbedError> {
        let before = self.sql("SELECT pg_conf_load_time();")?;
        let values = [("name", name), ("value", value)];
        self.psql(NAME, r#"ALTER SYSTEM SET :"name" = :'value'; SELECT pg_reload_conf();"#, &values)?;
        for _ in 0..RELOAD_CHECKS {
            if self.sql("SELECT pg_conf_load_time();")? != before {
                return Ok(());
            }
        }
        Err(TestbedError::failed(format!("setting {name}"), "the server did not reload its settings"))
    }

    /// Restarts the server at the same addresses.
    pub fn restart(&self, shutdown: Shutdown) -> Result<(), TestbedError> {
        self.stop(shutdown)?;
        self.start_again()
    }

    /// Ends the server. Returns once it has ended. Keeps its data.
    pub fn stop(&self, shutdown: Shutdown) -> Result<(), TestbedError> {
        self.keeper.stop(match shutdown {
            Shutdown::Fast => "INT",
            Shutdown::Immediate => "QUIT",
            Shutdown::Kill => "KILL",
        })
    }

    /// Starts the stopped server at the same addresses.
    pub fn start_again(&self) -> Result<(), TestbedError> {
        for _ in 1..START_ATTEMPTS {
            match self.keeper.start_again() {
                // Processes of the killed server still run, and no new server may join them.
                Err(error) if error.to_string().contains("pre-existing shared memory block") => {}
                outcome => return outcome,
            }
        }
        self.keeper.start_again()
    }

    /// Runs statements, which name `values` as `:"identifier"` and `:'literal'`.
    fn psql(
        &self,
        database: &str,
        statements: &str,
        values: &[(&str, &str)],
    ) -> Result<String, TestbedError> {
        let failed = |message: &dyn std::fmt::Display| TestbedError::failed("psql", message);
        let mut psql = command(self.programs.join("psql"));
        psql.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--set=ON_ERROR_STOP=1"]);
        psql.args(values.iter().map(|(name, value)| format!("--set={name}={value}")));
        psql.arg("--host").arg(self.keeper.folder()).arg(format!("--port={}", self.keeper.port()));
        psql.args(["--username", NAME, "--dbname", database]);
        psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = psql.spawn().map_err(|error| failed(&error))?;
        if let Some(mut input) = process.stdin.take() {
            // If psql has ended early, its output says why.
            let _ = input.write_all(statements.as_bytes());
        }
        let output = process.wait_with_output().map_err(|error| failed(&error))?;
        if !output.status.success() {
            return Err(failed(&String::from_utf8_lossy(&output.stderr)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }
}

fn settings(options: &ClusterOptions) -> String {
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

/// The content of `pg_hba.conf`, of which the first matching line counts.
fn access() -> String {
    let line = |user: &str, method: &str| {
        format!("local all {user} {method}\nhost all {user} 127.0.0.1/32 {method}\n")
    };
    line(&format!("+{WITH_PASSWORD}"), "scram-sha-256") + &line("all", "trust")
}

/// The URL of the server that all tests of a run share: that of the environment (`cargo xtask test` starts it), else of
/// one that this process starts and that ends with it.
pub fn shared() -> Result<&'static str, TestbedError> {
    static SHARED: OnceLock<Result<(String, Option<Cluster>), TestbedError>> = OnceLock::new();
    let start = || match env::var(VARIABLE) {
        Ok(url) if !url.is_empty() => Ok((url, None)),
        _ => Cluster::start(&ClusterOptions::default()).map(|cluster| (cluster.url(), Some(cluster))),
    };
    SHARED.get_or_init(start).as_ref().map(|(url, _)| url.as_str()).map_err(Clone::clone)
}
