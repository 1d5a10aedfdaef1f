//! The cached row of a run: what lists, external commands and claims need, without its history.
//!
//! Invariant: a summary is a fold of the log up to `as_of` and nothing else. A late summary is updated by folding
//! later events, and a lost one is rebuilt by folding from the start.

mod begin;
mod failing;
mod ids;
mod parts;
mod published;
mod reads;
mod requests;
mod timing;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::attribute::Attributes;
use crate::branch::{BranchId, Why};
use crate::corrupt::Corrupt;
use crate::error::Failure;
use crate::event::{By, Event, Recorded, RunPruned, Tags};
use crate::hash::Hash;
use crate::id::{LaneName, NodeId, QueueName, RunId, ValueName, WorkflowName};
use crate::path::Path;
pub use crate::status::{NoStatus, Status};
use crate::time::{Millis, Seq};
use crate::version::{self, UNDECIDED};

pub use ids::command_id;
pub(crate) use ids::{child_command, is_run_wide};
pub use parts::{OpenInput, OpenWait, Pruned, Trouble};
pub use published::{AnsweredAt, PublishedAt};
pub use requests::{Asked, PendingJump};

/// The cached row of a run, up to `as_of`.
///
/// Stores keep it beside the log, so that lists, external commands and claims need not read the history. It is a
/// cache: rule C1 rewrites it if it disagrees with the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Summary {
    /// Id of the run.
    pub run: RunId,
    /// Name of its workflow.
    pub workflow: WorkflowName,
    /// The version that it runs on; 0 until the first claim of a run that was started without a version.
    pub version: u32,
    /// The version that it began with; 0 while undecided.
    pub initial_version: u32,
    /// The present status.
    pub status: Status,
    /// Queue of its advance task.
    pub queue: QueueName,
    /// Higher runs first.
    #[serde(default)]
    pub priority: i32,
    /// Tags to search by.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub tags: Tags,
    /// Typed values to search by, as the active branch has them.
    #[serde(default, skip_serializing_if = "Attributes::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = std::collections::BTreeMap<String, serde_json::Value>))]
    pub attributes: Attributes,
    /// Position of the last event that changed attributes, on any branch; none if they never changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes_at: Option<Seq>,
    /// The run that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    /// The lane of its advance task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<LaneName>,
    /// When it begins, if its start was delayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<Millis>,
    /// When it must have ended. An operator who goes back to a step after this time removes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Millis>,
    /// Hash of the input that it was started with.
    pub input_hash: Hash,
    /// When it was queued.
    pub created_at: Millis,
    /// When the last event was written.
    pub last_event_at: Millis,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Millis>,

    /// The position up to which this row is true.
    pub as_of: Seq,
    /// Hash of the event there.
    pub head: Hash,
    /// Where loading may begin: the tombstone, the last `continue_as_new`, or the start.
    #[serde(default)]
    pub base: Seq,
    /// Bytes of the log from there on, and of the carried mail; none if an older release wrote the row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The active branch.
    pub branch: BranchId,
    /// Position of the latest claim.
    pub epoch: Seq,
    /// The node that owns it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<NodeId>,
    /// Whether it ever began.
    #[serde(default)]
    pub started: bool,
    /// Recoveries since the last progress.
    #[serde(default)]
    pub attempt: u32,
    /// When the latest claim was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_at: Option<Millis>,
    /// Whether the latest claim admitted it alone, and only its own code can have ended its process since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
    /// Upper bound of how long it lived before the last crash, if it has not made progress since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lived_ms: Option<u64>,
    /// Steps whose attempt the present owner has begun, as far as the log records them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub under_way: Vec<Path>,
    /// How it is recovered, if its owner's policy is not the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<crate::recovery_policy::Policy>,
    /// Total number of recoveries.
    #[serde(default)]
    pub recoveries: u32,
    /// When it was last recovered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered_at: Option<Millis>,

    /// Whether an operator paused it.
    #[serde(default)]
    pub paused: bool,
    /// The reason of a request to cancel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<String>,
    /// When and by which operator the pending request to cancel was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_asked: Option<Asked>,
    /// Whether the request to cancel was made because the deadline passed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    /// A jump that waits for its compensations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jump: Option<Box<PendingJump>>,
    /// Whether it is compensating.
    #[serde(default)]
    pub compensating: bool,
    /// Whether it needs an operator.
    #[serde(default)]
    pub parked: bool,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<OpenWait>,
    /// Open questions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<OpenInput>,
    /// Questions that a recovery cut off and that the run has not asked again yet: an answer to them still counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cut_off: Vec<OpenInput>,
    /// Ids of recent external commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mail_ids: Vec<String>,
    /// Total number of external commands.
    #[serde(default)]
    pub mail_count: u32,
    /// Number of unread messages.
    #[serde(default)]
    pub mail_unread: u32,

    /// Where the latest value of each published name is, as the active branch has it. A name that is not here may be
    /// in the log if an older release wrote the row.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = BTreeMap<String, PublishedAt>))]
    pub published: BTreeMap<ValueName, PublishedAt>,
    /// Where the latest answers to requests are, on any branch, oldest first. Earlier answers are in the log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered: Vec<AnsweredAt>,

    /// Number of completed leaf steps.
    #[serde(default)]
    pub steps: u32,
    /// The present or the last step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Path>,
    /// The step whose attempt failed last, and that has not completed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_step: Option<Path>,
    /// How it ended, or why it is parked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Trouble>,
    /// Whether an operator terminated it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub terminated: bool,
    /// Where its log is archived, if only a tombstone is left here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pruned: Option<Pruned>,
}

