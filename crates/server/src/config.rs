//! Server settings from a file, the environment and the command line. A later source overrides an earlier one.

mod fields;
mod retention;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use goldseam::admin::retention::RetentionPolicies;
use goldseam::unstable::core::redact::Names;
use goldseam::unstable::core::redact::names::USUAL;
use goldseam::{Limits, Redactor, shown_url};
use goldseam_api::Problem;
use serde::Serialize;

use crate::NAMESPACE_DEFAULT;
use crate::proxies::{Network, Proxies};
use crate::rate::{KeyRates, Rate};

pub use fields::{FIELDS, SettingField};

/// The configuration file that is read if it exists and no other file is named.
pub const FILE_DEFAULT: &str = "goldseam.toml";
/// Default listen address.
pub const LISTEN_DEFAULT: &str = "127.0.0.1:7733";

/// The environment variable that limits the payload size, for a server and for commands that open a store directly.
pub const PAYLOAD_BYTES_MAX_ENV: &str = "GOLDSEAM_PAYLOAD_BYTES_MAX";
/// The word in `redact_keys` for the built-in list of secret names.
const THE_USUAL: &str = "usual";
/// The word in `redact_keys` for an empty list. An empty environment variable counts as unset.
const NONE: &str = "none";

/// The validated configuration of a server.
#[derive(Clone, PartialEq)]
pub struct ServerConfig {
    /// The listen address.
    pub listen: String,
    /// A second listen address that serves health and metrics only.
    pub health_listen: Option<String>,
    /// URL of the main store, which holds namespace `default` and the keys.
    pub store: String,
    /// Store URLs of the other namespaces, by name.
    pub namespaces: BTreeMap<String, String>,
    /// Accepted host names. If empty, a loopback listener accepts the names of this machine, any other listener all
    /// names.
    pub hosts: Vec<String>,
    /// Origins of web pages that may send requests that change something.
    pub origins: Vec<String>,
    /// The trusted proxies and the header in which they name their clients.
    pub proxies: Proxies,
    /// File whose content is mixed into the signing secrets. Without it, access to the store is enough to sign.
    pub secret_file: Option<PathBuf>,
    /// Files of the certificate chain and its private key. TLS is off without them.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Accepts requests without API keys on a non-loopback address.
    pub insecure_no_keys: bool,
    /// Maximum size of a request body.
    pub body_bytes_max: u64,
    /// Maximum memory for all request bodies together.
    pub bodies_bytes_max: u64,
    /// Maximum size of an input, output, signal or answer.
    pub payload_bytes_max: usize,
    /// Maximum log size of a run that may be loaded.
    pub history_bytes_max: u64,
    /// How long a run's version may be missing on every live node before rule E2 acts.
    pub version_grace: Duration,
    /// Heals workflow states that other systems keep in the same bucket.
    pub foreign_states: bool,
    /// Time limit for the headers of a request.
    pub header_timeout: Duration,
    /// Time limit for an idle connection between two requests.
    pub keep_alive: Duration,
    /// Time limit for a request body.
    pub body_timeout: Duration,
    /// Maximum number of concurrent connections.
    pub connections_max: usize,
    /// Maximum number of concurrent connections per client address.
    pub connections_per_address: usize,
    /// Maximum number of concurrent long polls and streams per key.
    pub waits_max: usize,
    /// Maximum number of registered workers per key.
    pub workers_per_key: usize,
    /// Maximum number of concurrent followers per key.
    pub followers_max: usize,
    /// Request rates of one key. A namespace has twice these rates.
    pub rates: KeyRates,
    /// Maximum number of concurrently executing requests. Each namespace has an equal share.
    pub requests_at_once: usize,
    /// Rate of failed authentications per client address.
    pub rate_failures: Rate,
    /// How long the server accepts connections after SIGTERM while `/readyz` answers 503.
    pub drain: Duration,
    /// How long running requests may take after that.
    pub finish: Duration,
    /// How long entries of the audit are kept; none: without limit.
    pub audit_retention: Option<Duration>,
    /// OTLP collector for traces. No traces are sent without it.
    pub otlp: Option<String>,
    /// Archive of pruned logs: a directory or `s3://BUCKET/PREFIX`. Prunes are refused without it.
    pub archive: Option<String>,
    /// How long ended runs of every namespace are kept before they are pruned. Empty: runs are pruned by hand only.
    pub retention: RetentionPolicies,
    /// JSON keys whose values are redacted.
    pub redact_keys: Vec<String>,
    /// Environment variables whose values are redacted.
    pub secrets_from_env: Vec<String>,
}

