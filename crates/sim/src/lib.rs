//! Proof by simulation: several engines against one store, every fault on demand, every invariant checked.
//!
//! Time is virtual and everything random comes from one seed, so the same seed gives the same trace.
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | [`clock`], [`dice`] | virtual time with offset and drift; seeded numbers |
//! | [`book`], [`tap`] | what was really done: appends, side effects, promises to clients |
//! | [`flows`] | the workflows that are run, each step witnessed |
//! | [`world`] | nodes that start, crash, freeze and come back |
//! | [`crowd`] | a client that starts, signals, cancels, jumps through a faulty store of its own |
//! | [`worker`] | somebody who does remote steps, and sometimes forgets one |
//! | [`holder`], [`follow`] | programs that take turns by a lock; people who follow runs |
//! | [`swarm`] | one seed: a phase of faults, a phase of calm, then the checks |
//! | [`check`] | the invariants I1–I17, I19, I21 and I22, one function each |
//! | [`nth`] | the Nth call fails, for every N, in a set of scenarios |
//! | [`kept`] | seeds that failed once are replayed for ever |

pub mod book;
pub mod check;
pub mod clock;
pub mod crowd;
pub mod dice;
pub mod flows;
pub mod follow;
pub mod holder;
pub mod kept;
pub mod nth;
pub mod preflight;
pub mod scenario;
pub mod swarm;
pub mod tap;
pub mod worker;
pub mod world;
