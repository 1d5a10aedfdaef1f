//! Tasks: one object each. The marker of a task is written before the task and removed after it, so a crash in between
//! loses no task; a marker that its task contradicts is ignored.

use goldseam_core::task::{Task, TaskState};
use goldseam_core::{LaneName, Millis, TaskId};
use goldseam_store::{AuditEntry, Expect, StoreError, TaskFilter, Written};

use crate::idempotency_keys::KeyOwner;
use crate::inner::BucketState;
use crate::keys::{self, TaskMarker};
use crate::records::{RecordWrite, Tagged};

/// Most attempts to apply a change that goes with an append against concurrent writers.
const RACES_MAX: u32 = 50;

/// The outcome of a write of a task.
#[derive(Debug)]
pub(crate) enum TaskWrite {
    Done,
    /// The task is not as expected; this is stored instead.
    Lost(Option<Tagged<Task>>),
    /// Another task has its key or holds its lane.
    Rival(Task),
}

impl BucketState {
    pub(crate) async fn put_task(&self, task: Task, expect: Expect) -> Result<Written<Task>, StoreError> {
        let key = keys::task(&task.id);
        let lost = |found: Option<Tagged<Task>>| Ok(Written::Lost(found.map(|found| found.record)));
        let mut before = match expect {
            Expect::Version(version) => match self.tasks.at(&key, version).await? {
                Ok(found) => Some(found),
                Err(other) => return lost(other),
            },
            // Before it takes a key or a lane, a new task checks that its id is free.
            Expect::Absent if task.key.is_some() || task.lane.is_some() => {
                match self.tasks.get(&key).await? {
                    None => None,
                    other => return lost(other),
                }
            }
            Expect::Absent => None,
        };
        for _ in 0..2 {
            match self.write_task(&task, before.as_ref()).await? {
                TaskWrite::Done => {
                    self.watch.bump();
                    return Ok(Written::Done);
                }
                TaskWrite::Rival(rival) => return Ok(Written::Lost(Some(rival))),
                // The remembered record was outdated, but the stored one has the expected version.
                TaskWrite::Lost(Some(found)) if Expect::Version(found.record.version) == expect => {
                    before = Some(found);
                }
                TaskWrite::Lost(found) => return lost(found),
            }
        }
        lost(before)
    }

    /// Writes a task over `before`, with its key, its lane and its marker.
    pub(crate) async fn write_task(
        &self,
        task: &Task,
        before: Option<&Tagged<Task>>,
    ) -> Result<TaskWrite, StoreError> {
        let old = before.map(|before| &before.record);
        let has_taken_key = match self.take_key(task, old).await? {
            KeyOwner::Rival(rival) => return Ok(TaskWrite::Rival(*rival)),
            KeyOwner::Taken => true,
            KeyOwner::Settled => false,
        };
        let takes_lane = lane_held(task).is_some() && old.and_then(lane_held) != lane_held(task);
        if takes_lane && let Some(rival) = self.take_lane(task).await? {
            return Ok(TaskWrite::Rival(rival));
        }
        self.mark(task).await?;
        match self.tasks.write(&keys::task(&task.id), task, before).await? {
            RecordWrite::Done => {
                self.record_audit(AuditEntry::of_task(task)).await;
                if let Some(old) = old {
                    if TaskMarker::of(old) != TaskMarker::of(task) {
                        self.unmark(old).await;
                    }
                    if lane_held(old) != lane_held(task) {
                        self.release_lane(old).await;
                    }
                }
                Ok(TaskWrite::Done)
            }
            // Another process found the key taken, and wrote this task on behalf of this one.
            RecordWrite::Lost(Some(found)) if has_taken_key && is_from(&found.record, task) => {
                Ok(TaskWrite::Done)
            }
            RecordWrite::Lost(found) => {
                // Keep the lane if a rival has claimed the same task: the lane is taken for that claim.
                let holds_lane = |found: &Tagged<Task>| lane_held(&found.record) == lane_held(task);
                if takes_lane && !found.as_ref().is_some_and(holds_lane) {
                    self.release_lane(task).await;
                }
                Ok(TaskWrite::Lost(found))
            }
        }
    }

    /// Writes the marker that this task needs.
    pub(crate) async fn mark(&self, task: &Task) -> Result<(), StoreError> {
        let Some(marker) = TaskMarker::of(task) else { return Ok(()) };
        let key = marker.key(self.clock.now());
        self.bucket.put(&key, bytes::Bytes::new()).await?;
        self.ready_index.added(&key);
        Ok(())
    }

    /// Removes the marker of an earlier version of a task. After a failure, a later reader removes it.
    async fn unmark(&self, old: &Task) {
        let Some(marker) = TaskMarker::of(old) else { return };
        // The key of an unknown marker follows from the time of the task's last change.
        let key = self.ready_index.key_of(&marker).unwrap_or_else(|| marker.key(old.changed_at));
        self.drop_marker(&key).await;
    }

