//! The shell around the pure core: the only crate with loops.
//!
//! # Layout
//!
//! The first five modules are layers: each imports only from those above it in this table. `cargo xtask tidy` checks it.
//!
//! | module | holds |
//! |---|---|
//! | [`ledger`] | the store as the engine uses it: clock, randomness, limits, errors, reading, liveness of nodes, and the write loop |
//! | [`run`] | the execution of one run: the live run, its driver, attempts, compensations, and the [`context`] that code holds |
//! | [`heal`] | repairs of runs, claims and locks: the healer, the sweeper, the monitor |
//! | [`node`] | a process that executes runs: claims, beats, takeover from dead nodes, dispatch |
//! | [`client`] | operations on runs, tasks and locks that need no node: start, signal, list, follow, why, doctor |
//! | [`operation`] | one verb on many runs: the built-in workflow, and what clients ask about it |
//! | [`engine`] | a client and a node in one process |
//! | [`remote`] | workers in other processes that execute workflows over HTTP |
//! | [`preflight`] | the code of this process, tried against stored histories |
//! | `testing` | virtual clocks and a witness of user code, for tests (feature `testing`) |
#![expect(missing_docs, reason = "an internal crate: names say enough")]

pub mod client;
pub mod engine;
pub mod heal;
pub mod ledger;
pub mod node;
pub mod operation;
pub mod preflight;
pub mod remote;
pub mod run;
#[cfg(feature = "testing")]
pub mod testing;

pub use client::{Client, Outcome, RunHandle, StartOptions, ending, locks, queue, stats};
pub use engine::environment::EnvironmentWork;
pub use engine::{Builder, Engine};
pub use heal::claims;
pub use heal::claims::staleness::is_node_name;
pub use ledger::clock::{Clock, SystemClock};
pub use ledger::config::Config;
pub use ledger::entropy::{Entropy, OsEntropy, Seeded};
pub use ledger::error::EngineError;
pub use ledger::secrets::{Secret, SecretError};
pub use ledger::workflow_error::{Error, Result, ResultExt};
pub use ledger::{clock, commit, config, entropy, error, meter, page, salvage, secrets, settings};
pub use run::context;
pub use run::context::{Attempt, Context, Probe, Selected};
pub use run::workflow_ref::{Untyped, Workflow, WorkflowRef};
