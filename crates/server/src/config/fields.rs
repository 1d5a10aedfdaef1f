//! Every setting by name, with what it is unless anybody says otherwise.

use super::{LISTEN_DEFAULT, PAYLOAD_BYTES_MAX_ENV, THE_USUAL};

/// A setting by name.
#[derive(Debug)]
pub struct Field {
    /// In the file, and as a flag.
    pub name: &'static str,
    /// In the environment.
    pub env: &'static str,
    /// Unless anybody says otherwise.
    pub default: &'static str,
    /// What it is for.
    pub help: &'static str,
}

/// Every setting, in the order that they are shown in.
pub const FIELDS: &[Field] = &[
    Field {
        name: "store",
        env: "GOLDSEAM_STORE",
        default: "sqlite:goldseam.db",
        help: "the main store: namespace default, and the keys",
    },
    Field {
        name: "listen",
        env: "GOLDSEAM_LISTEN",
        default: LISTEN_DEFAULT,
        help: "address and port; beyond loopback only with keys",
    },
    Field {
        name: "health_listen",
        env: "GOLDSEAM_HEALTH_LISTEN",
        default: "",
        help: "a second address that answers /healthz, /readyz and /metrics only; none unless given",
    },
    Field {
        name: "namespaces",
        env: "GOLDSEAM_NAMESPACES",
        default: "",
        help: "stores of other namespaces: NAME=URL, …",
    },
    Field {
        name: "hosts",
        env: "GOLDSEAM_HOSTS",
        default: "",
        help: "names that it answers under, besides those of this machine",
    },
    Field {
        name: "origins",
        env: "GOLDSEAM_ORIGINS",
        default: "",
        help: "origins of pages that may change something",
    },
    Field {
        name: "trusted_proxies",
        env: "GOLDSEAM_TRUSTED_PROXIES",
        default: "",
        help: "addresses and networks of proxies that are believed whose request it is: 10.0.0.0/8, …",
    },
    Field {
        name: "forwarding_header",
        env: "GOLDSEAM_FORWARDING_HEADER",
        default: "x-forwarded-for",
        help: "where trusted proxies say so: x-forwarded-for, or forwarded; the other is ignored",
    },
    Field {
        name: "secret_file",
        env: "GOLDSEAM_SECRET_FILE",
        default: "",
        help: "file of 32 bytes or more that passes and tokens are signed with, besides what the store has",
    },
    Field {
        name: "tls_cert",
        env: "GOLDSEAM_TLS_CERT",
        default: "",
        help: "file with the chain of certificates (PEM)",
    },
    Field { name: "tls_key", env: "GOLDSEAM_TLS_KEY", default: "", help: "file with its private key (PEM)" },
    Field {
        name: "insecure_no_keys",
        env: "GOLDSEAM_INSECURE_NO_KEYS",
        default: "false",
        help: "ask nobody for a key, although others can reach it",
    },
    Field {
        name: "body_bytes_max",
        env: "GOLDSEAM_BODY_BYTES_MAX",
        default: "2097152",
        help: "largest body of a request",
    },
    Field {
        name: "bodies_bytes_max",
        env: "GOLDSEAM_BODIES_BYTES_MAX",
        default: "134217728",
        help: "memory for the bodies of all requests together; one key may have half of it",
    },
    Field {
        name: "payload_bytes_max",
        env: PAYLOAD_BYTES_MAX_ENV,
        default: "262144",
        help: "largest input, output, signal or answer; 2097152 at the most",
    },
    Field {
        name: "history_bytes_max",
        env: "GOLDSEAM_HISTORY_BYTES_MAX",
        default: "52428800",
        help: "most bytes of a log that a run may load before it must begin anew",
    },
    Field {
        name: "version_grace_seconds",
        env: "GOLDSEAM_VERSION_GRACE_SECONDS",
        default: "300",
        help: "how long no live node may have a run's version before rule E2 acts; longer than a deploy takes",
    },
    Field {
        name: "foreign_states",
        env: "GOLDSEAM_FOREIGN_STATES",
        default: "false",
        help: "heal states that other systems keep in the bucket, by Goldseam's own queue",
    },
    Field {
        name: "connections_max",
        env: "GOLDSEAM_CONNECTIONS_MAX",
        default: "4096",
        help: "connections at once",
    },
    Field {
        name: "connections_per_address",
        env: "GOLDSEAM_CONNECTIONS_PER_ADDRESS",
        default: "1024",
        help: "connections at once from one address, or requests of one behind a trusted proxy",
    },
    Field {
        name: "waits_max",
        env: "GOLDSEAM_WAITS_MAX",
        default: "2000",
        help: "long polls and streams at once, of one key; a namespace has a share of the connections",
    },
    Field {
        name: "workers_per_key",
        env: "GOLDSEAM_WORKERS_PER_KEY",
        default: "128",
        help: "workers that one key may have registered at once; 256 in a namespace",
    },
    Field {
        name: "followers_max",
        env: "GOLDSEAM_FOLLOWERS_MAX",
        default: "2000",
        help: "followers of logs at once, of one key",
    },
    Field {
        name: "requests_per_second",
        env: "GOLDSEAM_REQUESTS_PER_SECOND",
        default: "5000",
        help: "of one key; a namespace may have twice as many",
    },
    Field {
        name: "starts_per_second",
        env: "GOLDSEAM_STARTS_PER_SECOND",
        default: "",
        help: "of one key, counted apart; as requests_per_second unless given",
    },
    Field {
        name: "signals_per_second",
        env: "GOLDSEAM_SIGNALS_PER_SECOND",
        default: "",
        help: "signals and answers of one key, counted apart; as requests_per_second unless given",
    },
    Field {
        name: "polls_per_second",
        env: "GOLDSEAM_POLLS_PER_SECOND",
        default: "",
        help: "requests of workers with one key, counted apart; as requests_per_second unless given",
    },
    Field {
        name: "requests_at_once",
        env: "GOLDSEAM_REQUESTS_AT_ONCE",
        default: "512",
        help: "answered at a time, an equal share of each namespace; those that wait for something do not count",
    },
    Field {
        name: "keep_alive_seconds",
        env: "GOLDSEAM_KEEP_ALIVE_SECONDS",
        default: "75",
        help: "how long a connection may be idle between two requests; longer than a proxy keeps it",
    },
    Field {
        name: "drain_seconds",
        env: "GOLDSEAM_DRAIN_SECONDS",
        default: "5",
        help: "after SIGTERM: how long /readyz answers 503 while connections are still accepted; 0: close at once",
    },
    Field {
        name: "finish_seconds",
        env: "GOLDSEAM_FINISH_SECONDS",
        default: "10",
        help: "how long requests under way may take after that",
    },
    Field {
        name: "otlp",
        env: "GOLDSEAM_OTLP",
        default: "",
        help: "where traces go, as http://HOST:4318; none unless given",
    },
    Field {
        name: "archive",
        env: "GOLDSEAM_ARCHIVE",
        default: "",
        help: "where pruned logs go: a directory, or s3://BUCKET/PREFIX; nothing is pruned unless given",
    },
    Field {
        name: "redact_keys",
        env: "GOLDSEAM_REDACT_KEYS",
        default: THE_USUAL,
        help: "keys whose values are hidden in what is shown; usual: password, api_key and the like; or none",
    },
    Field {
        name: "secrets_from_env",
        env: "GOLDSEAM_SECRETS_FROM_ENV",
        default: "",
        help: "variables whose values are hidden wherever they stand: NAME, …",
    },
];
