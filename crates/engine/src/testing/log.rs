//! A log as it is at the end, for whoever judges it.

use goldseam_core::branch::Branches;
use goldseam_core::codec::decode_all;
use goldseam_core::{Hash, Path, Recorded, RunId, Seq, Summary};
use goldseam_store::Record;

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
        Branches::of(&self.events)
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
