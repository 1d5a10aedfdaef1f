//! What tests of workflows and the simulation share: virtual clocks, logs to judge, and a witness of user code.
//!
//! Nothing here decides anything. A product is built without it (feature `testing`).

mod clock;
mod log;

pub use crate::run::witness::{Beginning, Witness, Work};
pub use clock::{START, SimClock, TrueTime};
pub use log::Log;
