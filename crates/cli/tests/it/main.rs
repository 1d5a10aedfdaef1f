//! Tests of the real binary.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod backup;
mod bucket;
mod changing;
mod controls;
mod copy;
#[cfg(feature = "crash-points")]
mod crash;
mod damage;
mod demo;
mod dialogue;
mod disk;
mod drill;
mod ending;
mod errors;
mod faulty;
mod files;
mod getting_started;
mod guides;
mod healing;
mod help;
mod operations;
mod output;
mod prune;
mod queue;
mod runs;
mod search;
mod seeing;
mod server;
mod serving;
mod support;
