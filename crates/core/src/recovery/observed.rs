//! Diagnoses of what a reader of the store observes, without a state of the run.

use super::{Code, Diagnosis, Remedy};
use crate::corrupt::Corrupt;
use crate::id::RunId;
use crate::next_step::{Hint, NextStep};

/// Returns the diagnosis of a run whose log cannot be read.
pub fn damaged(what: &Corrupt) -> Diagnosis {
    let reason = what.to_string();
    if what.is_newer {
        let hint =
            "start a node of the release that wrote it, or upgrade this one; the run waits unchanged".into();
        return Diagnosis { rule: Code::K2, evidence: reason, remedy: Remedy::Tell { hint } };
    }
    Diagnosis { rule: Code::K1, evidence: reason.clone(), remedy: Remedy::Park { reason } }
}

/// Returns the diagnosis of a run whose log cannot be read, and which has ended or is parked: nothing is left to park.
pub fn damaged_at_rest(run: &RunId, what: &Corrupt) -> Diagnosis {
    let found = damaged(what);
    if what.is_newer {
        return found;
    }
    let hint = Hint::from(format!("restore the log of {run} from a backup; "))
        .step(NextStep::history(run))
        .text(" shows the readable events");
    Diagnosis { remedy: Remedy::Tell { hint }, ..found }
}

/// Returns the diagnosis of a run whose examination met an unreadable record.
pub fn unreadable(evidence: String) -> Diagnosis {
    let hint = Hint::from("read the whole store with: ").step(NextStep::StoreCheck);
    Diagnosis { rule: Code::U1, evidence, remedy: Remedy::Tell { hint } }
}

/// Returns the diagnosis of a run whose cached row is missing or contradicts its log.
pub fn wrong_row(evidence: String) -> Diagnosis {
    let hint = "rewrite the row from the log".into();
    Diagnosis { rule: Code::C1, evidence, remedy: Remedy::Tell { hint } }
}
