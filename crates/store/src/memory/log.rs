//! The log: compare-and-append, together with the row and the tasks.

use std::ops::Bound;

use goldseam_core::task::{Task, TaskState};
use goldseam_core::{Millis, RunId, Seq, Summary, TaskId};

use super::MemoryState;
use crate::api::{Append, Record, TaskChange};
use crate::error::StoreError;

impl MemoryState {
    pub(super) fn append(&mut self, append: Append) -> Result<Seq, StoreError> {
        if append.bodies.is_empty() {
            return Err(StoreError::empty_append());
        }
        let end = self.runs.get(&append.run).map_or(Seq::ZERO, super::MemoryRun::end);
        if end != append.after {
            return Err(StoreError::Conflict { end });
        }
        let run = self.runs.entry(append.run.clone()).or_default();
        run.log.extend((end.0 + 1..).map(Seq).zip(append.bodies));
        let before = end;
        let end = run.end();
        self.order.extend((before.0 + 1..=end.0).map(|seq| (append.run.clone(), Seq(seq))));
        self.follow(&append.run, append.row.map(|summary| *summary), append.tasks);
        Ok(end)
    }

    /// Applies everything that goes with an append, with at most one write of the row.
    fn follow(&mut self, run: &RunId, summary: Option<Summary>, changes: Vec<TaskChange>) {
        let row = self.runs.get(run).and_then(|run| run.row.clone());
        let mut own = row.as_ref().and_then(|row| row.task.clone());
        let summary_after = summary.clone().or_else(|| row.map(|row| row.summary));
        let mut adopted = false;
        for change in changes {
            match change {
                TaskChange::Create(task) => {
                    let advance = task.is_advance().then(|| task.id.clone());
                    self.create(*task);
                    // Without a row, the store cannot record the run's own task.
                    let found = advance.filter(|id| summary_after.is_some() && self.tasks.contains_key(id));
                    adopted |= found.is_some();
                    own = found.or(own);
                }
                TaskChange::Rest { task, run_at } => self.rest(&task, run_at),
                TaskChange::Wake { at } => self.wake(own.as_ref(), at),
                TaskChange::Cancel { task } => self.cancel(&task),
                TaskChange::Remove { task } => self.remove(&task),
            }
        }
        if let Some(after) = summary_after.filter(|_| summary.is_some() || adopted) {
            self.write_row(after, own);
        }
    }

    /// Creates a task, unless its id exists or another task blocks it.
    fn create(&mut self, task: Task) {
        if !self.tasks.contains_key(&task.id) && self.rival(&task).is_none() {
            self.tasks.insert(task.id.clone(), task);
        }
    }

    fn rest(&mut self, id: &TaskId, run_at: Millis) {
        let now = self.now;
        if let Some(task) = self.tasks.get_mut(id).filter(|task| task.state.is_live()) {
            *task = task.clone().returned(run_at, now);
        }
    }

    fn cancel(&mut self, id: &TaskId) {
        let now = self.now;
        if let Some(task) = self.tasks.get_mut(id)
            && let Ok(cancelled) = task.clone().cancelled(now)
        {
            *task = cancelled;
        }
    }

    fn remove(&mut self, id: &TaskId) {
        self.garbled.tasks.remove(id);
        self.tasks.remove(id);
    }

    fn wake(&mut self, own: Option<&TaskId>, at: Millis) {
        let Some(task) = own.and_then(|id| self.tasks.get_mut(id)) else { return };
        match task.state {
            TaskState::Ready if task.run_at > at => task.run_at = at,
            TaskState::Claimed if !task.poked => task.poked = true,
            _ => return,
        }
        task.changed_at = self.now.max(task.changed_at);
        task.version += 1;
    }

    pub(super) fn read(&self, run: &RunId, after: Seq, limit: u32) -> Vec<Record> {
        let Some(run) = self.runs.get(run) else { return Vec::new() };
        let rest = run.log.range((Bound::Excluded(after), Bound::Unbounded)).take(limit as usize);
        rest.map(|(seq, body)| Record { seq: *seq, body: body.clone() }).collect()
    }

    pub(super) fn trim(&mut self, run: &RunId, first: Seq) {
        if let Some(run) = self.runs.get_mut(run).filter(|run| run.log.contains_key(&first)) {
            run.log = run.log.split_off(&first);
        }
    }
}
