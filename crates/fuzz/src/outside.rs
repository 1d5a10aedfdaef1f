//! Targets for store URLs, the command line, messages of remote workers, and the server's configuration file.

use std::collections::BTreeMap;
use std::fmt::Debug;

use goldseam_engine::remote::wire::{Append, Claim, Events, Giving, Heartbeat, Register};
use goldseam_server::config::Settings;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Parses URLs of every kind of store.
pub(crate) fn urls(data: &[u8]) {
    let Ok(url) = std::str::from_utf8(data) else { return };
    drop(goldseam_store_sqlite::url::parse(url));
    drop(goldseam_store_postgres::url::parse(url));
    drop(goldseam_store_object::url::parse(url));
}

/// Parses command lines, with one argument per line.
pub(crate) fn arguments(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    drop(goldseam_cli::parse(std::iter::once("goldseam").chain(text.lines())));
}

/// Checks that parsing and printing round-trip.
fn round<T: Serialize + DeserializeOwned + PartialEq + Debug>(text: &str) {
    let Ok(message) = serde_json::from_str::<T>(text) else { return };
    let again = serde_json::to_string(&message).unwrap_or_default();
    assert_eq!(serde_json::from_str::<T>(&again).ok(), Some(message), "{again}");
}

/// Parses the messages of remote workers.
pub(crate) fn wire(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    round::<Register>(text);
    round::<Heartbeat>(text);
    round::<Claim>(text);
    round::<Events>(text);
    round::<Append>(text);
    round::<Giving>(text);
}

/// Parses the server's configuration file.
pub(crate) fn config(data: &[u8]) {
    let Ok(folder) = tempfile::tempdir() else { return };
    let file = folder.path().join("server.toml");
    if std::fs::write(&file, data).is_err() {
        return;
    }
    let Ok(settings) = Settings::gather(&BTreeMap::new(), |_| None, Some(&file)) else { return };
    assert!(!settings.shown().is_empty());
    drop(settings.config());
}
