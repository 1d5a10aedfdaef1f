//! Idempotency keys: one object names the task that has a key, with the task itself, so that whoever finds the
//! name without the task can finish what its writer had begun.

use goldseam_core::task::Task;
use goldseam_store::StoreError;

use crate::bucket::{Put, When};
use crate::keys;
use crate::records::{Wrote, decode, encode};
use crate::store::Inner;

/// Times that a key is tried to be taken against others.
const RACES_MAX: u32 = 50;

/// Whose a key is.
#[derive(Debug)]
pub(crate) enum Key {
    /// The task needs none, or has it already.
    Settled,
    /// It was just taken for the task: whoever comes upon it may finish what is begun.
    Taken,
    /// This one has it instead.
    Rival(Box<Task>),
}

impl Inner {
    /// Makes `task` the one that has its key, if it is live and has none yet.
    pub(crate) async fn take_key(&self, task: &Task, old: Option<&Task>) -> Result<Key, StoreError> {
        let Some(text) = task.key.as_deref().filter(|_| task.state.is_live()) else {
            return Ok(Key::Settled);
        };
        if old.is_some_and(|old| old.state.is_live() && old.key.as_deref() == Some(text)) {
            return Ok(Key::Settled);
        }
        let key = keys::key(text);
        let mut found = self.bucket.get(&key).await?;
        for _ in 0..RACES_MAX {
            let when = match &found {
                None => When::Absent,
                Some(there) => {
                    let meant: Task = decode(&key, &there.body)?;
                    if meant.id == task.id {
                        return Ok(Key::Settled);
                    }
                    if let Some(rival) = self.has_key(&meant, text).await? {
                        return Ok(Key::Rival(Box::new(rival)));
                    }
                    When::Is(there.tag.clone())
                }
            };
            match self.bucket.put_if(&key, encode(task, &self.writes), when).await? {
                Put::Done(_) => return Ok(Key::Taken),
                Put::Lost(other) => found = other,
            }
        }
        Err(crate::fault::busy("taking an idempotency key", "too many concurrent writers".into()))
    }

    /// The task that was meant to have the key, if it has it. One that is missing was about to be written.
    async fn has_key(&self, meant: &Task, text: &str) -> Result<Option<Task>, StoreError> {
        let has = |task: &Task| task.state.is_live() && task.key.as_deref() == Some(text);
        if let Some(task) = self.task(&meant.id).await? {
            return Ok(has(&task).then_some(task));
        }
        self.mark(meant).await?;
        match self.tasks.write(&self.bucket, (&keys::task(&meant.id), meant), None, &self.writes).await? {
            Wrote::Done => Ok(Some(meant.clone())),
            Wrote::Lost(held) => Ok(held.map(|held| held.record).filter(has)),
        }
    }

    /// The live task that has this key.
    pub(crate) async fn task_of_key(&self, text: &str) -> Result<Option<Task>, StoreError> {
        let key = keys::key(text);
        let Some(found) = self.bucket.get(&key).await? else { return Ok(None) };
        let meant: Task = decode(&key, &found.body)?;
        self.task(&meant.id).await
    }

    /// Nobody has the key of this task any more; done before the task is taken away, or the next one who looks
    /// would bring it back.
    pub(crate) async fn drop_key(&self, task: &Task) -> Result<(), StoreError> {
        let Some(text) = task.key.as_deref() else { return Ok(()) };
        let key = keys::key(text);
        let Some(found) = self.bucket.get(&key).await? else { return Ok(()) };
        let Ok(meant) = decode::<Task>(&key, &found.body) else { return Ok(()) };
        if meant.id == task.id { self.bucket.delete(&key).await } else { Ok(()) }
    }
}
