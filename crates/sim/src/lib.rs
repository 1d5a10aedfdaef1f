//! Simulation: several engines on one store, injected faults, and checks of every invariant.
//!
//! Time is virtual and all random numbers come from one seed, so the same seed gives the same trace.
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | [`clock`], [`random`] | virtual time with offset and drift; seeded random numbers |
//! | [`journal`], [`recording_store`] | the record of all appends, side effects and acknowledgements |
//! | [`workflows`] | the simulated workflows; each step is recorded |
//! | [`cluster`] | nodes that start, crash, freeze and restart |
//! | [`clients`] | clients that start, signal, cancel and jump over a faulty connection |
//! | [`worker`] | a worker that executes remote steps and sometimes abandons one |
//! | [`operator`] | an operator who acts on many runs at once |
//! | [`lock_holder`], [`follower`] | programs that share a lock; followers of runs |
//! | [`swarm`] | one seed: a phase with faults, a phase without, then the checks |
//! | [`check`] | the invariants I1–I17, I19 and I21–I25, one function each |
//! | [`nth`], [`scenario`] | the Nth call fails, for every N, in a set of scenarios |
//! | [`failed_seeds`] | seeds that failed once and are replayed by the tests |

pub mod check;
pub mod clients;
pub mod clock;
pub mod cluster;
pub mod failed_seeds;
pub mod follower;
pub mod journal;
pub mod lock_holder;
pub mod nth;
pub mod operator;
pub mod preflight;
pub mod random;
pub mod recording_store;
pub mod scenario;
pub mod swarm;
pub mod worker;
pub mod workflows;
