//! The catalogue: every way in which a run, a task or a lock can be stuck, as data.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::detect;
use super::{Diagnosis, Sight};

/// The code of a rule. Stable: logs, metrics and page names contain it. Input may use the name of the rule instead, as
/// in `worker-lost`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[expect(missing_docs, reason = "the catalogue describes each rule")]
pub enum Code {
    A1,
    A2,
    A3,
    A4,
    D2,
    E2,
    F1,
    O1,
    O2,
    O3,
    H1,
    L1,
    L2,
    W1,
    W2,
    V1,
    P1,
    N1,
    K1,
    K2,
    C1,
    U1,
}

/// The component that detects a rule.
#[derive(Debug, Clone, Copy)]
pub enum Detector {
    /// From the known facts about one run.
    Run(fn(&Sight<'_>) -> Option<Diagnosis>),
    /// From the record of a lock and the liveness of its node.
    Lock,
    /// From the record of a task and the liveness of its claimant.
    Task,
    /// By the node that executes the run, during execution.
    Execution,
    /// By a follower of the run.
    Follower,
    /// By a reader of the log.
    Reader,
}

/// How often a rule may repair the same run, task or lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// Every time it is needed.
    AsNeeded,
    /// As often as the recovery policy allows without progress; then P1 applies.
    Attempts,
    /// As often as the step's own retry policy allows.
    StepRetries,
    /// As often as a task may be delivered; then the task is dead.
    Deliveries,
    /// Once: the remedy ends or parks the run.
    Once,
    /// Never: an operator, or time, resolves it.
    Never,
}

/// How severe a stall is, the most severe last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleSeverity {
    /// Only informs: the cause is another finding.
    Info,
    /// Runs are late, nothing is lost.
    Warning,
    /// Data is damaged, or code crashes its process.
    Critical,
}

/// One rule.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Code of the rule.
    pub code: Code,
    /// Name of the rule, in kebab case. Stable and unique: commands and requests accept it wherever they accept the
    /// code.
    pub name: &'static str,
    /// How severe an unhealed finding of the rule is.
    pub severity: RuleSeverity,
    /// A few words for lists.
    pub title: &'static str,
    /// What is wrong, in one sentence.
    pub wrong: &'static str,
    /// What the remedy does, in one sentence.
    pub remedy: &'static str,
    /// How often the remedy may be applied.
    pub budget: Budget,
    /// How the rule is detected.
    pub detector: Detector,
}

impl Rule {
    /// Returns the path of its page within the project.
    pub fn page(&self) -> String {
        format!("docs/codes/{}.md", self.code)
    }
}

impl Code {
    /// Returns the rule with this code.
    pub fn rule(self) -> &'static Rule {
        CATALOGUE.iter().find(|rule| rule.code == self).unwrap_or(&CATALOGUE[0])
    }

    /// Returns the rule's name, as in `worker-lost`.
    pub fn name(self) -> &'static str {
        self.rule().name
    }

    /// Returns the name with the code, as in `worker-lost (O2)`.
    pub fn label(self) -> String {
        format!("{} ({self})", self.name())
    }

    /// Parses a code in any case, but not a name. Codes in logs are compared with this: a name could also be the code of
    /// a user's failure.
    pub fn from_code(text: &str) -> Option<Self> {
        CATALOGUE.iter().map(|rule| rule.code).find(|code| code.as_str().eq_ignore_ascii_case(text))
    }

    /// Parses a name.
    pub fn from_name(text: &str) -> Option<Self> {
        CATALOGUE.iter().find(|rule| rule.name == text).map(|rule| rule.code)
    }

    /// Returns whether the rule compares the cached row with the log. While it applies, the row is left unchanged.
    pub fn reads_cached_row(self) -> bool {
        matches!(self, Self::A1 | Self::A2 | Self::A3)
    }

    /// Returns the code as text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::A1 => "A1",
            Self::A2 => "A2",
            Self::A3 => "A3",
            Self::A4 => "A4",
            Self::D2 => "D2",
            Self::E2 => "E2",
            Self::F1 => "F1",
            Self::O1 => "O1",
            Self::O2 => "O2",
            Self::O3 => "O3",
            Self::H1 => "H1",
            Self::L1 => "L1",
            Self::L2 => "L2",
            Self::W1 => "W1",
            Self::W2 => "W2",
            Self::V1 => "V1",
            Self::P1 => "P1",
            Self::N1 => "N1",
            Self::K1 => "K1",
            Self::K2 => "K2",
            Self::C1 => "C1",
            Self::U1 => "U1",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The error for a text that is neither the code nor the name of a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a rule{near}; rules are: {known}", near = similar(.0), known = known())]
pub struct NoRule(String);

