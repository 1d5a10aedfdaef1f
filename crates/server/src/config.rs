//! What a server goes by: a file, the environment and the command line, the later over the earlier.

mod fields;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use goldseam::core::redact::Names;
use goldseam::core::redact::names::USUAL;
use goldseam::{Limits, Redactor, shown_url};
use goldseam_api::Problem;
use serde::Serialize;

use crate::NAMESPACE_DEFAULT;
use crate::proxies::{Network, Proxies};
use crate::rate::{KeyRates, Rate};

pub use fields::{FIELDS, Field};

/// The file that is read if it is there and no other is named.
pub const FILE_DEFAULT: &str = "goldseam.toml";
/// Where a server listens unless told otherwise.
pub const LISTEN_DEFAULT: &str = "127.0.0.1:7733";

/// The variable that says how large a payload may be, to a server and to whoever works on a store without one.
pub const PAYLOAD_BYTES_MAX_ENV: &str = "GOLDSEAM_PAYLOAD_BYTES_MAX";
/// The word for the names of secrets that everybody has.
const THE_USUAL: &str = "usual";
/// The word for an empty list: what is empty in the environment is not said at all.
const NONE: &str = "none";

/// What a server goes by.
#[derive(Clone, PartialEq)]
pub struct Config {
    /// The address.
    pub listen: String,
    /// A second address, for health and numbers alone; none: there is none.
    pub health_listen: Option<String>,
    /// The main store: namespace `default`, and the keys.
    pub store: String,
    /// Stores of other namespaces, by name.
    pub namespaces: BTreeMap<String, String>,
    /// Names that it answers under; empty: on a loopback address those of this machine, else any.
    pub hosts: Vec<String>,
    /// Origins of pages that may change something.
    pub origins: Vec<String>,
    /// The proxies whose word about their clients is believed.
    pub proxies: Proxies,
    /// File whose content is mixed into what servers sign with; none: the store alone is enough to sign.
    pub secret_file: Option<PathBuf>,
    /// Files of the certificate chain and of its key; none: no TLS.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Asks nobody for a key although it can be reached from elsewhere.
    pub insecure_no_keys: bool,
    /// Largest body of a request.
    pub body_bytes_max: u64,
    /// Memory for all bodies together.
    pub bodies_bytes_max: u64,
    /// Largest input, output, signal or answer.
    pub payload_bytes_max: usize,
    /// Most bytes of the log of a run that may be loaded.
    pub history_bytes_max: u64,
    /// How long no live node may have a run's version before rule E2 acts.
    pub version_grace: Duration,
    /// Heals states that other systems keep beside the runs.
    pub foreign_states: bool,
    /// How long the headers of a request may take.
    pub header_patience: Duration,
    /// How long a connection may be idle between two requests.
    pub keep_alive: Duration,
    /// How long a body may take.
    pub body_patience: Duration,
    /// Connections at once.
    pub connections_max: usize,
    /// Connections at once from one address.
    pub connections_per_address: usize,
    /// Long polls and streams at once, of one key.
    pub waits_max: usize,
    /// Workers of one key at once.
    pub workers_per_key: usize,
    /// Followers at once, of one key.
    pub followers_max: usize,
    /// Requests of one key; those of a namespace may be twice as many.
    pub rates: KeyRates,
    /// Requests that are answered at a time; each namespace has an equal share.
    pub requests_at_once: usize,
    /// Wrong keys from one address.
    pub rate_failures: Rate,
    /// How long the server still accepts connections after it was told to end, and says that it is not ready.
    pub drain: Duration,
    /// How long requests under way may take after that.
    pub finish: Duration,
    /// Where traces go; none: nowhere.
    pub otlp: Option<String>,
    /// Where pruned logs go: a directory, or `s3://BUCKET/PREFIX`; none: nothing is pruned.
    pub archive: Option<String>,
    /// Names of keys whose values are not shown.
    pub redact_keys: Vec<String>,
    /// Variables of the environment whose values are not shown.
    pub secrets_from_env: Vec<String>,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// This file.
    File(PathBuf),
    /// This variable.
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

/// A setting with its value, as it may be shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// Its name.
    pub name: &'static str,
    /// Its value, passwords hidden.
    pub value: String,
    /// Where it comes from.
    pub origin: String,
    /// What it is for.
    pub help: &'static str,
}

/// All settings, each with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings(BTreeMap<&'static str, (String, Origin)>);

