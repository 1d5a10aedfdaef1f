//! What is made of a run's log for somebody to look at. Nothing here reads a store.

pub mod branches;
pub mod describe;
pub mod detail;
pub mod diff;
pub mod log;
pub mod spread;
pub mod text;
pub mod timeline;
