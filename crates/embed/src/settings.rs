//! Settings of an embedded engine: those of a server that make sense without a socket.

use std::collections::BTreeMap;

use goldseam::unstable::engine::settings::ENGINE_SETTINGS;
use goldseam_api::Problem;
use goldseam_server::ServerConfig;
use goldseam_server::config::Settings;

/// The settings of a server that an embedded engine takes, besides those of its engine.
const TAKEN: [&str; 6] = ["archive", "otlp", "redact_keys", "retention", "secret_file", "secrets_from_env"];

/// Whether an embedded engine has this setting: its own name or an older one.
fn is_taken(name: &str) -> bool {
    let of_engine = || ENGINE_SETTINGS.iter().map(|row| &row.spec);
    TAKEN.contains(&name)
        || of_engine()
            .any(|spec| spec.name == name || spec.aliases.iter().any(|alias| alias.name == Some(name)))
}

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
            let known = Settings::name_of(name).ok().filter(|known| is_taken(known));
            let Some(known) = known else {
                return Err(Problem::bad_request(format!("an embedded engine has no setting {name:?}"))
                    .code("GS0610")
                    .hint(format!(
                        "it has those of engines, such as steps.heartbeat_timeout, and {}",
                        TAKEN.join(", ")
                    )));
            };
            flags.insert(known, value.clone());
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
            assert_eq!(Settings::name_of(name).unwrap(), name);
        }
    }

    #[test]
    fn settings_of_engines_are_taken_by_their_own_and_older_names() {
        let values = [("steps.heartbeat_timeout", "5m"), ("payload_bytes_max", "1000")];
        let values = values.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let config = EmbedSettings { values, ..EmbedSettings::default() }.config("memory:").unwrap();
        assert_eq!(config.engine.heartbeat_timeout, Some(std::time::Duration::from_secs(300)));
        assert_eq!(config.engine.limits.payload_bytes_max, 1000);
    }

    #[test]
    fn settings_of_sockets_are_refused() {
        let values = BTreeMap::from([("listen".to_owned(), "127.0.0.1:1".to_owned())]);
        let problem = EmbedSettings { values, ..EmbedSettings::default() }.config("memory:").unwrap_err();
        assert_eq!(problem.code.as_deref(), Some("GS0610"));
    }
}
