//! Branches: the timelines of a run. They fork, never merge, and are never deleted.
//!
//! Positions are numbered across the whole run, so a branch is its parent and a cutoff. Its *lineage* is the parent's
//! lineage up to the cutoff, then its own events.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::path::Path;
use crate::payload::Payload;
use crate::time::Seq;

/// The number of a branch of a run, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct BranchId(pub u32);

impl BranchId {
    /// The branch that every run begins on.
    pub const ROOT: Self = Self(1);
}

impl fmt::Display for BranchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("b{}", self.0))
    }
}

/// The error for a text that does not name a branch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a branch: write b1, b2, …")]
pub struct NotABranch(String);

impl FromStr for BranchId {
    type Err = NotABranch;

    fn from_str(text: &str) -> Result<Self, NotABranch> {
        let number = text.strip_prefix('b').and_then(|n| n.parse().ok()).filter(|n| *n > 0);
        number.map(Self).ok_or_else(|| NotABranch(text.to_owned()))
    }
}

/// Why a branch was opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Why {
    /// A rule discarded untrusted events.
    Recovery {
        /// The rule's code.
        rule: String,
        /// What it observed.
        evidence: String,
    },
    /// An operator went back to a step.
    Jump {
        /// The step to run again.
        to: Path,
    },
    /// An operator retried a failed run from its failed step.
    Retry {
        /// The step that failed, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<Path>,
    },
    /// The workflow restarted with new input; the branch sees nothing of its parent.
    Continue,
    /// An operator discarded everything after the last stable event.
    Reset,
    /// An operator reverted a seam.
    Undo {
        /// The branch that the seam opened.
        seam: BranchId,
    },
}

impl Why {
    /// Returns whether steps on such a branch get new idempotency keys: compensated steps must run again.
    pub fn renews_keys(&self) -> bool {
        match self {
            Self::Recovery { .. } | Self::Reset | Self::Undo { .. } => false,
            Self::Jump { .. } | Self::Retry { .. } | Self::Continue => true,
        }
    }
}

/// A timeline of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// Number of the branch.
    pub id: BranchId,
    /// The branch that contains the cutoff event; none for the root and after `continue_as_new`.
    pub parent: Option<BranchId>,
    /// The last position of the parent that this branch sees.
    pub cutoff: Seq,
    /// Position at which it was opened.
    pub opened: Seq,
    /// Why it was opened; none for the root.
    pub why: Option<Why>,
    /// Input that replaces the run's input from here on.
    pub input: Option<Payload>,
}

impl Branch {
    /// Returns the first branch of a run.
    pub fn root() -> Self {
        Self { id: BranchId::ROOT, parent: None, cutoff: Seq::ZERO, opened: Seq(1), why: None, input: None }
    }
}

/// All branches of a run, in order of opening. The last one opened is active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branches(Vec<Branch>);

impl Default for Branches {
    fn default() -> Self {
        Self(vec![Branch::root()])
    }
}

impl Branches {
    /// Adds a branch.
    pub fn open(&mut self, branch: Branch) {
        if self.get(branch.id).is_none() {
            self.0.push(branch);
        }
    }

    /// Returns the branches of a history that begins at `continue_as_new`, which knows only that branch.
    pub fn only(branch: Branch) -> Self {
        Self(vec![branch])
    }

    /// Returns the branch with this number.
    pub fn get(&self, id: BranchId) -> Option<&Branch> {
        self.0.iter().find(|branch| branch.id == id)
    }

    /// Returns the branch that new events belong to.
    pub fn active(&self) -> &Branch {
        &self.0[self.0.len() - 1]
    }

    /// Iterates over all branches, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Branch> {
        self.0.iter()
    }

    /// Returns the number of the next branch.
    pub fn next_id(&self) -> BranchId {
        BranchId(self.0.iter().map(|branch| branch.id.0).max().unwrap_or(0).saturating_add(1))
    }

    /// Returns what branch `id` sees: each branch of its chain, up to a last position.
    pub fn lineage(&self, id: BranchId) -> Lineage {
        let mut spans = Vec::new();
        let mut next = Some(id);
        let mut until = Seq(u64::MAX);
        while let Some(branch) = next.and_then(|id| self.get(id)) {
            spans.push((branch.id, until));
            until = until.min(branch.cutoff);
            // A parent is older than its child; anything else is damage and ends the search.
            next = branch.parent.filter(|parent| *parent < branch.id);
        }
        Lineage(spans)
    }

    /// Returns the branch that gives steps on `id` their idempotency keys: the latest one opened up to `id` that
    /// renews them, on its lineage or not. A recovery with a cutoff before a jump must not restore the keys that the
    /// jump's compensations used.
    pub fn generation(&self, id: BranchId) -> BranchId {
        let renews = |branch: &&Branch| branch.why.as_ref().is_none_or(Why::renews_keys);
        let earlier = self.0.iter().filter(|branch| branch.id <= id);
        earlier.filter(renews).map(|branch| branch.id).max().unwrap_or(BranchId::ROOT)
    }
}

