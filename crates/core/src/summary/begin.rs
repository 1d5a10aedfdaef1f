//! The row of a new run.

use std::collections::BTreeMap;

use super::Summary;
use crate::branch::BranchId;
use crate::event::RunQueued;
use crate::hash::Hash;
use crate::id::RunId;
use crate::payload::Payload;
use crate::status::Status;
use crate::time::{Millis, Seq};

impl Summary {
    /// Returns the row of a run that was queued at `at`.
    pub(super) fn begin(run: &RunId, queued: &RunQueued, at: Millis) -> Self {
        Self {
            run: run.clone(),
            workflow: queued.workflow.clone(),
            version: queued.version,
            initial_version: queued.version,
            status: Status::Queued,
            queue: queued.queue.clone(),
            priority: queued.priority,
            tags: queued.tags.clone(),
            attributes: queued.attributes.clone(),
            attributes_at: None,
            parent: queued.parent.clone(),
            lane: queued.lane.clone(),
            start_at: queued.start_at,
            deadline: queued.deadline,
            input_hash: queued.input.hash(),
            created_at: at,
            last_event_at: at,
            finished_at: None,
            as_of: Seq::ZERO,
            head: Hash::ZERO,
            base: Seq(1),
            bytes: Some(0),
            branch: BranchId::ROOT,
            epoch: Seq::ZERO,
            owner: None,
            started: false,
            attempt: 0,
            claimed_at: None,
            alone: false,
            lived_ms: None,
            under_way: Vec::new(),
            recovery: None,
            recoveries: 0,
            recovered_at: None,
            paused: false,
            cancel: None,
            cancel_asked: None,
            timed_out: false,
            jump: None,
            compensating: false,
            parked: false,
            waits: Vec::new(),
            inputs: Vec::new(),
            cut_off: Vec::new(),
            mail_ids: Vec::new(),
            mail_count: 0,
            mail_unread: 0,
            published: BTreeMap::new(),
            answered: Vec::new(),
            steps: 0,
            step: None,
            failed_step: None,
            trouble: None,
            terminated: false,
            pruned: None,
        }
    }

    /// Returns a run as it was queued, as far as its row records it. A pruned run never executes again, so its input is
    /// not needed.
    pub fn as_queued(&self) -> RunQueued {
        RunQueued {
            workflow: self.workflow.clone(),
            version: self.initial_version,
            input: Payload::null(),
            queue: self.queue.clone(),
            priority: self.priority,
            tags: self.tags.clone(),
            attributes: self.attributes.clone(),
            parent: self.parent.clone(),
            plan: Vec::new(),
            trace: None,
            start_at: self.start_at,
            deadline: self.deadline,
            lane: self.lane.clone(),
        }
    }
}
