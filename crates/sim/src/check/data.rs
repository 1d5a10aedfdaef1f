//! The input and output of the checks.

use std::collections::BTreeMap;

use goldseam_core::{RunId, Seq, Status};
pub use goldseam_engine::testing::Log;
use goldseam_store::{RunFilter, RunOrder, Store, StoreError};

use crate::journal::JournalFacts;

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The number of the invariant, `I1` to `I26`.
    pub rule: &'static str,
    /// What violates it.
    pub what: String,
}

impl Violation {
    /// Creates a violation of this invariant.
    pub fn new(rule: &'static str, what: impl Into<String>) -> Self {
        Self { rule, what: what.into() }
    }
}

/// The input of the checks.
#[derive(Debug, Clone, Default)]
pub struct SimEvidence {
    /// The content of the journal.
    pub facts: JournalFacts,
    /// All logs at the end.
    pub logs: BTreeMap<RunId, Log>,
    /// Runs that did not end in time.
    pub unsettled: Vec<(RunId, Status)>,
    /// Number of writes while there was nothing to do.
    pub quiet_writes: u64,
}

impl SimEvidence {
    /// Reads every log and row of `store`.
    pub async fn read_logs(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        let filter = RunFilter { order: RunOrder::Oldest, limit: u32::MAX, ..RunFilter::default() };
        for row in store.runs(filter).await?.items {
            let run = row.summary.run.clone();
            let records = store.read(&run, Seq::ZERO, u32::MAX).await?;
            self.logs.insert(run, Log::of(records, Some(row.summary)));
        }
        Ok(())
    }
}
