//! Which run takes its process down: who can be a suspect, how suspects are let in, and when rule P1 stops one.
//!
//! Invariant: P1 acts only on a run that was recovered as often as its policy allows, the last time
//! alone in a process that had lived long enough without it, and that died executing each time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Code, Remedy};
use crate::error::Failure;
use crate::planted::{self, Bug};
use crate::summary::{Status, Summary};

/// Before a decisive attempt the process lives this many probations without the suspect.
const CONTROL_PROBATIONS: u32 = 8;
/// And this many lives of the process that was lost.
const CONTROL_LIVES: u32 = 4;
/// No control lasts longer than this many times the doubt, a minute by default: a process that lives for so long
/// without the suspect is in no crash loop, and a run that took hours to die does not wait for hours.
const CONTROL_DOUBTS_MAX: u32 = 60;

/// How a run is recovered. It travels with the run, so that every healer decides alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = RecoveryPolicy))]
pub struct Policy {
    /// Counted recoveries without progress before rule P1 stops the run.
    pub attempts_max: u32,
    /// Rule P1 parks the run; else it fails once what it did is undone.
    pub park: bool,
    /// How long a finding must have held before a sweep heals it.
    pub stale_ms: u64,
    /// Pause of a run that waits for the recovery of others; ten of them are the doubt about two lives.
    pub delay_ms: u64,
}

impl Default for Policy {
    fn default() -> Self {
        Self { attempts_max: 3, park: true, stale_ms: 30_000, delay_ms: 100 }
    }
}

impl Policy {
    /// The policy that the run's log names, else `own`: that of the process that asks.
    pub fn of(summary: &Summary, own: Self) -> Self {
        summary.recovery.unwrap_or(own)
    }

    /// What `diagnose` needs of it.
    pub fn bounds(self) -> Bounds {
        Bounds { attempts_max: self.attempts_max, park: self.park }
    }

    /// Two lives of a run that differ by less do not differ.
    pub fn doubt(self) -> Duration {
        Duration::from_millis(self.delay_ms).saturating_mul(10)
    }

    /// How long a finding must have held before a sweep heals it.
    pub fn stale_after(self) -> Duration {
        Duration::from_millis(self.stale_ms)
    }
}

/// How often a run may be recovered without progress, and what happens then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Counted recoveries without progress, at least 1.
    pub attempts_max: u32,
    /// Park the run instead of failing it.
    pub park: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        Policy::default().bounds()
    }
}

impl Bounds {
    /// The recovery that decides: the run is alone in it, and if it dies in it, P1 acts.
    fn decisive(self) -> u32 {
        self.attempts_max.max(1)
    }
}

/// How a suspect of crashing its process is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// With all others.
    Crowd,
    /// With a few other suspects.
    Cohort,
    /// With nothing beside it that was let in lately.
    Alone,
    /// Not at all: it is the one.
    Never,
}

/// How long a lost owner had a run, as far as can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lived {
    /// At least.
    pub least: Duration,
    /// At most.
    pub most: Duration,
    /// Two lives that differ by less do not differ: a crash takes a little longer one time than another.
    pub doubt: Duration,
    /// How long the owner's process lived in all, as far as its beats tell.
    pub process: Duration,
}

/// Whether code of the run may have been executing when its owner died.
///
/// A run whose every open operation waits takes no process down. If it was recovered while it waited, its owner gives
/// it back as soon as replay has shown that it only waits; so one that dies owned right after that was executing.
pub fn was_executing(summary: &Summary) -> bool {
    if planted::is(Bug::WaitingIsCharged) {
        return true;
    }
    match summary.status {
        Status::Waiting | Status::Sleeping => {
            let kept = summary.lived_ms.is_some() && summary.recovered_at == summary.claimed_at;
            !summary.under_way.is_empty() || kept
        }
        _ => true,
    }
}

/// Whether the loss of its owner counts against the run.
///
/// A run that lived for more than twice as long as before its last crash did not cause this one, so it is not counted:
/// a long run beside a poisonous one must not pay for it.
fn is_charged(summary: &Summary, lived: Lived) -> bool {
    let before = summary.lived_ms.map(Duration::from_millis);
    let innocent = summary.attempt > 0
        && before.is_some_and(|before| lived.least > before.saturating_mul(2).saturating_add(lived.doubt));
    was_executing(summary) && !innocent
}

/// The number of the recovery that a loss of its owner would be, counted since the last progress.
///
/// The recovery that decides is counted only if the run is let in alone: with others beside it, a death proves nothing
/// about one of them.
pub fn next_attempt(summary: &Summary, lived: Lived, bounds: Bounds, alone: bool) -> u32 {
    let most = if alone { bounds.decisive() } else { bounds.decisive() - 1 };
    let next = summary.attempt.saturating_add(u32::from(is_charged(summary, lived)));
    next.min(most)
}

/// How the next recovery of the run is let in.
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

/// How long a suspect is watched before others are let in: one that lives for longer is innocent.
pub fn probation(lived: Lived) -> Duration {
    lived.most.saturating_mul(2).saturating_add(lived.doubt)
}

/// How long a process must have lived, without the suspect, before it lets the suspect in.
///
/// A process that is killed from outside again and again does not live that long, so it blames no run. The life of the
/// lost process covers kills at regular intervals, however late the run was claimed in it; four of them leave little to
/// kills at random.
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

/// What of the run was executing when its owner died, as far as the log tells.
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

/// What P1 has seen of a run.
pub fn seen_of(summary: &Summary) -> String {
    let (attempts, place) = (summary.attempt, suspected(summary));
    format!(
        "the worker died after each of {attempts} recoveries without progress, the last time executing only this run, {place}"
    )
}

/// What P1 does to a run. One that is being undone already is parked whatever its policy: undoing takes its process
/// down, too.
pub fn used_up(summary: &Summary, bounds: Bounds) -> Remedy {
    let message = format!("recovery failed after {} attempts", summary.attempt);
    match bounds.park || summary.compensating {
        true => Remedy::Park { reason: format!("{message}: {}", seen_of(summary)) },
        false => Remedy::Fail { failure: Failure::terminal(message).with_code(Code::P1.as_str()) },
    }
}
