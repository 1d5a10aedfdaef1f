//! Heartbeats of claimants, and the states of their work that they report: `building`, `testing`.
//!
//! Every such state is watched like the first one: only a heartbeat protects the claim.

use super::{Task, TaskRefusal, TaskState};
use crate::audit::note;
use crate::id::WorkState;
use crate::payload::Payload;
use crate::time::Millis;

impl Task {
    /// Records a heartbeat of the claimant.
    pub fn beaten(mut self, fence: u64, now: Millis) -> Result<Self, TaskRefusal> {
        self.held(fence)?;
        self.heartbeat_at = Some(now);
        self.changed_at = now.max(self.changed_at);
        self.version += 1;
        Ok(self)
    }

    /// Records a heartbeat with progress details. They stay with the task until it is completed, for the next
    /// claimant.
    pub fn beaten_with(self, fence: u64, details: Payload, now: Millis) -> Result<Self, TaskRefusal> {
        Ok(self.beaten(fence, now)?.with_details(details, now))
    }

    /// Replaces the progress details.
    #[must_use]
    pub fn with_details(mut self, details: Payload, now: Millis) -> Self {
        self.forget_details();
        note(&mut self.audit, now, "heartbeat");
        if let Some(entry) = self.audit.last_mut() {
            entry.details = Some(details);
        }
        self
    }

    /// Returns the details of the last heartbeat that had some.
    pub fn last_heartbeat(&self) -> Option<&Payload> {
        self.audit.iter().rev().find_map(|entry| entry.details.as_ref())
    }

    pub(super) fn forget_details(&mut self) {
        self.audit.retain(|entry| entry.details.is_none());
    }

    /// Records a heartbeat of a claimant whose work is in this state. Only a change of the state is added to the audit.
    pub fn beaten_in(self, fence: u64, state: &WorkState, now: Millis) -> Result<Self, TaskRefusal> {
        let mut beaten = self.beaten(fence, now)?;
        if beaten.work_state() != Some(state) {
            note(&mut beaten.audit, now, format!("state {state}"));
            if let Some(entry) = beaten.audit.last_mut() {
                entry.state = Some(state.clone());
            }
        }
        Ok(beaten)
    }

    /// Returns the state of its work that the present claimant reported last.
    pub fn work_state(&self) -> Option<&WorkState> {
        let began = self.started_at.filter(|_| self.state == TaskState::Claimed)?;
        let mut of_claim = self.audit.iter().rev().filter(|entry| entry.at >= began);
        of_claim.find_map(|entry| entry.state.as_ref())
    }
}
