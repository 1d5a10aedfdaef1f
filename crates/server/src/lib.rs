//! A store, reachable over HTTP by any language and any operator.
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | [`config`] | what a server goes by, and where each value comes from |
//! | [`keys`], `keyring`, `remembered` | who may do what, in which namespace |
//! | [`pass`] | one thing that whoever holds one may do, once |
//! | [`token`] | opaque text that only servers of this store can have made |
//! | `shield`, `guard`, `rate` | what a request passes before anything is done for it |
//! | `bodies`, `turns`, `waits`, `addresses`, `counts` | how much of the server one client may take |
//! | `proxies` | the clients behind trusted proxies |
//! | `routes`, `extract`, `reply` | every route, what it takes, what it answers |
//! | `veil` | answers without secrets |
//! | `stream` | logs as they grow |
//! | `app`, `space` | what a running server has: one store per namespace |
//! | `listen`, `activity`, `tls`, `private`, `patient`, `spawn` | connections |
//! | [`meter`], `otlp` | numbers for Prometheus, traces for a collector |
//!
//! Invariant: a request sees the namespace of its credential and no other: the guard picks the store, and nothing that
//! a request carries is asked for one.

pub mod config;
pub mod keys;
pub mod meter;
pub mod pass;
pub mod token;

mod activity;
mod addresses;
mod app;
mod bodies;
mod counts;
mod cursor;
mod extract;
mod guard;
mod keyring;
mod listen;
mod otlp;
mod patient;
mod private;
mod proxies;
mod rate;
mod remembered;
mod reply;
mod routes;
mod shield;
mod space;
mod spawn;
mod stream;
mod strict;
mod tls;
mod turns;
mod veil;
mod waits;

pub use config::Config;
pub use guard::Principal;
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
