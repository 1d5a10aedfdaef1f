//! Crash blame: which runs can be suspects, how suspects are admitted, and when rule P1 stops one.
//!
//! Invariant: P1 acts only on a run that was recovered as often as its policy allows, the last time alone in a
//! process that had lived long enough without it, and that died executing each time.

use std::time::Duration;

use super::{Code, Remedy};
use crate::error::Failure;
use crate::recovery_policy::{Bounds, Policy};
use crate::summary::{Status, Summary};

/// Number of probations that a process lives without the suspect before a decisive attempt.
const CONTROL_PROBATIONS: u32 = 8;
/// Number of lifetimes of the lost process that it lives as well.
const CONTROL_LIVES: u32 = 4;
/// Upper bound of a control, as a multiple of the doubt: a minute by default. A process that lives that long without
/// the suspect is not in a crash loop, and a run that took hours to die does not wait for hours.
const CONTROL_DOUBTS_MAX: u32 = 60;

impl Policy {
    /// Returns the policy that the run's log names, or else `own`, the policy of the asking process.
    pub fn of(summary: &Summary, own: Self) -> Self {
        summary.recovery.unwrap_or(own)
    }
}

/// How a suspect of crashing its process is admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Together with all others.
    Crowd,
    /// Together with a few other suspects.
    Cohort,
    /// Alone: nothing else was admitted recently.
    Alone,
    /// Never: rule P1 stops the run.
    Never,
}

/// How long a lost owner owned a run, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lived {
    /// Lower bound.
    pub least: Duration,
    /// Upper bound.
    pub most: Duration,
    /// Tolerance when comparing two lifetimes: a crash does not always take equally long.
    pub doubt: Duration,
    /// How long the owner's process lived in total, according to its beats.
    pub process: Duration,
}

/// Returns whether code of the run may have been executing when its owner died.
///
/// A run whose every open operation waits cannot crash a process. The owner of a run that was recovered while it
/// waited releases it as soon as replay has shown that it only waits, so if such a run dies owned right after that,
/// it was executing.
pub fn was_executing(summary: &Summary) -> bool {
    match summary.status {
        Status::Waiting | Status::Sleeping => {
            let kept = summary.lived_ms.is_some() && summary.recovered_at == summary.claimed_at;
            !summary.under_way.is_empty() || kept
        }
        _ => true,
    }
}

/// Returns whether the loss of its owner counts against the run.
///
/// A run that lived more than twice as long as before its last crash did not cause this one, so the crash is not
/// counted: a long run must not be blamed for a poisonous one beside it.
pub fn is_charged(summary: &Summary, lived: Lived) -> bool {
    let before = summary.lived_ms.map(Duration::from_millis);
    let innocent = summary.attempt > 0
        && before.is_some_and(|before| lived.least > before.saturating_mul(2).saturating_add(lived.doubt));
    was_executing(summary) && !innocent
}

/// Returns the number of the next recovery if the owner is lost now, counted since the last progress.
///
/// The decisive recovery is counted only if the run is admitted alone: with other runs beside it, the crash proves
/// nothing about one of them.
pub fn next_attempt(summary: &Summary, lived: Lived, bounds: Bounds, alone: bool) -> u32 {
    let most = if alone { bounds.decisive() } else { bounds.decisive() - 1 };
    let next = summary.attempt.saturating_add(u32::from(is_charged(summary, lived)));
    next.min(most)
}

/// Returns the number that `run.recovered` records for a run with this many counted attempts: numbers begin at 1, also
/// if the recovery itself counts no attempt.
pub fn recorded_attempt(counted: u32) -> u32 {
    counted.max(1)
}

/// Returns how the run is admitted at its next recovery.
pub fn pace(summary: &Summary, lived: Lived, bounds: Bounds) -> Pace {
    if !was_executing(summary) {
        return Pace::Crowd;
    }
    let charged = is_charged(summary, lived);
    let next = summary.attempt.saturating_add(u32::from(charged));
    if charged && summary.alone && summary.attempt >= bounds.decisive() {
        return Pace::Never;
    }
    match next {
        0 => Pace::Crowd,
        next if next >= bounds.decisive() => Pace::Alone,
        1 => Pace::Crowd,
        _ => Pace::Cohort,
    }
}

/// Returns how long a suspect is watched before others are admitted: one that lives longer is innocent.
pub fn probation(lived: Lived) -> Duration {
    lived.most.saturating_mul(2).saturating_add(lived.doubt)
}

/// Returns how long a process must have lived without the suspect before it admits the suspect.
///
/// A process that is killed from outside again and again does not live that long, so it blames no run. The lifetime
/// of the lost process covers kills at regular intervals, however late the process claimed the run; four lifetimes
/// cover most kills at random intervals.
pub fn control(lived: Lived, pace: Pace) -> Duration {
    let span = match pace {
        Pace::Crowd | Pace::Never => Duration::ZERO,
        Pace::Cohort => probation(lived),
        Pace::Alone => {
            let watched = probation(lived).saturating_mul(CONTROL_PROBATIONS);
            watched.max(lived.process.saturating_mul(CONTROL_LIVES))
        }
    };
    span.min(lived.doubt.saturating_mul(CONTROL_DOUBTS_MAX))
}

/// Returns which part of the run was executing when its owner died, as far as the log records it.
pub fn suspected(summary: &Summary) -> String {
    match (summary.under_way.as_slice(), &summary.step) {
        ([], Some(step)) if summary.compensating => format!("while undoing step {step}"),
        ([], Some(step)) => format!("in workflow code after step {step}"),
        ([], None) => "in workflow code before its first step".to_owned(),
        ([step], _) => format!("in step {step}"),
        (steps, _) => {
            let steps: Vec<&str> = steps.iter().map(crate::Path::as_str).collect();
            format!("in one of the steps {}", steps.join(", "))
        }
    }
}

/// Returns the evidence of P1.
pub fn seen_of(summary: &Summary) -> String {
    let attempts = summary.attempt;
    let place = suspected(summary);
    format!(
        "the worker died after each of {attempts} recoveries without progress, most recently executing only this run, {place}"
    )
}

/// Returns the remedy of P1. A run that is already compensating is parked regardless of its policy: compensating
/// crashes its process, too.
pub fn used_up(summary: &Summary, bounds: Bounds) -> Remedy {
    let message = format!("recovery failed after {} attempts", summary.attempt);
    match bounds.park || summary.compensating {
        true => Remedy::Park { reason: format!("{message}: {}", seen_of(summary)) },
        false => Remedy::Fail { failure: Failure::terminal(message).with_code(Code::P1.as_str()) },
    }
}
