//! Idempotency keys of tasks: one object per key holds the task that has the key. A reader that finds the key but
//! not the task writes the task, and so finishes what the first writer began.

use goldseam_core::task::Task;
use goldseam_store::StoreError;

use crate::bucket::{Put, PutCondition};
use crate::fault::busy;
use crate::inner::BucketState;
use crate::keys;
use crate::records::{RecordWrite, decode, encode};

/// Most attempts to take a key against concurrent writers.
const RACES_MAX: u32 = 50;

/// Which task has a key.
#[derive(Debug)]
pub(crate) enum KeyOwner {
    /// The task needs no key, or already has it.
    Settled,
    /// The task has just taken the key: another process that finds the key may write the task.
    Taken,
    /// Another task has the key.
    Rival(Box<Task>),
}

impl BucketState {
    /// Takes the key of a live task that does not have it yet.
    pub(crate) async fn take_key(&self, task: &Task, old: Option<&Task>) -> Result<KeyOwner, StoreError> {
        let Some(text) = task.key.as_deref().filter(|_| task.state.is_live()) else {
            return Ok(KeyOwner::Settled);
        };
        if old.is_some_and(|old| old.state.is_live() && old.key.as_deref() == Some(text)) {
            return Ok(KeyOwner::Settled);
        }
        let key = keys::key(text);
        let mut found = self.bucket.get(&key).await?;
        for _ in 0..RACES_MAX {
            let condition = match &found {
                None => PutCondition::Absent,
                Some(object) => {
                    let named: Task = decode(&key, &object.body)?;
                    if named.id == task.id {
                        return Ok(KeyOwner::Settled);
                    }
                    if let Some(rival) = self.live_task_with_key(&named, text).await? {
                        return Ok(KeyOwner::Rival(Box::new(rival)));
                    }
                    PutCondition::Unchanged(object.tag.clone())
                }
            };
            match self.bucket.put_if(&key, encode(task, &self.write_ids), condition).await? {
                Put::Done(_) => return Ok(KeyOwner::Taken),
                Put::Lost(other) => found = other,
            }
        }
        Err(busy("taking an idempotency key", "too many concurrent writers".into()))
    }

    /// The task that a key names, if it is live and has the key. A missing task was about to be written, so this writes
    /// it.
    async fn live_task_with_key(&self, named: &Task, text: &str) -> Result<Option<Task>, StoreError> {
        let has_key = |task: &Task| task.state.is_live() && task.key.as_deref() == Some(text);
        if let Some(task) = self.task(&named.id).await? {
            return Ok(has_key(&task).then_some(task));
        }
        self.mark(named).await?;
        let key = keys::task(&named.id);
        match self.tasks.write(&key, named, None).await? {
            RecordWrite::Done => Ok(Some(named.clone())),
            RecordWrite::Lost(found) => Ok(found.map(|found| found.record).filter(has_key)),
        }
    }

    /// The task that this key names.
    pub(crate) async fn task_of_key(&self, text: &str) -> Result<Option<Task>, StoreError> {
        let key = keys::key(text);
        let Some(found) = self.bucket.get(&key).await? else { return Ok(None) };
        let named: Task = decode(&key, &found.body)?;
        self.task(&named.id).await
    }

    /// Removes the key of a task. Called before the task itself is removed: a reader that finds the key without the
    /// task would write the task again.
    pub(crate) async fn drop_key(&self, task: &Task) -> Result<(), StoreError> {
        let Some(text) = task.key.as_deref() else { return Ok(()) };
        let key = keys::key(text);
        let Some(found) = self.bucket.get(&key).await? else { return Ok(()) };
        let Ok(named) = decode::<Task>(&key, &found.body) else { return Ok(()) };
        if named.id == task.id { self.bucket.delete(&key).await } else { Ok(()) }
    }
}
