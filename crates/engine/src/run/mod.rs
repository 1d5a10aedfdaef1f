//! The execution of one run: the live run, the driver of its code, attempts, compensations, and the context that the
//! code holds.

pub(crate) mod append;
pub(crate) mod attempt;
pub(crate) mod compensation;
pub mod context;
pub(crate) mod driver;
mod fleet;
pub(crate) mod live_run;
pub(crate) mod live_runs;
pub(crate) mod registry;
pub(crate) mod shapes;
pub(crate) mod spans;
#[cfg(feature = "testing")]
pub(crate) mod witness;
pub mod workflow_ref;
