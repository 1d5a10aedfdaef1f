//! Observation of the start of user code, independent of the log.

use std::fmt::Debug;

use goldseam_core::decide::idempotency_key;
use goldseam_core::{Path, RunId};

use crate::run::live_run::LiveRun;

/// The kind of user code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// The body of a step.
    Step,
    /// The compensation of a step.
    Undo,
}

/// User code that is about to be called.
#[derive(Debug, Clone, Copy)]
pub struct Beginning<'a> {
    /// The run.
    pub run: &'a RunId,
    /// The step.
    pub path: &'a Path,
    /// The step's idempotency key.
    pub key: &'a str,
    /// Its body, or its compensation.
    pub work: Work,
}

/// Observes every start of user code.
pub trait Witness: Debug + Send + Sync + 'static {
    /// Called before user code starts.
    fn begins(&self, beginning: Beginning<'_>);
}

impl LiveRun {
    /// Notifies the witness, if there is one.
    pub(crate) fn begins(&self, path: &Path, key: &str, work: Work) {
        if let Some(witness) = &self.live_runs().witness {
            witness.begins(Beginning { run: &self.run, path, key, work });
        }
    }

    /// Notifies the witness of the compensation of the step at `path`.
    pub(crate) fn begins_undo(&self, path: &Path) {
        let key = idempotency_key(&self.lock().state, path);
        self.begins(path, &key, Work::Undo);
    }
}
