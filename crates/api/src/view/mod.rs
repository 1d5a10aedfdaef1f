//! Documents for display, made from a run's log. Nothing here reads a store.

pub mod branches;
pub mod describe;
pub mod detail;
pub mod diff;
pub mod log;
pub mod percentiles;
pub mod text;
pub mod timeline;