/// The reason why a summary cannot be updated by folding the next event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stuck {
    /// The run moved to another branch: derive from the whole history.
    NeedsHistory,
    /// The log is damaged.
    Corrupt(Corrupt),
}

impl Summary {
    /// Returns the summary after the first event.
    pub fn first(run: &RunId, recorded: &Recorded, head: Hash) -> Result<Self, Corrupt> {
        let mut summary = match &recorded.event {
            Event::RunQueued(queued) => Self::begin(run, queued, recorded.at),
            Event::RunPruned(pruned) => {
                let mut summary = Self::buried(run, pruned, recorded);
                summary.weigh(recorded);
                summary.advance_to(recorded, head);
                return Ok(summary);
            }
            _ => return Err(Corrupt::new(recorded.seq, "a log must begin with run.queued")),
        };
        summary.as_of = recorded.seq;
        summary.base = recorded.seq;
        summary.head = head;
        summary.branch = recorded.branch;
        summary.weigh(recorded);
        Ok(summary)
    }

    /// Returns the row of a pruned run from its tombstone.
    fn buried(run: &RunId, pruned: &RunPruned, recorded: &Recorded) -> Self {
        let place = Pruned { at: recorded.at, archive: pruned.archive.clone() };
        let before = (*pruned.summary).clone();
        Self {
            run: run.clone(),
            base: recorded.seq,
            bytes: Some(0),
            mail_unread: 0,
            pruned: Some(place),
            ..before
        }
    }

    /// Returns what a worker needs to execute the run: `order@2`, or `order` while the version is undecided.
    pub fn needs(&self) -> String {
        version::label(&self.workflow, self.version)
    }

    /// Applies the next event of the log.
    pub fn fold(&mut self, recorded: &Recorded, head: Hash) -> Result<(), Stuck> {
        // A tombstone contains everything that is needed; earlier events may be missing.
        let stands_alone = matches!(recorded.event, Event::RunPruned(_)) && recorded.seq > self.as_of;
        if recorded.seq != self.as_of.next() && !stands_alone {
            return Err(Stuck::Corrupt(Corrupt::new(
                recorded.seq,
                "it does not follow the position of the row",
            )));
        }
        match &recorded.event {
            Event::BranchOpened(opened) if opened.why != Why::Continue => return Err(Stuck::NeedsHistory),
            Event::BranchOpened(opened) => self.restart(opened, recorded.seq),
            event if event.is_mail() || is_run_wide(event) || recorded.branch == self.branch => {
                self.take(recorded);
            }
            _ => {}
        }
        self.weigh(recorded);
        self.advance_to(recorded, head);
        Ok(())
    }

    /// Counts the bytes of an event, if those before it were counted.
    pub(crate) fn weigh(&mut self, recorded: &Recorded) {
        self.bytes = self.bytes.map(|bytes| bytes.saturating_add(recorded.bytes));
    }

    /// Advances to an event. For an event of a branch that was left, only the id of its command is kept.
    pub(crate) fn advance_to(&mut self, recorded: &Recorded, head: Hash) {
        self.as_of = recorded.seq;
        self.head = head;
        self.last_event_at = recorded.at;
        if matches!(recorded.event, Event::AttributesChanged(_)) {
            self.attributes_at = Some(recorded.seq);
        }
        if let Some(id) = command_id(&recorded.event) {
            self.see(id);
        }
        self.status = self.status_now();
    }

