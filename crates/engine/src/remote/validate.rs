//! Validates the doings of a remote worker against the log and turns them into actions of an owner.

mod dialogue;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use goldseam_core::decide::next_task;
use goldseam_core::event::{
    AttributesChanged, ChildStarted, InputRequested, Release, Remote, RequestAnswered, StepCompleted,
    StepFailed, StepStarted, ValuePublished, WaitStarted,
};
use goldseam_core::retry::Policy;
use goldseam_core::state::{Op, OpKind, State, WaitOp};
use goldseam_core::{
    Failure, Hash, LaneName, Limits, Millis, Owned, Path, Payload, PayloadError, QueueName, Retry, RunId, Seq,
};

use super::RemoteRefusal;
use super::holder::{Holder, check_kind};
use super::wire::{Doing, Giving, Question, Timeout, Trouble};
use crate::ledger::config::{SILENCE_MOST, default_queue};
use crate::ledger::open_name::open_name;
use crate::run::live_run::{Inner, LiveRun, Spot, Stop};

/// Maximum number of doings in one append.
pub const DOINGS_MAX: usize = 1_000;
/// Maximum number of signals or children in one wait.
pub const WANTED_MAX: usize = 1_000;
/// Maximum time by which an attempt may seem to begin before its run was queued, because clocks differ.
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(60);

/// Why doings are not accepted.
#[derive(Debug)]
pub(super) enum RequestFlaw {
    /// Invalid in any state of the log.
    Malformed(String),
    /// A payload is too large or too deep.
    Payload(PayloadError),
    /// The log has a different operation (rule V1).
    Diverged(String),
    /// The worker must read the log and replay.
    Again(String),
    /// The credential lacks the permission.
    Forbidden(RemoteRefusal),
}

impl From<RemoteRefusal> for RequestFlaw {
    fn from(refusal: RemoteRefusal) -> Self {
        Self::Forbidden(refusal)
    }
}

impl From<PayloadError> for RequestFlaw {
    fn from(error: PayloadError) -> Self {
        Self::Payload(error)
    }
}

/// The kind of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldKind {
    Step,
    Wait,
    Progress,
    Attributes,
    Published,
    Answered,
}

impl FieldKind {
    fn is(self, kind: &OpKind) -> bool {
        matches!(
            (self, kind),
            (Self::Step, OpKind::Step(_))
                | (Self::Wait, OpKind::Wait(_))
                | (Self::Progress, OpKind::Progress)
                | (Self::Attributes, OpKind::Attributes)
                | (Self::Published, OpKind::Published)
                | (Self::Answered, OpKind::Answered)
        )
    }
}

/// Whether a failed attempt is followed by another one.
#[derive(Debug, Default)]
struct NextTry {
    /// Number of attempts that the policy still allows.
    left: u32,
    /// When the next attempt begins; absent after the last one.
    retry_at: Option<Millis>,
    /// The policy, with the first failure.
    retry: Option<Box<Policy>>,
}

/// The task that a worker requests for a remote step.
struct Handout {
    payload: Payload,
    queue: QueueName,
    priority: i32,
    lane: Option<LaneName>,
    retry: Option<Policy>,
    silence_ms: Option<u64>,
    undo: bool,
}

/// What holds for remote steps that do not state it themselves.
#[derive(Debug, Clone, Copy)]
pub(super) struct HandoutDefaults {
    retry: Policy,
    silence: Option<Duration>,
}

impl HandoutDefaults {
    pub(super) fn of(live: &LiveRun) -> Self {
        Self { retry: Policy::from(&live.default_retry()), silence: live.default_heartbeat_timeout() }
    }
}

