//! What came of a copy, in numbers and findings; all of it bounded.

use std::fmt;
use std::time::Duration;

use goldseam_core::{Hash, RunId};
use serde::{Serialize, Serializer};

use super::survey::Print;
use goldseam_engine::ledger::error::EngineError;

/// Findings kept; the others are counted.
const FINDINGS_MAX: usize = 1_000;

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Finding out how much there is.
    Counting,
    /// Copying logs.
    Logs,
    /// Copying tasks.
    Tasks,
    /// Copying locks.
    Locks,
    /// Comparing everything once more.
    Verifying,
}

/// How far a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub stage: Stage,
    /// How much of it is done.
    pub done: u64,
    /// How much of it there is.
    pub total: u64,
}

/// How many of one sort there are, and what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// Copied now, or to be copied.
    pub copied: u64,
    /// Were at the destination already.
    pub there: u64,
    /// Are not at the destination.
    pub left_behind: u64,
    /// Were found at the destination as they must be, in the end.
    pub verified: u64,
}

impl Counts {
    /// How many the source has.
    pub fn all(&self) -> u64 {
        self.copied + self.there + self.left_behind
    }
}

/// What became of one run, task or lock.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Copied now, or to be copied.
    Copied,
    /// Was there already.
    There,
    /// Is not there.
    LeftBehind(CopyFinding),
}

/// Something that a person should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CopyFinding {
    /// A code with a page.
    pub code: &'static str,
    /// `run`, `task`, `lock` or `store`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// What was found.
    pub what: String,
}

impl CopyFinding {
    pub(super) fn new(
        code: &'static str,
        (kind, name): (&'static str, &str),
        what: impl Into<String>,
    ) -> Self {
        Self { code, kind, name: name.to_owned(), what: what.into() }
    }

    pub(super) fn of_store(name: &str, error: &EngineError) -> Self {
        Self::new(error.code(), ("store", name), error.to_string())
    }
}

/// The fingerprint of all logs of a store, whatever order they are read in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Digest {
    /// How many runs it is of.
    pub runs: u64,
    /// How many events.
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

/// The digests of both stores: of the runs that the source has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Digests {
    /// Of the source.
    pub from: Digest,
    /// Of the destination.
    pub to: Digest,
}

/// What came of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct CopyReport {
    /// Nothing was written.
    pub dry_run: bool,
    /// Why a copy would be refused now; only of a dry run.
    pub refused: Option<CopyFinding>,
    /// Runs.
    pub runs: Counts,
    /// Events.
    pub events: Counts,
    /// Tasks.
    pub tasks: Counts,
    /// Locks.
    pub locks: Counts,
    /// Runs that go on at the destination.
    pub in_flight: u64,
    /// Damaged logs that are as damaged at the destination.
    pub damaged: u64,
    /// What a person should know.
    pub findings: Vec<CopyFinding>,
    /// How many findings there are besides.
    pub findings_more: u64,
    /// The digests, once everything was compared.
    pub digests: Option<Digests>,
    /// The source is closed and the destination open.
    pub finished: bool,
    /// How long it took.
    pub took_ms: u64,
    /// Tasks that came with the last events of their runs.
    #[serde(skip)]
    pub(super) brought_along: u64,
}

impl CopyReport {
    /// Whether everything that the source has was found at the destination in the end.
    pub fn is_verified(&self) -> bool {
        let all = |counts: &Counts| counts.verified == counts.all();
        let same = self.digests.is_some_and(|digests| digests.from == digests.to);
        self.finished && same && [&self.runs, &self.events, &self.tasks, &self.locks].into_iter().all(all)
    }

    /// How much stays behind.
    pub fn left_behind(&self) -> u64 {
        self.runs.left_behind + self.tasks.left_behind + self.locks.left_behind
    }

    /// Whether everything but what was left behind knowingly was found at the destination.
    pub(super) fn may_be_handed_over(&self) -> bool {
        let settled = |counts: &Counts| counts.verified + counts.left_behind >= counts.all();
        [&self.runs, &self.tasks, &self.locks].into_iter().all(settled)
    }

    pub(super) fn find(&mut self, finding: CopyFinding) {
        match self.findings.len() < FINDINGS_MAX {
            true => self.findings.push(finding),
            false => self.findings_more += 1,
        }
    }

    /// Whether there is something to say about it already.
    pub(super) fn speaks_of(&self, (kind, name): (&str, &str)) -> bool {
        self.findings.iter().any(|found| found.kind == kind && found.name == name)
    }

    /// The last word: how long it took, and findings in an order that no race decides.
    pub(super) fn close(&mut self, span: Duration) {
        let rank =
            |finding: &CopyFinding| ["run", "task", "lock"].iter().position(|kind| *kind == finding.kind);
        self.findings.sort_by(|left, right| (rank(left), &left.name).cmp(&(rank(right), &right.name)));
        self.took_ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    }
}

impl Fate {
    /// Counts it; what there is to say about it is given back.
    pub(super) fn count(self, counts: &mut Counts) -> Option<CopyFinding> {
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
    fn a_digest_does_not_depend_on_the_order_of_runs_but_on_everything_else() {
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
