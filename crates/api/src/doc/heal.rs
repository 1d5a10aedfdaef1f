//! Sweeps, examinations and recoveries.

use std::cmp::Reverse;

use goldseam::recovery::{Code, RuleSeverity};
use goldseam::unstable::core::{NodeId, WorkflowName};
use goldseam::{Millis, RunId, Seq};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::timestamp::Timestamp;
use crate::view::percentiles::Percentiles;

/// Maximum number of recoveries that statistics cover.
pub const STATS_MAX: u32 = 1_000_000;

/// Options of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewSweep {
    /// How long a finding must have held before it is healed, in milliseconds; defaults to 600000.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::unstable::core::whole::optional"
    )]
    pub stale_after_ms: Option<u64>,
    /// Only report; heal nothing.
    pub dry_run: bool,
    /// Derive how long a finding has held from the log, the row, the task and the owner's last beat, not from earlier
    /// sweeps. For a single sweep.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub from_log: bool,
    /// Also examine foreign states, and give stalled ones a new task.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub foreign: bool,
    /// Queue of the tasks for foreign states; defaults to `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign_queue: Option<String>,
    /// Kind of the tasks for foreign states; defaults to `workflow.orchestrate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign_kind: Option<String>,
}

/// The result of a sweep or of one batch of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Sweep)]
pub struct SweepDoc {
    /// When it was made.
    pub at: Timestamp,
    /// The result for foreign states; absent if they were not examined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<ForeignSweepDoc>,
    /// Healed runs.
    pub healed: u64,
    /// Healthy runs.
    pub healthy: u64,
    /// Whether there are more runs to examine: sweep again to continue.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// Cached rows that were rewritten.
    pub rows_rewritten: u64,
    /// Examined runs.
    pub scanned: u64,
    /// Stalled runs with the diagnosis of each.
    pub stalled: Vec<FindingDoc>,
    /// Runs that had ended.
    pub terminal: u64,
}

impl SweepDoc {
    /// Adds the result of a later batch of the same sweep.
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

/// The result of a sweep for foreign states.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ForeignSweep)]
pub struct ForeignSweepDoc {
    /// States that got a new task.
    pub healed: u64,
    /// Healthy states.
    pub healthy: u64,
    /// Examined states.
    pub scanned: u64,
    /// States without a task, which sweeps ignore.
    pub skipped: u64,
    /// Stalled states with the diagnosis of each.
    pub stalled: Vec<FindingDoc>,
    /// Names of states that are not valid run ids; these states were not examined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unnamed: Vec<String>,
}

/// Options of an examination of the whole store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NewCheckup {
    /// Heal findings that have an automatic remedy.
    pub fix: bool,
    /// Apply only this rule: its code, as in `O2`, or its name, as in `worker-lost`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Code>,
    /// Read every log, including those of ended runs.
    pub deep: bool,
    /// Maximum number of findings in the response, the most severe first. A server returns up to 500, which is also its
    /// default. Findings beyond the limit are still healed and counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Examine only the next part of the store, a few thousand runs, and return where the next part begins. If a part
    /// healed something, examine the store again: a healed finding may have hidden others.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub page: bool,
    /// `next` of the previous page; implies `page`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// The result of an examination of the whole store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Checkup)]
pub struct CheckupDoc {
    /// Counts of all findings by rule and fate, the most severe first.
    #[serde(default)]
    pub counts: Vec<FindingCountDoc>,
    /// Findings, the most severe first, up to the limit.
    pub findings: Vec<FindingDoc>,
    /// Healed findings.
    pub healed: u64,
    /// Whether no finding is left.
    pub healthy: bool,
    /// Cached rows that were rewritten.
    pub rows_rewritten: u64,
    /// Examined runs.
    pub scanned: u64,
    /// Number of all findings, including those beyond the limit.
    #[serde(default)]
    pub total: u64,
    /// Where the next page begins, if pages were requested; absent after the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl CheckupDoc {
    /// Adds a later page. A finding that is known takes the newer fate, but stays healed.
    pub fn add(&mut self, later: Self) {
        let beyond = |page: &Self| page.total.saturating_sub(page.findings.len() as u64);
        let beyond = beyond(self) + beyond(&later);
        for new in later.findings {
            let same = |old: &&mut FindingDoc| old.code == new.code && old.subject() == new.subject();
            let is_over = matches!(new.fate, FateDoc::Moved | FateDoc::Waits);
            match self.findings.iter_mut().find(same) {
                Some(old) if old.fate == FateDoc::Healed && is_over => {}
                Some(old) => *old = new,
                None => self.findings.push(new),
            }
        }
        self.total = self.findings.len() as u64 + beyond;
        self.healed = self.findings.iter().filter(|finding| finding.fate == FateDoc::Healed).count() as u64;
        self.healthy &= later.healthy;
        self.rows_rewritten += later.rows_rewritten;
        self.scanned += later.scanned;
        self.next = later.next;
    }

