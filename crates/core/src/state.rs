//! `derive`: computes everything the engine knows about a run from its history.
//!
//! Facts of the run (ownership, mail, notes) are folded from all events; facts of a branch (steps, waits, timers)
//! only from the lineage of the active branch. Folding is deterministic and never panics.

mod children;
mod data;
mod mail;
mod remote;
mod requests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::branch::{Branch, BranchId, Branches, Why};
use crate::corrupt::Corrupt;
use crate::error::Failure;
use crate::event::{
    BranchOpened, By, Carried, Event, JumpRequested, Recorded, Release, Request, RunClaimed, RunQueued,
    Terminated, WaitStarted,
};
use crate::hash::Hash;
use crate::id::{RunId, TaskId};
use crate::path::Path;
use crate::summary::{OpenInput, Summary, command_id, is_run_wide};
use crate::time::Seq;
use crate::version::UNDECIDED;

pub use data::{
    Applied, Child, Found, Mail, Op, OpKind, OpenRemote, Outcome, RemoteEnd, RemoteOp, StepOp, StepProgress,
    Undo, WaitOp,
};
pub use requests::{request_signal, requested_name};

/// Everything the engine knows about a run, computed from its history alone.
///
/// [`derive()`] computes a state from a history; [`apply`](Self::apply) extends it by the next event.
/// [`decide()`](crate::decide()) reads it. A state is never stored: the log is the truth, and the [`Summary`] in it
/// is what the cached row contains.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// The content of the cached row.
    pub summary: Summary,
    /// All branches.
    pub branches: Branches,
    /// The run as it was queued, with the input of the active branch.
    pub queued: RunQueued,
    /// Operations recorded up to here had another input; their hashes are not compared.
    pub other_input_until: Seq,
    /// Where the run last left memory because it only waited: all code up to there has executed.
    pub unloaded: Seq,
    /// Every recorded operation of the active lineage.
    pub ops: HashMap<Path, Op>,
    /// The operation at each place of each arm.
    order: HashMap<(Box<str>, u32), Path>,
    /// Changes of the code that this lineage has, each by its arm and name.
    pub changes: BTreeSet<Path>,
    /// Mail that this branch has not consumed, by position.
    pub unread: BTreeMap<Seq, Mail>,
    /// Positions of consumed signals and answers, by the position that consumed each. The end of a child is not sent
    /// again, so a jump cannot drop it.
    pub consumed: BTreeMap<Seq, Seq>,
    /// Completed steps with a compensation, in order of completion.
    pub undo: Vec<Path>,
    /// Progress of the compensations.
    pub undone: BTreeMap<Path, Undo>,
    /// Every child that was ever requested, on any branch.
    pub children: BTreeMap<RunId, Child>,
    /// Tasks of remote steps whose result is still accepted, on any branch.
    pub handed_out: BTreeSet<TaskId>,
    /// Tasks of remote steps that were dropped; this generation does not use their ids again.
    pub spent: BTreeSet<TaskId>,
    /// Whether a remote step ended while the run had no owner, so that the run must be woken.
    pub remote_ended: bool,
    /// A jump that waits for its compensations.
    pub jump: Option<JumpRequested>,
    /// Position of a jump request whose branch was never opened: a foreign write, or damage.
    pub half_jump: Option<Seq>,
    /// Why the run is compensating.
    pub failure: Option<Failure>,
    /// How the active branch ended.
    pub outcome: Option<Outcome>,
    /// The effects that remain, if an operator terminated the run.
    pub terminated: Option<Box<Terminated>>,
    /// Requests that were answered since the last `continue_as_new`, on any branch.
    pub answered: BTreeSet<String>,
    /// Bytes of mail since the last `continue_as_new`, and of the mail that was unread then.
    pub mail_bytes: u64,
    /// Ids of all external commands; after `continue_as_new`, those that the row remembered and newer ones.
    seen: BTreeSet<String>,
}

