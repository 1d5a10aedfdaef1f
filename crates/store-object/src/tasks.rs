//! Tasks: one object each. What makes a task findable is written before the task, what no longer does is taken
//! away after it, so that a crash in between loses no task; markers that say nothing true are passed over.

use goldseam_core::task::{Task, TaskState};
use goldseam_core::{Millis, TaskId};
use goldseam_store::{Expect, StoreError, TaskFilter, Written};

use crate::idempotency_keys::Key;
use crate::keys::{self, TaskMarker};
use crate::records::{Held, Records, Wrote};
use crate::store::Inner;

/// Times that a change of a task that rides with an append is tried against others.
const RACES_MAX: u32 = 50;

pub(crate) type Tasks = Records<Task>;

/// Whether a task is what became of this new one.
fn is_from(held: &Task, new: &Task) -> bool {
    let made = |task: &Task| (task.id.clone(), task.created_at, task.kind.clone(), task.queue.clone());
    made(held) == made(new) && held.key == new.key && held.payload == new.payload
}

impl Inner {
    pub(crate) async fn put_task(&self, task: Task, expect: Expect) -> Result<Written<Task>, StoreError> {
        let key = keys::task(&task.id);
        let lost = |held: Option<Held<Task>>| Ok(Written::Lost(held.map(|held| held.record)));
        let mut before = match expect {
            Expect::Version(version) => match self.tasks.at(&self.bucket, &key, version).await? {
                Ok(held) => Some(held),
                Err(other) => return lost(other),
            },
            // What would take a key or a lane looks first whether its id is free.
            Expect::Absent if task.key.is_some() || task.lane.is_some() => {
                match self.tasks.get(&self.bucket, &key).await? {
                    None => None,
                    other => return lost(other),
                }
            }
            Expect::Absent => None,
        };
        for _ in 0..2 {
            match self.write_task(&task, before.as_ref()).await? {
                Put::Done => {
                    self.watch.bump();
                    return Ok(Written::Done);
                }
                Put::Rival(rival) => return Ok(Written::Lost(Some(rival))),
                // What was last seen was outdated, and the task has the version that is asked for.
                Put::Lost(Some(held)) if Expect::Version(held.record.version) == expect => {
                    before = Some(held);
                }
                Put::Lost(held) => return lost(held),
            }
        }
        lost(before)
    }

    /// Writes a task over `before`, with everything that follows from it.
    pub(crate) async fn write_task(
        &self,
        task: &Task,
        before: Option<&Held<Task>>,
    ) -> Result<Put, StoreError> {
        let old = before.map(|held| &held.record);
        let has_taken_key = match self.take_key(task, old).await? {
            Key::Rival(rival) => return Ok(Put::Rival(*rival)),
            Key::Taken => true,
            Key::Settled => false,
        };
        let takes_lane = lane_held(task).is_some() && old.and_then(lane_held) != lane_held(task);
        if takes_lane && let Some(rival) = self.take_lane(task).await? {
            return Ok(Put::Rival(rival));
        }
        self.mark(task).await?;
        match self.tasks.write(&self.bucket, (&keys::task(&task.id), task), before, &self.writes).await? {
            Wrote::Done => {
                if let Some(old) = old {
                    if TaskMarker::of(old) != TaskMarker::of(task) {
                        self.unmark(old).await;
                    }
                    if lane_held(old) != lane_held(task) {
                        self.leave_lane(old).await;
                    }
                }
                Ok(Put::Done)
            }
            // Somebody who wanted the key found it taken, and wrote the task in this one's place.
            Wrote::Lost(Some(held)) if has_taken_key && is_from(&held.record, task) => Ok(Put::Done),
            Wrote::Lost(held) => {
                // Unless it is claimed after all, by somebody else who took the lane for it.
                let holds = held.as_ref().is_some_and(|held| lane_held(&held.record) == lane_held(task));
                if takes_lane && !holds {
                    self.leave_lane(task).await;
                }
                Ok(Put::Lost(held))
            }
        }
    }

    /// Puts the marker there that this task needs.
    pub(crate) async fn mark(&self, task: &Task) -> Result<(), StoreError> {
        let Some(marker) = TaskMarker::of(task) else { return Ok(()) };
        let key = marker.key(self.clock.now());
        self.bucket.put(&key, bytes::Bytes::new()).await?;
        self.board.wrote(&key);
        Ok(())
    }

    /// Takes the marker away that this task needed. Should that fail, somebody else does it later.
    pub(crate) async fn unmark(&self, old: &Task) {
        let Some(marker) = TaskMarker::of(old) else { return };
        // A marker that is not known stands where it was put when the task was last changed.
        let there = self.board.place_of(&marker).unwrap_or_else(|| marker.key(old.changed_at));
        self.board.removed(&there);
        if let Err(error) = self.bucket.delete(&there).await {
            tracing::debug!(key = there, %error, "failed to remove a stale marker");
        }
    }

