//! The branches of a run as a list.

use goldseam::unstable::core::Recorded;
use goldseam::unstable::core::branch::{Branch, Branches};

use super::describe;
use crate::doc::run::BranchDoc;

/// Lists every branch of a run, in the order of opening.
pub fn items(history: &[Recorded], branches: &Branches) -> Vec<BranchDoc> {
    let active = branches.active().id;
    let item = |branch: &Branch| BranchDoc {
        branch: branch.id.to_string(),
        parent: branch.parent.map(|parent| parent.to_string()),
        cutoff: branch.cutoff,
        opened: branch.opened,
        events: history.iter().filter(|recorded| recorded.branch == branch.id).count() as u64,
        active: branch.id == active,
        why: branch.why.as_ref().map_or_else(|| "start".to_owned(), describe::why),
    };
    branches.iter().map(item).collect()
}