    pub(crate) async fn list_tasks(&self, filter: &TaskFilter) -> Result<Vec<Task>, StoreError> {
        let found = match filter {
            // A sweep looks at the advance task of every run, and reads a suspicious one again.
            TaskFilter { id: Some(id), advance: Some(true), .. } => {
                self.tasks.get_for_sweep(&keys::task(id)).await?.into_iter().collect()
            }
            TaskFilter { id: Some(id), .. } => self.task(id).await?.into_iter().collect(),
            TaskFilter { key: Some(key), .. } => self.task_of_key(key).await?.into_iter().collect(),
            TaskFilter { poked: true, owner: Some(owner), .. } => self.poked(owner).await?,
            _ => {
                let all = self.tasks.all().await?;
                self.complete_task_audit(&all).await;
                all
            }
        };
        let is_after = |id: &TaskId| filter.after.as_ref().is_none_or(|after| id > after);
        let mut listed: Vec<Task> =
            found.into_iter().filter(|task| is_after(&task.id) && filter.selects(task)).collect();
        listed.sort_by(|a, b| a.id.cmp(&b.id));
        listed.truncate(filter.limit as usize);
        Ok(listed)
    }

    pub(crate) async fn task(&self, id: &TaskId) -> Result<Option<Task>, StoreError> {
        Ok(self.tasks.get(&keys::task(id)).await?.map(|found| found.record))
    }

    /// Poked tasks of this owner, found by their markers.
    async fn poked(&self, owner: &str) -> Result<Vec<Task>, StoreError> {
        let mine = keys::owner(owner);
        let mut poked = Vec::new();
        for (key, marker) in self.ready_index.markers(&self.bucket, self.markers_age_max()).await? {
            let TaskMarker::Poke { owner, version, task } = marker else { continue };
            if owner != mine {
                continue;
            }
            match self.task(&task).await? {
                Some(task) if task.poked => poked.push(task),
                Some(task) if task.version >= version => self.drop_marker(&key).await,
                _ => {}
            }
        }
        poked.dedup_by(|a, b| a.id == b.id);
        Ok(poked)
    }

    /// Removes a stale marker.
    pub(crate) async fn drop_marker(&self, key: &str) {
        self.ready_index.removed(key);
        if let Err(error) = self.bucket.delete(key).await {
            tracing::debug!(key, %error, "failed to remove a stale marker");
        }
    }

    /// Creates a task unless a rival prevents it. Returns whether a task with its id exists afterwards.
    pub(crate) async fn create_task(&self, task: &Task) -> Result<bool, StoreError> {
        Ok(match self.put_task(task.clone(), Expect::Absent).await? {
            Written::Done => true,
            Written::Lost(found) => found.is_some_and(|found| found.id == task.id),
        })
    }

    /// Applies `change` to a task. Repeats it after a lost race, until `change` returns none.
    pub(crate) async fn change_task(
        &self,
        id: &TaskId,
        change: impl Fn(Task, Millis) -> Option<Task>,
    ) -> Result<(), StoreError> {
        let key = keys::task(id);
        let mut found = self.tasks.last_seen(&key);
        for attempt in 0..RACES_MAX {
            if found.is_none() {
                found = self.tasks.get(&key).await?;
            }
            let Some(before) = found.take() else { return Ok(()) };
            let now = self.clock.now();
            let Some(next) = change(before.record.clone(), now) else {
                // The remembered record may be outdated.
                if attempt == 0 {
                    found = self.tasks.get(&key).await?;
                    let has_changed = found.as_ref().is_some_and(|found| found.record != before.record);
                    if has_changed {
                        continue;
                    }
                }
                return Ok(());
            };
            match self.write_task(&next, Some(&before)).await? {
                TaskWrite::Done | TaskWrite::Rival(_) => return Ok(()),
                TaskWrite::Lost(None) => return Ok(()),
                TaskWrite::Lost(other) => found = other,
            }
        }
        Ok(())
    }

    pub(crate) async fn remove_task(&self, id: &TaskId) -> Result<(), StoreError> {
        let key = keys::task(id);
        let found = match self.tasks.last_seen(&key) {
            Some(seen) => Some(seen),
            None => self.tasks.get(&key).await?,
        };
        let Some(Tagged { record: task, .. }) = found else {
            // The markers of an unreadable task are unknown; without their task they are stale.
            if self.tasks.is_unreadable(&key) {
                self.tasks.remove(&key).await?;
            }
            return Ok(());
        };
        self.drop_key(&task).await?;
        self.tasks.remove(&key).await?;
        self.unmark(&task).await;
        self.release_lane(&task).await;
        Ok(())
    }
}

/// Whether a stored task was created from this new one.
fn is_from(stored: &Task, new: &Task) -> bool {
    let origin = |task: &Task| (task.id.clone(), task.created_at, task.kind.clone(), task.queue.clone());
    origin(stored) == origin(new) && stored.key == new.key && stored.payload == new.payload
}

/// The lane that a task holds: the lane of a claimed task.
pub(crate) fn lane_held(task: &Task) -> Option<&LaneName> {
    task.lane.as_ref().filter(|_| task.state == TaskState::Claimed)
}

/// Wakes a run's advance task: a ready one is due at `at` at the latest, a claimed one is poked.
pub(crate) fn woken(mut task: Task, at: Millis, now: Millis) -> Option<Task> {
    match task.state {
        TaskState::Ready if task.run_at > at => task.run_at = at,
        TaskState::Claimed if !task.poked => task.poked = true,
        _ => return None,
    }
    task.changed_at = now.max(task.changed_at);
    task.version += 1;
    Some(task)
}
