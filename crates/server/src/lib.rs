//! An HTTP server for Goldseam stores.
//!
//! # Layout
//!
//! A module uses only modules of its own row or of rows above it.
//!
//! | modules | hold |
//! |---|---|
//! | `spawn`, `slots`, `reply`, `strict_json`, `file_mode`, `cached_read` | general tools |
//! | `tls`, [`proxies`](Proxies), `connection`, `write_timeout` | connections of clients |
//! | `address_slots`, `rate`, `body_memory`, `waits`, [`meter`], `follower_slots` | limits of clients, and metrics |
//! | [`config`], [`keys`], `keyring`, [`token`], [`pass`] | settings, keys, signatures, passes |
//! | `route_table`, `principal` | the properties of every route; the authenticated caller |
//! | `fan_out`, `namespace`, `extract` | one store with its engine and followers; input of handlers |
//! | `readiness`, `otlp`, `app`, `cursor` | the state of a running server; traces |
//! | `hardening`, `auth`, `concurrency`, `redact`, `key_watch` | checks around every request |
//! | `stream`, `routes` | handlers and the OpenAPI description |
//! | `listen` | listeners and connections |
//!
//! Invariant: a request reaches the namespace of its credential and no other. Authentication picks the store, and no
//! input of a request names one.

pub mod config;
pub mod keys;
pub mod meter;
pub mod pass;
pub mod token;

mod address_slots;
mod app;
mod auth;
mod body_memory;
mod cached_read;
mod concurrency;
mod connection;
mod cursor;
mod extract;
mod fan_out;
mod file_mode;
mod follower_slots;
mod hardening;
mod key_watch;
mod keyring;
mod listen;
mod namespace;
mod otlp;
mod principal;
mod proxies;
mod rate;
mod readiness;
mod redact;
mod reply;
mod route_table;
mod routes;
mod slots;
mod spawn;
mod stream;
mod strict_json;
mod tls;
mod waits;
mod write_timeout;

pub use config::Config;
pub use listen::{Running, serve};
pub use principal::Principal;
pub use proxies::{Forwarding, Network, Proxies};
pub use rate::{KeyRates, Rate};
pub use routes::openapi;

/// The namespace of the main store.
pub const NAMESPACE_DEFAULT: &str = "default";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}
