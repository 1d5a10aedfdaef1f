//! The children of a run.

use super::{Mail, OpKind, State};
use crate::id::RunId;
use crate::time::Seq;

impl State {
    /// Returns the open children of branches that were left, whose results are never requested again. A detached
    /// child outlives its branch.
    pub fn stray_children(&self) -> Vec<RunId> {
        let lineage = self.branches.lineage(self.summary.branch);
        let is_stray =
            |child: &super::Child| !child.ended && !child.detached && !lineage.sees(child.branch, child.seq);
        self.children.iter().filter(|(_, child)| is_stray(child)).map(|(run, _)| run.clone()).collect()
    }

    /// Returns the children that have not ended, as far as this log records it, except detached ones.
    pub fn open_children(&self) -> Vec<RunId> {
        let is_open = |child: &super::Child| !child.ended && !child.detached;
        self.children.iter().filter(|(_, child)| is_open(child)).map(|(run, _)| run.clone()).collect()
    }

    /// Notes that a child completed for which this lineage has a compensation.
    pub(super) fn complete_child(&mut self, mail: &Mail, seq: Seq) {
        let Mail::Child { run, result: Ok(output) } = mail else { return };
        let Some(child) = self.children.get(run).filter(|child| child.undo) else { return };
        if let Some(op) = self.ops.get_mut(&child.path)
            && let OpKind::Wait(wait) = &mut op.kind
            && wait.child.as_ref() == Some(run)
            && wait.completed.is_none()
        {
            wait.completed = Some(output.clone());
            op.last = op.last.max(seq);
            self.undo.push(child.path.clone());
        }
    }

    /// Like [`Self::complete_child`], for a child that completed on a branch that was left and is requested again.
    pub(super) fn complete_again(&mut self, run: &RunId, seq: Seq) {
        let is_end = |mail: &&Mail| matches!(mail, Mail::Child { run: ended, .. } if ended == run);
        if let Some(mail) = self.unread.values().find(is_end).cloned() {
            if let Some(child) = self.children.get_mut(run) {
                child.ended = true;
            }
            self.complete_child(&mail, seq);
        }
    }
}