/// Computes the state of a run from its history: the whole one, one that begins at `continue_as_new` preceded by the
/// mail it carries, or its tombstone. `head` is the hash of the last event.
pub fn derive(run: &RunId, history: &[Recorded], head: Hash) -> Result<State, Corrupt> {
    let first = history.first().ok_or_else(|| Corrupt::new(Seq(1), "the log is empty"))?;
    let base = match &first.event {
        Event::RunQueued(_) | Event::RunPruned(_) => 0,
        _ => base_of(history).ok_or_else(|| Corrupt::new(first.seq, "a log must begin with run.queued"))?,
    };
    let mut branches = match &first.event {
        Event::RunPruned(_) => {
            Branches::only(Branch { id: first.branch, opened: first.seq, ..Branch::root() })
        }
        _ => Branches::default(),
    };
    for recorded in &history[base..] {
        if let Event::BranchOpened(opened) = &recorded.event {
            let branch = Branch::of(opened, recorded.seq);
            if opened.carried.is_some() { branches = Branches::only(branch) } else { branches.open(branch) }
        }
    }
    let mut state = State::begin(run, &history[base], branches)?;
    if let Event::BranchOpened(BranchOpened { carried: Some(carried), .. }) = &history[base].event
        && !history[..base].iter().map(|mail| mail.seq).eq(carried.mail.iter().copied())
    {
        return Err(Corrupt::new(history[base].seq, "some of the mail that it carries is missing"));
    }
    for mail in &history[..base] {
        state.deliver(mail);
        state.summary.mail_unread += 1;
        // Carried children are open, whatever older mail records.
        state.children.values_mut().for_each(|child| child.ended = false);
    }
    let lineage = state.branches.lineage(state.branches.active().id);
    for recorded in &history[base + 1..] {
        if recorded.seq != state.summary.as_of.next() {
            return Err(Corrupt::new(
                recorded.seq,
                format!("it does not follow event {}", state.summary.as_of),
            ));
        }
        state.fold(recorded, lineage.sees(recorded.branch, recorded.seq));
    }
    state.summary.head = head;
    Ok(state)
}

fn base_of(history: &[Recorded]) -> Option<usize> {
    history.iter().position(|r| matches!(&r.event, Event::BranchOpened(opened) if opened.carried.is_some()))
}

/// Returns the open children from before a `continue_as_new`, whose results are never requested again.
fn strays(carried: &Carried) -> BTreeMap<RunId, Child> {
    let branch = carried.summary.branch;
    let seq = carried.summary.as_of;
    let child = || Child {
        path: Path::root(),
        branch,
        seq,
        ended: false,
        refused: None,
        detached: false,
        undo: false,
    };
    carried.children.iter().map(|run| (run.clone(), child())).collect()
}

/// Returns the outcome that a terminal event records.
fn outcome_of(ended: &Event) -> Option<Outcome> {
    match ended {
        Event::RunCompleted { output } => Some(Outcome::Completed(output.clone())),
        Event::RunFailed { failure } => Some(Outcome::Failed(failure.clone())),
        Event::RunCancelled { reason, .. } => Some(Outcome::Cancelled(reason.clone())),
        _ => None,
    }
}

/// Returns the effects that remain, if an operator terminated the run.
fn terminated_by(ended: &Event) -> Option<Box<Terminated>> {
    match ended {
        Event::RunCancelled { terminated, .. } => terminated.clone(),
        _ => None,
    }
}

