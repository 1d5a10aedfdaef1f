//! What operators asked of a run and no worker has carried out yet.

use serde::{Deserialize, Serialize};

use super::Summary;
use crate::event::{JumpRequested, Request};
use crate::path::Path;
use crate::time::Millis;

/// When something was asked of a run, and by which operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Asked {
    /// When.
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
    /// When it was asked for.
    pub at: Millis,
    /// The operator, if the request named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why.
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
    /// A request was taken back: it is as if it had not been made, from here on.
    pub(super) fn withdraw(&mut self, what: Request) {
        match what {
            Request::Jump => {
                self.jump = None;
                self.compensating = false;
            }
            Request::Cancel => self.forget_cancel(),
        }
    }

    /// No request to cancel is pending.
    pub(crate) fn forget_cancel(&mut self) {
        self.cancel = None;
        self.cancel_asked = None;
    }

    /// Whether a request to cancel waits for a worker to carry it out.
    pub fn is_cancel_pending(&self) -> bool {
        self.cancel.is_some() && !self.status.is_terminal()
    }

    /// Whether this row says what the log does. Of one that an older release wrote, what that release did not know is
    /// not compared.
    pub fn agrees_with(&self, derived: &Self) -> bool {
        let unknown = self.bytes.is_none()
            || self.cancel_asked.is_none() && derived.cancel_asked.is_some()
            || self.jump.is_none() && derived.jump.is_some();
        if !unknown {
            return self == derived;
        }
        let mut known = derived.clone();
        known.bytes = self.bytes.and(known.bytes);
        known.cancel_asked = self.cancel_asked.as_ref().and(known.cancel_asked);
        known.jump = self.jump.as_ref().and(known.jump);
        *self == known
    }
}
