//! The final log of a run, for checks.

use goldseam_core::branch::Branches;
use goldseam_core::codec::decode_all;
use goldseam_core::{Hash, Path, Recorded, RunId, Seq, Summary};
use goldseam_store::Record;

/// The final log of a run.
#[derive(Debug, Clone, Default)]
pub struct Log {
    /// The stored records.
    pub records: Vec<Record>,
    /// The decoded events, if decodable.
    pub events: Vec<Recorded>,
    /// Hash of the last event.
    pub head: Hash,
    /// Why it cannot be decoded.
    pub flaw: Option<String>,
    /// The cached row.
    pub row: Option<Summary>,
}

impl Log {
    /// Creates a log of these records and this row.
    pub fn of(records: Vec<Record>, row: Option<Summary>) -> Self {
        let texts = records.iter().map(|record| (record.seq, record.body.as_str()));
        let (events, head, flaw) = match decode_all(Seq::ZERO, Hash::ZERO, texts) {
            Ok((events, head)) => (events, head, None),
            Err(corrupt) => (Vec::new(), Hash::ZERO, Some(corrupt.to_string())),
        };
        Self { records, events, head, flaw, row }
    }

    /// All branches, including those before a `continue_as_new`.
    pub fn branches(&self) -> Branches {
        Branches::of(&self.events)
    }

    /// The events that the active branch sees, mail included.
    pub fn active(&self) -> Vec<&Recorded> {
        let branches = self.branches();
        let lineage = branches.lineage(branches.active().id);
        self.events.iter().filter(|r| lineage.sees(r.branch, r.seq) || r.event.is_mail()).collect()
    }

    /// The idempotency key of the step at `path` in the branch of `recorded`.
    pub fn key(&self, run: &RunId, recorded: &Recorded, path: &Path) -> String {
        let generation = self.branches().generation(recorded.branch);
        Hash::of_parts(&[run.as_str(), &generation.to_string(), path.as_str()]).to_string()
    }
}
