//! A run's log as commands look at it: as documents, and branch by branch.

use goldseam::Seq;
use goldseam::core::branch::{Branch, Branches};
use goldseam::core::{BranchId, Event, Recorded};
use serde::Serialize;

use crate::fail::Fail;
use crate::when;

/// An event as a program reads it.
#[derive(Debug, Serialize)]
pub(crate) struct Shown<'a> {
    seq: Seq,
    at: String,
    at_ms: i64,
    branch: String,
    epoch: Option<Seq>,
    #[serde(flatten)]
    event: &'a Event,
}

impl<'a> Shown<'a> {
    /// The document of an event.
    pub(crate) fn of(recorded: &'a Recorded) -> Self {
        Self {
            seq: recorded.seq,
            at: when::iso(recorded.at),
            at_ms: recorded.at.0,
            branch: recorded.branch.to_string(),
            epoch: recorded.epoch,
            event: &recorded.event,
        }
    }
}

/// Every branch that the log ever opened.
pub(crate) fn branches(history: &[Recorded]) -> Branches {
    let mut branches = Branches::default();
    for recorded in history {
        if let Event::BranchOpened(opened) = &recorded.event {
            branches.open(Branch {
                id: opened.branch,
                parent: opened.parent,
                cutoff: opened.cutoff,
                opened: recorded.seq,
                why: Some(opened.why.clone()),
                input: opened.input.clone(),
            });
        }
    }
    branches
}

/// The branch that a person named.
pub(crate) fn branch(branches: &Branches, text: &str) -> Result<BranchId, Fail> {
    let all = || branches.iter().map(|branch| branch.id.to_string()).collect::<Vec<_>>().join(", ");
    let id: BranchId = text.parse().map_err(|error| Fail::usage(format!("{error}"), "as in --branch b2"))?;
    match branches.get(id) {
        Some(_) => Ok(id),
        None => Err(Fail::not_found(format!("the run has no branch {id}"), format!("it has: {}", all()))),
    }
}

/// What a branch sees, mail included.
pub(crate) fn seen_by<'a>(history: &'a [Recorded], branches: &Branches, id: BranchId) -> Vec<&'a Recorded> {
    let lineage = branches.lineage(id);
    history.iter().filter(|r| lineage.sees(r.branch, r.seq) || r.event.is_mail()).collect()
}
