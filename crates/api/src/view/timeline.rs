//! The operations of a run as rows with spans of time.

use std::collections::{HashMap, HashSet};

use goldseam::unstable::core::event::{Cause, Event, StepStarted, WaitStarted};
use goldseam::unstable::core::hash::WriteId;
use goldseam::unstable::core::retry::Policy;
use goldseam::unstable::core::trace::undo_path;
use goldseam::unstable::core::{BranchId, NodeId, Path, Recorded};
use goldseam::{Millis, Seq};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::describe::{PayloadLength, describe};

/// One operation of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Step)]
pub struct OperationDoc {
    /// The path.
    pub path: String,
    /// The kind of operation.
    pub kind: OperationKind,
    /// The state.
    pub state: OperationState,
    /// Attempts that the log records.
    pub attempts: u32,
    /// When it began.
    pub began: Millis,
    /// When it ended; null while it is open.
    pub ended: Option<Millis>,
    /// The latest error, if any.
    pub note: Option<String>,
    /// The queue of a remote step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The latest task of a remote step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The run that it started as a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<String>,
    /// The position of its latest event.
    #[serde(default)]
    pub event: Seq,
    /// When it is tried again; absent unless it waits for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Millis>,
    /// How often and how soon it is tried: of a remote step always, of a local step if an attempt failed and was
    /// retried; absent if the log does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Policy>,
    /// Its attempts, waits and pauses, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<OperationSpan>,
    /// The branch of its latest event; not part of the document.
    #[serde(skip)]
    pub branch: Option<BranchId>,
}

/// The kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = StepKind)]
pub enum OperationKind {
    /// A leaf step.
    Step,
    /// A remote step.
    Remote,
    /// A step that holds steps.
    Group,
    /// A wait for signals, children or several things.
    Wait,
    /// A question to a person.
    Question,
    /// A sleep.
    Sleep,
    /// The compensation of a step.
    Undo,
}

impl OperationKind {
    /// Returns the name in JSON and on screen.
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

/// The state of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = StepState)]
pub enum OperationState {
    /// Not ended.
    Open,
    /// Completed.
    Done,
    /// Failed.
    Failed,
}

impl OperationState {
    /// Returns the name in JSON and on screen.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// What happens during a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SpanKind)]
pub enum SpanStyle {
    /// The run waits for a node.
    Queue,
    /// Work.
    Work,
    /// A failed attempt.
    Failure,
    /// A wait or a sleep.
    Wait,
    /// The pause before another attempt.
    Pause,
}

/// A part of the duration of an operation or of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = StepSpan)]
pub struct OperationSpan {
    /// The start.
    pub from: Millis,
    /// The end; null while it is open.
    pub to: Option<Millis>,
    /// What happens.
    #[serde(rename = "kind")]
    pub look: SpanStyle,
    /// Number of the attempt, from 1; absent for waits and pauses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Why the attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The node that owned the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeId>,
    /// Whether the attempt was lost with its worker: the span ends when another node took the run over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
}

impl OperationSpan {
    fn new(from: Millis, to: Option<Millis>, look: SpanStyle) -> Self {
        Self { from, to, look, attempt: None, error: None, node: None, lost: false }
    }
}

/// A seam or another event that concerns the whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Seam {
    /// When.
    pub at: Millis,
    /// `recovered`, `branch`, `paused`, `resumed`, `parked`, `cancel`, `withdrawn`, `terminated` or `taken over`.
    pub kind: String,
    /// Description.
    pub what: String,
    /// The rule of a recovery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The evidence of a recovery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// Where a new branch was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
}

/// The cut between two branches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Cut {
    /// The old branch.
    pub from: Option<String>,
    /// The new branch.
    pub to: String,
    /// The last event that both branches share.
    pub after: Seq,
}

impl Cut {
    fn new(from: Option<BranchId>, to: BranchId, after: Seq) -> Self {
        Self { from: from.map(|from| from.to_string()), to: to.to_string(), after }
    }
}

/// Builds the rows for the events that one branch sees, ordered by start.
pub fn rows(events: &[&Recorded]) -> Vec<OperationDoc> {
    let mut rows = OperationRows::default();
    for recorded in events {
        rows.take(recorded);
    }
    let mut rows = rows.rows;
    rows.sort_by_key(|row| (row.began, row.path.matches('/').count()));
    rows
}

