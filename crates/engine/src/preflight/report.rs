//! The report of a preflight.

use std::collections::BTreeMap;
use std::fmt;

use goldseam_core::{Corrupt, RunId, WorkflowName};
use serde::{Deserialize, Serialize};

/// Maximum number of findings listed; all are counted.
const LISTED_MAX: usize = 1_000;

/// What the code of this build would do with a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// It continues where its log ends.
    Safe,
    /// It parks.
    Parks {
        /// Code of the rule or error, as in `V1`.
        code: String,
        /// The divergence, as the run's log would record it.
        reason: String,
    },
    /// Its code returns an error or panics without a cause in the log: the run would fail and be compensated.
    Fails {
        /// The error.
        reason: String,
    },
    /// It could not be replayed.
    Unknown {
        /// Why.
        reason: String,
    },
}

impl Verdict {
    /// The name of the verdict: `safe`, `parks`, `fails` or `unknown`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Parks { .. } => "parks",
            Self::Fails { .. } => "fails",
            Self::Unknown { .. } => "unknown",
        }
    }

    /// The reason; empty if safe.
    pub fn reason(&self) -> &str {
        match self {
            Self::Safe => "",
            Self::Parks { reason, .. } | Self::Fails { reason } | Self::Unknown { reason } => reason,
        }
    }
}

/// A run and its verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The run.
    pub run: RunId,
    /// Its workflow; none: its log is unreadable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<WorkflowName>,
    /// The version on which it was replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
}

impl Finding {
    pub(super) fn unreadable(run: RunId, corrupt: &Corrupt) -> Self {
        let verdict = Verdict::Unknown { reason: format!("its log is unreadable: {corrupt}") };
        Self { run, workflow: None, version: None, verdict }
    }
}

/// Counts of one workflow and version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// The workflow; empty for unreadable logs.
    pub workflow: String,
    /// The version.
    pub version: u32,
    /// Runs that continue.
    pub safe: u64,
    /// Runs that would park.
    pub parks: u64,
    /// Runs that would fail.
    pub fails: u64,
    /// Runs that could not be replayed.
    pub unknown: u64,
}

/// The report of a preflight, by workflow and version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreflightReport {
    /// Counts of each workflow and version.
    pub groups: Vec<Group>,
    /// The runs that are not safe, up to 1,000.
    pub findings: Vec<Finding>,
    /// Number of runs that are not safe and not listed.
    #[serde(default)]
    pub unlisted: u64,
}

impl PreflightReport {
    /// Exit code of a preflight without a finding.
    pub const SAFE: u8 = 0;
    /// Exit code if a run would park or fail.
    pub const PARKS: u8 = 20;
    /// Exit code if no run would park or fail, but some could not be replayed.
    pub const UNKNOWN: u8 = 21;

    pub(super) fn add(&mut self, finding: Finding) {
        let name = finding.workflow.as_ref().map_or("", WorkflowName::as_str);
        let version = finding.version.unwrap_or_default();
        let at = self.groups.iter().position(|group| group.workflow == name && group.version == version);
        let at = at.unwrap_or_else(|| {
            self.groups.push(Group { workflow: name.to_owned(), version, ..Group::default() });
            self.groups.len() - 1
        });
        let group = &mut self.groups[at];
        match &finding.verdict {
            Verdict::Safe => {
                group.safe += 1;
                return;
            }
            Verdict::Parks { .. } => group.parks += 1,
            Verdict::Fails { .. } => group.fails += 1,
            Verdict::Unknown { .. } => group.unknown += 1,
        }
        if self.findings.len() < LISTED_MAX {
            self.findings.push(finding);
        } else {
            self.unlisted += 1;
        }
    }

    /// Sorts the report, independent of the order of the store.
    pub(super) fn finish(&mut self) {
        self.groups.sort_by(|a, b| (&a.workflow, a.version).cmp(&(&b.workflow, b.version)));
        self.findings.sort_by(|a, b| a.run.cmp(&b.run));
    }

    /// Number of runs replayed.
    pub fn total(&self) -> u64 {
        self.groups.iter().map(|group| group.safe + group.parks + group.fails + group.unknown).sum()
    }

    /// Number of runs that continue.
    pub fn safe(&self) -> u64 {
        self.groups.iter().map(|group| group.safe).sum()
    }

    /// Number of runs that would park.
    pub fn parks(&self) -> u64 {
        self.groups.iter().map(|group| group.parks).sum()
    }

    /// Number of runs that would fail.
    pub fn fails(&self) -> u64 {
        self.groups.iter().map(|group| group.fails).sum()
    }

    /// Number of runs that could not be replayed.
    pub fn unknown(&self) -> u64 {
        self.groups.iter().map(|group| group.unknown).sum()
    }

    /// Whether every run continues.
    pub fn is_safe(&self) -> bool {
        self.safe() == self.total()
    }

    /// The exit code of a program that only runs a preflight.
    pub fn exit_code(&self) -> u8 {
        match (self.parks() + self.fails(), self.unknown()) {
            (0, 0) => Self::SAFE,
            (0, _) => Self::UNKNOWN,
            _ => Self::PARKS,
        }
    }
}

impl fmt::Display for PreflightReport {
    /// Writes a table by workflow and version, then a line for each run that is not safe.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.groups.is_empty() {
            return f.write_str("no runs to replay");
        }
        let label = |group: &Group| match group.workflow.as_str() {
            "" => "unreadable".to_owned(),
            name => format!("{name}@{}", group.version),
        };
        let labels: BTreeMap<usize, String> = self.groups.iter().map(label).enumerate().collect();
        let width = labels.values().map(String::len).max().unwrap_or_default().max("WORKFLOW".len());
        write!(f, "{:width$}  {:>7}  {:>7}  {:>7}  {:>7}", "WORKFLOW", "SAFE", "PARKS", "FAILS", "UNKNOWN")?;
        for (at, group) in self.groups.iter().enumerate() {
            let Group { safe, parks, fails, unknown, .. } = group;
            write!(f, "\n{:width$}  {safe:>7}  {parks:>7}  {fails:>7}  {unknown:>7}", labels[&at])?;
        }
        for Finding { run, verdict, .. } in &self.findings {
            let code = match verdict {
                Verdict::Parks { code, .. } => format!(" ({code})"),
                _ => String::new(),
            };
            write!(f, "\n{run} {}{code}: {}", verdict.word(), verdict.reason())?;
        }
        match self.unlisted {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}
