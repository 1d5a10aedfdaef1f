//! Names of workflows that programs may use.

use goldseam_core::reserved::{Named, prefix};
use goldseam_core::{IdError, WorkflowName};

/// Refuses the name of a built-in workflow.
pub(crate) fn open_name(name: WorkflowName) -> Result<WorkflowName, IdError> {
    match prefix(Named::Workflow, name.as_str()) {
        None => Ok(name),
        Some(_) => {
            let reason = "names that begin with `goldseam.` are reserved";
            Err(IdError { noun: "workflow id", text: name.as_str().to_owned(), reason })
        }
    }
}
