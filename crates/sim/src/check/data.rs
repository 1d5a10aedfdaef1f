//! What the checks look at.

use std::collections::BTreeMap;

use goldseam_core::branch::Branches;
use goldseam_core::codec::decode_all;
use goldseam_core::{Branch, Event, Hash, Path, Recorded, RunId, Seq, Status, Summary};
use goldseam_store::{Record, RunFilter, RunOrder, Store, StoreError};

use crate::book::Facts;

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Its number, `I1` to `I19`.
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

/// One run's log as it is at the end.
#[derive(Debug, Clone, Default)]
pub struct Log {
    /// As stored.
    pub records: Vec<Record>,
    /// Decoded, if that is possible.
    pub events: Vec<Recorded>,
    /// Fingerprint of the last event.
    pub head: Hash,
    /// Why it cannot be decoded.
    pub flaw: Option<String>,
    /// The cached row.
    pub row: Option<Summary>,
}

impl Log {
    /// A log of these records and this row.
    pub fn of(records: Vec<Record>, row: Option<Summary>) -> Self {
        let texts = records.iter().map(|record| (record.seq, record.body.as_str()));
        let (events, head, flaw) = match decode_all(Seq::ZERO, Hash::ZERO, texts) {
            Ok((events, head)) => (events, head, None),
            Err(corrupt) => (Vec::new(), Hash::ZERO, Some(corrupt.to_string())),
        };
        Self { records, events, head, flaw, row }
    }

    /// Every branch that was ever opened, also those before a `continue_as_new`.
    pub fn branches(&self) -> Branches {
        let mut branches = Branches::default();
        for recorded in &self.events {
            if let Event::BranchOpened(opened) = &recorded.event {
                branches.open(Branch {
                    id: opened.branch,
                    parent: opened.parent,
                    cutoff: opened.cutoff,
                    opened: recorded.seq,
                    why: Some(opened.why.clone()),
                    input: opened.input.clone(),
                });
            }
        }
        branches
    }

    /// The events that the active branch sees, mail included.
    pub fn active(&self) -> Vec<&Recorded> {
        let branches = self.branches();
        let lineage = branches.lineage(branches.active().id);
        self.events.iter().filter(|r| lineage.sees(r.branch, r.seq) || r.event.is_mail()).collect()
    }

    /// The key under which the step at `path` of `branch` is known outside.
    pub fn key(&self, run: &RunId, recorded: &Recorded, path: &Path) -> String {
        let generation = self.branches().generation(recorded.branch);
        Hash::of_parts(&[run.as_str(), &generation.to_string(), path.as_str()]).to_string()
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
