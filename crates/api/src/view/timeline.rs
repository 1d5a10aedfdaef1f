//! The steps of a run as rows with spans of time: what is shown and drawn of them.

use goldseam::core::event::{Cause, Event, WaitStarted};
use goldseam::core::{BranchId, Path, Recorded};
use goldseam::{Millis, Seq};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::describe::{Much, describe};

/// One operation of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Step)]
pub struct Row {
    /// Its identity.
    pub path: String,
    /// What it is.
    pub kind: Kind,
    /// How far it is.
    pub state: State,
    /// Attempts that the log knows of.
    pub attempts: u32,
    /// When it began.
    pub began: Millis,
    /// When it ended; none while it goes on.
    pub ended: Option<Millis>,
    /// What went wrong last, if anything did.
    pub note: Option<String>,
    /// The queue that it was handed out to, if somebody else does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Its latest task there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// When it did what, for a picture; not part of the document.
    #[serde(skip)]
    pub spans: Vec<Span>,
}

/// What an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = StepKind)]
pub enum Kind {
    /// A leaf step.
    Step,
    /// A step that somebody else does.
    Remote,
    /// A step that holds steps.
    Group,
    /// A wait for signals, children or several things.
    Wait,
    /// A question to a person.
    Question,
    /// A sleep.
    Sleep,
    /// The undoing of a step.
    Undo,
}

impl Kind {
    /// The word in JSON and on screen.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Remote => "remote",
            Self::Group => "group",
            Self::Wait => "wait",
            Self::Question => "question",
            Self::Sleep => "sleep",
            Self::Undo => "undo",
        }
    }
}

/// How far an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = StepState)]
pub enum State {
    /// It goes on.
    Open,
    /// It ended well.
    Done,
    /// It ended badly.
    Failed,
}

impl State {
    /// The word in JSON and on screen.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// How a span of time looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Something is done.
    Work,
    /// It failed.
    Failure,
    /// It waits or sleeps.
    Wait,
    /// It rests before another attempt.
    Pause,
}

/// A part of the time that an operation took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its beginning.
    pub from: Millis,
    /// Its end; none while it goes on.
    pub to: Option<Millis>,
    /// How it looks.
    pub look: Look,
}

/// Something that happened to the run as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Seam {
    /// When.
    pub at: Millis,
    /// `recovered`, `branch`, `paused`, `resumed`, `parked`, `cancel`, `withdrawn`, `terminated` or `taken over`.
    pub kind: String,
    /// In words.
    pub what: String,
    /// By which rule, if one mended the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What was seen then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// Where it was cut, if a branch was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
}

/// Where a branch leaves another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Cut {
    /// The old side.
    pub from: Option<String>,
    /// The new side.
    pub to: String,
    /// The last event that both share.
    pub after: Seq,
}

impl Cut {
    fn new(from: Option<BranchId>, to: BranchId, after: Seq) -> Self {
        Self { from: from.map(|from| from.to_string()), to: to.to_string(), after }
    }
}

/// The rows of what one branch sees, in order of beginning.
pub fn rows(events: &[&Recorded]) -> Vec<Row> {
    let mut rows = Rows(Vec::new());
    for recorded in events {
        rows.take(recorded);
    }
    let mut rows = rows.0;
    rows.sort_by_key(|row| (row.began, row.path.matches('/').count()));
    rows
}

/// What happened to the run as a whole, on every branch. A recovery that cut is one seam, not two.
pub fn seams(history: &[Recorded]) -> Vec<Seam> {
    let told = |recorded: &Recorded| {
        let same = |other: &&Recorded| other.write == recorded.write;
        history.iter().filter(same).any(|other| matches!(other.event, Event::RunRecovered(_)))
    };
    history.iter().filter_map(|recorded| seam(recorded, told(recorded))).collect()
}

fn seam(recorded: &Recorded, told: bool) -> Option<Seam> {
    let (mut rule, mut evidence, mut cut) = (None, None, None);
    let kind = match &recorded.event {
        Event::RunClaimed(claim) if claim.cause == Cause::Recovery && !told => "taken over",
        Event::RunRecovered(mended) => {
            (rule, evidence) = (Some(mended.rule.clone()), Some(mended.evidence.clone()));
            let to = mended.new_branch.zip(mended.cutoff);
            cut = to.map(|(to, after)| Cut::new(mended.previous_branch, to, after));
            "recovered"
        }
        Event::BranchOpened(opened) if !told => {
            cut = Some(Cut::new(opened.parent, opened.branch, opened.cutoff));
            "branch"
        }
        Event::RunPaused(_) => "paused",
        Event::RunResumed(_) => "resumed",
        Event::RunParked { .. } => "parked",
        Event::RunCancelRequested(_) => "cancel",
        Event::RunCancelled { terminated: Some(_), .. } => "terminated",
        Event::RequestWithdrawn(_) => "withdrawn",
        _ => return None,
    };
    let what = describe(&recorded.event, Much::Some);
    Some(Seam { at: recorded.at, kind: kind.to_owned(), what, rule, evidence, cut })
}

