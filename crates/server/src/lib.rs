//! An HTTP server for Goldseam stores.
//!
//! # Layout
//!
//! A module uses only modules of its own row or of rows above it.
//!
//! | modules | hold |
//! |---|---|
//! | `spawn`, `slots`, `reply`, `strict_json` | general tools |
//! | `tls`, [`proxies`](Proxies), `connection`, `write_timeout` | connections of clients |
//! | `address_slots`, `rate`, `body_memory`, `waits`, [`meter`], `follower_slots` | limits of clients, and metrics |
//! | [`config`], `keyring` | settings, cached keys |
//! | `route_table`, `principal` | the properties of every route; the authenticated caller |
//! | `foundation`, `fan_out`, `namespace`, `extract` | one store with its engine and followers; input of handlers |
//! | `readiness`, `otlp`, `app`, `cursor` | the state of a running server; traces |
//! | `hardening`, `auth`, `concurrency`, `redact`, `key_watch` | checks around every request |
//! | `stream`, `routes` | handlers and the OpenAPI description |
//! | `listen`, `in_process` | listeners and connections; the same routes without a socket |
//!
//! Invariant: a request reaches the namespace of its credential and no other. Authentication picks the store, and no
//! input of a request names one.

pub mod config;
pub mod meter;

mod address_slots;
mod app;
mod auth;
mod body_memory;
mod concurrency;
mod connection;
mod cursor;
mod dashboard;
mod extract;
mod fan_out;
mod follower_slots;
mod foundation;
mod hardening;
mod in_process;
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
mod unparsed;
mod waits;
mod write_timeout;

pub use config::ServerConfig;
pub use goldseam_api::NAMESPACE_DEFAULT;
pub use in_process::{InProcess, InProcessOptions};
pub use listen::{Running, serve};
pub use principal::Principal;
pub use proxies::{Forwarding, Network, Proxies};
pub use rate::{KeyRates, Rate};
pub use routes::openapi;
