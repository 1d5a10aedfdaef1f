//! The catalogue: every way in which a run, a task or a lock can be stuck, as data.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::detect;
use super::{Diagnosis, Sight};

/// Names a rule. Stable: it stands in logs, metrics and the names of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[expect(missing_docs, reason = "the catalogue says what each one means")]
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

/// How a rule is found to apply.
#[derive(Debug, Clone, Copy)]
pub enum Detector {
    /// From what is known about one run.
    Run(fn(&Sight<'_>) -> Option<Diagnosis>),
    /// From the record of a lock, and whether its node lives.
    Lock,
    /// From the record of a task, and whether its claimant lives.
    Task,
    /// By whoever executes the run, in the moment.
    Execution,
    /// By whoever follows the run.
    Follower,
    /// By whoever reads the log.
    Reader,
}

/// How often a rule may mend the same thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// As often as it is needed: each time something was lost anew.
    AsNeeded,
    /// So many times without progress, as configured; then P1.
    Attempts,
    /// As often as the step's own retry policy allows.
    StepRetries,
    /// As often as a task may be delivered; then it is dead.
    Deliveries,
    /// Once: it ends or parks the run.
    Once,
    /// It mends nothing by itself.
    Never,
}

/// One rule.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Its name.
    pub code: Code,
    /// In a few words.
    pub title: &'static str,
    /// What is wrong, in a sentence.
    pub wrong: &'static str,
    /// What is done about it, in a sentence.
    pub remedy: &'static str,
    /// How often.
    pub budget: Budget,
    /// How it is found.
    pub detector: Detector,
}

impl Rule {
    /// Its page, relative to the project.
    pub fn page(&self) -> String {
        format!("docs/codes/{}.md", self.code)
    }
}

impl Code {
    /// The rule of this name.
    pub fn rule(self) -> &'static Rule {
        CATALOGUE.iter().find(|rule| rule.code == self).unwrap_or(&CATALOGUE[0])
    }

    /// Whether its evidence is a cached row: as long as it applies, the row is left as it is.
    pub fn speaks_of_the_row(self) -> bool {
        matches!(self, Self::A1 | Self::A2 | Self::A3)
    }

    /// The name as text.
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

/// The text names no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no rule{near}; there are: A1, A2, A3, A4, D2, E2, F1, O1, O2, O3, H1, L1, L2, W1, W2, V1, P1, N1, K1, K2, C1, U1",
    near = crate::argument::meant(&.0.to_uppercase(), CATALOGUE.iter().map(|rule| rule.code.as_str()))
)]
pub struct NoRule(String);

impl FromStr for Code {
    type Err = NoRule;

    fn from_str(text: &str) -> Result<Self, NoRule> {
        let found = CATALOGUE.iter().find(|rule| rule.code.as_str().eq_ignore_ascii_case(text));
        found.map(|rule| rule.code).ok_or_else(|| NoRule(text.to_owned()))
    }
}