    /// Sorts and counts the findings, and keeps at most `limit` of the most severe.
    #[must_use]
    pub fn counted(mut self, limit: Option<u32>) -> Self {
        let rank = |finding: &FindingDoc| (Reverse(finding.severity), finding.code, finding.fate);
        self.findings.sort_by_key(rank);
        self.total = self.findings.len() as u64;
        self.counts.clear();
        for finding in &self.findings {
            let FindingDoc { severity, code, fate, .. } = *finding;
            match self.counts.last_mut().filter(|last| (last.code, last.fate) == (code, fate)) {
                Some(last) => last.count += 1,
                None => {
                    let rule_name = finding.rule_name.clone();
                    self.counts.push(FindingCountDoc { code, count: 1, fate, rule_name, severity });
                }
            }
        }
        if let Some(limit) = limit {
            self.findings.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        }
        self
    }
}

/// The number of findings with the same rule and fate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = FindingCount)]
pub struct FindingCountDoc {
    /// The rule; absent for foreign states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// The number of findings.
    pub count: u64,
    /// Their fate.
    pub fate: FateDoc,
    /// The name of the rule, as in `worker-lost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_name: Option<String>,
    /// Their severity.
    pub severity: Severity,
}

/// A diagnosis of a run, task, lock, node, other record or foreign state: exactly one of these fields is present.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Finding)]
pub struct FindingDoc {
    /// The rule; absent for foreign states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// Why the remedy failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The end of the log that was examined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<Seq>,
    /// The evidence for the diagnosis.
    pub evidence: String,
    /// The fate of the finding.
    pub fate: FateDoc,
    /// The lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<String>,
    /// The node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The location of another record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
    /// The remedy, or what an operator must do.
    pub remedy: String,
    /// The name of the rule, as in `worker-lost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_name: Option<String>,
    /// The run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The severity.
    #[serde(default)]
    pub severity: Severity,
    /// When it was first seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The foreign state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}

impl FindingDoc {
    /// Returns the kind of the subject and its name.
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

/// The severity of a finding, the most severe last.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Healed, or heals automatically.
    Info,
    /// Can be healed without an operator.
    #[default]
    Warning,
    /// Needs an operator, or the remedy failed.
    Error,
    /// A log is damaged, or a run was stopped because it crashes its process.
    Critical,
}

impl Severity {
    /// Returns the severity of a finding with this rule and fate.
    pub fn of(code: Option<Code>, fate: FateDoc) -> Self {
        let rule = code.map_or(Self::Warning, Self::of_rule);
        match fate {
            // Parking a damaged run protects it, but does not heal it.
            _ if code == Some(Code::K1) => rule,
            FateDoc::Stopped => Self::Critical,
            FateDoc::NeedsHelp | FateDoc::Failed => rule.max(Self::Error),
            FateDoc::Reported | FateDoc::Young => rule,
            FateDoc::Healed | FateDoc::Moved | FateDoc::Waits => Self::Info,
        }
    }

    /// Returns the severity of the rule's unhealed findings.
    fn of_rule(code: Code) -> Self {
        match code.rule().severity {
            RuleSeverity::Info => Self::Info,
            RuleSeverity::Warning => Self::Warning,
            RuleSeverity::Critical => Self::Critical,
        }
    }

