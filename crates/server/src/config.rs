//! Server settings from a file, the environment and the command line. A later source overrides an earlier one.

mod fields;
mod file;
mod layers;
mod page;
mod retention;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use goldseam::admin::retention::RetentionPolicies;
use goldseam::unstable::core::redact::Names;
use goldseam::unstable::core::redact::names::USUAL;
use goldseam::unstable::engine::settings::{ENGINE_SETTINGS, SettingValue};
use goldseam::{Redactor, shown_url};
use goldseam_api::Problem;

use crate::NAMESPACE_DEFAULT;
use crate::proxies::{Network, Proxies};
use crate::rate::{KeyRates, Rate};

pub use fields::{SERVER_SETTINGS, all_settings};
pub use layers::{Origin, Settings, Shown};
pub use page::table as settings_table;

/// The configuration file that is read if it exists and no other file is named.
pub const FILE_DEFAULT: &str = "goldseam.toml";
/// Default listen address.
pub const LISTEN_DEFAULT: &str = "127.0.0.1:7733";

/// The word in `redact_keys` for the built-in list of secret names.
const THE_USUAL: &str = "usual";
/// The word in `redact_keys` for an empty list. An empty environment variable counts as unset.
const NONE: &str = "none";

/// The validated configuration of a server.
#[derive(Clone)]
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
    /// Settings of the engines, of healing and of limits, for every namespace.
    pub engine: goldseam::Config,
    /// Interval and patience of `goldseam sweeper`.
    pub sweeper: SweeperSettings,
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

/// Settings of `goldseam sweeper`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweeperSettings {
    /// Pause between two sweeps.
    pub interval: Duration,
    /// How long a finding must have held before it is healed.
    pub stale_after: Duration,
}

impl Settings {
    fn text(&self, name: &'static str) -> Option<&str> {
        Some(self.held(name)?.text.trim()).filter(|value| !value.is_empty())
    }

    fn span(&self, name: &'static str) -> Duration {
        match self.held(name).map(|held| &held.value) {
            Some(SettingValue::Span(span)) => *span,
            _ => Duration::ZERO,
        }
    }

    fn list(&self, name: &'static str) -> Vec<String> {
        let parts = self.text(name).unwrap_or_default().split(',');
        parts.map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
    }

    fn number<T: std::str::FromStr>(&self, name: &'static str, what: &str) -> Result<T, Problem> {
        let held = self.held(name).map(|held| (held.value.to_string(), &held.origin));
        let (value, origin) = held.unwrap_or((String::new(), &Origin::Default));
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

    fn rate(&self, name: &'static str) -> Result<Rate, Problem> {
        Ok(Rate::of(self.number(name, "a number, as in 5000")?))
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

    /// Returns the settings of engines.
    pub fn engine(&self) -> Result<goldseam::Config, Problem> {
        self.check()?;
        let mut config = goldseam::Config::default();
        for row in ENGINE_SETTINGS {
            if let Some(held) = self.held(row.spec.name).filter(|held| held.origin != Origin::Default) {
                row.set(&mut config, &held.value);
            }
        }
        config.check().map_err(|error| bad(error.to_string()).code(error.code()))?;
        Ok(config)
    }

    /// Returns the settings of `goldseam sweeper`.
    pub fn sweeper(&self) -> Result<SweeperSettings, Problem> {
        self.check()?;
        Ok(SweeperSettings {
            interval: self.span("sweeper.interval"),
            stale_after: self.span("sweeper.stale_after"),
        })
    }

    /// Validates the settings.
    pub fn config(&self) -> Result<ServerConfig, Problem> {
        let engine = self.engine()?;
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
            engine,
            sweeper: self.sweeper()?,
            header_timeout: Duration::from_secs(10),
            keep_alive: self.seconds("keep_alive_seconds")?,
            body_timeout: Duration::from_secs(30),
            connections_max: self.number("connections_max", "a number")?,
            connections_per_address: self.number("connections_per_address", "a number")?,
            waits_max: self.number("waits_max", "a number")?,
            workers_per_key: self.number("workers_per_key", "a number")?,
            followers_max: self.number("followers_max", "a number")?,
            rates: self.rates()?,
            requests_at_once: self.number("requests_at_once", "a number")?,
            rate_failures: Rate { per_second: 5.0, burst: 20.0 },
            drain: self.seconds("drain_seconds")?,
            finish: self.seconds("finish_seconds")?,
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

    /// Returns the engine configuration of a namespace.
    pub(crate) fn engine(&self, namespace: &str) -> goldseam::Config {
        goldseam::Config { namespace: Some(namespace.to_owned()), ..self.engine.clone() }
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

#[cfg(test)]
mod tests;
