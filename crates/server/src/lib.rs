//! A store, reachable over HTTP by any language and any operator.
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | [`config`] | what a server goes by, and where each value comes from |
//! | [`keys`], `keyring`, `cached_read` | who may do what, in which namespace |
//! | [`pass`] | one thing that whoever holds one may do, once |
//! | [`token`] | opaque text that only servers of this store can have made |
//! | `hardening`, `auth`, `rate` | what a request passes before anything is done for it |
//! | `body_memory`, `concurrency`, `waits`, `address_slots`, `slots` | how much of the server one client may take |
//! | `proxies` | the clients behind trusted proxies |
//! | `routes`, `extract`, `reply` | every route, what it takes, what it answers |
//! | `redact` | answers without secrets |
//! | `stream` | logs as they grow |
//! | `app`, `namespace` | what a running server has: one store per namespace |
//! | `listen`, `connection`, `tls`, `file_mode`, `write_timeout`, `spawn` | connections |
//! | [`meter`], `otlp` | numbers for Prometheus, traces for a collector |
//!
//! Invariant: a request sees the namespace of its credential and no other: the guard picks the store, and nothing that
//! a request carries is asked for one.

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
mod file_mode;
mod hardening;
mod keyring;
mod listen;
mod namespace;
mod otlp;
mod proxies;
mod rate;
mod redact;
mod reply;
mod routes;
mod slots;
mod spawn;
mod stream;
mod strict_json;
mod tls;
mod waits;
mod write_timeout;

pub use auth::Principal;
pub use config::Config;
pub use listen::{Running, serve};
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