impl State {
    fn begin(run: &RunId, first: &Recorded, branches: Branches) -> Result<Self, Corrupt> {
        let (queued, mut summary) = match &first.event {
            Event::BranchOpened(opened @ BranchOpened { carried: Some(carried), .. }) => {
                let mut summary = (*carried.summary).clone();
                summary.restart(opened, first.seq);
                summary.weigh(first);
                summary.mail_unread = 0;
                (carried.run.clone(), summary)
            }
            Event::RunQueued(queued) => (queued.clone(), Summary::first(run, first, Hash::ZERO)?),
            Event::RunPruned(pruned) => (pruned.summary.as_queued(), Summary::first(run, first, Hash::ZERO)?),
            _ => return Err(Corrupt::new(first.seq, "a log must begin with run.queued")),
        };
        summary.advance_to(first, Hash::ZERO);
        let (children, mail_bytes) = match &first.event {
            Event::BranchOpened(BranchOpened { carried: Some(carried), .. }) => {
                (strays(carried), carried.mail_bytes)
            }
            _ => (BTreeMap::new(), 0),
        };
        let (outcome, terminated) = match &first.event {
            Event::RunPruned(pruned) => (outcome_of(&pruned.ended), terminated_by(&pruned.ended)),
            _ => (None, None),
        };
        let seen = summary.mail_ids.iter().cloned().collect();
        Ok(Self {
            summary,
            branches,
            queued,
            other_input_until: Seq::ZERO,
            unloaded: Seq::ZERO,
            ops: HashMap::new(),
            order: HashMap::new(),
            changes: BTreeSet::new(),
            unread: BTreeMap::new(),
            consumed: BTreeMap::new(),
            undo: Vec::new(),
            undone: BTreeMap::new(),
            children,
            handed_out: BTreeSet::new(),
            spent: BTreeSet::new(),
            remote_ended: false,
            jump: None,
            half_jump: None,
            failure: None,
            outcome,
            terminated,
            answered: BTreeSet::new(),
            mail_bytes,
            seen,
        })
    }

    /// Sets what the first claim decides: the version, and the plan of the node that executes the run.
    fn settle_queued(&mut self, claim: &RunClaimed) {
        if let Some(version) = claim.version.filter(|_| self.queued.version == UNDECIDED) {
            self.queued.version = version;
        }
        if !claim.plan.is_empty() {
            self.queued.plan.clone_from(&claim.plan);
        }
    }

    /// Returns the bytes of the log since the last `continue_as_new`, without mail: a run must be able to read its
    /// mail, however large it is.
    pub fn own_bytes(&self) -> u64 {
        self.summary.bytes.unwrap_or_default().saturating_sub(self.mail_bytes)
    }

    /// Applies the next event of the log, or reports that the state must be derived again.
    pub fn apply(&mut self, recorded: &Recorded, head: Hash) -> Result<Applied, Corrupt> {
        if recorded.seq != self.summary.as_of.next() {
            return Err(Corrupt::new(
                recorded.seq,
                format!("it does not follow event {}", self.summary.as_of),
            ));
        }
        if matches!(recorded.event, Event::BranchOpened(_)) {
            return Ok(Applied::MustDerive);
        }
        self.fold(recorded, recorded.branch == self.summary.branch);
        self.summary.head = head;
        Ok(Applied::Yes)
    }

    fn fold(&mut self, recorded: &Recorded, in_lineage: bool) {
        let event = &recorded.event;
        if let Event::BranchOpened(opened) = event {
            self.move_to(opened, recorded);
        } else if in_lineage || event.is_mail() || is_run_wide(event) {
            self.summary.take(recorded);
        }
        if event.is_mail() {
            self.mail_bytes = self.mail_bytes.saturating_add(recorded.bytes);
            self.deliver(recorded);
        } else if let Event::ChildStarted(child) = event {
            let before = self.children.get(&child.run);
            let child_of = Child::of(child, recorded, before);
            self.children.insert(child.run.clone(), child_of);
        } else if let Event::InputRequested(input) = event
            && !in_lineage
            && self.is_same_work(recorded.branch)
        {
            let since = self.summary.asked_since(&input.path, recorded.at);
            self.summary.cut_off.retain(|open| open.path != input.path);
            self.summary.cut_off.push(OpenInput::of(input, since));
        } else if let Event::WaitResolved { path, .. } = event {
            self.summary.cut_off.retain(|open| open.path != *path);
        }
        match event {
            Event::RunPruned(_) => self.unread.clear(),
            Event::RequestWithdrawn(withdrawn) if withdrawn.what == Request::Jump => self.jump = None,
            Event::RunClaimed(claim) => self.settle_queued(claim),
            Event::RequestAnswered(answered) => _ = self.answered.insert(answered.request.clone()),
            _ => {}
        }
        self.hand_out(recorded, in_lineage);
        if in_lineage {
            self.fold_branch(recorded);
        }
        self.seen.extend(command_id(event));
        self.summary.weigh(recorded);
        let head = self.summary.head;
        self.summary.advance_to(recorded, head);
    }

