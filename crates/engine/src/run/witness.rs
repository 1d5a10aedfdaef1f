//! Somebody who sees user code begin, outside the log.

use std::fmt::Debug;

use goldseam_core::decide::idempotency_key;
use goldseam_core::{Path, RunId};

use crate::run::live_run::LiveRun;

/// What begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// The body of a step.
    Step,
    /// The compensation of a step.
    Undo,
}

/// User code is about to be called.
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

/// Sees every beginning, whatever becomes of it.
pub trait Witness: Debug + Send + Sync + 'static {
    /// This begins now.
    fn begins(&self, beginning: Beginning<'_>);
}

impl LiveRun {
    /// Tells the witness, if there is one.
    pub(crate) fn begins(&self, path: &Path, key: &str, work: Work) {
        if let Some(witness) = &self.live_runs().witness {
            witness.begins(Beginning { run: &self.run, path, key, work });
        }
    }

    /// The same for the compensation of the step at `path`.
    pub(crate) fn begins_undo(&self, path: &Path) {
        let key = idempotency_key(&self.lock().state, path);
        self.begins(path, &key, Work::Undo);
    }
}
