//! What users rely on, on real SQLite files.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod basics;
mod bucket;
mod claims;
mod clocks;
mod examples;
mod object;
mod peers;
mod people;
mod place;
mod postgres;
mod queue_and_locks;
mod remote;
mod rights;
mod secrets;
mod size;
mod start;
mod starvation;
mod steps;
mod support;
mod travel;
mod tree;
mod undoing;
mod values;
mod versions;
mod workers;
