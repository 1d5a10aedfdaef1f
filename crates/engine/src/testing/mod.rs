//! Shared by tests of workflows and the simulation: virtual clocks, logs to check, and a witness of user code.
//!
//! Nothing here decides anything. Products are built without it (feature `testing`).

mod clock;
mod log;

pub use crate::run::witness::{Beginning, Witness, Work};
pub use clock::{START, SimClock, TrueTime};
pub use log::Log;
