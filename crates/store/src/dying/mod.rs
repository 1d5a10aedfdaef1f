//! Crash points: places at which a process that is told to dies by SIGKILL.
//!
//! Only with the feature `crash-points`, and only if `GOLDSEAM_CRASH_POINT` names a point:
//! `PLACE[:WHAT]:before|after[:N]`. The place is a method of [`Store`](crate::Store), or one that is named in code by
//! [`reach`]; `WHAT` is an event that an append must hold, or the state that a beat must tell; `N` counts from 1. So
//! `append:step.completed:after:2` dies when the second append with a completed step has returned. What did nothing,
//! a lost append or a claim without tasks, does not count as done. The count is of the whole process.

#[cfg(feature = "crash-points")]
mod point;
#[cfg(feature = "crash-points")]
mod store;

#[cfg(feature = "crash-points")]
pub use store::{DyingStore, wrapped};

/// A place that is no call of a store; a point there is `PLACE:before[:N]`.
#[inline]
pub fn reach(place: &str) {
    #[cfg(feature = "crash-points")]
    point::pass(place, &[], point::Moment::Before);
    #[cfg(not(feature = "crash-points"))]
    let _ = place;
}
