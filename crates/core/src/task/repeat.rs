//! What a claim has brought before: a repeat changes nothing, and another result is refused.

use super::{Task, TaskRefusal, TaskState};
use crate::error::Failure;
use crate::payload::Payload;

impl Task {
    /// Whether the claim with this fence failed, and no later claim was made. A task that waits for its next attempt is due
    /// after its last change; one that was given back is due at once.
    fn was_failed_under(&self, fence: u64) -> bool {
        let waits = self.state == TaskState::Ready && self.run_at > self.changed_at;
        self.fence == fence && self.failure.is_some() && (waits || self.state == TaskState::Failed)
    }

    /// Whether the claim with this fence was given back, and no later claim was made.
    pub fn was_released_under(&self, fence: u64) -> bool {
        self.fence == fence && self.state == TaskState::Ready && !self.was_failed_under(fence)
    }

    /// Whether the claim with this fence brought exactly this before. Refused if it brought something else, or is over.
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
