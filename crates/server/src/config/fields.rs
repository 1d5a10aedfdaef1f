//! The list of all settings with defaults and help texts.

use super::{LISTEN_DEFAULT, PAYLOAD_BYTES_MAX_ENV, THE_USUAL};

/// A setting.
#[derive(Debug)]
pub struct SettingField {
    /// Its name in the file and as a flag.
    pub name: &'static str,
    /// Its environment variable.
    pub env: &'static str,
    /// Its default value.
    pub default: &'static str,
    /// Its help text.
    pub help: &'static str,
}

/// Every setting, in display order.
pub const FIELDS: &[SettingField] = &[
    SettingField {
        name: "store",
        env: "GOLDSEAM_STORE",
        default: "sqlite:goldseam.db",
        help: "URL of the main store, which holds namespace default and the API keys",
    },
    SettingField {
        name: "listen",
        env: "GOLDSEAM_LISTEN",
        default: LISTEN_DEFAULT,
        help: "listen address and port; a non-loopback address requires API keys",
    },
    SettingField {
        name: "health_listen",
        env: "GOLDSEAM_HEALTH_LISTEN",
        default: "",
        help: "second listen address for /healthz, /readyz and /metrics only (default: none)",
    },
    SettingField {
        name: "namespaces",
        env: "GOLDSEAM_NAMESPACES",
        default: "",
        help: "store URLs of other namespaces: NAME=URL, …",
    },
    SettingField {
        name: "hosts",
        env: "GOLDSEAM_HOSTS",
        default: "",
        help: "accepted host names, in addition to the names of this machine",
    },
    SettingField {
        name: "origins",
        env: "GOLDSEAM_ORIGINS",
        default: "",
        help: "origins of web pages that may send changes",
    },
    SettingField {
        name: "trusted_proxies",
        env: "GOLDSEAM_TRUSTED_PROXIES",
        default: "",
        help: "addresses and networks of proxies whose forwarding header is trusted: 10.0.0.0/8, …",
    },
    SettingField {
        name: "forwarding_header",
        env: "GOLDSEAM_FORWARDING_HEADER",
        default: "x-forwarded-for",
        help: "header in which trusted proxies name the client: x-forwarded-for or forwarded; the other is ignored",
    },
    SettingField {
        name: "secret_file",
        env: "GOLDSEAM_SECRET_FILE",
        default: "",
        help: "file with at least 32 bytes, mixed with the store's secret to sign passes and tokens",
    },
    SettingField {
        name: "tls_cert",
        env: "GOLDSEAM_TLS_CERT",
        default: "",
        help: "file with the certificate chain (PEM)",
    },
    SettingField {
        name: "tls_key",
        env: "GOLDSEAM_TLS_KEY",
        default: "",
        help: "file with the private key of the certificate (PEM)",
    },
    SettingField {
        name: "insecure_no_keys",
        env: "GOLDSEAM_INSECURE_NO_KEYS",
        default: "false",
        help: "accept requests without API keys on a non-loopback address",
    },
    SettingField {
        name: "body_bytes_max",
        env: "GOLDSEAM_BODY_BYTES_MAX",
        default: "2097152",
        help: "maximum size of a request body",
    },
    SettingField {
        name: "bodies_bytes_max",
        env: "GOLDSEAM_BODIES_BYTES_MAX",
        default: "134217728",
        help: "maximum memory for all request bodies together; one key may use half of it",
    },
    SettingField {
        name: "payload_bytes_max",
        env: PAYLOAD_BYTES_MAX_ENV,
        default: "262144",
        help: "maximum size of an input, output, signal or answer; at most 2097152",
    },
    SettingField {
        name: "history_bytes_max",
        env: "GOLDSEAM_HISTORY_BYTES_MAX",
        default: "52428800",
        help: "maximum log size of a run; a longer run must use continue_as_new",
    },
    SettingField {
        name: "version_grace_seconds",
        env: "GOLDSEAM_VERSION_GRACE_SECONDS",
        default: "300",
        help: "how long all live nodes may lack a run's version before rule E2 acts; set it longer than a deploy",
    },
    SettingField {
        name: "foreign_states",
        env: "GOLDSEAM_FOREIGN_STATES",
        default: "false",
        help: "heal workflow states that other systems keep in the bucket, with Goldseam tasks",
    },
    SettingField {
        name: "connections_max",
        env: "GOLDSEAM_CONNECTIONS_MAX",
        default: "4096",
        help: "maximum number of concurrent connections",
    },
    SettingField {
        name: "connections_per_address",
        env: "GOLDSEAM_CONNECTIONS_PER_ADDRESS",
        default: "1024",
        help: "maximum number of concurrent connections per client address (requests, behind a trusted proxy)",
    },
    SettingField {
        name: "waits_max",
        env: "GOLDSEAM_WAITS_MAX",
        default: "2000",
        help: "maximum number of concurrent long polls and streams per key; a namespace has a share of the connections",
    },
    SettingField {
        name: "workers_per_key",
        env: "GOLDSEAM_WORKERS_PER_KEY",
        default: "128",
        help: "maximum number of registered workers per key; 256 per namespace",
    },
    SettingField {
        name: "followers_max",
        env: "GOLDSEAM_FOLLOWERS_MAX",
        default: "2000",
        help: "maximum number of concurrent log followers per key",
    },
    SettingField {
        name: "requests_per_second",
        env: "GOLDSEAM_REQUESTS_PER_SECOND",
        default: "5000",
        help: "requests per second and key; a namespace may send twice as many",
    },
    SettingField {
        name: "starts_per_second",
        env: "GOLDSEAM_STARTS_PER_SECOND",
        default: "",
        help: "run starts per second and key, counted separately (default: requests_per_second)",
    },
    SettingField {
        name: "signals_per_second",
        env: "GOLDSEAM_SIGNALS_PER_SECOND",
        default: "",
        help: "signals and answers per second and key, counted separately (default: requests_per_second)",
    },
    SettingField {
        name: "polls_per_second",
        env: "GOLDSEAM_POLLS_PER_SECOND",
        default: "",
        help: "worker requests per second and key, counted separately (default: requests_per_second)",
    },
    SettingField {
        name: "requests_at_once",
        env: "GOLDSEAM_REQUESTS_AT_ONCE",
        default: "512",
        help: "maximum executing requests, in equal shares per namespace; long polls and streams do not count",
    },
    SettingField {
        name: "keep_alive_seconds",
        env: "GOLDSEAM_KEEP_ALIVE_SECONDS",
        default: "75",
        help: "how long a connection may be idle between two requests; set it longer than the proxy's limit",
    },
    SettingField {
        name: "drain_seconds",
        env: "GOLDSEAM_DRAIN_SECONDS",
        default: "5",
        help: "after SIGTERM, how long /readyz answers 503 while connections are accepted; 0 closes at once",
    },
    SettingField {
        name: "finish_seconds",
        env: "GOLDSEAM_FINISH_SECONDS",
        default: "10",
        help: "how long running requests may take after drain_seconds",
    },
    SettingField {
        name: "audit_retention_days",
        env: "GOLDSEAM_AUDIT_RETENTION_DAYS",
        default: "90",
        help: "how long the audit of healed tasks, locks and foreign states is kept; 0 keeps it without limit",
    },
    SettingField {
        name: "otlp",
        env: "GOLDSEAM_OTLP",
        default: "",
        help: "OTLP collector for traces, as http://HOST:4318 (default: none)",
    },
    SettingField {
        name: "archive",
        env: "GOLDSEAM_ARCHIVE",
        default: "",
        help: "archive of pruned logs: a directory or s3://BUCKET/PREFIX; prunes are refused without it",
    },
    SettingField {
        name: "retention",
        env: "GOLDSEAM_RETENTION",
        default: "",
        help: "how long ended runs are kept before they are pruned: completed=7d, order:failed=90d, … (default: all are kept)",
    },
    SettingField {
        name: "redact_keys",
        env: "GOLDSEAM_REDACT_KEYS",
        default: THE_USUAL,
        help: "JSON keys whose values are redacted; `usual` (password, api_key, …), own names, or `none`",
    },
    SettingField {
        name: "secrets_from_env",
        env: "GOLDSEAM_SECRETS_FROM_ENV",
        default: "",
        help: "environment variables whose values are redacted everywhere: NAME, …",
    },
];
