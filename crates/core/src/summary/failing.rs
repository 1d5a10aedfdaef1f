//! Which step failed, and what a row records about a failure.

use super::{Summary, Trouble};
use crate::error::Failure;
use crate::path::Path;

impl Summary {
    /// Returns the trouble of a run that a failure ends or undoes.
    pub(super) fn trouble_of(&self, failure: &Failure) -> Trouble {
        Trouble::of(&self.run, self.failed_step.as_ref(), failure)
    }

    /// Records a failed attempt of a step.
    pub(super) fn failed_at(&mut self, path: &Path) {
        self.at_step(path);
        // A group fails because a step in it did.
        let within = |inner: &Path| {
            inner.as_str().strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('/'))
        };
        if !self.failed_step.as_ref().is_some_and(within) {
            self.failed_step = Some(path.clone());
        }
    }
}
