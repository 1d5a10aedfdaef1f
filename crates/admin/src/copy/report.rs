//! The report of a copy: numbers and findings, bounded in size.

use std::fmt;
use std::time::Duration;

use goldseam_core::{Hash, LockName, RunId, TaskId};
use goldseam_store::RecordKind;
use serde::{Serialize, Serializer};

use super::survey::Print;
use goldseam_engine::ledger::error::EngineError;

/// Maximum number of findings kept; the others are counted.
const FINDINGS_MAX: usize = 1_000;

/// The stage of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyStage {
    /// Counting the records.
    Counting,
    /// Copying logs.
    Logs,
    /// Copying tasks.
    Tasks,
    /// Copying locks.
    Locks,
    /// Comparing both stores.
    Verifying,
}

/// The progress of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyProgress {
    /// The stage.
    pub stage: CopyStage,
    /// Records done in this stage.
    pub done: u64,
    /// Records in this stage.
    pub total: u64,
}

/// Numbers of one kind of record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct CopyCounts {
    /// Copied, or to be copied by a dry run.
    pub copied: u64,
    /// Already at the destination.
    pub there: u64,
    /// Missing at the destination.
    pub left_behind: u64,
    /// Found equal at the destination in the final comparison.
    pub verified: u64,
}

impl CopyCounts {
    /// Number of records in the source.
    pub fn all(&self) -> u64 {
        self.copied + self.there + self.left_behind
    }
}

/// What happened to one run, task or lock.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RecordFate {
    /// Copied, or to be copied by a dry run.
    Copied,
    /// Already at the destination.
    There,
    /// Missing at the destination.
    LeftBehind(CopyFinding),
}

/// A finding for the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CopyFinding {
    /// A code with a page.
    pub code: &'static str,
    /// `run`, `task`, `lock` or `store`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// The description.
    pub what: String,
}

/// The record that a finding is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordName<'a> {
    kind: &'static str,
    name: &'a str,
}

impl<'a> RecordName<'a> {
    pub(super) fn run(run: &'a RunId) -> Self {
        Self { kind: "run", name: run.as_str() }
    }

    pub(super) fn task(task: &'a TaskId) -> Self {
        Self { kind: "task", name: task.as_str() }
    }

    pub(super) fn lock(lock: &'a LockName) -> Self {
        Self { kind: "lock", name: lock.as_str() }
    }
}

impl CopyFinding {
    pub(super) fn new(code: &'static str, subject: RecordName<'_>, what: impl Into<String>) -> Self {
        Self { code, kind: subject.kind, name: subject.name.to_owned(), what: what.into() }
    }

    pub(super) fn of_record(kind: RecordKind, key: &str, reason: &str) -> Self {
        let kind = match kind {
            RecordKind::Task => "task",
            RecordKind::Lock => "lock",
            _ => "record",
        };
        Self::new("U1", RecordName { kind, name: key }, reason)
    }

    pub(super) fn of_store(name: &str, error: &EngineError) -> Self {
        Self::new(error.code(), RecordName { kind: "store", name }, error.to_string())
    }
}

/// The fingerprint of all logs of a store, independent of their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Digest {
    /// Number of runs.
    pub runs: u64,
    /// Number of events.
    pub events: u64,
    sum: u128,
}

impl Digest {
    pub(super) fn add(&mut self, run: &RunId, print: Print) {
        let Hash(bytes) = print.of_run(run);
        self.runs += 1;
        self.events += print.end.0;
        self.sum = self.sum.wrapping_add(u128::from_be_bytes(bytes));
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.sum)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The digests of both stores, over the runs of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Digests {
    /// Of the source.
    pub from: Digest,
    /// Of the destination.
    pub to: Digest,
}

/// The report of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct CopyReport {
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Why a copy would be refused now; only for a dry run.
    pub refused: Option<CopyFinding>,
    /// Runs.
    pub runs: CopyCounts,
    /// Events.
    pub events: CopyCounts,
    /// Tasks.
    pub tasks: CopyCounts,
    /// Locks.
    pub locks: CopyCounts,
    /// Active runs, which continue at the destination.
    pub in_flight: u64,
    /// Damaged logs, copied unchanged.
    pub damaged: u64,
    /// Findings for the operator.
    pub findings: Vec<CopyFinding>,
    /// Number of findings that are not listed.
    pub findings_more: u64,
    /// The digests, after the final comparison.
    pub digests: Option<Digests>,
    /// Whether the source is closed and the destination open.
    pub finished: bool,
    /// How long it took.
    pub took_ms: u64,
    /// Tasks that were written with the last events of their runs.
    #[serde(skip)]
    pub(super) brought_along: u64,
}

impl CopyReport {
    /// Whether the final comparison found everything of the source at the destination.
    pub fn is_verified(&self) -> bool {
        let all = |counts: &CopyCounts| counts.verified == counts.all();
        let same = self.digests.is_some_and(|digests| digests.from == digests.to);
        self.finished && same && [&self.runs, &self.events, &self.tasks, &self.locks].into_iter().all(all)
    }

    /// Number of records left behind.
    pub fn left_behind(&self) -> u64 {
        self.runs.left_behind + self.tasks.left_behind + self.locks.left_behind
    }

    /// Whether the final comparison found everything except records with a finding.
    pub(super) fn may_be_handed_over(&self) -> bool {
        let settled = |counts: &CopyCounts| counts.verified + counts.left_behind >= counts.all();
        [&self.runs, &self.tasks, &self.locks].into_iter().all(settled)
    }

    pub(super) fn find(&mut self, finding: CopyFinding) {
        match self.findings.len() < FINDINGS_MAX {
            true => self.findings.push(finding),
            false => self.findings_more += 1,
        }
    }

    /// Whether the record has a finding.
    pub(super) fn has_finding(&self, subject: RecordName<'_>) -> bool {
        self.findings.iter().any(|found| found.kind == subject.kind && found.name == subject.name)
    }

    /// Sets the duration, and sorts the findings so that their order does not depend on races.
    pub(super) fn close(&mut self, span: Duration) {
        let rank =
            |finding: &CopyFinding| ["run", "task", "lock"].iter().position(|kind| *kind == finding.kind);
        self.findings.sort_by(|left, right| (rank(left), &left.name).cmp(&(rank(right), &right.name)));
        self.took_ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    }
}

impl RecordFate {
    /// Counts the record, and returns its finding.
    pub(super) fn count(self, counts: &mut CopyCounts) -> Option<CopyFinding> {
        match self {
            Self::Copied => counts.copied += 1,
            Self::There => counts.there += 1,
            Self::LeftBehind(finding) => {
                counts.left_behind += 1;
                return Some(finding);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_depends_on_everything_but_the_order_of_runs() {
        let run = |name: &str| RunId::new(name).unwrap();
        let print = |text: &str| Print::of_texts([text]);
        let digest = |runs: &[(&str, &str)]| {
            let mut digest = Digest::default();
            runs.iter().for_each(|(name, text)| digest.add(&run(name), print(text)));
            digest
        };
        let one = digest(&[("a", "x"), ("b", "y")]);
        assert_eq!(one, digest(&[("b", "y"), ("a", "x")]));
        assert_ne!(one, digest(&[("a", "y"), ("b", "x")]));
        assert_ne!(one, digest(&[("a", "x"), ("b", "z")]));
        assert_ne!(one, digest(&[("a", "x")]));
        assert_eq!((one.runs, one.events, one.to_string().len()), (2, 2, 32));
    }
}