    /// Returns whether the active branch repeats the work of a branch that was left: only recoveries lie between
    /// them.
    fn is_same_work(&self, left: BranchId) -> bool {
        self.branches.generation(left) == self.branches.generation(self.branches.active().id)
    }

    fn move_to(&mut self, opened: &BranchOpened, recorded: &Recorded) {
        let seq = recorded.seq;
        match opened.why {
            Why::Continue => self.restart(opened, seq),
            Why::Jump { .. } | Why::Retry { .. } => {
                self.summary.forget_cancel();
                self.summary.renew_deadline(recorded.at);
                self.summary.progress();
                self.summary.forget_tasks();
            }
            Why::Reset => self.summary.forget_tasks(),
            Why::Recovery { .. } | Why::Undo { .. } => {}
        }
        self.half_jump = None;
        self.summary.owner = None;
        self.summary.branch = opened.branch;
        for dropped in &opened.dropped_mail {
            if self.unread.remove(dropped).is_some() {
                self.summary.mail_unread = self.summary.mail_unread.saturating_sub(1);
            }
        }
        if let Some(input) = &opened.input {
            self.queued.input = input.clone();
            self.other_input_until = seq;
        }
    }

    fn restart(&mut self, opened: &BranchOpened, seq: Seq) {
        self.summary.restart(opened, seq);
        if let Some(carried) = &opened.carried {
            self.queued = carried.run.clone();
            self.unread.retain(|seq, _| carried.mail.contains(seq));
            self.children = strays(carried);
            self.mail_bytes = carried.mail_bytes;
            self.seen = carried.summary.mail_ids.iter().cloned().collect();
            self.answered.clear();
        }
        self.other_input_until = Seq::ZERO;
        self.unloaded = Seq::ZERO;
        self.summary.mail_unread = u32::try_from(self.unread.len()).unwrap_or(u32::MAX);
    }

    fn deliver(&mut self, recorded: &Recorded) {
        let mail = match &recorded.event {
            Event::SignalReceived { name, id, payload } => {
                Mail::Signal { name: name.clone(), id: id.clone(), payload: payload.clone() }
            }
            Event::InputAnswered { question, answer, .. } => {
                Mail::Answer { question: question.clone(), answer: answer.clone() }
            }
            Event::ChildCompleted { run, output } => {
                Mail::Child { run: run.clone(), result: Ok(output.clone()) }
            }
            Event::ChildFailed { run, failure, refused } => {
                if let Some(child) = self.children.get_mut(run).filter(|_| *refused) {
                    child.refused = Some(failure.clone());
                }
                Mail::Child { run: run.clone(), result: Err(failure.clone()) }
            }
            _ => return,
        };
        if let Mail::Child { run, .. } = &mail
            && let Some(child) = self.children.get_mut(run)
        {
            child.ended = true;
        }
        self.complete_child(&mail, recorded.seq);
        self.unread.insert(recorded.seq, mail);
    }

