//! The branches of a run as a tree: where each was cut, and why.

use goldseam::unstable::core::Recorded;
use goldseam::unstable::core::branch::{Branch, Branches, Why};
use goldseam_api::view::describe;

use crate::color::{Colors, Hue};
use crate::text;

/// Draws the tree; empty for a run with only one branch.
pub(crate) fn tree(history: &[Recorded], branches: &Branches, colors: Colors) -> Vec<String> {
    let mut lines = Vec::new();
    if branches.iter().count() < 2 {
        return lines;
    }
    let active = branches.active().id;
    for root in branches.iter().filter(|branch| branch.parent.is_none()) {
        let mut open = vec![(0, root)];
        while let Some((depth, branch)) = open.pop() {
            let events = history.iter().filter(|recorded| recorded.branch == branch.id).count();
            let events = text::count(events as u64, "event");
            let name =
                colors.apply(if branch.id == active { Hue::Bold } else { Hue::Dim }, branch.id.to_string());
            let now = if branch.id == active { " ← now" } else { "" };
            lines.push(format!("  {}{name}  {}, {events}{now}", fork(depth, colors), cause(branch)));
            let children = branches.iter().filter(|other| other.parent == Some(branch.id));
            let mut children: Vec<_> = children.map(|child| (depth + 1, child)).collect();
            children.reverse();
            open.extend(children);
        }
    }
    lines
}

fn fork(depth: usize, colors: Colors) -> String {
    match depth {
        0 => String::new(),
        depth => format!("{}{} ", "   ".repeat(depth - 1), colors.apply(Hue::Warm, "└┼")),
    }
}

/// The cause of a branch without the evidence, which the seam shows.
fn brief(why: &Why) -> String {
    match why {
        Why::Recovery { rule, .. } => format!("rule {}", text::rule(rule)),
        why => describe::why(why),
    }
}

fn cause(branch: &Branch) -> String {
    match (&branch.why, branch.parent) {
        (None, _) => "start".to_owned(),
        (Some(why), None) => brief(why),
        (Some(why), Some(parent)) => {
            format!("cut from {parent} after event {}: {}", branch.cutoff, brief(why))
        }
    }
}
