//! `diagnose`: finds what is wrong with a run, by rules that are data.
//!
//! Invariant: a diagnosis follows from facts alone, and its remedy is applied only at exactly the log end that the
//! diagnosis was made from. Two healers therefore do no more than one, and a run that changed in the meantime is left
//! alone.

mod blame;
mod detect;
pub mod foreign;
mod observed;
mod rules;

use std::time::Duration;

use crate::error::Failure;
use crate::id::{NodeId, RunId, TaskId};
use crate::next_step::{Hint, NextStep};
use crate::path::Path;
use crate::payload::Payload;
use crate::state::State;
use crate::status::Status;
use crate::summary::Summary;
use crate::task::Task;
use crate::time::{Millis, Seq};

pub use crate::recovery_policy::{Bounds, Policy};
pub use blame::{
    Lived, Pace, control, is_charged, next_attempt, pace, probation, recorded_attempt, seen_of, suspected,
    used_up, was_executing,
};
pub use detect::{not_executed, poisoned};
pub use observed::{damaged, damaged_at_rest, unreadable, wrong_row};
pub use rules::{Budget, CATALOGUE, Code, Detector, NoRule, Rule, RuleSeverity};

/// The cached row as the store has it.
#[derive(Debug, Clone, Copy)]
pub struct Cached<'a> {
    /// The content of the row.
    pub summary: &'a Summary,
    /// The run's advance task.
    pub task: Option<&'a TaskId>,
}

/// What is known about the process of a run's owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// The log names no owner.
    None,
    /// The process is alive, or no evidence says otherwise.
    Alive,
    /// The process is dead or silent.
    Lost {
        /// Whether its process is known to be dead.
        proven: bool,
        /// What was observed.
        evidence: String,
        /// How long it owned the run.
        lived: Lived,
    },
}

impl Owner {
    /// Returns whether the owner may be executing the run.
    pub fn is_alive(&self) -> bool {
        *self == Self::Alive
    }

    /// Replaces the tolerance of a lost owner's lifetime by that of the run's policy.
    #[must_use]
    pub fn with_doubt(self, policy: Policy) -> Self {
        match self {
            Self::Lost { proven, evidence, lived } => {
                Self::Lost { proven, evidence, lived: Lived { doubt: policy.doubt(), ..lived } }
            }
            other => other,
        }
    }
}

/// An open remote step and its task, if it has one.
#[derive(Debug, Clone, PartialEq)]
pub struct Remote {
    /// The step.
    pub path: Path,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// The task as the queue has it.
    pub task: Option<Task>,
    /// How long the worker may be silent.
    pub silence: Duration,
    /// When the attempt began.
    pub since: Millis,
}

/// Every known fact about one run.
#[derive(Debug, Clone)]
pub struct Sight<'a> {
    /// Now, by the store's clock.
    pub now: Millis,
    /// The state, derived from the log.
    pub state: &'a State,
    /// The cached row; none if it is lost.
    pub row: Option<Cached<'a>>,
    /// The advance task that the row names, as the queue has it.
    pub task: Option<&'a Task>,
    /// The owner that the log names.
    pub owner: Owner,
    /// The claimant of the task.
    pub claimant: Owner,
    /// The versions of its workflow that live nodes have, ascending; none: not looked up.
    pub versions: Option<&'a [u32]>,
    /// The queues from which live nodes with its workflow and version take runs; none: not looked up, or a node does not
    /// record its queues.
    pub queues: Option<&'a [String]>,
    /// Open remote steps.
    pub remote: &'a [Remote],
    /// Children that have ended and that the run waits for, although its log does not record their end.
    pub children: &'a [(RunId, Result<Payload, Failure>)],
    /// How often the run may be recovered.
    pub bounds: Bounds,
}

/// A rule that applies to a run, with its evidence and its remedy. Only this module constructs one, so the same facts
/// have the same rule and the same words on every path.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Diagnosis {
    /// The rule.
    pub rule: Code,
    /// What was observed.
    pub evidence: String,
    /// What repairs it.
    pub remedy: Remedy,
}

/// What repairs a diagnosis. Every remedy except `Tell` is one append.
#[derive(Debug, Clone, PartialEq)]
pub enum Remedy {
    /// Open a branch at this position and so discard what follows it.
    Branch {
        /// The last position that the branch sees.
        cutoff: Seq,
    },
    /// Retry the failed step.
    Retry {
        /// The step.
        path: Path,
        /// Number of the next attempt.
        attempt: u32,
    },
    /// Create a new advance task.
    Requeue {
        /// When the task is due.
        run_at: Millis,
    },
    /// Return the task of a lost node to its queue, so that another node takes over the run.
    Reclaim,
    /// Make the run's task due now.
    Wake,
    /// Deliver the end of a child to its parent.
    Deliver {
        /// The child.
        child: RunId,
        /// How it ended.
        result: Result<Payload, Failure>,
    },
    /// Append the result that the task of a remote step holds.
    TakeResult {
        /// The step.
        path: Path,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// The task, which has ended.
        task: Box<Task>,
    },
    /// Create another task for the same attempt of a remote step.
    SendAgain {
        /// The step.
        path: Path,
        /// Number of the attempt, from 1.
        attempt: u32,
    },
    /// Give up an attempt of a remote step.
    GiveUp {
        /// The step.
        path: Path,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// The task as it was observed: any later heartbeat defeats the remedy.
        task: Box<Task>,
    },
    /// Continue the run under another version of its workflow.
    ChangeVersion {
        /// The new version.
        to: u32,
    },
    /// Fail the run for good.
    Fail {
        /// Why it fails.
        failure: Failure,
    },
    /// Park the run until an operator resolves it.
    Park {
        /// What was observed.
        reason: String,
    },
    /// Only report it: an operator, or time, resolves it.
    Tell {
        /// What the operator can do.
        hint: Hint,
    },
}

