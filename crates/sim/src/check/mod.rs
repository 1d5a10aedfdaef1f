//! The invariants, each a function over the full logs and the journal.
//!
//! Each check has a test with a hand-made bad history that it must catch.

mod data;
mod ending;
mod kin;
mod log;
mod mail;
mod operations;
mod outside;
mod pace;
mod requests;
mod run;
mod versions;

#[cfg(test)]
mod tests;

use goldseam_core::{Millis, RunId, Status};

pub use data::{Log, SimEvidence, Violation};
pub use ending::{i21_endings, i24_deadlines};
pub use kin::i26_kin;
pub use log::{
    i02_no_lost_event, i03_order, i05_fencing, i06_single_terminal, i07_status_is_fold, i08_replay,
};
pub use mail::{i11_signal, i12_timer, i13_saga, i14_idempotent_start, i16_read_your_ack};
pub use operations::i23_operations;
pub use outside::{i05_one_holder, i17_stream};
pub use pace::{i15_pace, longest_gap};
pub use requests::i25_requests;
pub use run::{
    i01_no_lost_workflow, i04_never_again, i04_one_execution, i09_no_endless_loop, i09_sweep_idempotent,
    i10_bounded_recovery, i15_liveness, i19_records_are_whole, late_effects,
};

pub use versions::i22_versions;

/// Runs all checks, in order.
pub fn check_all(evidence: &SimEvidence) -> Vec<Violation> {
    let checks: [fn(&SimEvidence) -> Vec<Violation>; 28] = [
        i01_no_lost_workflow,
        i02_no_lost_event,
        i03_order,
        i04_never_again,
        i04_one_execution,
        i05_fencing,
        i05_one_holder,
        i06_single_terminal,
        i07_status_is_fold,
        i08_replay,
        i09_sweep_idempotent,
        i09_no_endless_loop,
        i10_bounded_recovery,
        i11_signal,
        i12_timer,
        i13_saga,
        i14_idempotent_start,
        i15_liveness,
        i15_pace,
        i16_read_your_ack,
        i17_stream,
        i19_records_are_whole,
        i21_endings,
        i22_versions,
        i23_operations,
        i24_deadlines,
        i25_requests,
        i26_kin,
    ];
    checks.iter().flat_map(|check| check(evidence)).collect()
}

/// A run that was left in this status.
pub type Left = (RunId, Status);

/// Maximum lead in milliseconds of a node's estimate of the store's time, for the check of timers. `StoreTime` assumes
/// that a reply was made at half of its round trip, so it errs by at most that half. It accepts the first reply after
/// any delay, here at most 3 s, and later ones up to 1 s; between two replies a clock drifts by at most 10 %.
pub const SKEW_MAX: i64 = 1_500;

fn before(left: Millis, right: Millis) -> i64 {
    right.0 - left.0
}
