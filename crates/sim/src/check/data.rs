//! What the checks look at.

use std::collections::BTreeMap;

use goldseam_core::{RunId, Seq, Status};
pub use goldseam_engine::testing::Log;
use goldseam_store::{RunFilter, RunOrder, Store, StoreError};

use crate::book::Facts;

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Its number, `I1` to `I22`.
    pub rule: &'static str,
    /// What was found.
    pub what: String,
}

impl Violation {
    /// This invariant does not hold, for this reason.
    pub fn new(rule: &'static str, what: impl Into<String>) -> Self {
        Self { rule, what: what.into() }
    }
}

/// Everything that the checks look at.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// What was really done.
    pub facts: Facts,
    /// All logs at the end.
    pub logs: BTreeMap<RunId, Log>,
    /// Runs that had not ended when they should have.
    pub unsettled: Vec<(RunId, Status)>,
    /// Writes while there was nothing to do.
    pub quiet_writes: u64,
}

impl Evidence {
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
