//! Branches as the events of a log open them.

use super::{BranchOpened, Event, Recorded};
use crate::branch::{Branch, Branches};
use crate::time::Seq;

impl Branch {
    /// Returns the branch that the event at this position opened.
    pub fn of(opened: &BranchOpened, seq: Seq) -> Self {
        Self {
            id: opened.branch,
            parent: opened.parent,
            cutoff: opened.cutoff,
            opened: seq,
            why: Some(opened.why.clone()),
            input: opened.input.clone(),
        }
    }
}

impl Branches {
    /// Returns every branch that a log ever opened, including those before a `continue_as_new`.
    pub fn of(history: &[Recorded]) -> Self {
        let mut branches = Self::default();
        for recorded in history {
            if let Event::BranchOpened(opened) = &recorded.event {
                branches.open(Branch::of(opened, recorded.seq));
            }
        }
        branches
    }
}