/// Validates doings against the current state of the run.
pub(super) struct Reader<'a> {
    inner: &'a mut Inner,
    holder: &'a Holder,
    now: Millis,
    limits: &'a Limits,
    defaults: HandoutDefaults,
    asked: BTreeMap<Path, u32>,
    places: BTreeMap<(String, u32), Path>,
    opened: BTreeSet<Path>,
    undone: BTreeSet<Path>,
    to_undo: BTreeSet<Path>,
    children: BTreeSet<RunId>,
    attempts: BTreeMap<Path, u32>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        inner: &'a mut Inner,
        holder: &'a Holder,
        now: Millis,
        limits: &'a Limits,
        defaults: HandoutDefaults,
    ) -> Self {
        Self {
            inner,
            holder,
            now,
            limits,
            defaults,
            asked: BTreeMap::new(),
            places: BTreeMap::new(),
            opened: BTreeSet::new(),
            undone: BTreeSet::new(),
            to_undo: BTreeSet::new(),
            children: BTreeSet::new(),
            attempts: BTreeMap::new(),
        }
    }

    pub(super) fn read(mut self, doings: Vec<Doing>) -> Result<Vec<Owned>, RequestFlaw> {
        match doings.len() {
            0 => return Err(RequestFlaw::Malformed("an append needs at least one doing".to_owned())),
            many if many > DOINGS_MAX => {
                return Err(RequestFlaw::Malformed(format!(
                    "an append may have at most {DOINGS_MAX} doings"
                )));
            }
            _ => {}
        }
        doings.into_iter().map(|doing| self.one(doing)).collect()
    }

    fn state(&self) -> &State {
        &self.inner.state
    }

    #[expect(clippy::too_many_lines, reason = "one arm per event or doing, and no `_` arm")]
    fn one(&mut self, doing: Doing) -> Result<Owned, RequestFlaw> {
        Ok(match doing {
            Doing::StepStarted { path, ord, attempt, input } => {
                self.place(&path, ord, FieldKind::Step, input)?;
                self.follows(&path, attempt)?;
                Owned::StepStarted(StepStarted { path, ord, attempt, input, remote: None })
            }
            Doing::StepCompleted { path, ord, attempt, output, took_ms, input, undo, group } => {
                self.place(&path, ord, FieldKind::Step, input)?;
                self.follows(&path, attempt)?;
                let output = self.payload(&output)?;
                let began = self.before(took_ms)?;
                let fence = None;
                if undo {
                    self.to_undo.insert(path.clone());
                }
                Owned::StepCompleted(StepCompleted {
                    path,
                    ord,
                    attempt,
                    began,
                    output,
                    input,
                    undo,
                    group,
                    fence,
                })
            }
            Doing::StepFailed { path, ord, attempt, failure, took_ms, retry, timeout, input, group } => {
                self.place(&path, ord, FieldKind::Step, input)?;
                self.follows(&path, attempt)?;
                let failure = failure.bounded();
                let began = self.before(took_ms)?;
                let fence = None;
                let NextTry { left, retry_at, retry } = self.next_try(&path, &failure, retry);
                let timeout = timeout.map(|timeout| match timeout {
                    Timeout::Timeout => "timeout",
                    Timeout::HeartbeatTimeout => "heartbeat-timeout",
                });
                let failed =
                    StepFailed { path, ord, attempt, began, failure, left, input, group, fence, retry };
                Owned::StepFailed { failed, retry_at, timeout }
            }
            Doing::StepHandedOut {
                path,
                ord,
                attempt,
                payload,
                queue,
                priority,
                lane,
                retry,
                silence_ms,
                undo,
            } => {
                let payload = self.payload(&payload)?;
                let input = Some(payload.hash());
                self.place(&path, ord, FieldKind::Step, input)?;
                self.follows(&path, attempt)?;
                let queue = queue.unwrap_or_else(default_queue);
                self.holder.check_queue(&queue)?;
                check_kind(path.name())?;
                let handout = Handout { payload, queue, priority, lane, retry, silence_ms, undo };
                let remote = Some(Box::new(self.remote(&path, attempt, handout)));
                Owned::StepStarted(StepStarted { path, ord, attempt, input, remote })
            }
            Doing::Wait { path, ord, signals, schemas, children, ask, timeout_ms } => {
                self.place(&path, ord, FieldKind::Wait, None)?;
                self.opens(&path, |wait| wait.wanted.is_none())?;
                if signals.len().max(children.len()) > WANTED_MAX {
                    return Err(RequestFlaw::Malformed(format!(
                        "a wait may have at most {WANTED_MAX} signals or children"
                    )));
                }
                if signals.is_empty() && children.is_empty() && ask.is_none() && timeout_ms.is_none() {
                    return Err(RequestFlaw::Malformed(format!("{path} waits for nothing")));
                }
                self.are_children(&children)?;
                let inputs = ask.iter().map(|_| path.clone()).collect();
                let ask = ask.map(|ask| self.question(&path, ord, ask));
                let due = timeout_ms.map(|span| self.after(span));
                Owned::Wait {
                    wanted: WaitStarted { path, ord, signals, schemas, inputs, children, due },
                    ask,
                }
            }
            Doing::Sleep { path, ord, span_ms, until } => {
                self.place(&path, ord, FieldKind::Wait, None)?;
                self.opens(&path, |_| false)?;
                let due = match (span_ms, until) {
                    (Some(span), None) => self.after(span),
                    (None, Some(until)) => until,
                    _ => {
                        return Err(RequestFlaw::Malformed(
                            "a sleep needs either span_ms or until".to_owned(),
                        ));
                    }
                };
                Owned::Sleep { path, ord, due }
            }
            Doing::Check { path } => Owned::Check(path),
            Doing::Child { path, ord, workflow, input, start, detached, undo } => {
                self.place(&path, ord, FieldKind::Wait, None)?;
                self.opens(&path, |_| false)?;
                if detached && undo {
                    let what = format!("{path} is detached, so it cannot have a compensation");
                    return Err(RequestFlaw::Malformed(what));
                }
                let workflow =
                    open_name(workflow).map_err(|error| RequestFlaw::Malformed(error.to_string()))?;
                let (run, start) = self.child(&path, &workflow, start)?;
                let input = self.payload(&input)?;
                self.children.insert(run.clone());
                Owned::Child(ChildStarted { path, ord, run, workflow, input, start, detached, undo })
            }
            Doing::Publish { path, ord, name, value } => {
                self.place(&path, ord, FieldKind::Published, None)?;
                self.opens(&path, |_| false)?;
                let value = self.payload(&value)?;
                self.check_published(&name, &value)?;
                Owned::Publish(ValuePublished { path, ord, name, value })
            }
            Doing::AnswerRequest { path, ord, request, answer, refused } => {
                self.place(&path, ord, FieldKind::Answered, None)?;
                self.opens(&path, |_| false)?;
                if answer.is_some() == refused.is_some() {
                    let what = format!("{path} needs either an answer or a refusal");
                    return Err(RequestFlaw::Malformed(what));
                }
                let answer = answer.map(|answer| self.payload(&answer)).transpose()?;
                let refused = refused.map(|reason| self.text(&reason));
                Owned::AnswerRequest(RequestAnswered { path, ord, request, answer, refused })
            }
            Doing::Progress { path, ord, message } => {
                self.place(&path, ord, FieldKind::Progress, None)?;
                self.opens(&path, |_| false)?;
                Owned::Progress { path, ord, message: self.text(&message) }
            }
            Doing::Attributes { path, ord, set, removed } => {
                self.place(&path, ord, FieldKind::Attributes, None)?;
                self.opens(&path, |_| false)?;
                let changed = AttributesChanged { path, ord, set, removed };
                changed
                    .check(&self.state().summary.attributes)
                    .map_err(|error| RequestFlaw::Malformed(error.to_string()))?;
                Owned::Attributes(changed)
            }
            Doing::Change { path, ord } => {
                self.ends_history(&path, ord)?;
                Owned::Change { path, ord }
            }
            Doing::UndoStarted { path, failure } => {
                self.has_undo(&path)?;
                Owned::UndoStarted { path, failure: failure.map(Failure::bounded) }
            }
            Doing::UndoCompleted { path } => {
                self.has_undo(&path)?;
                self.undone.insert(path.clone());
                Owned::UndoCompleted(path)
            }
            Doing::UndoFailed { path, failure } => {
                self.has_undo(&path)?;
                Owned::UndoFailed { path, failure: failure.bounded() }
            }
            Doing::FinishJump {} => Owned::FinishJump,
            Doing::ContinueAsNew { input } => Owned::ContinueAsNew(self.payload(&input)?),
            Doing::Complete { output } => Owned::Complete(self.payload(&output)?),
            Doing::Fail { failure } => {
                self.nothing_left()?;
                Owned::Fail(failure.bounded())
            }
            Doing::Cancelled {} => {
                self.nothing_left()?;
                Owned::EndCancelled
            }
            // A worker that lacks a version releases the run; it does not park it.
            Doing::Park { code: Trouble::Version, .. } => Owned::Release(Release::Unfit),
            Doing::Park { code, reason } => Owned::Park { code: code_of(code), reason: self.text(&reason) },
            Doing::Release { reason } => Owned::Release(release(reason)),
        })
    }

    /// Checks that the log has the same operation at this position, if it has one.
    fn place(
        &mut self,
        path: &Path,
        ord: u32,
        kind: FieldKind,
        input: Option<Hash>,
    ) -> Result<(), RequestFlaw> {
        if path.leaf().is_empty() {
            return Err(RequestFlaw::Malformed("an operation needs a name".to_owned()));
        }
        let spot = Spot { path: path.clone(), ord };
        let found =
            self.inner.look(&spot, input).map(|op| op.is_none_or(|Op { kind: now, .. }| kind.is(now)));
        match found {
            Ok(true) => {}
            Err(Stop::Diverged(detail)) => return Err(RequestFlaw::Diverged(detail)),
            _ => {
                let detail = format!("{path} is one kind of operation in the log and another in the code");
                return Err(RequestFlaw::Diverged(detail));
            }
        }
        let before = self.asked.insert(path.clone(), ord);
        let there = self.places.insert((path.arm().to_owned(), ord), path.clone());
        if before.is_some_and(|before| before != ord) || there.is_some_and(|there| there != *path) {
            return Err(RequestFlaw::Malformed(format!(
                "{path} has two positions in its arm, or shares its position"
            )));
        }
        Ok(())
    }

    /// Checks that a change is marked at the end of the arm's history: later operations were made without the change.
    fn ends_history(&self, path: &Path, ord: u32) -> Result<(), RequestFlaw> {
        if path.leaf().is_empty() {
            return Err(RequestFlaw::Malformed("a change needs a name".to_owned()));
        }
        let state = self.state();
        match state.goes_on(path.arm(), ord) && !state.changes.contains(path) {
            true => Err(RequestFlaw::Diverged(format!("the log goes on without the change {path}"))),
            false => Ok(()),
        }
    }

    /// Checks that the operation is opened once: the log does not have it, or `fits` accepts what the log has.
    fn opens(&mut self, path: &Path, fits: impl Fn(&WaitOp) -> bool) -> Result<(), RequestFlaw> {
        let free = match self.state().ops.get(path).map(|op| &op.kind) {
            None => true,
            Some(OpKind::Wait(wait)) => fits(wait),
            Some(
                OpKind::Step(_)
                | OpKind::Progress
                | OpKind::Attributes
                | OpKind::Published
                | OpKind::Answered,
            ) => false,
        };
        if !free {
            return Err(RequestFlaw::Again(format!("{path} is already in the log")));
        }
        match self.opened.insert(path.clone()) {
            true => Ok(()),
            false => Err(RequestFlaw::Malformed(format!("{path} is opened twice"))),
        }
    }

    /// Checks that a run waits only for its own children.
    fn are_children(&self, wanted: &[RunId]) -> Result<(), RequestFlaw> {
        let known = |run: &&RunId| self.state().children.contains_key(*run) || self.children.contains(*run);
        match wanted.iter().find(|run| !known(run)) {
            Some(other) => Err(RequestFlaw::Malformed(format!("{other} is not a child of this run"))),
            None => Ok(()),
        }
    }

    fn payload(&self, payload: &Payload) -> Result<Payload, RequestFlaw> {
        Ok(Payload::parse(payload.as_str(), self.limits)?)
    }

    fn text(&self, text: &str) -> String {
        text.chars().take(self.limits.text_bytes_max).collect()
    }

    /// Checks that the attempt is known to the log or this append, or is the next one.
    fn follows(&mut self, path: &Path, attempt: u32) -> Result<(), RequestFlaw> {
        let logged = match self.state().ops.get(path).map(|op| &op.kind) {
            Some(OpKind::Step(step)) => step.attempts,
            _ => 0,
        };
        let made = logged.max(self.attempts.get(path).copied().unwrap_or(0));
        if attempt == 0 || attempt > made.saturating_add(1) {
            let flaw = format!("attempt {attempt} at {path} does not follow attempt {made}");
            return Err(RequestFlaw::Malformed(flaw));
        }
        self.attempts.insert(path.clone(), attempt.max(made));
        Ok(())
    }

    /// When an attempt of this duration began. It cannot have begun before its run.
    fn before(&self, took_ms: u64) -> Result<Millis, RequestFlaw> {
        let took = Duration::from_millis(took_ms);
        let age = self.now.since(self.state().summary.created_at);
        match took > age.saturating_add(CLOCK_SKEW_MAX) {
            true => Err(RequestFlaw::Malformed(format!(
                "took_ms is {took_ms}, which is longer than the age of the run"
            ))),
            false => Ok(self.now - took),
        }
    }

    fn after(&self, span_ms: u64) -> Millis {
        self.now + Duration::from_millis(span_ms)
    }

    /// Attempts left, and when the next one begins: by the worker's retry policy and the store's clock.
    fn next_try(&self, path: &Path, failure: &Failure, policy: Option<Policy>) -> NextTry {
        let failures = match self.state().ops.get(path).map(|op| &op.kind) {
            Some(OpKind::Step(step)) => step.failures.saturating_add(1),
            _ => 1,
        };
        let retry = policy.map(Retry::from);
        let pause = retry.as_ref().and_then(|retry| retry.pause(failures, failure, path.as_str()));
        let Some(pause) = pause else { return NextTry::default() };
        NextTry {
            left: retry.map_or(0, |retry| retry.attempts_max.saturating_sub(failures)),
            retry_at: Some(self.now + pause),
            retry: policy.filter(|_| failures == 1).map(Box::new),
        }
    }

    fn remote(&self, path: &Path, attempt: u32, handout: Handout) -> Remote {
        let Handout { payload, queue, priority, lane, retry, silence_ms, undo } = handout;
        let (task, delivery) = next_task(self.state(), path, attempt);
        let most = u64::try_from(SILENCE_MOST.as_millis()).unwrap_or(u64::MAX);
        let default =
            self.defaults.silence.map_or(most, |span| u64::try_from(span.as_millis()).unwrap_or(most));
        Remote {
            task,
            queue,
            priority,
            lane,
            payload: Some(payload),
            retry: retry.unwrap_or(self.defaults.retry),
            silence_ms: silence_ms.unwrap_or(default).min(most),
            delivery,
            undo,
        }
    }

    fn question(&self, path: &Path, ord: u32, Question { prompt, form }: Question) -> InputRequested {
        InputRequested { path: path.clone(), ord, prompt: self.text(&prompt), form }
    }

    fn has_undo(&self, path: &Path) -> Result<(), RequestFlaw> {
        match self.state().undo.contains(path) || self.to_undo.contains(path) {
            true => Ok(()),
            false => {
                Err(RequestFlaw::Malformed(format!("{path} is not a completed step with a compensation")))
            }
        }
    }

    /// Checks that every step with a compensation is compensated before the run ends.
    fn nothing_left(&self) -> Result<(), RequestFlaw> {
        let recorded = self.state().to_undo(Seq::ZERO);
        let left = recorded.iter().chain(&self.to_undo).find(|path| !self.undone.contains(*path));
        match left {
            Some(path) => Err(RequestFlaw::Again(format!("step {path} must be undone first"))),
            None => Ok(()),
        }
    }
}

/// The children that the doings start.
pub(super) fn children(doings: &[Owned]) -> Vec<ChildStarted> {
    let wanted = |doing: &Owned| match doing {
        Owned::Child(child) => Some(child.clone()),
        _ => None,
    };
    doings.iter().filter_map(wanted).collect()
}

/// The children to cancel before these doings end the run.
pub(super) fn orphans(state: &State, doings: &[Owned]) -> Vec<RunId> {
    let ends = |doing: &Owned| matches!(doing, Owned::Fail(_) | Owned::EndCancelled);
    if doings.iter().any(ends) { state.open_children() } else { Vec::new() }
}

fn code_of(code: Trouble) -> &'static str {
    match code {
        Trouble::Diverged => "V1",
        Trouble::Version => "E2",
        Trouble::TooLong => "GS0112",
        Trouble::Form => "GS0115",
    }
}

fn release(reason: Giving) -> Release {
    match reason {
        Giving::Unload => Release::Unload,
        Giving::Paused => Release::Paused,
        Giving::HandOver => Release::HandOver,
        Giving::Unfit => Release::Unfit,
    }
}
