//! Names that programs may choose: those that the engine does not reserve.

use goldseam_core::reserved::{Named, prefix};
use goldseam_core::{IdError, RunId, WorkflowName};

use super::start_options::StartOptions;

/// Refuses the name of a built-in workflow.
pub(crate) fn open_name(name: WorkflowName) -> Result<WorkflowName, IdError> {
    open(Named::Workflow, "workflow id", name.as_str())?;
    Ok(name)
}

/// Refuses the id of a run that the engine reserves.
pub(crate) fn open_run(run: &RunId) -> Result<(), IdError> {
    open(Named::Id, "run id", run.as_str())
}

/// Refuses a start with an id or a queue that the engine reserves. No node advances runs in its own queues.
pub(crate) fn open_start(run: &RunId, options: &StartOptions) -> Result<(), IdError> {
    open_run(run)?;
    options.queue_given().map_or(Ok(()), |queue| open(Named::Queue, "queue", queue))
}

fn open(what: Named, noun: &'static str, name: &str) -> Result<(), IdError> {
    let reason = match prefix(what, name) {
        None => return Ok(()),
        Some("goldseam-") => "names that begin with `goldseam-` are reserved",
        Some(_) => "names that begin with `goldseam.` are reserved",
    };
    Err(IdError { noun, text: name.to_owned(), reason })
}
