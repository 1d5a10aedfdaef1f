//! What is wrong, in words, with everything that is needed to repeat it.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;

use goldseam_core::{Event, Millis, Recorded, RunId, Seq};
use goldseam_engine::Outcome;

use super::case::Case;

/// Events of one log that a timeline shows at the most: the last ones.
const LINES_MAX: usize = 60;

/// What a case showed to be wrong.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Flaw {
    /// The tester or an engine cannot start like this.
    Setup(String),
    /// There are too many cases to try them all.
    TooMany {
        /// Appends of the run without faults.
        appends: u64,
        /// Cases at the most.
        cases_max: u64,
    },
    /// Replay asks for something else than the log has: the code is not deterministic.
    NotDeterministic(String),
    /// The run needs an operator.
    Parked {
        /// Code of the rule or error.
        code: String,
        /// What was seen.
        reason: String,
    },
    /// The run does not end.
    NoEnd(String),
    /// The run refused a signal or an answer.
    Refused(String),
    /// The run ended in another way than without faults.
    OtherOutcome {
        /// Without faults.
        calm: String,
        /// In this case.
        here: String,
    },
    /// An effect counts more or less often than without faults.
    OtherEffect {
        /// The effect.
        effect: String,
        /// How often it counts without faults.
        calm: u64,
        /// How often it counts in this case.
        here: u64,
    },
    /// User code began again although its completion was recorded.
    Again(String),
    /// The user's own check says so.
    Check(String),
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setup(why) => write!(f, "it cannot start: {why}"),
            Self::TooMany { appends, cases_max } => write!(
                f,
                "the run makes {appends} appends, a crash before and after each is {} cases, and {cases_max} is the \
                 limit: raise it with .cases_max(…), test a smaller input, or draw cases with .seeded(…)",
                appends * 2
            ),
            Self::NotDeterministic(detail) => {
                write!(f, "the workflow is not deterministic, its replay asked for something else: {detail}")
            }
            Self::Parked { code, reason } => write!(f, "the run was parked ({code}): {reason}"),
            Self::NoEnd(why) => write!(f, "the run does not end: {why}"),
            Self::Refused(why) => write!(f, "the run refused what the test sent: {why}"),
            Self::OtherOutcome { calm, here } => {
                write!(f, "the run ended otherwise\n  without faults: {calm}\n  in this case:   {here}")
            }
            Self::OtherEffect { effect, calm, here } => {
                write!(f, "effect {effect} counts {}, without faults {}", times(*here), times(*calm))
            }
            Self::Again(what) => write!(f, "{what} began again after its completion was recorded"),
            Self::Check(why) => write!(f, "the test's own check: {why}"),
        }
    }
}

/// How often, in words.
fn times(count: u64) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        more => format!("{more} times"),
    }
}

/// How a run ended, in words.
pub(super) fn ended(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Completed(output) => format!("completed, {}", output.as_str()),
        Outcome::Failed(failure) => format!("failed, {failure}"),
        Outcome::Cancelled(reason) => format!("cancelled, {reason}"),
    }
}

/// A test that failed: what is wrong, in which case, how to repeat it, and what happened until then.
///
/// Its `Debug` is its `Display`, so that `unwrap` and a test that returns it can be read.
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

    /// The case that showed it.
    pub fn case(&self) -> Case {
        self.0.case
    }

    /// What is wrong.
    pub fn flaw(&self) -> &Flaw {
        &self.0.flaw
    }

    /// What happened until then: the logs of all runs, and which node died where.
    pub fn timeline(&self) -> &str {
        &self.0.timeline
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { workflow, case, flaw, timeline } = &*self.0;
        match workflow.is_empty() {
            true => write!(f, "{flaw}")?,
            false => write!(f, "workflow {workflow}, {case}: {flaw}")?,
        }
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

/// Something that happened to a node.
#[derive(Debug, Clone)]
pub(super) struct Incident {
    pub(super) at: Millis,
    pub(super) what: String,
    /// Where each log ended then.
    pub(super) ends: BTreeMap<RunId, Seq>,
}

/// The log of one run as people read it, with what happened to nodes between.
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
        let (seq, at, event) = (recorded.seq.0, since(recorded.at), &recorded.event);
        lines.push(format!("{seq:>4}  {at}  {}{}", event.name(), detail(event, &name_of)));
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

/// What a line says besides the event's name.
fn detail(event: &Event, name_of: impl Fn(&str) -> String) -> String {
    match event {
        Event::RunQueued(queued) => format!(" {}", queued.workflow),
        Event::RunClaimed(claimed) => format!(" by {}", name_of(claimed.node.as_str())),
        Event::RunRecovered(mended) => format!(" {}: {}", mended.rule, mended.reason),
        Event::RunParked { code, reason } => format!(" {code}: {reason}"),
        Event::RunCompleted { output } => format!(" {}", output.as_str()),
        Event::RunFailed { failure } => format!(" {failure}"),
        Event::RunCancelled { reason, .. } => format!(" {reason}"),
        Event::StepFailed(failed) => format!(" {}: {}", failed.path, failed.failure),
        Event::SignalReceived { name, id, .. } => format!(" {name} ({id})"),
        other => other.path().map(|path| format!(" {path}")).unwrap_or_default(),
    }
}
