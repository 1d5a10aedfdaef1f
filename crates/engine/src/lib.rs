//! The shell around the pure core: the only crate with loops.
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | [`commit`], `recall`, `patience` | the one way a run changes: read, derive, decide, append; again if somebody was faster |
//! | [`page`] | pieces of a log that fit into memory |
//! | [`salvage`] | logs as they are: what can be read, and where something is wrong |
//! | [`client`], `fleet` | what anybody may do to runs: start, signal, answer, pause, jump, list, follow |
//! | [`engine`], [`node`] | a process that executes runs: claims, beats, takes over from dead nodes |
//! | [`context`] | what a workflow function holds: steps, waits, sleeps, questions, children |
//! | `cell`, `driver` | one run in memory, and the task that moves it |
//! | [`healer`] | what is wrong with a run, and mending it: the sweeper, the doctor, the feed of recoveries |
//! | [`queue`], [`locks`], [`stats`] | a user's own tasks, named locks, and how much there is |
//! | [`claims`] | what nobody alive holds is free again |
//! | [`copy`] | moving everything to another store |
//! | [`remote`] | workflows that are written in another language and run in another process |
//! | [`secrets`] | what steps need and nobody may read |
//! | [`retention`] | archiving runs that ended long ago, and removing them |
//! | [`preflight`] | the code of this process, tried against stored histories |
//! | [`meter`] | the names of all metrics |
//! | `testing` | what tests of workflows need of the engine (feature `testing`) |
//! | [`clock`], [`entropy`], `spawn` | the one home of time, randomness and background work |

pub mod claims;
pub mod client;
pub mod clock;
pub mod commit;
pub mod config;
pub mod context;
pub mod copy;
pub mod ending;
pub mod engine;
pub mod entropy;
pub mod error;
pub mod healer;
pub mod locks;
pub mod meter;
pub mod node;
pub mod page;
pub mod preflight;
pub mod queue;
pub mod registry;
pub mod remote;
pub mod retention;
pub mod salvage;
pub mod secrets;
mod shapes;
pub mod stats;
#[cfg(feature = "suite")]
pub mod suite;
#[cfg(feature = "testing")]
pub mod testing;

mod append;
mod attempt;
mod cell;
mod driver;
mod fleet;
mod patience;
mod recall;
mod spawn;
mod tries;
mod undo;

pub use claims::judge::is_node_name;
pub use client::{Client, Outcome, RunHandle, StartOptions};
pub use clock::{Clock, SystemClock};
pub use config::Config;
pub use context::{Attempt, Context, Probe, Selected};
pub use engine::{Builder, Engine};
pub use entropy::{Entropy, OsEntropy, Seeded};
pub use error::{EngineError, Error, Result};
pub use secrets::{Secret, SecretError};
