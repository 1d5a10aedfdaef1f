//! Failed cases: the flaw, the case, and the timeline.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;

use goldseam_core::{Event, Millis, Recorded, RunId, Seq};
use goldseam_engine::Outcome;

use super::case::Case;

/// Maximum number of lines per log in a timeline. The last lines are kept.
const LINES_MAX: usize = 60;

/// The problem that a case found.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Flaw {
    /// The tester or an engine cannot start with this configuration.
    Setup(String),
    /// The search has more cases than allowed.
    TooMany {
        /// Number of appends of the run without faults.
        appends: u64,
        /// Maximum number of cases.
        cases_max: u64,
    },
    /// The workflow is not deterministic: a replay requested another operation than the log holds.
    NotDeterministic(String),
    /// The run was parked: it needs an operator.
    Parked {
        /// Code of the rule or error.
        code: String,
        /// Reason in the log.
        reason: String,
    },
    /// The run does not end.
    NoEnd(String),
    /// The run refused a signal or an answer.
    Refused(String),
    /// The outcome of the run differs from the one without faults.
    OtherOutcome {
        /// Outcome without faults.
        calm: String,
        /// Outcome in this case.
        here: String,
    },
    /// An effect counts more or less often than without faults.
    OtherEffect {
        /// Name of the effect.
        effect: String,
        /// Count without faults.
        calm: u64,
        /// Count in this case.
        here: u64,
    },
    /// A step or compensation began after its completion was recorded.
    Again(String),
    /// The check of [`Tester::check`](super::Tester::check) failed.
    Check(String),
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setup(why) => write!(f, "cannot start: {why}"),
            Self::TooMany { appends, cases_max } => write!(
                f,
                "too many cases: the run makes {appends} appends, so crashes before and after each are {} cases, and \
                 the limit is {cases_max}. Raise it with .cases_max(…), test a smaller input, or use .seeded(…)",
                appends * 2
            ),
            Self::NotDeterministic(detail) => {
                write!(f, "the workflow is not deterministic: {detail}")
            }
            Self::Parked { code, reason } => write!(f, "the run was parked ({code}): {reason}"),
            Self::NoEnd(why) => write!(f, "the run does not end: {why}"),
            Self::Refused(why) => write!(f, "the run refused a signal or an answer of the test: {why}"),
            Self::OtherOutcome { calm, here } => {
                write!(f, "the outcome differs\n  without faults: {calm}\n  in this case:   {here}")
            }
            Self::OtherEffect { effect, calm, here } => {
                write!(f, "effect {effect} counts {}, without faults {}", frequency(*here), frequency(*calm))
            }
            Self::Again(what) => write!(f, "{what} began again after its completion was recorded"),
            Self::Check(why) => write!(f, "the check of the test failed: {why}"),
        }
    }
}

fn frequency(count: u64) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        more => format!("{more} times"),
    }
}

/// Describes how a run ended.
pub(super) fn describe_outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Completed(output) => format!("completed, {}", output.as_str()),
        Outcome::Failed(failure) => format!("failed, {failure}"),
        Outcome::Cancelled(reason) => format!("cancelled, {reason}"),
    }
}

/// A failed test: the flaw, the case, how to repeat it, and a timeline.
///
/// `Debug` prints the same as `Display`, so the message stays readable if a test unwraps or returns it.
#[derive(Clone)]
pub struct Failed(Box<Inner>);

#[derive(Clone)]
struct Inner {
    workflow: String,
    case: Case,
    flaw: Flaw,
    timeline: String,
}

impl Failed {
    pub(super) fn new(workflow: &str, case: Case, flaw: Flaw, timeline: String) -> Self {
        Self(Box::new(Inner { workflow: workflow.to_owned(), case, flaw, timeline }))
    }

    /// Returns the case that failed.
    pub fn case(&self) -> Case {
        self.0.case
    }

    /// Returns the problem that the case found.
    pub fn flaw(&self) -> &Flaw {
        &self.0.flaw
    }

    /// Returns the logs of all runs, with the starts and crashes of nodes.
    pub fn timeline(&self) -> &str {
        &self.0.timeline
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { workflow, case, flaw, timeline } = &*self.0;
        if !workflow.is_empty() {
            write!(f, "workflow {workflow}, {case}: ")?;
        }
        write!(f, "{flaw}")?;
        if !timeline.is_empty() {
            write!(f, "\nrepeat it alone: {}\n{}", case.repeat(), timeline.trim_end())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Failed {}

/// The start or crash of a node.
#[derive(Debug, Clone)]
pub(super) struct Incident {
    pub(super) at: Millis,
    pub(super) what: String,
    /// Where each log ended at that time.
    pub(super) ends: BTreeMap<RunId, Seq>,
}

/// Renders the log of one run, with the incidents of nodes in between.
pub(super) fn timeline(
    run: &RunId,
    events: &[Recorded],
    incidents: &[Incident],
    name_of: impl Fn(&str) -> String,
) -> String {
    let start = events.first().map_or(Millis(0), |first| first.at);
    let since = |at: Millis| format!("{:>10.3} s", at.since(start).as_secs_f64());
    let mut lines: Vec<String> = Vec::new();
    let happened = |after: Seq| -> Vec<String> {
        let here = |incident: &&Incident| incident.ends.get(run).copied().unwrap_or_default() == after;
        let line = |incident: &Incident| format!("   -  {}  {}", since(incident.at), incident.what);
        incidents.iter().filter(here).map(line).collect()
    };
    lines.extend(happened(Seq::ZERO));
    for recorded in events {
        let event = &recorded.event;
        let at = since(recorded.at);
        lines.push(format!("{:>4}  {at}  {}{}", recorded.seq.0, event.name(), detail(event, &name_of)));
        lines.extend(happened(recorded.seq));
    }
    let mut text = format!("log of run {run}:\n");
    let from = lines.len().saturating_sub(LINES_MAX);
    if from > 0 {
        let _ = writeln!(text, "   … {from} earlier lines");
    }
    for line in &lines[from..] {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Returns the text after the event's name.
fn detail(event: &Event, name_of: impl Fn(&str) -> String) -> String {
    match event {
        Event::RunQueued(queued) => format!(" {}", queued.workflow),
        Event::RunClaimed(claimed) => format!(" by {}", name_of(claimed.node.as_str())),
        Event::RunRecovered(recovery) => format!(" {}: {}", recovery.rule, recovery.reason),
        Event::RunParked { code, reason } => format!(" {code}: {reason}"),
        Event::RunCompleted { output } => format!(" {}", output.as_str()),
        Event::RunFailed { failure } => format!(" {failure}"),
        Event::RunCancelled { reason, .. } => format!(" {reason}"),
        Event::StepFailed(failed) => format!(" {}: {}", failed.path, failed.failure),
        Event::SignalReceived { name, id, .. } => format!(" {name} ({id})"),
        other => other.path().map(|path| format!(" {path}")).unwrap_or_default(),
    }
}
