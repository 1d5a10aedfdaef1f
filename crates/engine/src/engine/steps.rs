//! Defaults for the steps of a workflow.

use goldseam_core::WorkflowName;

use super::Builder;
use crate::ledger::config::StepDefaults;

impl Builder {
    /// Sets the retry policy and the heartbeat timeout of steps of one workflow that state none.
    pub fn steps(mut self, workflow: &str, defaults: StepDefaults) -> Self {
        match WorkflowName::new(workflow) {
            Ok(workflow) => {
                self.changes.steps_of.insert(workflow, defaults);
            }
            Err(error) => self.refuse(error.into()),
        }
        self
    }
}
