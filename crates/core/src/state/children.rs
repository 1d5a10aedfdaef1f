//! The children that a run has started.

use super::State;
use crate::id::RunId;

impl State {
    /// Children of branches that were left, which nobody will ever ask for again.
    pub fn stray_children(&self) -> Vec<RunId> {
        let lineage = self.branches.lineage(self.summary.branch);
        let strays = self.children.iter().filter(|(_, c)| !c.ended && !lineage.sees(c.branch, c.seq));
        strays.map(|(run, _)| run.clone()).collect()
    }

    /// Children that have not ended, as far as this log knows.
    pub fn open_children(&self) -> Vec<RunId> {
        self.children.iter().filter(|(_, child)| !child.ended).map(|(run, _)| run.clone()).collect()
    }
}
