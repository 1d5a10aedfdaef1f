//! Finding what is wrong, and what was healed.

use std::cmp::Reverse;

use goldseam::core::{NodeId, WorkflowName};
use goldseam::recovery::Code;
use goldseam::{Millis, RunId, Seq};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::moment::Moment;
use crate::view::spread::Spread;

/// Most recoveries that statistics are made of.
pub const STATS_MAX: u32 = 1_000_000;

/// How a sweep is made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewSweep {
    /// A finding must have held for so long before it is healed; 600000 unless given.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::core::whole::optional"
    )]
    pub stale_after_ms: Option<u64>,
    /// Only tell.
    pub dry_run: bool,
    /// Tell how long a finding has held by the log, the row, the task and the owner's last beat, instead of by earlier sweeps:
    /// for a single sweep.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub from_log: bool,
    /// Look at the states that others keep beside the runs too, and give those that are stalled a new task.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub foreign: bool,
    /// Queue of these tasks; `default` unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign_queue: Option<String>,
    /// Kind of these tasks; `workflow.orchestrate` unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign_kind: Option<String>,
}

/// What a batch of a sweep, or a whole one, did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Sweep {
    /// When.
    pub at: Moment,
    /// What was found among the states of others; absent if they were not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<ForeignSweep>,
    /// Runs healed.
    pub healed: u64,
    /// Runs that are well.
    pub healthy: u64,
    /// There is more to look at: sweep again to go on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// Cached rows written anew.
    pub rows_rewritten: u64,
    /// Runs looked at.
    pub scanned: u64,
    /// Each stalled run with its reason.
    pub stalled: Vec<Finding>,
    /// Runs that turned out to be over.
    pub terminal: u64,
}

impl Sweep {
    /// Adds what a later batch of the same sweep did.
    pub fn add(&mut self, later: Self) {
        self.at = later.at;
        self.healed += later.healed;
        self.healthy += later.healthy;
        self.more = later.more;
        self.rows_rewritten += later.rows_rewritten;
        self.scanned += later.scanned;
        self.stalled.extend(later.stalled);
        self.terminal += later.terminal;
        match (&mut self.foreign, later.foreign) {
            (Some(all), Some(later)) => {
                all.healed += later.healed;
                all.healthy += later.healthy;
                all.scanned += later.scanned;
                all.skipped += later.skipped;
                all.stalled.extend(later.stalled);
                all.unnamed.extend(later.unnamed);
            }
            (all, later) => *all = all.take().or(later),
        }
    }
}

/// What was found among states that somebody else keeps beside the runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ForeignSweep {
    /// Given a new task.
    pub healed: u64,
    /// Well.
    pub healthy: u64,
    /// Looked at.
    pub scanned: u64,
    /// Without a task, and so none of ours.
    pub skipped: u64,
    /// Each stalled one with its reason.
    pub stalled: Vec<Finding>,
    /// Names of states that no run can have: these were not looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unnamed: Vec<String>,
}

/// How the whole store is examined.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewCheckup {
    /// Heal what can be healed.
    pub fix: bool,
    /// Only this rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Code>,
    /// Read every log, those of finished runs too.
    pub deep: bool,
    /// At most so many findings in the answer, the worst first; a server answers with up to 500, and with 500 unless given. All
    /// are healed and counted all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// What an examination of the whole store brought.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Checkup {
    /// All findings, by rule and fate; the worst first.
    #[serde(default)]
    pub counts: Vec<FindingCount>,
    /// What is wrong, or was; the worst first, and no more than asked for.
    pub findings: Vec<Finding>,
    /// How much of it was healed.
    pub healed: u64,
    /// Whether nothing is left that is wrong.
    pub healthy: bool,
    /// Cached rows written anew.
    pub rows_rewritten: u64,
    /// Runs looked at.
    pub scanned: u64,
    /// Findings in all, those that `findings` leaves out included.
    #[serde(default)]
    pub total: u64,
}

impl Checkup {
    /// Counts the findings and keeps the worst of them, at most `limit`.
    #[must_use]
    pub fn counted(mut self, limit: Option<u32>) -> Self {
        let rank = |finding: &Finding| (Reverse(finding.severity), finding.code, finding.fate);
        self.findings.sort_by_key(rank);
        self.total = self.findings.len() as u64;
        self.counts.clear();
        for finding in &self.findings {
            let (severity, code, fate) = (finding.severity, finding.code, finding.fate);
            match self.counts.last_mut().filter(|last| (last.code, last.fate) == (code, fate)) {
                Some(last) => last.count += 1,
                None => self.counts.push(FindingCount { code, count: 1, fate, severity }),
            }
        }
        if let Some(limit) = limit {
            self.findings.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        }
        self
    }
}

