//! End-to-end tests of the public API, mostly on SQLite files.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attributes;
mod backup;
mod basics;
mod branches;
mod bucket;
mod child_options;
mod children;
mod claims;
mod clocks;
mod compensation;
mod dialogue;
mod examples;
mod grants;
mod history_size;
mod object;
mod observing;
mod operations;
mod peers;
mod place;
mod postgres;
mod public_api;
mod queue_and_locks;
mod remote;
mod retention;
mod secrets;
mod start;
mod starvation;
mod steps;
mod support;
mod values;
mod versions;
mod waits;
mod workers;
