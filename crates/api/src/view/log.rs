//! Selections of a run's log.

use goldseam::unstable::core::branch::{Branches, NotABranch};
use goldseam::unstable::core::codec::encode;
use goldseam::unstable::core::{BranchId, Recorded};

use crate::problem::Problem;

/// Size of the events in one response; the last event may exceed it.
const RESPONSE_BYTES: usize = 1024 * 1024;

/// Parses a branch name and finds the branch.
pub fn branch(branches: &Branches, text: &str) -> Result<BranchId, Problem> {
    let all = || branches.iter().map(|branch| branch.id.to_string()).collect::<Vec<_>>().join(", ");
    let id: BranchId = text.parse().map_err(|error| {
        let error: NotABranch = error;
        Problem::bad_request(error.to_string())
            .hint("branches are called b1, b2 and so on: goldseam branches RUN lists them")
    })?;
    match branches.get(id) {
        Some(_) => Ok(id),
        None => {
            Err(Problem::not_found(format!("the run has no branch {id}")).hint(format!("it has: {}", all())))
        }
    }
}

/// Returns as many events as fit into one response, at least one, and whether there are more.
pub fn that_fits(events: impl Iterator<Item = Recorded>) -> (Vec<Recorded>, bool) {
    let mut kept = Vec::new();
    let mut bytes = 0;
    for recorded in events {
        if bytes >= RESPONSE_BYTES {
            return (kept, true);
        }
        bytes += encode(&recorded).len();
        kept.push(recorded);
    }
    (kept, false)
}

/// Returns the events that a branch sees, including mail.
pub fn seen_by<'a>(history: &'a [Recorded], branches: &Branches, id: BranchId) -> Vec<&'a Recorded> {
    let lineage = branches.lineage(id);
    history.iter().filter(|r| lineage.sees(r.branch, r.seq) || r.event.is_mail()).collect()
}