/// Returns ` (did you mean x?)` with similar codes or names, or an empty text.
fn similar(text: &str) -> String {
    let codes = CATALOGUE.iter().map(|rule| rule.code.as_str());
    match crate::argument::meant(&text.to_uppercase(), codes) {
        near if near.is_empty() => {
            crate::argument::meant(&normal(text), CATALOGUE.iter().map(|rule| rule.name))
        }
        near => near,
    }
}

/// Lists all rules.
fn known() -> String {
    CATALOGUE.iter().map(|rule| rule.code.label()).collect::<Vec<_>>().join(", ")
}

/// Normalizes the spelling of a name.
fn normal(text: &str) -> String {
    text.to_lowercase().replace(['_', ' '], "-")
}

impl FromStr for Code {
    type Err = NoRule;

    fn from_str(text: &str) -> Result<Self, NoRule> {
        Self::from_code(text)
            .or_else(|| Self::from_name(&normal(text)))
            .ok_or_else(|| NoRule(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Every rule. If several apply to a run, the first one is healed first.
pub const CATALOGUE: &[Rule] = &[
    Rule {
        code: Code::K1,
        name: "log-damaged",
        severity: RuleSeverity::Critical,
        title: "the log is damaged",
        wrong: "An event is missing, altered or cannot be decoded.",
        remedy: "Goldseam parks the run and keeps the evidence; it never guesses.",
        budget: Budget::Once,
        detector: Detector::Reader,
    },
    Rule {
        code: Code::K2,
        name: "newer-release",
        severity: RuleSeverity::Warning,
        title: "written by a newer release",
        wrong: "The log contains an event type that this release does not know.",
        remedy: "The node hands the run back unchanged; a node of the newer release takes it.",
        budget: Budget::Never,
        detector: Detector::Reader,
    },
    Rule {
        code: Code::C1,
        name: "wrong-row",
        severity: RuleSeverity::Warning,
        title: "the cached row is lost, unreadable or wrong",
        wrong: "The run's cached row is missing, cannot be read, or disagrees with the log.",
        remedy: "Goldseam rewrites the row from the log; nothing else of the run changes.",
        budget: Budget::AsNeeded,
        detector: Detector::Reader,
    },
    Rule {
        code: Code::U1,
        name: "unreadable-record",
        severity: RuleSeverity::Warning,
        title: "an unreadable record",
        wrong: "A task, lock, node or other record outside the logs is damaged or was written by a newer release.",
        remedy: "Goldseam skips and reports the record; everything else keeps working, and nothing is deleted.",
        budget: Budget::Never,
        detector: Detector::Reader,
    },
    Rule {
        code: Code::D2,
        name: "incomplete-jump",
        severity: RuleSeverity::Warning,
        title: "an incomplete jump",
        wrong: "A jump was requested, but its branch was never opened.",
        remedy: "Goldseam opens a branch before the request; the operator may request the jump again.",
        budget: Budget::AsNeeded,
        detector: Detector::Run(detect::half_jump),
    },
    Rule {
        code: Code::A2,
        name: "hidden-question",
        severity: RuleSeverity::Warning,
        title: "the status hides an open question",
        wrong: "The cached status is running and the log has an open question, but no node executes the run.",
        remedy: "Goldseam opens a branch before the question, and the run asks it again; an answer to the old \
                 question counts.",
        budget: Budget::AsNeeded,
        detector: Detector::Run(detect::hidden_question),
    },
    Rule {
        code: Code::A1,
        name: "phantom-wait",
        severity: RuleSeverity::Warning,
        title: "the status shows a wait that the log does not have",
        wrong: "The cached status is waiting, but the log has no open wait and no node executes the run.",
        remedy: "Goldseam opens a branch at the last stable event, and the run continues.",
        budget: Budget::AsNeeded,
        detector: Detector::Run(detect::phantom_wait),
    },
    Rule {
        code: Code::A3,
        name: "missing-end",
        severity: RuleSeverity::Warning,
        title: "all steps are complete but the run has not ended",
        wrong: "The cached status is running and every declared step is complete, but no node executes the run.",
        remedy: "Goldseam opens a branch at the last completed step, and the run continues and records its end.",
        budget: Budget::AsNeeded,
        detector: Detector::Run(detect::unended),
    },
    Rule {
        code: Code::A4,
        name: "unhandled-failure",
        severity: RuleSeverity::Warning,
        title: "a failed step was not handled",
        wrong: "A step failed, nothing followed, and no node executes the run.",
        remedy: "If its policy allows, the step is retried; otherwise the run continues and handles the failure.",
        budget: Budget::StepRetries,
        detector: Detector::Run(detect::left_failure),
    },
    Rule {
        code: Code::P1,
        name: "crash-loop",
        severity: RuleSeverity::Critical,
        title: "recovery attempts used up",
        wrong: "Each recovery of the run ended with the death of its process, without progress; the last process \
                executed only this run.",
        remedy: "Goldseam parks the run with the evidence, or, by policy, compensates and fails it. Nothing is \
                 deleted.",
        budget: Budget::Once,
        detector: Detector::Run(detect::poison),
    },
    Rule {
        code: Code::O2,
        name: "worker-lost",
        severity: RuleSeverity::Warning,
        title: "the owner's process is gone",
        wrong: "The node that owned the run crashed, was killed or lost its machine.",
        remedy: "Another node takes over the run: sleeps continue with the remaining time, completed steps are \
                 skipped.",
        budget: Budget::Attempts,
        detector: Detector::Run(detect::lost_owner),
    },
    Rule {
        code: Code::W1,
        name: "missed-wake",
        severity: RuleSeverity::Warning,
        title: "no task will wake the run",
        wrong: "A timer is due, or the log has the mail that the run waits for, but no task will wake the run.",
        remedy: "Goldseam delivers the result of an ended child and makes the task due now.",
        budget: Budget::AsNeeded,
        detector: Detector::Run(detect::asleep),
    },
    Rule {
        code: Code::W2,
        name: "signal-mismatch",
        severity: RuleSeverity::Warning,
        title: "a signal does not fit",
        wrong: "The run waits for a signal, but the unread signal of that name does not match the wait's schema.",
        remedy: "The signal stays unread; the run takes the next signal that matches.",
        budget: Budget::Never,
        detector: Detector::Run(detect::misfit),
    },
    Rule {
        code: Code::O1,
        name: "task-missing",
        severity: RuleSeverity::Warning,
        title: "the run has no live advance task",
        wrong: "The run is active, but its advance task is missing or has ended.",
        remedy: "Goldseam creates a task with the key RUN:advance:UPDATED_AT; nothing else of the run changes.",
        budget: Budget::AsNeeded,
        detector: Detector::Run(detect::no_task),
    },
    Rule {
        code: Code::O3,
        name: "remote-task-missing",
        severity: RuleSeverity::Warning,
        title: "a remote step has no live task",
        wrong: "A remote step is open, but its task is missing or has ended, and the log has no result.",
        remedy: "Goldseam appends the result from the task; if it has none, Goldseam creates a new task for the same \
                 attempt.",
        budget: Budget::AsNeeded,
        detector: Detector::Run(detect::lost_remote),
    },
    Rule {
        code: Code::H1,
        name: "silent-step",
        severity: RuleSeverity::Warning,
        title: "a silent step",
        wrong: "The last heartbeat or the start of a step is older than its heartbeat limit.",
        remedy: "The attempt ends as heartbeat-timeout; the step is retried if its policy allows, otherwise it fails.",
        budget: Budget::StepRetries,
        detector: Detector::Run(detect::silent_remote),
    },
    Rule {
        code: Code::N1,
        name: "no-worker",
        severity: RuleSeverity::Warning,
        title: "no live node takes the run",
        wrong: "No live node has the run's workflow, or none that has it takes runs from the run's queue.",
        remedy: "The run stays queued until such a node starts; it is never discarded.",
        budget: Budget::Never,
        detector: Detector::Run(detect::no_live_workflow),
    },
    Rule {
        code: Code::E2,
        name: "no-version",
        severity: RuleSeverity::Warning,
        title: "no live node has the version",
        wrong: "The run can continue and live nodes have its workflow, but none has its version.",
        remedy: "The run waits for a node with the version. If none starts for longer than a deploy takes, the run continues \
                 under its initial version if a live node has that one; otherwise it is parked.",
        budget: Budget::Once,
        detector: Detector::Run(detect::no_version),
    },
    Rule {
        code: Code::V1,
        name: "code-changed",
        severity: RuleSeverity::Warning,
        title: "the code does not match the log",
        wrong: "The workflow's code requests other steps than the log records.",
        remedy: "Goldseam parks the run and shows both sides: register the older code, or jump to the last common \
                 step.",
        budget: Budget::Once,
        detector: Detector::Execution,
    },
    Rule {
        code: Code::F1,
        name: "followed-run-stalled",
        severity: RuleSeverity::Info,
        title: "the followed run is stalled",
        wrong: "A follower reads a run that is stalled.",
        remedy: "The server reports the stall and its cause to the follower, which reads the log, never memory.",
        budget: Budget::Never,
        detector: Detector::Follower,
    },
    Rule {
        code: Code::L1,
        name: "stale-lock",
        severity: RuleSeverity::Warning,
        title: "a stale lock",
        wrong: "A lock has expired, or the node that holds it is proven dead.",
        remedy: "Goldseam frees the lock and increases its fence.",
        budget: Budget::AsNeeded,
        detector: Detector::Lock,
    },
    Rule {
        code: Code::L2,
        name: "claimant-lost",
        severity: RuleSeverity::Warning,
        title: "a task has no live claimant",
        wrong: "The claimant of the task is dead or has been silent for too long.",
        remedy: "The task returns to its queue with the same id and priority; past the delivery limit it is dead.",
        budget: Budget::Deliveries,
        detector: Detector::Task,
    },
];
