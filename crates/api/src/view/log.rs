//! A run's log, branch by branch.

use goldseam::core::branch::{Branches, NotABranch};
use goldseam::core::codec::encode;
use goldseam::core::{BranchId, Recorded};

use crate::problem::Problem;

/// Bytes of events in one answer, but for the last.
const ANSWER_BYTES: usize = 1024 * 1024;

/// The branch that a person named.
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

/// As many events as go into one answer, one at least, and whether there were more.
pub fn that_fits(events: impl Iterator<Item = Recorded>) -> (Vec<Recorded>, bool) {
    let (mut kept, mut bytes) = (Vec::new(), 0);
    for recorded in events {
        if bytes >= ANSWER_BYTES {
            return (kept, true);
        }
        bytes += encode(&recorded).len();
        kept.push(recorded);
    }
    (kept, false)
}

/// What a branch sees, mail included.
pub fn seen_by<'a>(history: &'a [Recorded], branches: &Branches, id: BranchId) -> Vec<&'a Recorded> {
    let lineage = branches.lineage(id);
    history.iter().filter(|r| lineage.sees(r.branch, r.seq) || r.event.is_mail()).collect()
}
