//! `diagnose`: what is wrong with a run, by rules that are data.
//!
//! Invariant: a diagnosis is made from facts alone, and its remedy is carried out only at exactly
//! the end of the log that it was made from. So two healers do no more than one, and a run that
//! moved meanwhile is left alone.

mod blame;
mod detect;
pub mod foreign;
mod rules;

use std::time::Duration;

use crate::id::{NodeId, RunId, TaskId};
use crate::path::Path;
use crate::payload::Payload;
use crate::state::State;
use crate::summary::Summary;
use crate::task::Task;
use crate::time::{Millis, Seq};
use crate::{Failure, Status};

pub use blame::{
    Bounds, Lived, Pace, Policy, control, next_attempt, pace, probation, seen_of, suspected, used_up,
    was_executing,
};
pub use rules::{Budget, CATALOGUE, Code, Detector, NoRule, Rule};

/// The cached row as the store has it.
#[derive(Debug, Clone, Copy)]
pub struct Cached<'a> {
    /// What it says about the run.
    pub summary: &'a Summary,
    /// The run's own advance task.
    pub task: Option<&'a TaskId>,
}

/// What is known about the process of a run's owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// The log names none.
    Nobody,
    /// It lives, or nothing speaks against it.
    Alive,
    /// It is gone or silent.
    Lost {
        /// Whether its process is known to be gone.
        proven: bool,
        /// What was seen.
        evidence: String,
        /// How long it had the run.
        lived: Lived,
    },
}

impl Owner {
    /// Whether somebody may be executing the run.
    pub fn is_alive(&self) -> bool {
        *self == Self::Alive
    }
}

/// A remote step that is open, with the task that is to do it, if there is one.
#[derive(Debug, Clone, PartialEq)]
pub struct Remote {
    /// The step.
    pub path: Path,
    /// The attempt.
    pub attempt: u32,
    /// Its task as the queue has it.
    pub task: Option<Task>,
    /// How long its worker may be silent.
    pub silence: Duration,
    /// When the attempt began.
    pub since: Millis,
}

/// Everything that is known about one run.
#[derive(Debug, Clone)]
pub struct Sight<'a> {
    /// Now, by the store's clock.
    pub now: Millis,
    /// What the log says.
    pub state: &'a State,
    /// What the cache says; none if it is lost.
    pub row: Option<Cached<'a>>,
    /// The advance task that the row names, as the queue has it.
    pub task: Option<&'a Task>,
    /// The log's owner.
    pub owner: Owner,
    /// The task's claimant.
    pub claimant: Owner,
    /// The versions of its workflow that live nodes have, ascending; none: not looked up.
    pub versions: Option<&'a [u32]>,
    /// Open remote steps.
    pub remote: &'a [Remote],
    /// Children that it waits for and that have ended, though its log does not say so.
    pub children: &'a [(RunId, Result<Payload, Failure>)],
    /// How often it may be recovered.
    pub bounds: Bounds,
}

/// Something that is wrong with a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnosis {
    /// The rule.
    pub rule: Code,
    /// What was seen.
    pub evidence: String,
    /// What is to be done.
    pub remedy: Remedy,
}

/// What is to be done about a diagnosis. Everything but `Tell` is one append.
#[derive(Debug, Clone, PartialEq)]
pub enum Remedy {
    /// Cut off what cannot be trusted: a branch at this position.
    Branch {
        /// The last position that it sees.
        cutoff: Seq,
    },
    /// The failed step is tried again.
    Retry {
        /// The step.
        path: Path,
        /// Number of the attempt to come.
        attempt: u32,
    },
    /// A new advance task.
    Requeue {
        /// When it is due.
        run_at: Millis,
    },
    /// The task of a lost node goes back to its queue, so that another takes the run over.
    Reclaim,
    /// The run's task is due now.
    Wake,
    /// What became of a child.
    Deliver {
        /// The child.
        child: RunId,
        /// How it ended.
        result: Result<Payload, Failure>,
    },
    /// The remote step's task holds its result.
    TakeResult {
        /// The step.
        path: Path,
        /// The attempt.
        attempt: u32,
        /// The task, finished.
        task: Box<Task>,
    },
    /// The remote step gets another task for the same attempt.
    SendAgain {
        /// The step.
        path: Path,
        /// The attempt.
        attempt: u32,
    },
    /// The remote step's attempt is given up.
    GiveUp {
        /// The step.
        path: Path,
        /// The attempt.
        attempt: u32,
        /// The task, as it was seen: any heartbeat since then defeats the remedy.
        task: Box<Task>,
    },
    /// The run goes on under another version of its workflow.
    ChangeVersion {
        /// That version.
        to: u32,
    },
    /// The run fails for good.
    Fail {
        /// Why.
        failure: Failure,
    },
    /// The run needs a person.
    Park {
        /// What was seen.
        reason: String,
    },
    /// Only a person, or time, can help.
    Tell {
        /// What to do.
        hint: String,
    },
}