/// The positions of each branch that a branch sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineage(Vec<(BranchId, Seq)>);

impl Lineage {
    /// Returns whether the event of `branch` at `seq` is part of it.
    pub fn sees(&self, branch: BranchId, seq: Seq) -> bool {
        self.0.iter().any(|(id, until)| *id == branch && seq <= *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branch(id: u32, parent: u32, cutoff: u64, why: Why) -> Branch {
        Branch {
            id: BranchId(id),
            parent: Some(BranchId(parent)),
            cutoff: Seq(cutoff),
            opened: Seq(cutoff + 10),
            why: Some(why),
            input: None,
        }
    }

    fn jump() -> Why {
        Why::Jump { to: Path::root() }
    }

    #[test]
    fn a_lineage_is_the_parents_up_to_the_cutoff_then_its_own() {
        let mut branches = Branches::default();
        branches.open(branch(2, 1, 10, jump()));
        branches.open(branch(3, 2, 30, jump()));
        branches.open(branch(4, 1, 5, jump()));
        let three = branches.lineage(BranchId(3));
        assert!(three.sees(BranchId(1), Seq(10)) && !three.sees(BranchId(1), Seq(11)));
        assert!(three.sees(BranchId(2), Seq(30)) && !three.sees(BranchId(2), Seq(31)));
        assert!(three.sees(BranchId(3), Seq(1000)));
        let four = branches.lineage(BranchId(4));
        assert!(four.sees(BranchId(1), Seq(5)) && !four.sees(BranchId(1), Seq(6)));
        assert!(!four.sees(BranchId(2), Seq(12)));
    }

    #[test]
    fn an_earlier_cutoff_bounds_every_ancestor() {
        let mut branches = Branches::default();
        branches.open(branch(2, 1, 50, jump()));
        branches.open(branch(3, 2, 20, jump()));
        assert!(!branches.lineage(BranchId(3)).sees(BranchId(1), Seq(21)));
    }

    #[test]
    fn keys_are_kept_by_recovery_and_renewed_by_a_jump() {
        let mut branches = Branches::default();
        let recovery = Why::Recovery { rule: "A1".into(), evidence: String::new() };
        branches.open(branch(2, 1, 10, recovery.clone()));
        branches.open(branch(3, 2, 12, jump()));
        branches.open(branch(4, 3, 20, recovery));
        assert_eq!(branches.generation(BranchId(2)), BranchId(1));
        assert_eq!(branches.generation(BranchId(4)), BranchId(3));
    }

    #[test]
    fn branch_names_parse() {
        assert_eq!("b12".parse(), Ok(BranchId(12)));
        assert!("b0".parse::<BranchId>().is_err() && "12".parse::<BranchId>().is_err());
        assert_eq!(format!("{:>4}", BranchId(7)), "  b7");
    }

    #[test]
    fn only_jumps_retries_and_continue_renew_keys() {
        let recovery = Why::Recovery { rule: String::new(), evidence: String::new() };
        let kept = [recovery, Why::Reset, Why::Undo { seam: BranchId(2) }];
        let renewed = [jump(), Why::Retry { from: None }, Why::Continue];
        assert!(!kept.iter().any(Why::renews_keys) && renewed.iter().all(Why::renews_keys));
    }

    #[test]
    fn a_branch_with_a_later_parent_sees_only_itself() {
        let mut branches = Branches::default();
        branches.open(branch(2, 3, 10, jump()));
        branches.open(branch(3, 3, 10, jump()));
        assert!(!branches.lineage(BranchId(2)).sees(BranchId(3), Seq(5)));
        assert!(branches.lineage(BranchId(3)).sees(BranchId(3), Seq(50)));
    }

    #[test]
    fn branches_of_a_log_lists_each_branch_once() {
        use crate::command::{Command, Owned};
        use crate::testing::{Log, json, jump_to};
        let log = Log::running().completed("a").act(Command::Jump(jump_to("j1", "a"))).claimed("n-1");
        let log = log.owned(vec![Owned::ContinueAsNew(json("1"))]);
        let all = Branches::of(&log.records);
        assert_eq!(all.iter().map(|branch| branch.id.0).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!((all.active().id, all.next_id()), (BranchId(3), BranchId(4)));
        let second = all.get(BranchId(2)).unwrap();
        assert_eq!((second.parent, second.cutoff, second.opened), (Some(BranchId(1)), Seq(3), Seq(6)));
        assert_eq!(
            log.state().branches.iter().count(),
            1,
            "the state keeps only the branch of the last continue_as_new"
        );
        let mut again = all.clone();
        again.open(second.clone());
        assert_eq!(again, all);
    }
}