    #[expect(clippy::too_many_lines, reason = "one arm per event or doing, and no `_` arm")]
    fn fold_branch(&mut self, recorded: &Recorded) {
        match &recorded.event {
            Event::StepStarted(e) => {
                let step = self.step(recorded, &e.path, e.ord);
                step.attempts = step.attempts.max(e.attempt);
                step.progress = StepProgress::Started;
                remote::begin(step, e, recorded.at);
                self.fingerprint(&e.path, e.input);
            }
            Event::StepCompleted(e) => {
                let step = self.step(recorded, &e.path, e.ord);
                step.attempts = step.attempts.max(e.attempt);
                step.group = e.group;
                step.progress = StepProgress::Completed(e.output.clone());
                remote::end(step, e.attempt, e.fence);
                self.fingerprint(&e.path, e.input);
                if e.undo {
                    self.undo.push(e.path.clone());
                }
            }
            Event::StepFailed(e) => {
                let step = self.step(recorded, &e.path, e.ord);
                step.attempts = step.attempts.max(e.attempt);
                step.failures += 1;
                step.left = e.left;
                step.group = e.group;
                step.progress = StepProgress::Failed(e.failure.clone());
                remote::end(step, e.attempt, e.fence);
                self.fingerprint(&e.path, e.input);
            }
            Event::StepRetryScheduled { path, due, .. } => {
                if let Some(Op { kind: OpKind::Step(step), .. }) = self.ops.get_mut(path) {
                    step.progress = StepProgress::Retry(*due);
                }
            }
            Event::WaitStarted(e) => self.wait(recorded, &e.path, e.ord).wanted = Some(e.clone()),
            Event::InputRequested(e) => self.wait(recorded, &e.path, e.ord).asked = true,
            Event::ChildStarted(e) => {
                self.wait(recorded, &e.path, e.ord).child = Some(e.run.clone());
                self.complete_again(&e.run, recorded.seq);
            }
            Event::TimerSet { path, ord, due } => {
                let wanted = WaitStarted {
                    path: path.clone(),
                    ord: *ord,
                    signals: vec![],
                    schemas: BTreeMap::new(),
                    inputs: vec![],
                    children: vec![],
                    due: Some(*due),
                };
                self.wait(recorded, path, *ord).wanted = Some(wanted);
            }
            Event::WaitResolved { path, by: By::Mail(seq) } => {
                if let Some(mail) = self.unread.remove(seq) {
                    if !matches!(mail, Mail::Child { .. }) {
                        self.consumed.insert(recorded.seq, *seq);
                    }
                    self.found(recorded, path, Found::Mail(mail));
                }
            }
            Event::WaitResolved { path, by: By::Timer } | Event::TimerFired { path } => {
                self.found(recorded, path, Found::Timer);
            }
            Event::ProgressEmitted { path, ord, .. } => {
                self.op(recorded, path, *ord, || OpKind::Progress);
            }
            Event::AttributesChanged(changed) => {
                self.op(recorded, &changed.path, changed.ord, || OpKind::Attributes);
            }
            Event::ValuePublished(e) => _ = self.op(recorded, &e.path, e.ord, || OpKind::Published),
            Event::RequestAnswered(e) => _ = self.op(recorded, &e.path, e.ord, || OpKind::Answered),
            Event::ChangeMarked { path, .. } => {
                self.changes.insert(path.clone());
            }
            Event::CompensationStarted { path, failure } => {
                self.undone.insert(path.clone(), Undo::Started);
                if failure.is_some() {
                    self.failure.clone_from(failure);
                }
            }
            Event::CompensationCompleted { path } => {
                self.undone.insert(path.clone(), Undo::Completed);
            }
            Event::CompensationFailed { path, failure } => {
                self.undone.insert(path.clone(), Undo::Failed(failure.clone()));
            }
            Event::JumpRequested(jump) => {
                self.jump = jump.compensate.then(|| jump.clone());
                self.half_jump = (!jump.compensate).then_some(recorded.seq);
            }
            Event::RunCompleted { .. } | Event::RunFailed { .. } | Event::RunCancelled { .. } => {
                self.outcome = outcome_of(&recorded.event);
                self.terminated = terminated_by(&recorded.event);
            }
            Event::RunReleased { reason: Release::Unload } => self.unloaded = recorded.seq,
            Event::StepTimeout { .. }
            | Event::BranchOpened(_)
            | Event::RunQueued(_)
            | Event::RunStarted
            | Event::RunClaimed(_)
            | Event::RunReleased { .. }
            | Event::RunResumed(_)
            | Event::RunRecovered(_)
            | Event::RunPaused(_)
            | Event::RunParked { .. }
            | Event::RunPruned(_)
            | Event::RunCancelRequested(_)
            | Event::RequestWithdrawn(_)
            | Event::InputAnswered { .. }
            | Event::SignalReceived { .. }
            | Event::ChildCompleted { .. }
            | Event::ChildFailed { .. }
            | Event::VersionChanged { .. }
            | Event::NoteAdded(_) => {}
        }
    }

