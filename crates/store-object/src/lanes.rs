//! Lanes: one object says which task has a lane. It is taken before the task is claimed and left after it ended.
//!
//! Whoever crashes in between leaves a lane to a task that is not claimed. Nobody can tell that from a claim on its
//! way, so it must have stood like that for a while, and the task is changed first: a claim that was on its way
//! after all then fails.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use goldseam_core::task::{Task, TaskState};
use goldseam_core::{LaneName, TaskId};
use goldseam_store::StoreError;
use serde::{Deserialize, Serialize};

use crate::bucket::{Found, Put, When};
use crate::clock::Moment;
use crate::keys;
use crate::records::{decode, encode};
use crate::store::Inner;
use crate::tasks::{Put as PutTask, lane_held};

/// How long a lane must have been that of a task that nobody claims before it is taken from it.
const STANDS_STILL: Duration = Duration::from_secs(5);
/// Times that a lane is tried to be taken against others.
const RACES_MAX: u32 = 20;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Lane {
    holder: Option<TaskId>,
}

/// Lanes that stood with a task that was not claimed, and since when.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    still: Mutex<HashMap<LaneName, (bytes::Bytes, Moment)>>,
}

impl Lanes {
    /// How long this process has seen the lane with exactly this content.
    fn stood(&self, lane: &LaneName, found: &Found) -> Duration {
        let mut still = self.still.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = still.entry(lane.clone()).or_insert_with(|| (found.body.clone(), Moment::now()));
        if seen.0 != found.body {
            *seen = (found.body.clone(), Moment::now());
        }
        seen.1.elapsed()
    }

    fn moved(&self, lane: &LaneName) {
        self.still.lock().unwrap_or_else(PoisonError::into_inner).remove(lane);
    }
}

impl Inner {
    /// Takes the lane of a task that is about to be claimed. Returns the task that has it instead.
    pub(crate) async fn take_lane(&self, task: &Task) -> Result<Option<Task>, StoreError> {
        let Some(lane) = lane_held(task) else { return Ok(None) };
        let key = keys::lane(lane);
        let mut found = self.bucket.get(&key).await?;
        for _ in 0..RACES_MAX {
            let when = match &found {
                None => When::Absent,
                Some(there) => {
                    let held: Lane = decode(&key, &there.body)?;
                    match held.holder {
                        Some(holder) if holder == task.id => return Ok(None),
                        Some(holder) => {
                            if let Some(rival) = self.keeps_lane(lane, &holder, there).await? {
                                return Ok(Some(rival));
                            }
                        }
                        None => {}
                    }
                    When::Is(there.tag.clone())
                }
            };
            let mine = Lane { holder: Some(task.id.clone()) };
            match self.bucket.put_if(&key, encode(&mine, &self.writes), when).await? {
                Put::Done(_) => {
                    self.lanes.moved(lane);
                    return Ok(None);
                }
                Put::Lost(other) => found = other,
            }
        }
        Err(crate::fault::busy("taking a lane", "too many concurrent writers".into()))
    }

    /// The holder of a lane, if it is claimed or may be about to be.
    async fn keeps_lane(
        &self,
        lane: &LaneName,
        holder: &TaskId,
        found: &Found,
    ) -> Result<Option<Task>, StoreError> {
        let key = keys::task(holder);
        let Some(held) = self.tasks.get(&self.bucket, &key).await? else { return Ok(None) };
        if lane_held(&held.record) == Some(lane) {
            return Ok(Some(held.record));
        }
        if held.record.state != TaskState::Ready || held.record.lane.as_ref() != Some(lane) {
            return Ok(None);
        }
        if self.lanes.stood(lane, found) < STANDS_STILL {
            return Ok(Some(held.record));
        }
        let stirred = Task { version: held.record.version + 1, ..held.record.clone() };
        // It waits in the same place as before, so nothing but its version and its marker change.
        match Box::pin(self.write_task(&stirred, Some(&held))).await? {
            PutTask::Done => Ok(None),
            PutTask::Lost(other) => Ok(other.map(|held| held.record)),
            PutTask::Rival(rival) => Ok(Some(rival)),
        }
    }

    /// Leaves the lane of a task that was claimed, if it still has it. Should that fail, it stands still.
    pub(crate) async fn leave_lane(&self, task: &Task) {
        let Some(lane) = lane_held(task) else { return };
        if let Err(error) = self.free_lane(lane, &task.id).await {
            tracing::debug!(%lane, %error, "failed to release a lane");
        }
    }

    async fn free_lane(&self, lane: &LaneName, holder: &TaskId) -> Result<(), StoreError> {
        let key = keys::lane(lane);
        let Some(found) = self.bucket.get(&key).await? else { return Ok(()) };
        let held: Lane = decode(&key, &found.body)?;
        if held.holder.as_ref() != Some(holder) {
            return Ok(());
        }
        let free = encode(&Lane { holder: None }, &self.writes);
        self.bucket.put_if(&key, free, When::Is(found.tag)).await.map(drop)
    }

    /// Whether a claimed task has the lane.
    pub(crate) async fn is_lane_busy(&self, lane: &LaneName) -> Result<bool, StoreError> {
        let key = keys::lane(lane);
        let Some(found) = self.bucket.get(&key).await? else { return Ok(false) };
        // A lane that cannot be read may be held: it stays shut, and no other with it.
        let Ok(held) = decode::<Lane>(&key, &found.body) else { return Ok(true) };
        let Some(holder) = held.holder else { return Ok(false) };
        Ok(self.keeps_lane(lane, &holder, &found).await?.is_some())
    }
}
