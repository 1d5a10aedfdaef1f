//! Remote steps: which tasks are handed out and therefore still accepted.
//!
//! A task is handed out from the start of its attempt until the attempt ends, or until the run drops it: the run
//! ends, compensates, is reset, or begins its steps again under new keys. Each of these is an event, so whether a
//! result is accepted never depends on the record of the task.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{OpKind, OpenRemote, RemoteEnd, RemoteOp, State, StepOp, StepProgress};
use crate::branch::Why;
use crate::event::{Event, Recorded, StepStarted};
use crate::path::Path;
use crate::time::{Millis, Seq};

/// Records the start of an attempt, local or remote.
pub(super) fn begin(step: &mut StepOp, started: &StepStarted, since: Millis) {
    let Some(remote) = &started.remote else { return };
    let mut sent = (**remote).clone();
    let mut ends = BTreeMap::new();
    if let Some(before) = step.remote.take() {
        sent.payload = sent.payload.or(before.sent.payload);
        ends = before.ends;
    }
    step.remote = Some(Box::new(RemoteOp { sent, since, ends }));
}

/// Records that an attempt ended with the step's present progress, under the claim that `fence` names.
pub(super) fn end(step: &mut StepOp, attempt: u32, fence: Option<u64>) {
    let Some(remote) = &mut step.remote else { return };
    let result = match &step.progress {
        StepProgress::Completed(output) => Ok(output),
        StepProgress::Failed(failure) => Err(failure),
        StepProgress::Started | StepProgress::Retry(_) => return,
    };
    let result = RemoteEnd::result_hash(result);
    remote.ends.insert(attempt, RemoteEnd { task: remote.sent.task.clone(), fence, result });
    if matches!(step.progress, StepProgress::Completed(_)) {
        remote.sent.payload = None;
    }
}

/// Returns whether the event drops everything that is handed out.
fn turns_away(event: &Event) -> bool {
    match event {
        Event::CompensationStarted { .. } => true,
        Event::JumpRequested(jump) => jump.compensate,
        Event::BranchOpened(opened) => opened.why == Why::Reset,
        event => event.is_terminal(),
    }
}

impl State {
    /// Updates `handed_out` and `remote_ended`, before the event is folded. A step that ended on a branch that was
    /// left is open again on this one.
    pub(super) fn hand_out(&mut self, recorded: &Recorded, in_lineage: bool) {
        match &recorded.event {
            Event::StepStarted(started) => {
                if let Some(remote) = &started.remote {
                    self.take_back(&started.path, in_lineage);
                    self.handed_out.insert(remote.task.clone());
                }
            }
            Event::StepCompleted(_) | Event::StepFailed(_) => {
                let path = recorded.event.path();
                if path.is_some_and(|path| self.take_back(path, in_lineage)) {
                    self.remote_ended |= recorded.epoch.is_none() && self.summary.owner.is_none();
                }
            }
            Event::RunClaimed(_) => self.remote_ended = false,
            Event::BranchOpened(opened) if opened.why.renews_keys() => {
                self.handed_out.clear();
                self.spent.clear();
            }
            event if turns_away(event) => self.spent.append(&mut self.handed_out),
            _ => {}
        }
    }

    fn take_back(&mut self, path: &Path, in_lineage: bool) -> bool {
        let Some(OpKind::Step(StepOp { remote: Some(remote), .. })) = self.ops.get(path).map(|op| &op.kind)
        else {
            return false;
        };
        in_lineage && self.handed_out.remove(&remote.sent.task)
    }

    /// Returns how this step is handed out, if its result is accepted now.
    pub fn awaited<'a>(&self, step: &'a StepOp) -> Option<&'a RemoteOp> {
        let remote = step.remote.as_deref()?;
        let open = step.progress == StepProgress::Started && self.handed_out.contains(&remote.sent.task);
        open.then_some(remote)
    }

    /// Returns the remote steps that wait for a worker, in the order in which they began.
    pub fn open_remote(&self) -> Vec<OpenRemote> {
        let mut open: Vec<(Seq, OpenRemote)> = Vec::new();
        for (path, op) in &self.ops {
            if let OpKind::Step(step) = &op.kind
                && let Some(RemoteOp { sent, since, .. }) = self.awaited(step)
            {
                let remote = OpenRemote {
                    path: path.clone(),
                    attempt: step.attempts,
                    task: sent.task.clone(),
                    queue: sent.queue.clone(),
                    silence: Duration::from_millis(sent.silence_ms),
                    since: *since,
                };
                open.push((op.first, remote));
            }
        }
        open.sort_unstable_by_key(|(first, _)| *first);
        open.into_iter().map(|(_, remote)| remote).collect()
    }
}