/// The source of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The built-in default.
    Default,
    /// A configuration file.
    File(PathBuf),
    /// An environment variable.
    Env(&'static str),
    /// The command line.
    Flag,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Env(name) => write!(f, "environment {name}"),
            Self::Flag => f.write_str("command line"),
        }
    }
}

/// A setting as `goldseam config show` prints it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// Its name.
    pub name: &'static str,
    /// Its value without passwords.
    pub value: String,
    /// Its source.
    pub origin: String,
    /// Its help text.
    pub help: &'static str,
}

/// The settings of a configuration file.
struct FileSettings<'a> {
    path: &'a Path,
    values: BTreeMap<String, String>,
}

/// All settings, each with its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings(BTreeMap<&'static str, (String, Origin)>);

impl Settings {
    /// Merges the sources: defaults, then the file, then the environment, then flags. Fails if a named file is missing.
    pub fn gather(
        flags: &BTreeMap<&'static str, String>,
        env: impl Fn(&str) -> Option<String>,
        file: Option<&Path>,
    ) -> Result<Self, Problem> {
        let named = file.unwrap_or(Path::new(FILE_DEFAULT));
        let from_file = match file.is_some() || named.exists() {
            true => read_file(named)?,
            false => BTreeMap::new(),
        };
        Ok(Self::layered(flags, env, &FileSettings { path: named, values: from_file }))
    }

    /// Returns the settings given by flags alone, without a file and without the environment.
    pub fn of_flags(flags: &BTreeMap<&'static str, String>) -> Self {
        Self::layered(flags, |_| None, &FileSettings { path: Path::new(""), values: BTreeMap::new() })
    }

    fn layered(
        flags: &BTreeMap<&'static str, String>,
        env: impl Fn(&str) -> Option<String>,
        file: &FileSettings<'_>,
    ) -> Self {
        let value = |field: &SettingField| {
            if let Some(value) = flags.get(field.name) {
                return (value.clone(), Origin::Flag);
            }
            if let Some(value) = env(field.env).filter(|value| !value.is_empty()) {
                return (value, Origin::Env(field.env));
            }
            match file.values.get(field.name) {
                Some(value) => (value.clone(), Origin::File(file.path.to_owned())),
                None => (field.default.to_owned(), Origin::Default),
            }
        };
        Self(FIELDS.iter().map(|field| (field.name, value(field))).collect())
    }

    /// Returns every setting without its passwords.
    pub fn shown(&self) -> Vec<Shown> {
        let shown = |field: &SettingField| {
            let (value, origin) = self.0.get(field.name)?;
            let value = match field.name {
                "store" | "archive" | "otlp" => shown_url(value),
                "namespaces" => hidden(value),
                _ => value.clone(),
            };
            Some(Shown { name: field.name, value, origin: origin.to_string(), help: field.help })
        };
        FIELDS.iter().filter_map(shown).collect()
    }

    fn text(&self, name: &'static str) -> Option<&str> {
        self.0.get(name).map(|(value, _)| value.trim()).filter(|value| !value.is_empty())
    }

    fn list(&self, name: &'static str) -> Vec<String> {
        let parts = self.text(name).unwrap_or_default().split(',');
        parts.map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
    }

    fn number<T: std::str::FromStr>(&self, name: &'static str, what: &str) -> Result<T, Problem> {
        let (value, origin) = self.0.get(name).cloned().unwrap_or((String::new(), Origin::Default));
        value.trim().parse().map_err(|_| {
            bad(format!("invalid {name}: {value:?} ({origin})")).hint(format!("expected {what}"))
        })
    }

