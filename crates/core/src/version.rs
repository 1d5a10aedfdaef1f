//! Versions of workflows: positive numbers, and one value for "undecided".

use crate::id::WorkflowName;

/// The version of a run that was started without one and not claimed yet: its first claim decides.
pub const UNDECIDED: u32 = 0;

/// Returns `order@2`, or `order` while the version is undecided.
pub fn label(workflow: &WorkflowName, version: u32) -> String {
    match version {
        UNDECIDED => workflow.to_string(),
        version => format!("{workflow}@{version}"),
    }
}

/// Returns the same for people: says that the version is undecided.
pub fn describe(workflow: &WorkflowName, version: u32) -> String {
    match version {
        UNDECIDED => format!("{workflow} (version not decided yet)"),
        version => format!("{workflow}@{version}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_undecided_version_is_never_shown_as_a_number() {
        let order = WorkflowName::new("order").unwrap();
        assert_eq!((label(&order, 2), describe(&order, 2)), ("order@2".to_owned(), "order@2".to_owned()));
        assert_eq!(label(&order, UNDECIDED), "order");
        assert_eq!(describe(&order, UNDECIDED), "order (version not decided yet)");
    }
}
