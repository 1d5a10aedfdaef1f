//! Crash points: places at which the process kills itself by SIGKILL, for tests.
//!
//! They exist only with the feature `crash-points`, and only if `GOLDSEAM_CRASH_POINT` names a point:
//! `PLACE[:WHAT]:before|after[:N]`. The place is a method of [`Store`](crate::Store), or one that the code names by
//! [`reach`]. `WHAT` is an event in an append, or the node state in a beat; `N` counts from 1 over the whole process.
//! For example, `append:step.completed:after:2` kills the process when the second append with a completed step has
//! returned. A call without effect, such as a lost append or a claim without tasks, does not count as `after`.

#[cfg(feature = "crash-points")]
mod point;
#[cfg(feature = "crash-points")]
mod store;

#[cfg(feature = "crash-points")]
pub use store::{CrashPointStore, wrapped};

/// Marks a place outside of store calls; a point there is `PLACE:before[:N]`.
#[inline]
pub fn reach(place: &str) {
    #[cfg(feature = "crash-points")]
    point::pass(place, &[], point::CallSide::Before);
    #[cfg(not(feature = "crash-points"))]
    let _ = place;
}