    /// Restarts the run on a branch that sees no earlier event.
    pub(crate) fn restart(&mut self, opened: &crate::event::BranchOpened, seq: Seq) {
        self.branch = opened.branch;
        self.base = seq;
        self.bytes = Some(opened.carried.as_ref().map_or(0, |carried| carried.mail_bytes));
        self.mail_unread =
            opened.carried.as_ref().map_or(0, |c| u32::try_from(c.mail.len()).unwrap_or(u32::MAX));
        // The new branch sees no earlier change of attributes, and no earlier published value.
        if let Some(carried) = &opened.carried {
            self.attributes.clone_from(&carried.summary.attributes);
            self.published.clone_from(&carried.summary.published);
        }
        self.owner = None;
        self.progress();
        self.forget_branch();
    }

    /// Resets the recovery attempts: the run has got past the cause of its crashes.
    pub(crate) fn progress(&mut self) {
        self.attempt = 0;
        self.alone = false;
        self.lived_ms = None;
    }

    /// Returns when a question was first asked. A question that a recovery cut off counts as the same question.
    pub(crate) fn asked_since(&self, question: &Path, now: Millis) -> Millis {
        self.cut_off.iter().find(|open| open.path == *question).map_or(now, |open| open.since)
    }

    /// Clears the facts of a branch, before its lineage is folded again.
    pub(crate) fn forget_branch(&mut self) {
        self.compensating = false;
        self.jump = None;
        self.parked = false;
        self.trouble = None;
        self.finished_at = None;
        self.waits.clear();
        self.inputs.clear();
        self.cut_off.clear();
        self.under_way.clear();
        self.steps = 0;
        self.step = None;
        self.failed_step = None;
    }

    /// Removes the waits for remote steps that were handed out so far.
    pub(crate) fn forget_tasks(&mut self) {
        self.waits.retain(|wait| wait.tasks.is_empty());
    }

    /// Returns whether the row is consistent. A foreign program wrote a row that is not.
    pub fn is_coherent(&self) -> bool {
        self.status == self.status_now() && self.status.is_terminal() == self.finished_at.is_some()
    }