/// Lists the seams of all branches. A recovery that opened a branch is one seam, not two.
pub fn seams(history: &[Recorded]) -> Vec<Seam> {
    let recovers = |recorded: &&Recorded| matches!(recorded.event, Event::RunRecovered(_));
    let recoveries: HashSet<WriteId> =
        history.iter().filter(recovers).map(|recorded| recorded.write).collect();
    let is_recovery = |recorded: &Recorded| recoveries.contains(&recorded.write);
    history.iter().filter_map(|recorded| seam(recorded, is_recovery(recorded))).collect()
}

/// Returns the spans of a whole run: when it waited for a node, and which node owned it.
pub fn ownership(events: &[&Recorded]) -> Vec<OperationSpan> {
    let mut spans: Vec<OperationSpan> = Vec::new();
    for recorded in events {
        let at = recorded.at;
        let next = match &recorded.event {
            Event::RunQueued(_) | Event::RunResumed(_) | Event::RunRecovered(_) | Event::BranchOpened(_) => {
                Some(OperationSpan::new(at, None, SpanStyle::Queue))
            }
            Event::RunClaimed(claim) => {
                let node = Some(claim.node.clone());
                Some(OperationSpan { node, ..OperationSpan::new(at, None, SpanStyle::Work) })
            }
            Event::RunReleased { .. } | Event::RunPaused(_) | Event::RunParked { .. } => None,
            event if event.may_be_last() => None,
            _ => continue,
        };
        if let Some(OperationSpan { to: to @ None, .. }) = spans.last_mut() {
            *to = Some(at);
        }
        spans.extend(next);
    }
    // A claim in the append of a recovery leaves an empty span before it.
    spans.retain(|span| span.look == SpanStyle::Work || span.to != Some(span.from));
    spans
}

