//! Repeated results of a claim: a repeat changes nothing, and a different result is refused.

use super::{Task, TaskRefusal, TaskState};
use crate::error::Failure;
use crate::payload::Payload;

impl Task {
    /// Returns whether the claim with this fence failed and no later claim was made. A task that waits for its next
    /// attempt is due after its last change; a task that was released is due at once.
    fn was_failed_under(&self, fence: u64) -> bool {
        let waits = self.state == TaskState::Ready && self.run_at > self.changed_at;
        self.fence == fence && self.failure.is_some() && (waits || self.state == TaskState::Failed)
    }

    /// Returns whether the claim with this fence was released and no later claim was made.
    pub fn was_released_under(&self, fence: u64) -> bool {
        self.fence == fence && self.state == TaskState::Ready && !self.was_failed_under(fence)
    }

    /// Returns whether the claim with this fence already reported exactly this result. Refuses a different result, or
    /// a claim that has ended.
    pub(super) fn has_brought(
        &self,
        fence: u64,
        result: Result<&Payload, &Failure>,
    ) -> Result<bool, TaskRefusal> {
        let had = match self.state {
            TaskState::Completed if self.fence == fence => self.result.as_ref().map(Ok),
            _ if self.was_failed_under(fence) => self.failure.as_ref().map(Err),
            _ => return self.held(fence).map(|()| false),
        };
        let other = || TaskRefusal::OtherResult { task: self.id.clone(), state: self.state.as_str() };
        if had == Some(result) { Ok(true) } else { Err(other()) }
    }
}