    fn seconds(&self, name: &'static str) -> Result<Duration, Problem> {
        let seconds: u32 = self.number(name, "a number of seconds")?;
        Ok(Duration::from_secs(seconds.into()))
    }

    fn proxies(&self) -> Result<Proxies, Problem> {
        let network = |text: &String| {
            text.parse::<Network>().map_err(|()| {
                bad(format!("invalid address in trusted_proxies: {text:?}"))
                    .hint("expected addresses or networks, as in 10.0.0.1, 192.168.0.0/16 or 2001:db8::/32")
            })
        };
        let trusted = self.list("trusted_proxies").iter().map(network).collect::<Result<_, _>>()?;
        let header = self.text("forwarding_header").unwrap_or_default();
        let header = header.parse().map_err(|()| {
            bad(format!("invalid forwarding_header: {header:?}"))
                .hint("expected x-forwarded-for or forwarded")
        })?;
        Ok(Proxies { trusted, header })
    }

    /// Returns how long the audit is kept; 0 days is without limit.
    fn audit_retention(&self) -> Result<Option<Duration>, Problem> {
        let days: u32 = self.number("audit_retention_days", "a number of days")?;
        Ok((days > 0).then(|| Duration::from_secs(u64::from(days) * 24 * 3_600)))
    }

    fn payload_bytes_max(&self) -> Result<usize, Problem> {
        let bytes = self.number("payload_bytes_max", "a number of bytes")?;
        let max = Limits::PAYLOAD_BYTES_MOST;
        match bytes {
            bytes if bytes <= max => Ok(bytes),
            bytes => Err(bad(format!("payload_bytes_max is {bytes}, more than the maximum of {max}"))
                .hint("store larger data elsewhere and pass a reference")),
        }
    }

    /// Returns the memory for request bodies. One key may use half of it, and one body must fit into that half.
    fn bodies_bytes_max(&self) -> Result<u64, Problem> {
        let all: u64 = self.number("bodies_bytes_max", "a number of bytes")?;
        let one: u64 = self.number("body_bytes_max", "a number of bytes")?;
        match all / 2 >= one {
            true => Ok(all),
            false => Err(bad(format!("bodies_bytes_max is {all}, less than twice body_bytes_max ({one})"))
                .hint("raise bodies_bytes_max, or lower body_bytes_max")),
        }
    }

    fn at_least_one(&self, name: &'static str) -> Result<usize, Problem> {
        match self.number(name, "a number, as in 512")? {
            0 => Err(bad(format!("{name} must be at least 1"))),
            number => Ok(number),
        }
    }

    fn rate(&self, name: &'static str) -> Result<Rate, Problem> {
        let per_second: f64 = self.number(name, "a number, as in 5000")?;
        if !per_second.is_finite() || per_second < 1.0 {
            return Err(bad(format!("{name} must be at least 1")));
        }
        Ok(Rate::of(per_second))
    }

    fn rates(&self) -> Result<KeyRates, Problem> {
        let others = self.rate("requests_per_second")?;
        let rate_or_default = |name| self.text(name).map_or(Ok(others), |_| self.rate(name));
        Ok(KeyRates {
            starts: rate_or_default("starts_per_second")?,
            signals: rate_or_default("signals_per_second")?,
            polls: rate_or_default("polls_per_second")?,
            others,
        })
    }

