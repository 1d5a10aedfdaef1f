//! `postgres://USER@HOST/DATABASE?schema=NAME&pooler=transaction&direct=HOST:PORT`: the address of a database, and the
//! pooler in front of it.
//!
//! Invariant: unknown options are refused, never ignored. Passwords are never shown.

use std::path::PathBuf;
use std::time::Duration;

use goldseam_store::{ClockFn, StoreError, shown_url};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

/// The default schema.
pub const SCHEMA_DEFAULT: &str = "goldseam";
/// Default timeout of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Default timeout of a statement. After it, the connection counts as lost.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Default maximum of appends that share one transaction.
const GROUP_MAX: usize = 256;

/// The address of a database, and how to use it.
#[derive(Clone)]
pub struct PostgresOptions {
    /// Server, database and user.
    pub(crate) config: Config,
    /// The schema of the store.
    pub schema: String,
    /// Whether a pooler between this process and the server gives every transaction another session.
    pub pooler: bool,
    /// The address of the server behind the pooler, for the liveness session. Without it, a node behind a pooler has no
    /// such session, and only missing beats show its death.
    pub direct: Option<(String, u16)>,
    /// Root certificates, instead of the system's.
    pub root_cert: Option<PathBuf>,
    /// Timeout of a statement. After it, the connection counts as lost.
    pub call_timeout: Duration,
    /// Most appends that share one transaction.
    pub group_max: usize,
    /// A clock that replaces the database's.
    pub clock: Option<ClockFn>,
}

impl std::fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("database", &self.config.get_dbname())
            .field("schema", &self.schema)
            .field("pooler", &self.pooler)
            .field("direct", &self.direct)
            .finish_non_exhaustive()
    }
}

impl PostgresOptions {
    /// Whether a node can have a liveness session.
    pub(crate) fn has_sessions(&self) -> bool {
        !self.pooler || self.direct.is_some()
    }

    /// The address for messages, without user and password.
    pub(crate) fn place(&self) -> String {
        let host = self.config.get_hosts().iter().map(|host| match host {
            Host::Tcp(name) => name.clone(),
            #[cfg(unix)]
            Host::Unix(path) => path.display().to_string(),
        });
        let hosts: Vec<String> = host.collect();
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or("postgres");
        format!("database {database:?} at {}", hosts.join(","))
    }
}

