//! What users rely on, on real SQLite files.

mod basics;
mod examples;
mod people;
mod queue_and_locks;
mod start;
mod steps;
mod support;
mod travel;
mod tree;
mod versions;