impl Settings {
    /// Puts the sources over one another: defaults, then the file, then the environment, then flags. The file must be
    /// there if it is named.
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
        Ok(Self::layered(flags, env, (named, &from_file)))
    }

    /// What flags alone say, wherever they are given: no file is read, and no environment.
    pub fn of_flags(flags: &BTreeMap<&'static str, String>) -> Self {
        Self::layered(flags, |_| None, (Path::new(""), &BTreeMap::new()))
    }

    fn layered(
        flags: &BTreeMap<&'static str, String>,
        env: impl Fn(&str) -> Option<String>,
        (file, from_file): (&Path, &BTreeMap<String, String>),
    ) -> Self {
        let value = |field: &Field| {
            if let Some(value) = flags.get(field.name) {
                return (value.clone(), Origin::Flag);
            }
            if let Some(value) = env(field.env).filter(|value| !value.is_empty()) {
                return (value, Origin::Env(field.env));
            }
            match from_file.get(field.name) {
                Some(value) => (value.clone(), Origin::File(file.to_owned())),
                None => (field.default.to_owned(), Origin::Default),
            }
        };
        Self(FIELDS.iter().map(|field| (field.name, value(field))).collect())
    }

    /// Every setting as it may be shown.
    pub fn shown(&self) -> Vec<Shown> {
        let shown = |field: &Field| {
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
        value
            .trim()
            .parse()
            .map_err(|_| bad(format!("{name} is {value:?}, by {origin}")).hint(format!("write {what}")))
    }

    fn seconds(&self, name: &'static str) -> Result<Duration, Problem> {
        let seconds: u32 = self.number(name, "a number of seconds")?;
        Ok(Duration::from_secs(seconds.into()))
    }

    fn proxies(&self) -> Result<Proxies, Problem> {
        let network = |text: &String| {
            text.parse::<Network>().map_err(|()| {
                bad(format!("trusted_proxies has {text:?}"))
                    .hint("write addresses or networks, as in 10.0.0.1, 192.168.0.0/16 or 2001:db8::/32")
            })
        };
        let trusted = self.list("trusted_proxies").iter().map(network).collect::<Result<_, _>>()?;
        let header = self.text("forwarding_header").unwrap_or_default();
        let header = header.parse().map_err(|()| {
            bad(format!("forwarding_header is {header:?}")).hint("write x-forwarded-for or forwarded")
        })?;
        Ok(Proxies { trusted, header })
    }

    fn payload_bytes_max(&self) -> Result<usize, Problem> {
        let (bytes, most) =
            (self.number("payload_bytes_max", "a number of bytes")?, Limits::PAYLOAD_BYTES_MOST);
        match bytes {
            bytes if bytes <= most => Ok(bytes),
            bytes => Err(bad(format!("payload_bytes_max is {bytes}, and {most} is the most that it may be"))
                .hint("keep what is larger elsewhere and pass a reference")),
        }
    }

    /// The memory for bodies: a key has half of it, and one body must fit into that.
    fn bodies_bytes_max(&self) -> Result<u64, Problem> {
        let (all, one): (u64, u64) = (
            self.number("bodies_bytes_max", "a number of bytes")?,
            self.number("body_bytes_max", "a number of bytes")?,
        );
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
        let or_so = |name| self.text(name).map_or(Ok(others), |_| self.rate(name));
        let (starts, signals) = (or_so("starts_per_second")?, or_so("signals_per_second")?);
        Ok(KeyRates { starts, signals, polls: or_so("polls_per_second")?, others })
    }

    /// What a server goes by, if it makes sense.
    pub fn config(&self) -> Result<Config, Problem> {
        let tls = match (self.text("tls_cert"), self.text("tls_key")) {
            (Some(chain), Some(key)) => Some((PathBuf::from(chain), PathBuf::from(key))),
            (None, None) => None,
            _ => return Err(bad("tls_cert and tls_key go together, and only one is there".to_owned())),
        };
        let mut namespaces = BTreeMap::new();
        for entry in self.list("namespaces") {
            let Some((name, url)) = entry.split_once('=') else {
                return Err(bad(format!("namespaces has {:?}, which is not NAME=URL", hidden(&entry))));
            };
            let name = goldseam::core::QueueName::new(name.trim())
                .map_err(|error| bad(format!("a namespace cannot have that name: {error}")))?;
            if name.as_str() == NAMESPACE_DEFAULT {
                return Err(bad("namespace default is the main store; name it with store".to_owned()));
            }
            namespaces.insert(name.as_str().to_owned(), url.trim().to_owned());
        }
        Ok(Config {
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
            header_patience: Duration::from_secs(10),
            keep_alive: self.seconds("keep_alive_seconds")?,
            body_patience: Duration::from_secs(30),
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
            otlp: self.text("otlp").map(str::to_owned),
            archive: self.text("archive").map(str::to_owned),
            redact_keys: self.list("redact_keys").iter().flat_map(|key| names_of(key)).collect(),
            secrets_from_env: self.list("secrets_from_env"),
        })
    }
}