    /// Validates the settings.
    pub fn config(&self) -> Result<ServerConfig, Problem> {
        let tls = match (self.text("tls_cert"), self.text("tls_key")) {
            (Some(chain), Some(key)) => Some((PathBuf::from(chain), PathBuf::from(key))),
            (None, None) => None,
            _ => {
                return Err(bad("tls_cert and tls_key must be set together, but only one is set".to_owned()));
            }
        };
        let mut namespaces = BTreeMap::new();
        for entry in self.list("namespaces") {
            let Some((name, url)) = entry.split_once('=') else {
                return Err(bad(format!(
                    "invalid entry in namespaces: {:?}; expected NAME=URL",
                    hidden(&entry)
                )));
            };
            let name = goldseam::unstable::core::QueueName::new(name.trim())
                .map_err(|error| bad(format!("invalid namespace name: {error}")))?;
            if name.as_str() == NAMESPACE_DEFAULT {
                return Err(bad("namespace default is the main store; set its URL with `store`".to_owned()));
            }
            namespaces.insert(name.as_str().to_owned(), url.trim().to_owned());
        }
        Ok(ServerConfig {
            listen: self.text("listen").unwrap_or(LISTEN_DEFAULT).to_owned(),
            health_listen: self.text("health_listen").map(str::to_owned),
            store: self.text("store").unwrap_or_default().to_owned(),
            namespaces,
            hosts: self.list("hosts"),
            origins: self.list("origins"),
            proxies: self.proxies()?,
            secret_file: self.text("secret_file").map(PathBuf::from),
            tls,
            insecure_no_keys: self.number("insecure_no_keys", "true or false")?,
            body_bytes_max: self.number("body_bytes_max", "a number of bytes")?,
            bodies_bytes_max: self.bodies_bytes_max()?,
            payload_bytes_max: self.payload_bytes_max()?,
            history_bytes_max: self.number("history_bytes_max", "a number of bytes")?,
            version_grace: self.seconds("version_grace_seconds")?,
            foreign_states: self.number("foreign_states", "true or false")?,
            header_timeout: Duration::from_secs(10),
            keep_alive: self.seconds("keep_alive_seconds")?,
            body_timeout: Duration::from_secs(30),
            connections_max: self.number("connections_max", "a number")?,
            connections_per_address: self.at_least_one("connections_per_address")?,
            waits_max: self.at_least_one("waits_max")?,
            workers_per_key: self.at_least_one("workers_per_key")?,
            followers_max: self.number("followers_max", "a number")?,
            rates: self.rates()?,
            requests_at_once: self.at_least_one("requests_at_once")?,
            rate_failures: Rate { per_second: 5.0, burst: 20.0 },
            drain: self.seconds("drain_seconds")?,
            finish: self.seconds("finish_seconds")?,
            audit_retention: self.audit_retention()?,
            otlp: self.text("otlp").map(str::to_owned),
            archive: self.text("archive").map(str::to_owned),
            retention: retention::policies(self.text("retention"), self.text("archive"))?,
            redact_keys: self.list("redact_keys").iter().flat_map(|key| names_of(key)).collect(),
            secrets_from_env: self.list("secrets_from_env"),
        })
    }
}

/// URLs contain secrets, so only the listen address and the redacted URL of the main store are printed.
impl std::fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = (&self.listen, shown_url(&self.store));
        f.debug_struct("Config").field("listen", shown.0).field("store", &shown.1).finish_non_exhaustive()
    }
}

impl ServerConfig {
    /// Builds the redactor: values under secret names, secrets in the server's own settings, and the values of the
    /// variables in `secrets_from_env`.
    pub fn redactor(&self, env: impl Fn(&str) -> Option<String>) -> Result<Redactor, Problem> {
        let mut redactor = Redactor::new(Names::of(self.redact_keys.iter().map(String::as_str)));
        let others = [self.otlp.as_deref(), self.archive.as_deref()].into_iter().flatten();
        goldseam::admin::hide_known(&mut redactor, self.stores().map(|(_, url)| url).chain(others), &env);
        for name in &self.secrets_from_env {
            let why = match env(name).filter(|value| !value.trim().is_empty()) {
                Some(value) => redactor.hide(&value).err().map(|why| why.to_string()),
                None => Some("the variable is not set".to_owned()),
            };
            if let Some(why) = why {
                return Err(bad(format!("cannot redact {name} from secrets_from_env: {why}")));
            }
        }
        Ok(redactor)
    }

    /// Returns every namespace with the URL of its store.
    pub(crate) fn stores(&self) -> impl Iterator<Item = (&str, &str)> {
        let others = self.namespaces.iter().map(|(name, url)| (name.as_str(), url.as_str()));
        std::iter::once((NAMESPACE_DEFAULT, self.store.as_str())).chain(others)
    }

