//! Tasks and locks: one record each, changed by compare-and-set.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use goldseam_core::lock::Lock;
use goldseam_core::task::{Task, TaskState};
use goldseam_core::{LaneName, Millis, TaskId};

use super::MemoryState;
use crate::api::{ClaimRequest, ClaimedTasks, Expect, LockFilter, TaskFilter, Unreadable, Written};
use crate::audit::AuditEntry;

impl MemoryState {
    pub(super) fn put_task(&mut self, task: Task, expect: Expect) -> Written<Task> {
        let found = self.tasks.get(&task.id);
        if !is_as_expected(found.map(|found| found.version), expect) {
            let is_readable = |found: &&Task| !self.garbled.tasks.contains(&found.id);
            return Written::Lost(found.filter(is_readable).cloned());
        }
        if let Some(rival) = self.rival(&task) {
            return Written::Lost(Some(rival.clone()));
        }
        self.garbled.tasks.remove(&task.id);
        self.record(AuditEntry::of_task(&task));
        self.tasks.insert(task.id.clone(), task);
        Written::Done
    }

    /// Returns another task that blocks this one: it has its key or, if this one is claimed, its lane.
    pub(super) fn rival(&self, task: &Task) -> Option<&Task> {
        self.with_its_key(task).or_else(|| self.in_its_lane(task))
    }

    fn with_its_key(&self, task: &Task) -> Option<&Task> {
        let key = task.key.as_ref().filter(|_| task.state.is_live())?;
        let holds = |other: &&Task| other.state.is_live() && other.key.as_ref() == Some(key);
        self.tasks.values().filter(holds).find(|other| other.id != task.id)
    }

    fn in_its_lane(&self, task: &Task) -> Option<&Task> {
        let lane = task.lane.as_ref().filter(|_| task.state == TaskState::Claimed)?;
        let holds = |other: &&Task| other.state == TaskState::Claimed && other.lane.as_ref() == Some(lane);
        self.tasks.values().filter(holds).find(|other| other.id != task.id)
    }

    pub(super) fn claim(&mut self, claim: &ClaimRequest) -> ClaimedTasks {
        let mut busy = self.busy_lanes();
        let mut chosen = Vec::new();
        for (id, lane) in self.due(claim) {
            if chosen.len() >= claim.limit as usize {
                break;
            }
            if lane.is_none_or(|lane| busy.insert(lane)) {
                chosen.push(id);
            }
        }
        let mut tasks = Vec::new();
        for id in chosen {
            if let Some(task) = self.tasks.get_mut(&id) {
                *task = task.clone().claimed(&claim.owner, claim.now);
                tasks.push(task.clone());
            }
        }
        ClaimedTasks { tasks, next_due: self.next_due(claim, &busy) }
    }

    /// Returns the lanes with a claimed task. A lane is the same in all queues.
    fn busy_lanes(&self) -> BTreeSet<LaneName> {
        let claimed = self.tasks.values().filter(|task| task.state == TaskState::Claimed);
        claimed.filter_map(|task| task.lane.clone()).collect()
    }

    fn readable_tasks(&self) -> impl Iterator<Item = &Task> {
        self.tasks.values().filter(|task| !self.garbled.tasks.contains(&task.id))
    }

    fn due(&self, claim: &ClaimRequest) -> Vec<(TaskId, Option<LaneName>)> {
        let wanted = self.readable_tasks().filter(|task| claim.wants(task) && task.run_at <= claim.now);
        let mut due: Vec<&Task> = wanted.collect();
        due.sort_by_key(|task| (Reverse(task.priority), task.run_at));
        due.into_iter().map(|task| (task.id.clone(), task.lane.clone())).collect()
    }

    /// Returns when the next task is due. Ignores tasks behind a busy lane, because only the end of the claimed one
    /// frees them.
    fn next_due(&self, claim: &ClaimRequest, busy: &BTreeSet<LaneName>) -> Option<Millis> {
        let free = |task: &&Task| task.lane.as_ref().is_none_or(|lane| !busy.contains(lane));
        let wanted = self.readable_tasks().filter(|task| claim.wants(task)).filter(free);
        wanted.map(|task| task.run_at).min().filter(|at| *at < Millis::NEVER)
    }

    pub(super) fn list_tasks(&self, filter: &TaskFilter) -> Vec<Task> {
        let after = |id: &TaskId| filter.after.as_ref().is_none_or(|after| id > after);
        let found = self.readable_tasks().filter(|task| after(&task.id) && filter.selects(task));
        found.take(filter.limit as usize).cloned().collect()
    }

    pub(super) fn put_lock(&mut self, lock: Lock, expect: Expect) -> Written<Lock> {
        if self.garbled.locks.contains(&lock.name) {
            return Written::Lost(Some(Unreadable::lock(lock.name)));
        }
        let found = self.locks.get(&lock.name);
        if !is_as_expected(found.map(|found| found.version), expect) {
            return Written::Lost(found.cloned());
        }
        self.record(AuditEntry::of_lock(&lock));
        self.locks.insert(lock.name.clone(), lock);
        Written::Done
    }

    pub(super) fn list_locks(&self, filter: &LockFilter) -> Vec<Lock> {
        let after = |lock: &Lock| filter.after.as_ref().is_none_or(|after| lock.name > *after);
        let listed = |lock: &&Lock| after(lock) && filter.selects(lock);
        let shown = |lock: &Lock| match self.garbled.locks.contains(&lock.name) {
            true => Unreadable::lock(lock.name.clone()),
            false => lock.clone(),
        };
        self.locks.values().filter(listed).take(filter.limit as usize).map(shown).collect()
    }
}

pub(super) fn is_as_expected(version: Option<u64>, expect: Expect) -> bool {
    match expect {
        Expect::Absent => version.is_none(),
        Expect::Version(expected) => version == Some(expected),
    }
}