/// Whether this URL is for this store.
pub fn is_ours(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

/// Parses a URL.
pub fn parse(url: &str) -> Result<PostgresOptions, StoreError> {
    if !is_ours(url) {
        return Err(refused(url, "it does not begin with postgres://"));
    }
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let mut own = StoreOptions::default();
    let mut rest = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !own.take(name, value).map_err(|why| refused(url, &why))? {
            rest.push(pair);
        }
    }
    let plain = if rest.is_empty() { place.to_owned() } else { [place, "?", &rest.join("&")].concat() };
    let mut config: Config =
        plain.parse().map_err(|error: tokio_postgres::Error| refused(url, &crate::fault::message(&error)))?;
    if config.get_hosts().is_empty() {
        return Err(refused(
            url,
            "the server is missing: write postgres://HOST/DATABASE, or ?host=/SOCKET/FOLDER",
        ));
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_application_name().is_none() {
        config.application_name("goldseam");
    }
    config.ssl_mode(own.ssl_mode.unwrap_or_else(|| ssl_default(&config)));
    Ok(PostgresOptions {
        config,
        schema: own.schema.unwrap_or_else(|| SCHEMA_DEFAULT.to_owned()),
        pooler: own.pooler,
        direct: own.direct,
        root_cert: own.root_cert,
        call_timeout: CALL_TIMEOUT,
        group_max: GROUP_MAX,
        clock: None,
    })
}

/// Options of a URL that the driver does not know, or interprets differently.
#[derive(Default)]
struct StoreOptions {
    schema: Option<String>,
    pooler: bool,
    direct: Option<(String, u16)>,
    root_cert: Option<PathBuf>,
    ssl_mode: Option<SslMode>,
}

impl StoreOptions {
    /// Takes an option. Returns whether it is one of these.
    fn take(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "schema" => self.schema = Some(schema(value)?),
            "pooler" => {
                self.pooler = match value {
                    "transaction" => true,
                    "none" => false,
                    _ => return Err(format!("unknown pooler {value:?}: write transaction or none")),
                }
            }
            "direct" => {
                let (host, port) = value.rsplit_once(':').unwrap_or((value, "5432"));
                let port = port.parse().map_err(|_| format!("direct={value:?} is not HOST:PORT"))?;
                self.direct = Some((host.to_owned(), port));
            }
            "sslrootcert" => self.root_cert = Some(PathBuf::from(value)),
            // A required certificate is always verified: an unverified one proves nothing.
            "sslmode" => {
                self.ssl_mode = Some(match value {
                    "disable" => SslMode::Disable,
                    "prefer" => SslMode::Prefer,
                    "require" | "verify-ca" | "verify-full" => SslMode::Require,
                    _ => return Err(format!("unknown sslmode {value:?}: write disable, prefer or require")),
                });
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Refuses a name that would need quotes in a statement.
fn schema(name: &str) -> Result<String, String> {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && name.len() <= 48;
    if plain && !name.starts_with("pg_") && name != "information_schema" && name != "public" {
        return Ok(name.to_owned());
    }
    Err(format!(
        "invalid schema {name:?}: use a dedicated name of at most 48 lower-case letters, digits and underscores"
    ))
}

/// The default TLS mode: a connection within this machine needs no TLS.
fn ssl_default(config: &Config) -> SslMode {
    let here = |host: &Host| match host {
        Host::Tcp(name) => matches!(name.as_str(), "localhost" | "127.0.0.1" | "::1"),
        #[cfg(unix)]
        Host::Unix(_) => true,
    };
    if config.get_hosts().iter().all(here) { SslMode::Disable } else { SslMode::Prefer }
}

fn refused(url: &str, why: &str) -> StoreError {
    StoreError::Refused {
        code: "GS0206",
        what: format!("invalid store URL {}: {why}", shown_url(url)),
        hint: "write postgres://USER:PASSWORD@HOST:PORT/DATABASE?schema=goldseam".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_server_schema_and_pooler() {
        let url = "postgres://ada:pw@db.example:5433/orders?schema=gold_1&pooler=transaction&direct=db2.example:6000";
        let options = parse(url).unwrap();
        assert_eq!((options.schema.as_str(), options.pooler), ("gold_1", true));
        assert_eq!(options.direct, Some(("db2.example".to_owned(), 6000)));
        assert_eq!(options.config.get_ports(), [5433]);
        assert_eq!(options.config.get_ssl_mode(), SslMode::Prefer);
        assert!(options.has_sessions());
        let options = parse("postgresql:///orders?host=/run/postgresql").unwrap();
        assert_eq!((options.schema.as_str(), options.pooler), (SCHEMA_DEFAULT, false));
        assert_eq!(options.config.get_ssl_mode(), SslMode::Disable);
        assert!(!parse("postgres://h/d?pooler=transaction").unwrap().has_sessions());
    }

    #[test]
    fn a_mistyped_option_is_refused() {
        for url in [
            "postgres://h/d?shema=a",
            "postgres://h/d?schema=A%20b",
            "postgres://h/d?schema=public",
            "postgres://h/d?schema=pg_x",
            "postgres://h/d?pooler=session",
            "postgres://h/d?sslmode=on",
            "postgres://h/d?direct=h:x",
            "postgres:///d",
            "sqlite:a",
        ] {
            assert!(matches!(parse(url), Err(StoreError::Refused { code: "GS0206", .. })), "{url}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        for url in ["postgres://ada:s3cret@h/d?shema=x", "postgres://h/d?password=s3cret&nonsense=1"] {
            let error = parse(url).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
        }
        let options = parse("postgres://ada:s3cret@h/d").unwrap();
        assert!(!format!("{options:?}").contains("s3cret"));
    }
}