    /// Returns the engine limits.
    fn limits(&self) -> Limits {
        Limits {
            payload_bytes_max: self.payload_bytes_max,
            history_bytes_max: self.history_bytes_max,
            ..Limits::default()
        }
    }

    /// Returns the engine configuration of a namespace; `nodes` has the settings that a server has no names for.
    pub(crate) fn engine(&self, namespace: &str, nodes: goldseam::Config) -> goldseam::Config {
        let recovery = goldseam::Recovery { version_grace: self.version_grace, ..Default::default() };
        goldseam::Config {
            namespace: Some(namespace.to_owned()),
            limits: self.limits(),
            recovery,
            foreign: self.foreign_states.then(Default::default),
            audit_retention: self.audit_retention,
            ..nodes
        }
    }

    /// Returns the archive of a namespace: a subdirectory of `archive`, except for the main store.
    pub(crate) fn archive_of(&self, namespace: &str) -> Option<String> {
        let archive = self.archive.as_deref()?;
        if namespace == NAMESPACE_DEFAULT {
            return Some(archive.to_owned());
        }
        // The options of a bucket URL follow its prefix.
        let is_bucket = archive.starts_with("s3://");
        let (base, options) = match archive.split_once('?').filter(|_| is_bucket) {
            Some((base, options)) => (base, format!("?{options}")),
            None => (archive, String::new()),
        };
        Some(format!("{}/{namespace}{options}", base.trim_end_matches('/')))
    }
}

/// Expands one word of `redact_keys` to names.
fn names_of(word: &str) -> Vec<String> {
    let names = match word {
        THE_USUAL => USUAL,
        NONE => "",
        name => name,
    };
    names.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

fn bad(detail: String) -> Problem {
    Problem::bad_request(detail)
        .code("GS0610")
        .hint("goldseam config show lists every setting and its origin")
}

/// Removes the passwords from `NAME=URL, …`.
fn hidden(entries: &str) -> String {
    let shown = |entry: &str| match entry.split_once('=') {
        Some((name, url)) => format!("{name}={}", shown_url(url)),
        None => shown_url(entry),
    };
    entries.split(',').map(shown).collect::<Vec<_>>().join(",")
}

/// Reads a configuration file: plain values, lists of strings, and the tables of namespaces and policies.
fn read_file(path: &Path) -> Result<BTreeMap<String, String>, Problem> {
    let wrong = |what: String| bad(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let table: toml::Table =
        text.parse().map_err(|error: toml::de::Error| wrong(toml_error(&text, &error)))?;
    let mut settings = BTreeMap::new();
    for (name, value) in table {
        if !FIELDS.iter().any(|field| field.name == name) {
            let known: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
            return Err(wrong(format!("unknown setting {name:?}; known settings: {}", known.join(", "))));
        }
        let text = match name.as_str() {
            "retention" => retention::table_text(&value).map_err(wrong)?,
            _ => plain(&value)
                .ok_or_else(|| wrong(format!("{name} cannot have the type {}", value.type_str())))?,
        };
        settings.insert(name, text);
    }
    Ok(settings)
}

/// Names the line of a TOML error. The parser's message quotes the line, which may contain a password.
fn toml_error(text: &str, error: &toml::de::Error) -> String {
    let end = error.span().map_or(0, |span| span.start);
    let line = text.get(..end).map_or(1, |before| before.matches('\n').count() + 1);
    format!("invalid TOML in line {line}")
}

fn plain(value: &toml::Value) -> Option<String> {
    Some(match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Boolean(flag) => flag.to_string(),
        toml::Value::Array(items) => {
            items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()?.join(",")
        }
        toml::Value::Table(table) => {
            let entry = |(name, url): (&String, &toml::Value)| Some(format!("{name}={}", url.as_str()?));
            table.iter().map(entry).collect::<Option<Vec<_>>>()?.join(",")
        }
        toml::Value::Datetime(_) => return None,
    })
}

#[cfg(test)]
mod tests;