struct Rows(Vec<Row>);

impl Rows {
    fn take(&mut self, recorded: &Recorded) {
        let at = recorded.at;
        match &recorded.event {
            Event::StepStarted(step) => {
                let row = self.row(&step.path, Kind::Step, at);
                row.attempts = step.attempt;
                if let Some(remote) = &step.remote {
                    row.kind = Kind::Remote;
                    row.queue = Some(remote.queue.to_string());
                    row.task = Some(remote.task.to_string());
                }
                row.open(at, Look::Work);
            }
            Event::StepCompleted(step) => {
                let kind = if step.group { Kind::Group } else { Kind::Step };
                let row = self.row(&step.path, kind, step.began);
                row.attempts = step.attempt;
                row.close((step.began, at), Look::Work, State::Done);
            }
            Event::StepFailed(step) => {
                let kind = if step.group { Kind::Group } else { Kind::Step };
                let row = self.row(&step.path, kind, step.began);
                row.attempts = step.attempt;
                row.note = Some(step.failure.message.clone());
                row.close((step.began, at), Look::Failure, State::Failed);
            }
            Event::StepRetryScheduled { path, due, .. } => {
                let row = self.row(path, Kind::Step, at);
                row.state = State::Open;
                row.ended = None;
                row.spans.push(Span { from: at, to: Some(*due), look: Look::Pause });
            }
            Event::WaitStarted(wait) => self.row(&wait.path, kind_of(wait), at).open(at, Look::Wait),
            Event::InputRequested(input) => self.row(&input.path, Kind::Question, at).kind = Kind::Question,
            Event::TimerSet { path, .. } => self.row(path, Kind::Sleep, at).open(at, Look::Wait),
            Event::WaitResolved { path, .. } | Event::TimerFired { path } => self.finish(path, at),
            Event::CompensationStarted { path, .. } => self.undo(path, at).open(at, Look::Work),
            Event::CompensationCompleted { path } => {
                let row = self.undo(path, at);
                row.close((row.began, at), Look::Work, State::Done);
            }
            Event::CompensationFailed { path, failure } => {
                let row = self.undo(path, at);
                row.note = Some(failure.message.clone());
                row.close((row.began, at), Look::Failure, State::Failed);
            }
            _ => {}
        }
    }

    fn row(&mut self, path: &Path, kind: Kind, began: Millis) -> &mut Row {
        self.find(path.to_string(), kind, began)
    }

    fn undo(&mut self, path: &Path, at: Millis) -> &mut Row {
        self.find(format!("undo {path}"), Kind::Undo, at)
    }

    fn find(&mut self, path: String, kind: Kind, began: Millis) -> &mut Row {
        let at = match self.0.iter().position(|row| row.path == path) {
            Some(at) => at,
            None => {
                let (attempts, spans) = (1, Vec::new());
                self.0.push(Row {
                    path,
                    kind,
                    state: State::Open,
                    attempts,
                    began,
                    ended: None,
                    note: None,
                    queue: None,
                    task: None,
                    spans,
                });
                self.0.len() - 1
            }
        };
        &mut self.0[at]
    }

    fn finish(&mut self, path: &Path, at: Millis) {
        if let Some(row) = self.0.iter_mut().find(|row| row.path == path.as_str()) {
            row.close((row.began, at), Look::Wait, State::Done);
        }
    }
}

impl Row {
    /// Whether this is a step of that name, leaf, remote or group, whatever its key and arm.
    pub fn is_step(&self, name: &str) -> bool {
        matches!(self.kind, Kind::Step | Kind::Remote | Kind::Group)
            && Path::new(&self.path).is_ok_and(|path| path.name() == name)
    }

    fn open(&mut self, from: Millis, look: Look) {
        self.close_last(from);
        self.spans.push(Span { from, to: None, look });
    }

    /// The last span ends; one that began by itself is widened instead of doubled.
    fn close(&mut self, (from, to): (Millis, Millis), look: Look, state: State) {
        self.spans.retain(|span| span.to.is_some());
        self.spans.push(Span { from, to: Some(to), look });
        self.state = state;
        self.ended = Some(to);
        if state == State::Done {
            self.note = None;
        }
    }

    fn close_last(&mut self, at: Millis) {
        if let Some(Span { to: to @ None, .. }) = self.spans.last_mut() {
            *to = Some(at);
        }
    }
}

fn kind_of(wait: &WaitStarted) -> Kind {
    if wait.inputs.is_empty() { Kind::Wait } else { Kind::Question }
}