    pub(crate) async fn list_tasks(&self, filter: &TaskFilter) -> Result<Vec<Task>, StoreError> {
        let found = match filter {
            // A sweep looks at the advance task of every run, and reads what it does not like again.
            TaskFilter { id: Some(id), advance: Some(true), .. } => {
                self.tasks.get_for_sweep(&self.bucket, &keys::task(id)).await?.into_iter().collect()
            }
            TaskFilter { id: Some(id), .. } => self.task(id).await?.into_iter().collect(),
            TaskFilter { key: Some(key), .. } => self.task_of_key(key).await?.into_iter().collect(),
            TaskFilter { poked: true, owner: Some(owner), .. } => self.poked(owner).await?,
            _ => self.tasks.all(&self.bucket).await?,
        };
        let after = |id: &TaskId| filter.after.as_ref().is_none_or(|after| id > after);
        let mut listed: Vec<Task> =
            found.into_iter().filter(|task| after(&task.id) && filter.selects(task)).collect();
        listed.sort_by(|a, b| a.id.cmp(&b.id));
        listed.truncate(filter.limit as usize);
        Ok(listed)
    }

    pub(crate) async fn task(&self, id: &TaskId) -> Result<Option<Task>, StoreError> {
        Ok(self.tasks.get(&self.bucket, &keys::task(id)).await?.map(|held| held.record))
    }

    /// Claimed tasks of this owner that somebody has poked, by their markers.
    async fn poked(&self, owner: &str) -> Result<Vec<Task>, StoreError> {
        let mine = keys::owner(owner);
        let mut poked = Vec::new();
        for (key, marker) in self.board.look(self).await? {
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

    /// Takes a marker away that is over.
    pub(crate) async fn drop_marker(&self, key: &str) {
        self.board.removed(key);
        if let Err(error) = self.bucket.delete(key).await {
            tracing::debug!(key, %error, "failed to remove a stale marker");
        }
    }

    /// Puts a task there unless something is in its way. Whether one of its id is there then.
    pub(crate) async fn create_task(&self, task: &Task) -> Result<bool, StoreError> {
        Ok(match self.put_task(task.clone(), Expect::Absent).await? {
            Written::Done => true,
            Written::Lost(found) => found.is_some_and(|found| found.id == task.id),
        })
    }

    /// Changes a task until that is done or `change` has nothing to do.
    pub(crate) async fn change_task(
        &self,
        id: &TaskId,
        change: impl Fn(Task, Millis) -> Option<Task>,
    ) -> Result<(), StoreError> {
        let key = keys::task(id);
        let mut held = self.tasks.last_seen(&key);
        for turn in 0..RACES_MAX {
            if held.is_none() {
                held = self.tasks.get(&self.bucket, &key).await?;
            }
            let Some(before) = held.take() else { return Ok(()) };
            let now = self.clock.now();
            let Some(next) = change(before.record.clone(), now) else {
                // What was last seen may be outdated.
                if turn == 0 {
                    held = self.tasks.get(&self.bucket, &key).await?;
                    let again = held.as_ref().is_some_and(|held| held.record != before.record);
                    if again {
                        continue;
                    }
                }
                return Ok(());
            };
            match self.write_task(&next, Some(&before)).await? {
                Put::Done | Put::Rival(_) => return Ok(()),
                Put::Lost(None) => return Ok(()),
                Put::Lost(found) => held = found,
            }
        }
        Ok(())
    }

    pub(crate) async fn remove_task(&self, id: &TaskId) -> Result<(), StoreError> {
        let key = keys::task(id);
        let held = match self.tasks.last_seen(&key) {
            Some(held) => Some(held),
            None => self.tasks.get(&self.bucket, &key).await?,
        };
        let Some(Held { record: task, .. }) = held else {
            // What cannot be read says nothing of its markers; they are over without it.
            if self.tasks.why_unreadable(&key).is_some() {
                self.tasks.remove(&self.bucket, &key).await?;
            }
            return Ok(());
        };
        self.drop_key(&task).await?;
        self.tasks.remove(&self.bucket, &key).await?;
        self.unmark(&task).await;
        self.leave_lane(&task).await;
        Ok(())
    }
}

/// What became of a write of a task.
#[derive(Debug)]
pub(crate) enum Put {
    Done,
    Lost(Option<Held<Task>>),
    /// This one has its key or its lane.
    Rival(Task),
}

/// The lane that a task holds: that of one that is claimed.
pub(crate) fn lane_held(task: &Task) -> Option<&goldseam_core::LaneName> {
    task.lane.as_ref().filter(|_| task.state == TaskState::Claimed)
}
