//! Settings of an embedded engine: those of a server that make sense without a socket.

use std::collections::BTreeMap;

use goldseam_api::Problem;
use goldseam_server::ServerConfig;
use goldseam_server::config::{FIELDS, Settings};

/// The settings of a server that an embedded engine takes.
const TAKEN: [&str; 11] = [
    "archive",
    "audit_retention_days",
    "foreign_states",
    "history_bytes_max",
    "otlp",
    "payload_bytes_max",
    "redact_keys",
    "retention",
    "secret_file",
    "secrets_from_env",
    "version_grace_seconds",
];

/// How an embedded engine is opened.
#[derive(Debug, Clone)]
pub struct EmbedSettings {
    /// Settings of a server by name, such as `payload_bytes_max`.
    pub values: BTreeMap<String, String>,
    /// Threads of the engine.
    pub threads: usize,
    /// Whether the clock can be moved, for tests.
    pub virtual_time: bool,
}

impl Default for EmbedSettings {
    fn default() -> Self {
        Self { values: BTreeMap::new(), threads: 2, virtual_time: false }
    }
}

impl EmbedSettings {
    pub(crate) fn config(&self, url: &str) -> Result<ServerConfig, Problem> {
        let mut flags = BTreeMap::from([("store", url.to_owned())]);
        for (name, value) in &self.values {
            let field = FIELDS.iter().find(|field| field.name == name && TAKEN.contains(&field.name));
            let Some(field) = field else {
                return Err(Problem::bad_request(format!("an embedded engine has no setting {name:?}"))
                    .code("GS0610")
                    .hint(format!("it has {}", TAKEN.join(", "))));
            };
            flags.insert(field.name, value.clone());
        }
        Settings::of_flags(&flags).config()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_taken_setting_is_one_of_a_server() {
        for name in TAKEN {
            assert!(FIELDS.iter().any(|field| field.name == name), "{name}");
        }
    }

    #[test]
    fn settings_of_sockets_are_refused() {
        let values = BTreeMap::from([("listen".to_owned(), "127.0.0.1:1".to_owned())]);
        let problem = EmbedSettings { values, ..EmbedSettings::default() }.config("memory:").unwrap_err();
        assert_eq!(problem.code.as_deref(), Some("GS0610"));
    }
}