/// Every rule. Of several that apply to a run, the one that stands first is healed first.
pub const CATALOGUE: &[Rule] = &[
    Rule {
        code: Code::K1,
        title: "the log is damaged",
        wrong: "An event is missing, changed or cannot be understood.",
        remedy: "The run is parked and the evidence kept; nothing is guessed.",
        budget: Budget::Once,
        detector: Detector::Reader,
    },
    Rule {
        code: Code::K2,
        title: "written by a newer release",
        wrong: "The log has an event of a type that this release does not know.",
        remedy: "The run is handed back unharmed and put aside; a node of the newer release takes it.",
        budget: Budget::Never,
        detector: Detector::Reader,
    },
    Rule {
        code: Code::C1,
        title: "the cached row is lost, unreadable or wrong",
        wrong: "The run's cached row is missing, cannot be read, or says something else than the log.",
        remedy: "The row is written again from the log; nothing else of the run changes.",
        budget: Budget::AsNeeded,
        detector: Detector::Reader,
    },
    Rule {
        code: Code::U1,
        title: "a record that cannot be read",
        wrong: "A task, a lock, a node or another record beside the logs is damaged or of a newer release.",
        remedy: "It is passed over and named; nothing else stops, and nothing is deleted.",
        budget: Budget::Never,
        detector: Detector::Reader,
    },
    Rule {
        code: Code::D2,
        title: "half a jump",
        wrong: "A jump was asked for, and its branch was never opened.",
        remedy: "A branch is opened before the request; whoever wanted the jump may ask again.",
        budget: Budget::AsNeeded,
        detector: Detector::Run(detect::half_jump),
    },
    Rule {
        code: Code::A2,
        title: "a question that the status hides",
        wrong: "The cached status says running, the log has an open question, and nobody executes the run.",
        remedy: "A branch is opened before the question, so that it is asked again; an answer to the old one counts.",
        budget: Budget::AsNeeded,
        detector: Detector::Run(detect::hidden_question),
    },
    Rule {
        code: Code::A1,
        title: "a wait that the log does not know",
        wrong: "The cached status says waiting, the log waits for nothing, and nobody executes the run.",
        remedy: "A branch is opened at the last stable event, and the run goes on.",
        budget: Budget::AsNeeded,
        detector: Detector::Run(detect::phantom_wait),
    },
    Rule {
        code: Code::A3,
        title: "all steps done, no end",
        wrong: "The cached status says running, every declared step is complete, and nobody executes the run.",
        remedy: "A branch is opened at the last completed step, and the run goes on to record its end.",
        budget: Budget::AsNeeded,
        detector: Detector::Run(detect::unended),
    },
    Rule {
        code: Code::A4,
        title: "a failed step that nobody dealt with",
        wrong: "A step failed, the run was left where it was, and nobody executes it.",
        remedy: "The step is tried again if its policy allows; else the run goes on and deals with the failure.",
        budget: Budget::StepRetries,
        detector: Detector::Run(detect::left_failure),
    },
    Rule {
        code: Code::P1,
        title: "recovery attempts used up",
        wrong: "The run's process died each time it was recovered, the last time executing only this run, without progress.",
        remedy: "The run is parked with the evidence; by policy it fails instead, once what it did is undone. Nothing is deleted.",
        budget: Budget::Once,
        detector: Detector::Run(detect::poison),
    },
    Rule {
        code: Code::O2,
        title: "the owner's process is gone",
        wrong: "The node that had the run crashed, was killed or lost its machine.",
        remedy: "Another node takes the run over: a sleep goes on with the time left, completed steps are skipped.",
        budget: Budget::Attempts,
        detector: Detector::Run(detect::lost_owner),
    },
    Rule {
        code: Code::W1,
        title: "nothing wakes it",
        wrong: "A timer is due, or what the run waits for is in the log, and no task will wake it.",
        remedy: "What a child brought is delivered, and the task is due now.",
        budget: Budget::AsNeeded,
        detector: Detector::Run(detect::asleep),
    },
    Rule {
        code: Code::W2,
        title: "a signal does not fit",
        wrong: "The run waits for a signal, and one of that name in its mail is not what the wait accepts.",
        remedy: "It stays unread, and the next one that fits is taken.",
        budget: Budget::Never,
        detector: Detector::Run(detect::misfit),
    },
    Rule {
        code: Code::O1,
        title: "no task moves it",
        wrong: "The run is active, and its advance task is missing or over.",
        remedy: "A new task is made under the key RUN:advance:UPDATED_AT; nothing else of the run changes.",
        budget: Budget::AsNeeded,
        detector: Detector::Run(detect::no_task),
    },
    Rule {
        code: Code::O3,
        title: "a remote step whose task is gone",
        wrong: "A remote step is open, its task is missing or over, and the log has no result.",
        remedy: "The result that the task holds is appended; else a new task is made for the same attempt.",
        budget: Budget::AsNeeded,
        detector: Detector::Run(detect::lost_remote),
    },
    Rule {
        code: Code::H1,
        title: "a silent step",
        wrong: "A step's last heartbeat, or its start, is older than its window.",
        remedy: "The attempt is given up: tried again while tries are left, else failed as heartbeat-timeout.",
        budget: Budget::StepRetries,
        detector: Detector::Run(detect::silent_remote),
    },
    Rule {
        code: Code::N1,
        title: "nobody has this workflow",
        wrong: "No live node has the run's workflow.",
        remedy: "The run stays queued until a node has it; it is never discarded.",
        budget: Budget::Never,
        detector: Detector::Run(detect::nobody_fit),
    },
    Rule {
        code: Code::E2,
        title: "no live node has the version",
        wrong: "The run could move, and live nodes have its workflow, but none of them its version.",
        remedy: "It waits for a node that has the version. If none comes for longer than a deploy takes, it goes on under \
                 the version it began with, if a live node has that; else it is parked.",
        budget: Budget::Once,
        detector: Detector::Run(detect::no_version),
    },
    Rule {
        code: Code::V1,
        title: "the code does not fit the log",
        wrong: "The workflow's code asks for other steps than those that the log has.",
        remedy: "The run is parked with both sides shown: register the older code, or jump to the last common step.",
        budget: Budget::Once,
        detector: Detector::Execution,
    },
    Rule {
        code: Code::F1,
        title: "following what nobody executes",
        wrong: "Somebody follows a run that does not move although it should.",
        remedy: "The follower is told that it is stalled and why; the log is what is followed, never memory.",
        budget: Budget::Never,
        detector: Detector::Follower,
    },
    Rule {
        code: Code::L1,
        title: "a stale lock",
        wrong: "A lock is past its expiry, or the node that holds it is proven gone.",
        remedy: "The lock is freed and its fence grows.",
        budget: Budget::AsNeeded,
        detector: Detector::Lock,
    },
    Rule {
        code: Code::L2,
        title: "a task claimed by nobody alive",
        wrong: "The task's claimant is gone or has been silent for too long.",
        remedy: "The task goes back to its queue with identity and priority kept; past the limit it is dead.",
        budget: Budget::Deliveries,
        detector: Detector::Task,
    },
];
