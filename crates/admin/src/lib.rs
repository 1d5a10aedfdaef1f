//! Administration of whole stores: copying everything to another store, and archiving and pruning runs.
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | [`copy`] | copying logs, tasks and locks to another store, where the runs go on |
//! | [`retention`] | archiving runs that ended long ago, and removing them |

pub mod copy;
pub mod retention;
