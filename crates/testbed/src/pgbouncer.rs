//! A transaction pooler in front of a Postgres.

use std::env;
use std::path::Path;
use std::sync::OnceLock;

use crate::keeper::{Keeper, ServerScript};
use crate::{TestbedError, postgres, programs};

/// The variable with the URL of a running pooler, which [`shared`] uses.
pub const VARIABLE: &str = "GOLDSEAM_TEST_POOLER";

static JOB: ServerScript = ServerScript {
    name: "pgbouncer",
    prepare: r#"printf '%s' "$USERS" >users"#,
    serve: r#"
        printf '%s\nlisten_port = %s\n' "$SETTINGS" "$arg" >settings
        exec "$BIN" settings"#,
    ready: r#"[ "$(cat pid 2>/dev/null)" = "$server" ]"#,
    // It keeps no data, and gentler signals differ between versions.
    end: "KILL",
    clean: "",
    ports: 1,
    answers: |_| true,
    refuses_root: true,
};

/// The last section, to which the port is added. A server that was down is retried soon.
const SETTINGS: &str = "
[pgbouncer]
listen_addr = 127.0.0.1
unix_socket_dir =
pidfile = pid
auth_type = trust
auth_file = users
pool_mode = transaction
default_pool_size = 20
max_client_conn = 1000
server_login_retry = 0.2
ignore_startup_parameters = extra_float_digits,options
";

/// A private pooler on a loopback port, which lends a server connection for one transaction. It ends when it is
/// dropped, or when this process ends.
#[derive(Debug)]
pub struct Pooler {
    keeper: Keeper,
    account: PostgresAddress,
}

/// The parts of a URL `postgres://USER@HOST:PORT/DATABASE`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PostgresAddress {
    user: String,
    host: String,
    port: u16,
    database: String,
}

impl Pooler {
    /// Starts a pooler in front of the server at `url`, for its user. Installs the Debian package first if it is
    /// missing and this process is root.
    pub fn start(url: &str) -> Result<Self, TestbedError> {
        let account = PostgresAddress::parse(url).ok_or_else(|| {
            TestbedError::failed("starting a pooler", format!("the URL needs user, host and port: {url}"))
        })?;
        let database = format!("[databases]\n* = host={} port={}\n", account.host, account.port);
        let values = [
            ("BIN", programs::pgbouncer()?.display().to_string()),
            ("USERS", format!("\"{}\" \"\"\n", account.user)),
            ("SETTINGS", database + SETTINGS),
        ];
        let keeper = Keeper::start(&JOB, &values)?;
        Ok(Self { keeper, account })
    }

    /// Its URL, with the user and the database of the server behind it.
    pub fn url(&self) -> String {
        let PostgresAddress { user, database, .. } = &self.account;
        format!("postgres://{user}@127.0.0.1:{}/{database}", self.keeper.port())
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.keeper.folder()
    }

    /// Restarts it at the same address, which drops all clients.
    pub fn restart(&self) -> Result<(), TestbedError> {
        self.keeper.stop(JOB.end)?;
        self.keeper.start_again()
    }
}

impl PostgresAddress {
    fn parse(url: &str) -> Option<Self> {
        let (_, rest) = url.split_once("://")?;
        let (user, rest) = rest.split_once('@')?;
        let (place, database) = rest.split('?').next()?.split_once('/')?;
        let (host, port) = place.rsplit_once(':')?;
        let [user, host, database] = [user, host, database].map(str::to_owned);
        Some(Self { user, host, port: port.parse().ok()?, database })
    }
}

/// The URL of the pooler in front of [`postgres::shared`]: that of the environment (`cargo xtask test` starts it), else
/// of one that this process starts and that ends with it.
pub fn shared() -> Result<&'static str, TestbedError> {
    static SHARED: OnceLock<Result<(String, Option<Pooler>), TestbedError>> = OnceLock::new();
    let start = || match env::var(VARIABLE) {
        Ok(url) if !url.is_empty() => Ok((url, None)),
        _ => Pooler::start(postgres::shared()?).map(|pooler| (pooler.url(), Some(pooler))),
    };
    SHARED.get_or_init(start).as_ref().map(|(url, _)| url.as_str()).map_err(Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_a_url() {
        let account = PostgresAddress::parse("postgres://goldseam@127.0.0.1:5432/orders?schema=x").unwrap();
        assert_eq!(
            (account.user.as_str(), account.port, account.database.as_str()),
            ("goldseam", 5432, "orders")
        );
        assert_eq!(PostgresAddress::parse("postgres:///orders?host=/tmp"), None);
        assert_eq!(PostgresAddress::parse("postgres://goldseam@127.0.0.1/orders"), None);
    }
}
