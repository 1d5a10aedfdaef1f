//! The settings of a server and of `goldseam sweeper`. Those of engines are in the engine.

use std::time::Duration;

use goldseam::unstable::engine::settings::{ENGINE_SETTINGS, SettingKind, SettingSpec};

use super::{LISTEN_DEFAULT, THE_USUAL};

/// A number, at least 0.
const NUMBER: SettingKind = SettingKind::Count { min: 0, max: u64::MAX, word: None };
/// A number, at least 1.
const POSITIVE: SettingKind = SettingKind::Count { min: 1, max: u64::MAX, word: None };
/// A number of seconds: the unit is in the name.
const SECONDS: SettingKind = SettingKind::Count { min: 0, max: u32::MAX as u64, word: None };
/// A size.
const BYTES: SettingKind = SettingKind::Bytes { min: 1, max: 1 << 40 };
/// Longest time of a sweeper.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// Every setting: those of the server, of the sweeper, and of engines, in display order.
pub fn all_settings() -> impl Iterator<Item = &'static SettingSpec> {
    SERVER_SETTINGS.iter().chain(ENGINE_SETTINGS.iter().map(|row| &row.spec))
}

/// Settings of the server and of the sweeper, in display order.
pub const SERVER_SETTINGS: &[SettingSpec] = &[
    SettingSpec {
        name: "store",
        kind: SettingKind::Own("URL"),
        default: Some("sqlite:goldseam.db"),
        aliases: &[],
        flag: Some("--store"),
        help: "URL of the main store, which holds namespace default and the API keys",
    },
    SettingSpec {
        name: "listen",
        kind: SettingKind::Text,
        default: Some(LISTEN_DEFAULT),
        aliases: &[],
        flag: Some("--listen"),
        help: "listen address and port; a non-loopback address requires API keys",
    },
    SettingSpec {
        name: "health_listen",
        kind: SettingKind::Text,
        default: Some(""),
        aliases: &[],
        flag: None,
        help: "second listen address for /healthz, /readyz and /metrics only (default: none)",
    },
    SettingSpec {
        name: "namespaces",
        kind: SettingKind::Own("NAME=URL, …"),
        default: Some(""),
        aliases: &[],
        flag: Some("--namespace"),
        help: "store URLs of other namespaces: NAME=URL, …",
    },
    SettingSpec {
        name: "hosts",
        kind: SettingKind::List,
        default: Some(""),
        aliases: &[],
        flag: None,
        help: "accepted host names, in addition to the names of this machine",
    },
    SettingSpec {
        name: "origins",
        kind: SettingKind::List,
        default: Some(""),
        aliases: &[],
        flag: None,
        help: "origins of web pages that may send changes",
    },
    SettingSpec {
        name: "trusted_proxies",
        kind: SettingKind::List,
        default: Some(""),
        aliases: &[],
        flag: None,
        help: "addresses and networks of proxies whose forwarding header is trusted: 10.0.0.0/8, …",
    },
    SettingSpec {
        name: "forwarding_header",
        kind: SettingKind::Text,
        default: Some("x-forwarded-for"),
        aliases: &[],
        flag: None,
        help: "header in which trusted proxies name the client: x-forwarded-for or forwarded; the other is ignored",
    },
    SettingSpec {
        name: "secret_file",
        kind: SettingKind::Text,
        default: Some(""),
        aliases: &[],
        flag: None,
        help: "file with at least 32 bytes, mixed with the store's secret to sign passes and tokens",
    },
    SettingSpec {
        name: "tls_cert",
        kind: SettingKind::Text,
        default: Some(""),
        aliases: &[],
        flag: Some("--tls-cert"),
        help: "file with the certificate chain (PEM)",
    },
    SettingSpec {
        name: "tls_key",
        kind: SettingKind::Text,
        default: Some(""),
        aliases: &[],
        flag: Some("--tls-key"),
        help: "file with the private key of the certificate (PEM)",
    },
    SettingSpec {
        name: "insecure_no_keys",
        kind: SettingKind::Flag,
        default: Some("false"),
        aliases: &[],
        flag: Some("--insecure-no-keys"),
        help: "accept requests without API keys on a non-loopback address",
    },
    SettingSpec {
        name: "body_bytes_max",
        kind: BYTES,
        default: Some("2097152"),
        aliases: &[],
        flag: None,
        help: "maximum size of a request body",
    },
    SettingSpec {
        name: "bodies_bytes_max",
        kind: BYTES,
        default: Some("134217728"),
        aliases: &[],
        flag: None,
        help: "maximum memory for all request bodies together; one key may use half of it",
    },
    SettingSpec {
        name: "connections_max",
        kind: NUMBER,
        default: Some("4096"),
        aliases: &[],
        flag: None,
        help: "maximum number of concurrent connections",
    },
    SettingSpec {
        name: "connections_per_address",
        kind: POSITIVE,
        default: Some("1024"),
        aliases: &[],
        flag: None,
        help: "maximum number of concurrent connections per client address (requests, behind a trusted proxy)",
    },
    SettingSpec {
        name: "waits_max",
        kind: POSITIVE,
        default: Some("2000"),
        aliases: &[],
        flag: None,
        help: "maximum number of concurrent long polls and streams per key; a namespace has a share of the connections",
    },
    SettingSpec {
        name: "workers_per_key",
        kind: POSITIVE,
        default: Some("128"),
        aliases: &[],
        flag: None,
        help: "maximum number of registered workers per key; 256 per namespace",
    },
    SettingSpec {
        name: "followers_max",
        kind: NUMBER,
        default: Some("2000"),
        aliases: &[],
        flag: None,
        help: "maximum number of concurrent log followers per key",
    },
    SettingSpec {
        name: "requests_per_second",
        kind: SettingKind::Rate,
        default: Some("5000"),
        aliases: &[],
        flag: None,
        help: "requests per second and key; a namespace may send twice as many",
    },
    SettingSpec {
        name: "starts_per_second",
        kind: SettingKind::Rate,
        default: Some(""),
        aliases: &[],
        flag: None,
        help: "run starts per second and key, counted separately (default: requests_per_second)",
    },
    SettingSpec {
        name: "signals_per_second",
        kind: SettingKind::Rate,
        default: Some(""),
        aliases: &[],
        flag: None,
        help: "signals and answers per second and key, counted separately (default: requests_per_second)",
    },
    SettingSpec {
        name: "polls_per_second",
        kind: SettingKind::Rate,
        default: Some(""),
        aliases: &[],
        flag: None,
        help: "worker requests per second and key, counted separately (default: requests_per_second)",
    },
    SettingSpec {
        name: "requests_at_once",
        kind: POSITIVE,
        default: Some("512"),
        aliases: &[],
        flag: None,
        help: "maximum executing requests, in equal shares per namespace; long polls and streams do not count",
    },
    SettingSpec {
        name: "keep_alive_seconds",
        kind: SECONDS,
        default: Some("75"),
        aliases: &[],
        flag: None,
        help: "how long a connection may be idle between two requests; set it longer than the proxy's limit",
    },
    SettingSpec {
        name: "drain_seconds",
        kind: SECONDS,
        default: Some("5"),
        aliases: &[],
        flag: None,
        help: "after SIGTERM, how long /readyz answers 503 while connections are accepted; 0 closes at once",
    },
    SettingSpec {
        name: "finish_seconds",
        kind: SECONDS,
        default: Some("10"),
        aliases: &[],
        flag: None,
        help: "how long running requests may take after drain_seconds",
    },
    SettingSpec {
        name: "otlp",
        kind: SettingKind::Own("URL"),
        default: Some(""),
        aliases: &[],
        flag: Some("--otlp"),
        help: "OTLP collector for traces, as http://HOST:4318 (default: none)",
    },
    SettingSpec {
        name: "archive",
        kind: SettingKind::Own("place"),
        default: Some(""),
        aliases: &[],
        flag: Some("--archive"),
        help: "archive of pruned logs: a directory or s3://BUCKET/PREFIX; prunes are refused without it",
    },
    SettingSpec {
        name: "retention",
        kind: SettingKind::Own("OUTCOME=TIME, …"),
        default: Some(""),
        aliases: &[],
        flag: None,
        help: "how long ended runs are kept before they are pruned: completed=7d, order:failed=90d, … (default: all are kept)",
    },
    SettingSpec {
        name: "redact_keys",
        kind: SettingKind::Own("list"),
        default: Some(THE_USUAL),
        aliases: &[],
        flag: None,
        help: "JSON keys whose values are redacted; `usual` (password, api_key, …), own names, or `none`",
    },
    SettingSpec {
        name: "secrets_from_env",
        kind: SettingKind::List,
        default: Some(""),
        aliases: &[],
        flag: None,
        help: "environment variables whose values are redacted everywhere: NAME, …",
    },
    SettingSpec {
        name: "sweeper.interval",
        kind: SettingKind::Span { min: Duration::from_millis(1), max: LONGEST, word: None },
        default: Some("5m"),
        aliases: &[],
        flag: Some("--interval (sweeper)"),
        help: "pause between two sweeps of goldseam sweeper",
    },
    SettingSpec {
        name: "sweeper.stale_after",
        kind: SettingKind::Span { min: Duration::ZERO, max: LONGEST, word: None },
        default: Some("10m"),
        aliases: &[],
        flag: Some("--stale-after (sweeper)"),
        help: "how long a finding must have held before goldseam sweeper heals it",
    },
];
