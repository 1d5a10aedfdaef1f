//! A run's log, branch by branch.

use goldseam::core::branch::{Branches, NotABranch};
use goldseam::core::{BranchId, Recorded};

use crate::problem::Problem;

/// The branch that a person named.
pub fn branch(branches: &Branches, text: &str) -> Result<BranchId, Problem> {
    let all = || branches.iter().map(|branch| branch.id.to_string()).collect::<Vec<_>>().join(", ");
    let id: BranchId = text.parse().map_err(|error| {
        let error: NotABranch = error;
        Problem::bad_request(error.to_string()).hint("as in --branch b2")
    })?;
    match branches.get(id) {
        Some(_) => Ok(id),
        None => {
            Err(Problem::not_found(format!("the run has no branch {id}")).hint(format!("it has: {}", all())))
        }
    }
}

/// What a branch sees, mail included.
pub fn seen_by<'a>(history: &'a [Recorded], branches: &Branches, id: BranchId) -> Vec<&'a Recorded> {
    let lineage = branches.lineage(id);
    history.iter().filter(|r| lineage.sees(r.branch, r.seq) || r.event.is_mail()).collect()
}