/// How many findings share a rule and a fate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FindingCount {
    /// The rule; absent for states of another system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// How many.
    pub count: u64,
    /// What became of them.
    pub fate: Fate,
    /// How bad they are.
    pub severity: Severity,
}

/// Something that is wrong with a run, a task, a lock, a node, another record or a state of another system: one of these
/// names is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    /// The rule; absent for a state of somebody else, of which no rule speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// Why the remedy failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The end of the log that was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<Seq>,
    /// What was seen.
    pub evidence: String,
    /// What became of it.
    pub fate: Fate,
    /// The lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<String>,
    /// The node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The place of another record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
    /// What is done about it, or what to do.
    pub remedy: String,
    /// The run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// How bad it is.
    #[serde(default)]
    pub severity: Severity,
    /// Since when it has been seen so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Moment>,
    /// The state of somebody else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}

impl Finding {
    /// What sort of thing it is about, and which one.
    pub fn subject(&self) -> (&'static str, &str) {
        let kinds = [
            ("run", &self.run),
            ("task", &self.task),
            ("lock", &self.lock),
            ("state", &self.state),
            ("node", &self.node),
            ("record", &self.record),
        ];
        let named = kinds.into_iter().find_map(|(kind, name)| Some((kind, name.as_deref()?)));
        named.unwrap_or(("run", ""))
    }
}

/// How bad a finding is, the worst last.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It was healed, or heals by itself.
    Info,
    /// It can be healed without a person.
    #[default]
    Warning,
    /// Only a person can help, or the remedy failed.
    Error,
    /// A log is damaged, or a run was stopped because it takes its process down.
    Critical,
}

impl Severity {
    /// How bad a finding of this rule with this fate is.
    pub fn of(code: Option<Code>, fate: Fate) -> Self {
        match fate {
            _ if code == Some(Code::K1) => Self::Critical,
            Fate::Stopped => Self::Critical,
            Fate::NeedsHelp | Fate::Failed => Self::Error,
            Fate::Told | Fate::Young => Self::Warning,
            Fate::Healed | Fate::Moved | Fate::Waits => Self::Info,
        }
    }

    /// The word in JSON and on screen.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
        }
    }
}

/// What became of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It was healed.
    Healed,
    /// It has not held for long enough yet.
    Young,
    /// It was only told.
    Told,
    /// Somebody else was faster, or the run moved on by itself.
    Moved,
    /// Only a person, or time, can help.
    NeedsHelp,
    /// It heals by itself: a node has its task, or will.
    Waits,
    /// The run was stopped: it takes its process down, and needs a person.
    Stopped,
    /// The remedy failed; another sweep tries again.
    Failed,
}

/// Which recoveries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RecoveriesQuery {
    /// Only at or after this moment, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<i64>,
    /// Begin after this cursor: `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// At most so many, up to 500; 20 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// One recovery of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Healing {
    /// When.
    pub at: Moment,
    /// The same in milliseconds since 1970.
    pub at_ms: Millis,
    /// Recoveries since the last progress, this one included.
    pub attempt: u32,
    /// Where it was cut.
    pub cutoff: Option<Seq>,
    /// How the rule stopped the run, if it did instead of healing it: `parked`, `failed`, or `undoing` where it fails
    /// once what it did is undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Where in the run's log it stands.
    pub event: Seq,
    /// What was seen.
    pub evidence: String,
    /// From the recovery to the run's next sign of progress; none: not yet.
    pub heal_ms: Option<i64>,
    /// The branch that was opened.
    pub new_branch: Option<String>,
    /// Who mended it.
    pub node: Option<NodeId>,
    /// The branch that was left.
    pub previous_branch: Option<String>,
    /// `infrastructure_restart`, `stale_detection` or `manual`.
    pub reason: String,
    /// The rule.
    pub rule: String,
    /// The run.
    pub run: RunId,
    /// For how long nothing had happened.
    pub stalled_ms: u64,
    /// Its workflow.
    pub workflow: WorkflowName,
}

/// What statistics are made of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HealingStatsQuery {
    /// Only at or after this moment, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<i64>,
    /// Of the latest so many, up to 1000000; all of those unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest: Option<u32>,
}

/// Recoveries by one rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealingStats {
    /// How many.
    pub count: u64,
    /// The runs were stopped, not healed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
    /// From the recovery to the run's next sign of progress.
    pub heal_ms: Spread,
    /// The rule.
    pub rule: String,
    /// For how long nothing had happened.
    pub stalled_ms: Spread,
}