impl Remedy {
    /// Whether an engine can do it by itself.
    pub fn is_automatic(&self) -> bool {
        !matches!(self, Self::Tell { .. })
    }

    /// In a few words, for people.
    pub fn describe(&self) -> String {
        match self {
            Self::Branch { cutoff } => format!("open a branch at event {cutoff}"),
            Self::Retry { path, attempt } => format!("try step {path} again, attempt {attempt}"),
            Self::Requeue { run_at } if *run_at == Millis::NEVER => "make a task that sleeps".to_owned(),
            Self::Requeue { .. } => "make a new task".to_owned(),
            Self::Reclaim => "put its task back into the queue".to_owned(),
            Self::Wake => "wake it".to_owned(),
            Self::Deliver { child, .. } => format!("deliver the end of child {child}"),
            Self::TakeResult { path, .. } => format!("take the result of step {path} from its task"),
            Self::SendAgain { path, .. } => format!("make a new task for step {path}"),
            Self::GiveUp { path, attempt, .. } => format!("give up attempt {attempt} of step {path}"),
            Self::ChangeVersion { to } => format!("change its version to {to}"),
            Self::Fail { failure } => format!("fail the run: {}", failure.message),
            Self::Park { .. } => "park the run".to_owned(),
            Self::Tell { hint } => hint.clone(),
        }
    }
}

/// Everything that is wrong with a run, what is to be healed first standing first.
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

/// What whoever has just taken a run must mend before its code sees the log: D2 and A4, which need no cache.
pub fn at_claim(state: &State) -> Option<Diagnosis> {
    detect::at_claim(state)
}

/// What is wrong with a run whose log cannot be read.
pub fn damaged(what: &crate::Corrupt) -> Diagnosis {
    let reason = what.to_string();
    if what.is_newer {
        let hint = "start a node of the release that wrote it, or upgrade this one; the run waits, unharmed"
            .to_owned();
        return Diagnosis { rule: Code::K2, evidence: reason, remedy: Remedy::Tell { hint } };
    }
    Diagnosis { rule: Code::K1, evidence: reason.clone(), remedy: Remedy::Park { reason } }
}

/// A parked run stays a finding until a person has dealt with it.
fn parked(sight: &Sight<'_>) -> Diagnosis {
    let summary = &sight.state.summary;
    let trouble = summary.trouble.as_ref();
    let code = trouble.and_then(|trouble| trouble.code.as_deref());
    let rule: Option<Code> = code.and_then(|code| code.parse().ok());
    let evidence = trouble.map_or_else(|| "it is parked".to_owned(), |trouble| trouble.message.clone());
    let read = match (rule, code) {
        (None, Some(code)) => format!(" (goldseam explain {code})"),
        _ => String::new(),
    };
    let hint = match rule {
        Some(Code::E2) => detect::comes_back(sight),
        _ => format!("deal with it{read}, then: goldseam resume {}", summary.run),
    };
    Diagnosis { rule: rule.unwrap_or(Code::V1), evidence, remedy: Remedy::Tell { hint } }
}

/// Why a run is parked that a cut would have healed.
pub const NO_STABLE_EVENT: &str = "no stable event found";

/// The last event that may be trusted whatever came after: a completed step, or an answer that was read.
pub fn last_stable(state: &State) -> Option<Seq> {
    detect::last_stable(state)
}

/// Who heals, why, and from where: what a heal says about itself in the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Healer {
    /// The node, if one does.
    pub node: Option<NodeId>,
    /// Why it looked.
    pub reason: Reason,
}

/// Why somebody looked at a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A process is gone.
    InfrastructureRestart,
    /// A sweep found it.
    StaleDetection,
    /// A person asked.
    Manual,
}

impl Reason {
    /// The word in the log.
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