    /// Returns the name in JSON and on screen.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
        }
    }
}

/// What happened to a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Fate)]
pub enum FateDoc {
    /// The remedy was applied.
    Healed,
    /// The finding has not held for long enough yet.
    Young,
    /// The finding was only reported.
    #[serde(rename = "told")]
    Reported,
    /// The run moved on, or another process applied the remedy.
    Moved,
    /// Only an operator, or time, can help.
    NeedsHelp,
    /// It heals automatically: a node has the run's task, or will claim it.
    Waits,
    /// The run was stopped because it crashes its process; it needs an operator.
    Stopped,
    /// The remedy failed; the next sweep tries again.
    Failed,
}

/// Selects recoveries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RecoveriesQuery {
    /// Only recoveries at or after this time, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<i64>,
    /// Only recoveries that stopped their subject (true), as rule P1 does, or only healings (false).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<bool>,
    /// Only this rule: `O2`, or `foreign` for foreign states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Cursor: the previous page's `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Maximum number of recoveries, up to 500; defaults to 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Selects what an examination covers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ExamineQuery {
    /// Cursor: the previous part's `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Only this rule, as a code or a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Code>,
}

/// One recovery of a run, a task, a lock or a foreign state: one of these fields is present. A foreign state also has the
/// task that was created for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Healing)]
pub struct HealingDoc {
    /// When it was made.
    pub at: Timestamp,
    /// The same in milliseconds since 1970.
    pub at_ms: Millis,
    /// Number of the recovery since the last progress, from 1; of a task, its claims that ended by a crash.
    pub attempt: u32,
    /// The cutoff of the new branch.
    pub cutoff: Option<Seq>,
    /// How the rule stopped the run instead of healing it: `parked`, `failed`, or `undoing` if the run fails after its
    /// compensations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Its position in the run's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<Seq>,
    /// The evidence for the diagnosis.
    pub evidence: String,
    /// Milliseconds from the recovery to the run's next progress; null if there was none yet.
    pub heal_ms: Option<i64>,
    /// The claimant or holder that lost the task or lock, or the previous task of the foreign state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// The lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<String>,
    /// The branch that was opened.
    pub new_branch: Option<String>,
    /// The node that applied the remedy.
    pub node: Option<NodeId>,
    /// The branch that was left.
    pub previous_branch: Option<String>,
    /// `infrastructure_restart`, `stale_detection` or `manual`.
    pub reason: String,
    /// The rule.
    pub rule: String,
    /// The name of the rule, as in `worker-lost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_name: Option<String>,
    /// The run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// How long it had been stalled, in milliseconds.
    pub stalled_ms: u64,
    /// The foreign state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The workflow of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<WorkflowName>,
}

impl HealingDoc {
    /// Returns the kind of the subject and its name.
    pub fn subject(&self) -> (&'static str, &str) {
        let run = self.run.as_ref().map(|run| run.as_str());
        let kinds = [
            ("run", run),
            ("state", self.state.as_deref()),
            ("task", self.task.as_deref()),
            ("lock", self.lock.as_deref()),
        ];
        kinds.into_iter().find_map(|(kind, name)| Some((kind, name?))).unwrap_or(("run", ""))
    }
}

/// Selects the recoveries that statistics cover.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HealingStatsQuery {
    /// Only recoveries at or after this time, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<i64>,
    /// Only the latest recoveries, up to 1000000, which is also the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest: Option<u32>,
}

/// Statistics of one rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = HealingStats)]
pub struct HealingStatsDoc {
    /// The number of recoveries.
    pub count: u64,
    /// Whether the rule stopped its subjects instead of healing them. Endings are counted apart from healings.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
    /// Milliseconds from the recovery to the run's next progress.
    pub heal_ms: Percentiles,
    /// The rule.
    pub rule: String,
    /// The name of the rule, as in `worker-lost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_name: Option<String>,
    /// How long the runs had been stalled, in milliseconds.
    pub stalled_ms: Percentiles,
}
