//! `sqlite:PATH?durability=process`: the path of a database, and what a commit survives.
//!
//! Invariant: unknown options are refused, never ignored: a mistyped durability must not lose data.

use std::path::PathBuf;
use std::time::Duration;

use goldseam_store::{ClockFn, StoreError};

use crate::clock::system_clock;

/// Default time that a call waits for another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Default number of read connections.
const READERS: usize = 2;
/// Default maximum of jobs that share one commit.
const GROUP_MAX: usize = 512;

/// What an acknowledged commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// A power cut: every commit is synced (`synchronous=FULL`).
    #[default]
    Power,
    /// The end of the process, not a power cut (`synchronous=NORMAL`).
    Process,
}

impl Durability {
    /// The name in URLs and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Power => "power",
            Self::Process => "process",
        }
    }
}

/// How to open a database.
#[derive(Clone)]
pub struct SqliteOptions {
    /// What an acknowledged commit survives.
    pub durability: Durability,
    /// How long to wait for another process before a call is `Busy`.
    pub busy_timeout: Duration,
    /// Read connections, each with its own thread.
    pub readers: usize,
    /// Most jobs that share one commit.
    pub group_max: usize,
    /// The store's clock.
    pub clock: ClockFn,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            busy_timeout: BUSY_TIMEOUT,
            readers: READERS,
            group_max: GROUP_MAX,
            clock: system_clock(),
        }
    }
}

impl std::fmt::Debug for SqliteOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteOptions")
            .field("durability", &self.durability)
            .field("busy_timeout", &self.busy_timeout)
            .field("readers", &self.readers)
            .field("group_max", &self.group_max)
            .finish_non_exhaustive()
    }
}

impl SqliteOptions {
    /// Parses the part of a URL after `?`. An empty one gives the defaults.
    pub fn from_query(query: &str) -> Result<Self, StoreError> {
        let mut options = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "durability" => options.durability = durability(value)?,
                "busy_timeout" => options.busy_timeout = milliseconds(value)?,
                _ => return Err(refused(format!("unknown option {name:?} in the SQLite URL"))),
            }
        }
        Ok(options)
    }
}

fn durability(value: &str) -> Result<Durability, StoreError> {
    match value {
        "power" => Ok(Durability::Power),
        "process" => Ok(Durability::Process),
        _ => Err(refused(format!("unknown durability {value:?}: write power or process"))),
    }
}

fn milliseconds(value: &str) -> Result<Duration, StoreError> {
    let text = value.strip_suffix("ms").unwrap_or(value);
    let invalid = |_| refused(format!("invalid busy_timeout {value:?}: write a number of milliseconds"));
    let count: u64 = text.parse().map_err(invalid)?;
    Ok(Duration::from_millis(count))
}

/// Parses `sqlite:PATH?OPTIONS`. Accepts `sqlite://PATH` too.
pub fn parse(url: &str) -> Result<(PathBuf, SqliteOptions), StoreError> {
    let other = || refused(format!("{url:?} is not a SQLite URL: it does not begin with sqlite:"));
    let rest = url.strip_prefix("sqlite:").ok_or_else(other)?;
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    if path.is_empty() {
        return Err(refused(format!("the SQLite URL {url:?} has no path")));
    }
    Ok((PathBuf::from(path), SqliteOptions::from_query(query)?))
}

fn refused(what: String) -> StoreError {
    StoreError::Refused {
        code: "GS0206",
        what,
        hint: "write sqlite:PATH, sqlite:PATH?durability=process or sqlite:PATH?busy_timeout=5000".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_path_and_options() {
        let (path, options) = parse("sqlite:data/gold.db?durability=process&busy_timeout=50ms").unwrap();
        assert_eq!(path, PathBuf::from("data/gold.db"));
        assert_eq!(options.durability, Durability::Process);
        assert_eq!(options.busy_timeout, Duration::from_millis(50));
        let (path, options) = parse("sqlite:///var/gold.db").unwrap();
        assert_eq!(path, PathBuf::from("/var/gold.db"));
        assert_eq!(options.durability, Durability::Power);
    }

    #[test]
    fn a_mistyped_option_is_refused() {
        for url in ["sqlite:a?durability=fast", "sqlite:a?durabilty=process", "sqlite:", "postgres:a"] {
            assert!(matches!(parse(url), Err(StoreError::Refused { code: "GS0206", .. })), "{url}");
        }
    }
}