impl Diagnosis {
    /// Returns the diagnosis while a deploy may still bring the version that E2 misses: an operator learns what to do
    /// and what follows. Other rules are unchanged.
    #[must_use]
    pub fn before_grace(self, summary: &Summary) -> Self {
        if self.rule != Code::E2 || !self.remedy.is_automatic() {
            return self;
        }
        let needs = summary.needs();
        let later = self.remedy.describe();
        let hint = Hint::from(format!(
            "start a worker with {needs}; otherwise a sweep will {later}; to do so now: "
        ))
        .step(NextStep::Recover { run: summary.run.clone(), rule: Some(self.rule.to_string()) });
        Self { remedy: Remedy::Tell { hint }, ..self }
    }
}

impl Remedy {
    /// Returns whether an engine can apply the remedy without an operator.
    pub fn is_automatic(&self) -> bool {
        !matches!(self, Self::Tell { .. })
    }

    /// Returns a short description for people.
    pub fn describe(&self) -> Hint {
        let text = match self {
            Self::Branch { cutoff } => format!("open a branch at event {cutoff}"),
            Self::Retry { path, attempt } => format!("retry step {path}, attempt {attempt}"),
            Self::Requeue { run_at } if *run_at == Millis::NEVER => {
                "create a dormant advance task".to_owned()
            }
            Self::Requeue { .. } => "create an advance task".to_owned(),
            Self::Reclaim => "return its task to the queue".to_owned(),
            Self::Wake => "wake the run".to_owned(),
            Self::Deliver { child, .. } => format!("deliver the end of child {child}"),
            Self::TakeResult { path, .. } => format!("take the result of step {path} from its task"),
            Self::SendAgain { path, .. } => format!("create a new task for step {path}"),
            Self::GiveUp { path, attempt, .. } => format!("give up attempt {attempt} of step {path}"),
            Self::ChangeVersion { to } => format!("change its version to {to}"),
            Self::Fail { failure } => format!("fail the run: {}", failure.message),
            Self::Park { .. } => "park the run".to_owned(),
            Self::Tell { hint } => return hint.clone(),
        };
        text.into()
    }
}

/// Returns everything that is wrong with a run; the first one is healed first.
pub fn diagnose(sight: &Sight<'_>) -> Vec<Diagnosis> {
    let status = sight.state.summary.status;
    if status.is_terminal() || status == Status::Paused {
        return Vec::new();
    }
    if status == Status::Parked {
        return vec![parked(sight)];
    }
    let mut found = Vec::new();
    for rule in CATALOGUE {
        if let Detector::Run(detect) = rule.detector {
            found.extend(detect(sight));
        }
    }
    found
}

/// Returns what a node that has just claimed a run must repair before its code sees the log: D2 and A4, which need no
/// cache.
pub fn at_claim(state: &State) -> Option<Diagnosis> {
    detect::at_claim(state)
}

/// A parked run stays a finding until an operator has resolved it.
fn parked(sight: &Sight<'_>) -> Diagnosis {
    let summary = &sight.state.summary;
    let trouble = summary.trouble.as_ref();
    let code = trouble.and_then(|trouble| trouble.code.as_deref());
    let rule = code.and_then(Code::from_code);
    let evidence = trouble.map_or_else(|| "the run is parked".to_owned(), |trouble| trouble.message.clone());
    let resolve = match (rule, code) {
        (None, Some(code)) => Hint::from("resolve the problem (").step(NextStep::explain(code)).text(")"),
        _ => "resolve the problem".into(),
    };
    let hint = match rule {
        Some(Code::E2) => detect::resume_hint(sight),
        _ => resolve.text(", then: ").step(NextStep::resume(&summary.run)),
    };
    Diagnosis { rule: rule.unwrap_or(Code::V1), evidence, remedy: Remedy::Tell { hint } }
}

/// The reason for parking a run that a branch would heal, if no stable event exists.
pub const NO_STABLE_EVENT: &str = "no stable event found";

/// Returns the last stable event: a completed step, or an answer that was read.
pub fn last_stable(state: &State) -> Option<Seq> {
    detect::last_stable(state)
}

/// The healer, and why it acts; recorded in the log with the remedy.
#[derive(Debug, Clone, PartialEq)]
pub struct Healer {
    /// The node, if a node heals.
    pub node: Option<NodeId>,
    /// Why it examined the run.
    pub reason: Reason,
}

/// Why a healer examined a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A process died.
    InfrastructureRestart,
    /// A sweep found it.
    StaleDetection,
    /// An operator requested it.
    Manual,
}

impl Reason {
    /// Returns the word in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InfrastructureRestart => "infrastructure_restart",
            Self::StaleDetection => "stale_detection",
            Self::Manual => "manual",
        }
    }
}

#[cfg(test)]
mod tests;