/// URLs hold secrets: what is shown is where it listens, and for which store.
impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = (&self.listen, shown_url(&self.store));
        f.debug_struct("Config").field("listen", shown.0).field("store", &shown.1).finish_non_exhaustive()
    }
}

impl Config {
    /// What is kept out of everything that the server shows: values under the names of secrets, and the values that it knows
    /// itself or that it is told to look up.
    pub fn redactor(&self, env: impl Fn(&str) -> Option<String>) -> Result<Redactor, Problem> {
        let mut redactor = Redactor::new(Names::of(self.redact_keys.iter().map(String::as_str)));
        let others = [self.otlp.as_deref(), self.archive.as_deref()].into_iter().flatten();
        goldseam::hide_known(&mut redactor, self.stores().map(|(_, url)| url).chain(others), &env);
        for name in &self.secrets_from_env {
            let why = match env(name).filter(|value| !value.trim().is_empty()) {
                Some(value) => redactor.hide(&value).err().map(|why| why.to_string()),
                None => Some("it is not set".to_owned()),
            };
            if let Some(why) = why {
                return Err(bad(format!("secrets_from_env names {name}, which cannot be hidden: {why}")));
            }
        }
        Ok(redactor)
    }

    /// Every namespace with the URL of its store.
    pub(crate) fn stores(&self) -> impl Iterator<Item = (&str, &str)> {
        let others = self.namespaces.iter().map(|(name, url)| (name.as_str(), url.as_str()));
        std::iter::once((NAMESPACE_DEFAULT, self.store.as_str())).chain(others)
    }

    /// The bounds that runs live under.
    fn limits(&self) -> Limits {
        let (payload_bytes_max, history_bytes_max) = (self.payload_bytes_max, self.history_bytes_max);
        Limits { payload_bytes_max, history_bytes_max, ..Limits::default() }
    }

    /// What the engine of a namespace goes by.
    pub(crate) fn engine(&self, namespace: &str) -> goldseam::Config {
        let recovery = goldseam::Recovery { version_grace: self.version_grace, ..Default::default() };
        goldseam::Config {
            namespace: Some(namespace.to_owned()),
            limits: self.limits(),
            recovery,
            foreign: self.foreign_states.then(Default::default),
            ..goldseam::Config::default()
        }
    }

    /// Where the pruned logs of a namespace go: every one but the main store's has a place of its own below.
    pub(crate) fn archive_of(&self, namespace: &str) -> Option<String> {
        let place = self.archive.as_deref()?;
        if namespace == NAMESPACE_DEFAULT {
            return Some(place.to_owned());
        }
        // The options of a bucket stand behind its prefix.
        let is_bucket = place.starts_with("s3://");
        let (place, options) = match place.split_once('?').filter(|_| is_bucket) {
            Some((place, options)) => (place, format!("?{options}")),
            None => (place, String::new()),
        };
        Some(format!("{}/{namespace}{options}", place.trim_end_matches('/')))
    }
}

/// The names that a word of `redact_keys` stands for.
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

/// `NAME=URL, …` without passwords.
fn hidden(entries: &str) -> String {
    let shown = |entry: &str| match entry.split_once('=') {
        Some((name, url)) => format!("{name}={}", shown_url(url)),
        None => shown_url(entry),
    };
    entries.split(',').map(shown).collect::<Vec<_>>().join(",")
}

/// The settings of a file: plain values, lists of texts, and the table of namespaces.
fn read_file(path: &Path) -> Result<BTreeMap<String, String>, Problem> {
    let wrong = |what: String| bad(format!("{}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| wrong(place_of(&text, &error)))?;
    let mut settings = BTreeMap::new();
    for (name, value) in table {
        if !FIELDS.iter().any(|field| field.name == name) {
            let known: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
            return Err(wrong(format!("there is no setting {name:?}; there are {}", known.join(", "))));
        }
        let text = plain(&value).ok_or_else(|| wrong(format!("{name} cannot be {}", value.type_str())))?;
        settings.insert(name, text);
    }
    Ok(settings)
}

/// Where a file is no TOML. The words of the parser quote the line, and that may hold a password.
fn place_of(text: &str, error: &toml::de::Error) -> String {
    let end = error.span().map_or(0, |span| span.start);
    let line = text.get(..end).map_or(1, |before| before.matches('\n').count() + 1);
    format!("line {line} is no TOML")
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