/// `is_recovery`: the same write contains `run.recovered`, whose seam covers the whole write.
fn seam(recorded: &Recorded, is_recovery: bool) -> Option<Seam> {
    let mut rule = None;
    let mut evidence = None;
    let mut cut = None;
    let kind = match &recorded.event {
        Event::RunClaimed(claim) if claim.cause == Cause::Recovery && !is_recovery => "taken over",
        Event::RunRecovered(recovered) => {
            rule = Some(recovered.rule.clone());
            evidence = Some(recovered.evidence.clone());
            let to = recovered.new_branch.zip(recovered.cutoff);
            cut = to.map(|(to, after)| Cut::new(recovered.previous_branch, to, after));
            "recovered"
        }
        Event::BranchOpened(opened) if !is_recovery => {
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
    let what = describe(&recorded.event, PayloadLength::Short);
    Some(Seam { at: recorded.at, kind: kind.to_owned(), what, rule, evidence, cut })
}

#[derive(Default)]
struct OperationRows {
    rows: Vec<OperationDoc>,
    /// The index of each path in `rows`.
    places: HashMap<String, usize>,
    /// The branch of the event that is being taken.
    branch: Option<BranchId>,
    /// Its position.
    seq: Seq,
    /// The node that owns the run at this event.
    owner: Option<NodeId>,
}

impl OperationRows {
    fn take(&mut self, recorded: &Recorded) {
        let at = recorded.at;
        self.branch = Some(recorded.branch);
        self.seq = recorded.seq;
        match &recorded.event {
            Event::RunRecovered(_) => self.lose_attempts(at),
            Event::RunClaimed(claim) => {
                if claim.cause == Cause::Recovery {
                    self.lose_attempts(at);
                }
                self.owner = Some(claim.node.clone());
            }
            Event::StepStarted(step) => self.start(step, at),
            Event::StepCompleted(step) => {
                let kind = if step.group { OperationKind::Group } else { OperationKind::Step };
                let row = self.row(&step.path, kind, step.began);
                row.attempts = step.attempt;
                row.close(step.began, at, SpanStyle::Work, OperationState::Done);
                self.name_attempt(&step.path, step.attempt, None);
            }
            Event::StepFailed(step) => {
                let kind = if step.group { OperationKind::Group } else { OperationKind::Step };
                let row = self.row(&step.path, kind, step.began);
                row.attempts = step.attempt;
                row.note = Some(step.failure.message.clone());
                row.retry = step.retry.as_deref().copied().or(row.retry);
                row.close(step.began, at, SpanStyle::Failure, OperationState::Failed);
                self.name_attempt(&step.path, step.attempt, Some(&step.failure.message));
            }
            Event::StepRetryScheduled { path, due, .. } => {
                let row = self.row(path, OperationKind::Step, at);
                row.state = OperationState::Open;
                row.ended = None;
                row.retry_at = Some(*due);
                row.spans.push(OperationSpan::new(at, Some(*due), SpanStyle::Pause));
            }
            Event::ChildStarted(child) => {
                let row = self.row(&child.path, OperationKind::Wait, at);
                row.child = Some(child.run.to_string());
                match child.detached {
                    true => row.close(at, at, SpanStyle::Work, OperationState::Done),
                    false => row.open(at, SpanStyle::Wait),
                }
            }
            Event::WaitStarted(wait) => self.row(&wait.path, kind_of(wait), at).open(at, SpanStyle::Wait),
            Event::InputRequested(input) => {
                self.row(&input.path, OperationKind::Question, at).kind = OperationKind::Question;
            }
            Event::TimerSet { path, .. } => {
                self.row(path, OperationKind::Sleep, at).open(at, SpanStyle::Wait);
            }
            Event::WaitResolved { path, .. } | Event::TimerFired { path } => self.finish(path, at),
            Event::CompensationStarted { path, .. } => self.undo(path, at).open(at, SpanStyle::Work),
            Event::CompensationCompleted { path } => {
                let row = self.undo(path, at);
                row.close(row.began, at, SpanStyle::Work, OperationState::Done);
            }
            Event::CompensationFailed { path, failure } => {
                let row = self.undo(path, at);
                row.note = Some(failure.message.clone());
                row.close(row.began, at, SpanStyle::Failure, OperationState::Failed);
            }
            _ => {}
        }
    }

    fn row(&mut self, path: &Path, kind: OperationKind, began: Millis) -> &mut OperationDoc {
        self.find(path.to_string(), kind, began)
    }

    /// Notes which attempt the latest span of a step is, on which node, and why it failed.
    fn name_attempt(&mut self, path: &Path, attempt: u32, error: Option<&String>) {
        let row = self.places.get(path.as_str()).and_then(|at| self.rows.get_mut(*at));
        if let Some(span) = row.and_then(|row| row.spans.last_mut()) {
            span.attempt = Some(attempt);
            span.error = error.cloned();
            span.node.clone_from(&self.owner);
        }
    }

    fn start(&mut self, step: &StepStarted, at: Millis) {
        let row = self.row(&step.path, OperationKind::Step, at);
        row.attempts = step.attempt;
        if let Some(remote) = &step.remote {
            row.kind = OperationKind::Remote;
            row.queue = Some(remote.queue.to_string());
            row.task = Some(remote.task.to_string());
            row.retry = Some(remote.retry);
        }
        row.open(at, SpanStyle::Work);
        self.name_attempt(&step.path, step.attempt, None);
    }

    /// Ends the attempts that the lost worker had begun. Tasks of remote steps go on without the owner of the run.
    fn lose_attempts(&mut self, at: Millis) {
        for row in self.rows.iter_mut().filter(|row| row.kind != OperationKind::Remote) {
            match row.spans.last_mut() {
                Some(span) if span.to.is_none() && span.look == SpanStyle::Work => {
                    span.to = Some(at);
                    span.lost = true;
                }
                _ => {}
            }
        }
    }

    fn undo(&mut self, path: &Path, at: Millis) -> &mut OperationDoc {
        self.find(undo_path(path.as_str()), OperationKind::Undo, at)
    }

    fn find(&mut self, path: String, kind: OperationKind, began: Millis) -> &mut OperationDoc {
        let at = match self.places.get(&path) {
            Some(at) => *at,
            None => {
                self.places.insert(path.clone(), self.rows.len());
                self.rows.push(OperationDoc {
                    path,
                    kind,
                    state: OperationState::Open,
                    attempts: 1,
                    began,
                    ended: None,
                    note: None,
                    queue: None,
                    task: None,
                    child: None,
                    event: self.seq,
                    retry_at: None,
                    retry: None,
                    spans: Vec::new(),
                    branch: None,
                });
                self.rows.len() - 1
            }
        };
        let row = &mut self.rows[at];
        row.branch = self.branch;
        row.event = self.seq;
        row
    }

    fn finish(&mut self, path: &Path, at: Millis) {
        if let Some(place) = self.places.get(path.as_str()) {
            let row = &mut self.rows[*place];
            row.branch = self.branch;
            row.event = self.seq;
            row.close(row.began, at, SpanStyle::Wait, OperationState::Done);
        }
    }
}

impl OperationDoc {
    /// Whether this is a step (leaf, remote or group) with that name, in any arm and with any key.
    pub fn is_step(&self, name: &str) -> bool {
        matches!(self.kind, OperationKind::Step | OperationKind::Remote | OperationKind::Group)
            && Path::new(&self.path).is_ok_and(|path| path.name() == name)
    }

    fn open(&mut self, from: Millis, look: SpanStyle) {
        self.close_last(from);
        self.retry_at = None;
        self.spans.push(OperationSpan::new(from, None, look));
    }

    /// Ends the operation: replaces its open span by one from `from` to `to`.
    fn close(&mut self, from: Millis, to: Millis, look: SpanStyle, state: OperationState) {
        self.spans.retain(|span| span.to.is_some());
        self.spans.push(OperationSpan::new(from, Some(to), look));
        self.state = state;
        self.retry_at = None;
        self.ended = Some(to);
        if state == OperationState::Done {
            self.note = None;
        }
    }

    fn close_last(&mut self, at: Millis) {
        if let Some(OperationSpan { to: to @ None, .. }) = self.spans.last_mut() {
            *to = Some(at);
        }
    }
}

fn kind_of(wait: &WaitStarted) -> OperationKind {
    if wait.inputs.is_empty() { OperationKind::Wait } else { OperationKind::Question }
}

#[cfg(test)]
mod tests {
    use goldseam::unstable::core::codec::decode;

    use super::*;

    /// Decodes a log; each line has its time and its event.
    fn log(lines: &[(i64, &str)]) -> Vec<Recorded> {
        let text = |at: i64, event: &str| {
            let head = r#""v":1,"branch":1,"epoch":2,"write":"0000000000000001","prev":"00000000000000000000000000000000""#;
            format!(r#"{{{head},"at":{at},"event":{event}}}"#)
        };
        (1..).map(Seq).zip(lines).map(|(seq, (at, event))| decode(seq, &text(*at, event)).unwrap()).collect()
    }

    const STARTED: &str = r#"{"type":"step.started","data":{"path":"charge","ord":0,"attempt":1}}"#;
    const RETAKEN: &str = r#"{"type":"run.claimed","data":{"node":"n-2","cause":"recovery","attempt":1}}"#;

    fn spans(log: &[Recorded]) -> Vec<(i64, Option<i64>, bool)> {
        let rows = rows(&log.iter().collect::<Vec<_>>());
        let spans = rows.iter().flat_map(|row| &row.spans);
        spans.map(|span| (span.from.0, span.to.map(|to| to.0), span.lost)).collect()
    }

    #[test]
    fn attempt_of_a_lost_worker_ends_when_the_run_is_taken_over() {
        let again = STARTED.replace("\"attempt\":1", "\"attempt\":2");
        let log = log(&[(10, STARTED), (50, RETAKEN), (60, &again)]);
        assert_eq!(spans(&log[..1]), [(10, None, false)]);
        assert_eq!(spans(&log), [(10, Some(50), true), (60, None, false)]);
    }

    #[test]
    fn remote_attempt_outlives_the_owner_of_its_run() {
        let task = r#""task":"s-00000000000000000000000000000001","queue":"gpu","silence_ms":60000,"retry":{"attempts_max":3,"initial_ms":1,"factor_permille":1000,"pause_max_ms":1,"jitter_permille":0}"#;
        let handed = STARTED.replace("\"attempt\":1", &format!("\"attempt\":1,\"remote\":{{{task}}}"));
        assert_eq!(spans(&log(&[(10, &handed), (50, RETAKEN)])), [(10, None, false)]);
    }

    #[test]
    fn local_step_has_the_policy_of_its_first_failure() {
        let failed = r#"{"type":"step.failed","data":{"path":"charge","ord":0,"attempt":1,"began":5,"failure":{"class":"retryable","message":"busy"},"left":2,"retry":{"attempts_max":3,"initial_ms":7,"factor_permille":1000,"pause_max_ms":9,"jitter_permille":0}}}"#;
        let later = r#"{"type":"step.failed","data":{"path":"charge","ord":0,"attempt":2,"began":20,"failure":{"class":"retryable","message":"busy"},"left":1}}"#;
        let log = log(&[(10, failed), (30, later)]);
        let rows = rows(&log.iter().collect::<Vec<_>>());
        assert_eq!(rows[0].retry.map(|retry| (retry.attempts_max, retry.pause_max_ms)), Some((3, 9)));
    }
}