    fn op(&mut self, recorded: &Recorded, path: &Path, ord: u32, new: impl FnOnce() -> OpKind) -> &mut Op {
        let op = match self.ops.entry(path.clone()) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                self.order.insert((path.arm().into(), ord), path.clone());
                let first = recorded.seq;
                entry.insert(Op { ord, first, last: first, at: recorded.at, input: None, kind: new() })
            }
        };
        op.at = recorded.at;
        op.last = recorded.seq;
        op
    }

    fn step(&mut self, recorded: &Recorded, path: &Path, ord: u32) -> &mut StepOp {
        let op = self.op(recorded, path, ord, || OpKind::Step(StepOp::default()));
        if !matches!(op.kind, OpKind::Step(_)) {
            op.kind = OpKind::Step(StepOp::default());
        }
        match &mut op.kind {
            OpKind::Step(step) => step,
            OpKind::Wait(_)
            | OpKind::Progress
            | OpKind::Attributes
            | OpKind::Published
            | OpKind::Answered => {
                unreachable!("it was made a step above")
            }
        }
    }

    fn wait(&mut self, recorded: &Recorded, path: &Path, ord: u32) -> &mut WaitOp {
        let op = self.op(recorded, path, ord, || OpKind::Wait(WaitOp::default()));
        if !matches!(op.kind, OpKind::Wait(_)) {
            op.kind = OpKind::Wait(WaitOp::default());
        }
        match &mut op.kind {
            OpKind::Wait(wait) => wait,
            OpKind::Step(_)
            | OpKind::Progress
            | OpKind::Attributes
            | OpKind::Published
            | OpKind::Answered => {
                unreachable!("it was made a wait above")
            }
        }
    }

    fn found(&mut self, recorded: &Recorded, path: &Path, found: Found) {
        if let Some(Op { kind: OpKind::Wait(wait), at, last, .. }) = self.ops.get_mut(path) {
            wait.found = Some(found);
            *at = recorded.at;
            *last = recorded.seq;
        }
    }

    fn fingerprint(&mut self, path: &Path, input: Option<Hash>) {
        if let Some(op) = self.ops.get_mut(path)
            && input.is_some()
        {
            op.input = input;
        }
    }

    /// Returns the `ord`-th operation of an arm.
    pub fn nth(&self, arm: &str, ord: u32) -> Option<&Path> {
        self.order.get(&(Box::from(arm), ord))
    }

    /// Returns whether the log has an operation of this arm at `ord` or later.
    pub fn goes_on(&self, arm: &str, ord: u32) -> bool {
        self.nth(arm, ord).is_some() || self.ops.iter().any(|(path, op)| op.ord >= ord && path.arm() == arm)
    }

    /// Returns the steps that completed after `cutoff`, have a compensation and are not compensated yet; latest
    /// first.
    pub fn to_undo(&self, cutoff: Seq) -> Vec<Path> {
        let open = |path: &&Path| {
            self.undone.get(*path) != Some(&Undo::Completed)
                && self.ops.get(*path).is_some_and(|op| op.last > cutoff)
        };
        self.undo.iter().rev().filter(open).cloned().collect()
    }

    /// Returns whether the active branch failed and is compensating: nothing new may begin on it.
    pub fn is_being_undone(&self) -> bool {
        self.failure.is_some() && self.outcome.is_none()
    }
}

#[cfg(test)]
mod tests;
