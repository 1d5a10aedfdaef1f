//! The real binary, as a user runs it.

mod demo;
mod errors;
mod help;
mod queue;
mod runs;
mod support;