    fn status_now(&self) -> Status {
        if self.finished_at.is_some() {
            return self.status;
        }
        if self.parked {
            Status::Parked
        } else if self.paused {
            Status::Paused
        } else if self.compensating {
            Status::Compensating
        } else if self.waits.iter().any(|wait| !wait.is_sleep()) {
            Status::Waiting
        } else if !self.waits.is_empty() {
            Status::Sleeping
        } else if self.owner.is_some() {
            Status::Running
        } else {
            Status::Queued
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm per event or doing, and no `_` arm")]
    pub(crate) fn take(&mut self, recorded: &Recorded) {
        let at = recorded.at;
        if recorded.is_progress() {
            self.progress();
        }
        match &recorded.event {
            Event::RunQueued(_)
            | Event::BranchOpened(_)
            | Event::NoteAdded(_)
            | Event::ProgressEmitted { .. }
            | Event::ChangeMarked { .. } => {}
            Event::AttributesChanged(changed) => {
                changed.apply_to(&mut self.attributes);
            }
            Event::ValuePublished(published) => self.publish(published, recorded.seq),
            Event::RequestAnswered(answered) => self.answer(&answered.request, recorded.seq),
            Event::RunStarted => self.started = true,
            Event::RunClaimed(claim) => {
                self.epoch = recorded.seq;
                self.owner = Some(claim.node.clone());
                self.attempt = claim.attempt;
                self.claimed_at = Some(at);
                self.alone = claim.alone;
                self.under_way.clear();
                self.recovery = claim.recovery.or(self.recovery);
                if let Some(version) = claim.version.filter(|_| self.version == UNDECIDED) {
                    (self.version, self.initial_version) = (version, version);
                }
            }
            Event::RunReleased { .. } => {
                self.owner = None;
                self.under_way.clear();
            }
            Event::RunRecovered(recovered) => {
                self.recoveries += 1;
                self.lived_ms = recovered.lived_ms.or(self.lived_ms);
                self.recovered_at = Some(at);
            }
            Event::RunPaused(_) => self.paused = true,
            Event::RunResumed(_) => {
                self.paused = false;
                self.parked = false;
                self.trouble = None;
            }
            Event::RunCancelRequested(request) => self.cancel_requested(request, at),
            Event::RequestWithdrawn(withdrawn) => self.withdraw(withdrawn.what),
            Event::RunParked { code, reason } => {
                self.owner = None;
                self.parked = true;
                let failure = Failure::terminal(reason.clone()).with_code(code.clone());
                self.trouble = Some(Trouble::of(&self.run, None, &failure));
            }
            Event::RunCompleted { .. } => self.end(Status::Completed, at, None),
            Event::RunFailed { failure } => self.end(Status::Failed, at, Some(self.trouble_of(failure))),
            Event::RunCancelled { terminated, .. } => {
                self.end(Status::Cancelled, at, None);
                self.terminated = terminated.is_some();
            }
            Event::RunPruned(pruned) => *self = Self::buried(&self.run, pruned, recorded),
            Event::StepStarted(step) => {
                self.at_step(&step.path);
                match &step.remote {
                    Some(remote) => {
                        let tasks = vec![remote.task.clone()];
                        self.waits.push(OpenWait { tasks, ..OpenWait::new(&step.path, at) });
                    }
                    None => self.under_way.push(step.path.clone()),
                }
            }
            Event::StepCompleted(step) => {
                self.at_step(&step.path);
                self.steps += u32::from(!step.group);
                self.failed_step.take_if(|failed| *failed == step.path);
            }
            Event::StepFailed(step) => self.failed_at(&step.path),
            Event::StepTimeout { path, .. } => self.failed_at(path),
            Event::StepRetryScheduled { path, due, .. } => {
                self.close(path);
                self.waits.push(OpenWait::until(path, at, *due));
            }
            Event::WaitStarted(wait) => {
                self.step = Some(wait.path.clone());
                self.waits.retain(|open| open.path != wait.path);
                self.waits.push(OpenWait {
                    signals: wait.signals.clone(),
                    schemas: wait.schemas.clone(),
                    inputs: wait.inputs.clone(),
                    children: wait.children.clone(),
                    due: wait.due,
                    ..OpenWait::new(&wait.path, at)
                });
            }
            Event::WaitResolved { path, by } => {
                self.close(path);
                if let By::Mail(_) = by {
                    self.mail_unread = self.mail_unread.saturating_sub(1);
                }
            }
            Event::InputRequested(input) => {
                let since = self.asked_since(&input.path, at);
                self.inputs.retain(|open| open.path != input.path);
                self.cut_off.retain(|open| open.path != input.path);
                self.inputs.push(OpenInput::of(input, since));
            }
            Event::InputAnswered { question, .. } => {
                self.inputs.retain(|input| input.path != *question);
                self.cut_off.retain(|input| input.path != *question);
                self.mail_unread += 1;
            }
            Event::SignalReceived { .. } | Event::ChildCompleted { .. } | Event::ChildFailed { .. } => {
                self.mail_unread += 1;
            }
            Event::TimerSet { path, due, .. } => {
                self.at_step(path);
                self.waits.push(OpenWait::until(path, at, *due));
            }
            Event::TimerFired { path } => self.close(path),
            Event::ChildStarted(child) => self.step = Some(child.path.clone()),
            Event::JumpRequested(jump) if jump.compensate => {
                self.compensating = true;
                self.jump = Some(Box::new(PendingJump::of(jump, at)));
                self.forget_tasks();
            }
            Event::JumpRequested(_) => self.jump = None,
            Event::CompensationStarted { path, failure } => {
                self.compensating = true;
                self.waits.clear();
                self.inputs.clear();
                self.under_way.clear();
                // A healer began the compensation: the run must be admitted alone again to complete it.
                self.alone &= recorded.epoch.is_some();
                self.step = Some(path.clone());
                if let Some(failure) = failure {
                    self.trouble = Some(self.trouble_of(failure));
                }
            }
            Event::CompensationCompleted { path } | Event::CompensationFailed { path, .. } => {
                self.step = Some(path.clone());
            }
            Event::VersionChanged { to, note, .. } => {
                self.version = *to;
                if note.is_some() {
                    self.parked = false;
                    self.trouble = None;
                }
            }
        }
    }

    fn end(&mut self, status: Status, at: Millis, trouble: Option<Trouble>) {
        self.status = status;
        self.finished_at = Some(at);
        self.owner = None;
        self.cancel_asked = None;
        self.jump = None;
        self.compensating = false;
        self.waits.clear();
        self.inputs.clear();
        self.cut_off.clear();
        self.under_way.clear();
        self.trouble = trouble;
    }

    fn at_step(&mut self, path: &Path) {
        self.close(path);
        self.step = Some(path.clone());
    }

    /// Ends an attempt or a wait, and the questions that no other wait looks for.
    fn close(&mut self, path: &Path) {
        self.under_way.retain(|step| step != path);
        for ended in self.waits.extract_if(.., |wait| wait.path == *path).collect::<Vec<_>>() {
            let wanted = |path: &Path| self.waits.iter().any(|wait| wait.inputs.contains(path));
            self.inputs.retain(|input| !ended.inputs.contains(&input.path) || wanted(&input.path));
        }
    }
}
