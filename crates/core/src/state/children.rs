//! The children of a run.

use super::State;
use crate::id::RunId;

impl State {
    /// Returns the open children of branches that were left, whose results are never requested again.
    pub fn stray_children(&self) -> Vec<RunId> {
        let lineage = self.branches.lineage(self.summary.branch);
        let strays = self.children.iter().filter(|(_, c)| !c.ended && !lineage.sees(c.branch, c.seq));
        strays.map(|(run, _)| run.clone()).collect()
    }

    /// Returns the children that have not ended, as far as this log records it.
    pub fn open_children(&self) -> Vec<RunId> {
        self.children.iter().filter(|(_, child)| !child.ended).map(|(run, _)| run.clone()).collect()
    }
}
