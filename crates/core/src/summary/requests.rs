//! Requests of operators that no worker has carried out yet.

use serde::{Deserialize, Serialize};

use super::{Summary, Trouble};
use crate::event::{CancelRequested, JumpRequested, Request};
use crate::path::Path;
use crate::time::Millis;

/// When a request was made, and by which operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Asked {
    /// When it was made.
    pub at: Millis,
    /// The operator, if the request named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// A jump that waits for its compensations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PendingJump {
    /// The step to run again.
    pub to: Path,
    /// When it was requested.
    pub at: Millis,
    /// The operator, if the request named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

impl PendingJump {
    pub(super) fn of(jump: &JumpRequested, at: Millis) -> Self {
        let JumpRequested { note, to, .. } = jump.clone();
        Self { to, at, by: note.by, reason: note.reason }
    }
}

impl Summary {
    /// Withdraws a request.
    pub(super) fn withdraw(&mut self, what: Request) {
        match what {
            Request::Jump => {
                self.jump = None;
                self.compensating = false;
            }
            Request::Cancel => self.forget_cancel(),
        }
    }

    /// Clears a request to cancel.
    pub(crate) fn forget_cancel(&mut self) {
        self.cancel = None;
        self.cancel_asked = None;
        self.timed_out = false;
    }

    /// Records a request to cancel. A paused or parked run must run once more to end.
    pub(super) fn cancel_requested(&mut self, request: &CancelRequested, at: Millis) {
        self.cancel = Some(request.reason.clone());
        self.cancel_asked = Some(Asked { at, by: request.by.clone() });
        self.timed_out |= request.deadline.is_some();
        self.paused = false;
        self.parked = false;
    }

    /// Returns whether a request to cancel waits for a worker.
    pub fn is_cancel_pending(&self) -> bool {
        self.cancel.is_some() && !self.status.is_terminal()
    }

    /// Returns whether this row agrees with the log. Facts that an older release did not record are not compared.
    pub fn agrees_with(&self, derived: &Self) -> bool {
        let unknown = self.bytes.is_none()
            || self.cancel_asked.is_none() && derived.cancel_asked.is_some()
            || self.jump.is_none() && derived.jump.is_some()
            || self.failed_step.is_none() && derived.failed_step.is_some()
            || self.trouble != derived.trouble;
        if !unknown {
            return self == derived;
        }
        let mut known = derived.clone();
        known.bytes = self.bytes.and(known.bytes);
        known.cancel_asked = self.cancel_asked.as_ref().and(known.cancel_asked);
        known.jump = self.jump.as_ref().and(known.jump);
        known.failed_step = self.failed_step.as_ref().and(known.failed_step);
        let plain = |trouble: &Option<Trouble>| trouble.as_ref().map(Trouble::without_fingerprint);
        if plain(&self.trouble) == plain(&known.trouble) {
            known.trouble.clone_from(&self.trouble);
        }
        *self == known
    }
}
