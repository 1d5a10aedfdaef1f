//! Lanes: one object names the task that holds a lane. It is written before the task is claimed, and cleared after
//! the claim ends.
//!
//! A crash in between leaves a lane with a task that is not claimed. Such a lane looks like one whose claim is under
//! way, so it must stay unchanged for a while before another task takes it. The holder's record is changed first: a
//! claim that is under way after all then fails.

use std::time::Duration;

use goldseam_core::task::{Task, TaskState};
use goldseam_core::{LaneName, TaskId};
use goldseam_store::StoreError;

use crate::bucket::{Put, PutCondition, StoredObject};
use crate::fault::busy;
use crate::inner::BucketState;
use crate::keys;
use crate::lane_table::LaneRecord;
use crate::records::{decode, encode};
use crate::tasks::{TaskWrite, lane_held};

/// How long an unclaimed task may hold a lane before another task takes it.
const UNCLAIMED_MAX: Duration = Duration::from_secs(5);
/// Most attempts to take a lane against concurrent writers.
const RACES_MAX: u32 = 20;

impl BucketState {
    /// Takes the lane of a task that is about to be claimed. Returns the task that holds it instead.
    pub(crate) async fn take_lane(&self, task: &Task) -> Result<Option<Task>, StoreError> {
        let Some(lane) = lane_held(task) else { return Ok(None) };
        let key = keys::lane(lane);
        let mut found = self.bucket.get(&key).await?;
        for _ in 0..RACES_MAX {
            let condition = match &found {
                None => PutCondition::Absent,
                Some(object) => {
                    let held: LaneRecord = decode(&key, &object.body)?;
                    match held.holder {
                        Some(holder) if holder == task.id => return Ok(None),
                        Some(holder) => {
                            if let Some(rival) = self.lane_holder(lane, &holder, object).await? {
                                return Ok(Some(rival));
                            }
                        }
                        None => {}
                    }
                    PutCondition::Unchanged(object.tag.clone())
                }
            };
            let mine = LaneRecord { holder: Some(task.id.clone()) };
            match self.bucket.put_if(&key, encode(&mine, &self.write_ids), condition).await? {
                Put::Done(_) => {
                    self.unclaimed_lanes.remove(lane);
                    return Ok(None);
                }
                Put::Lost(other) => found = other,
            }
        }
        Err(busy("taking a lane", "too many concurrent writers".into()))
    }

    /// The holder of a lane, if it is claimed or may be about to be.
    async fn lane_holder(
        &self,
        lane: &LaneName,
        holder: &TaskId,
        found: &StoredObject,
    ) -> Result<Option<Task>, StoreError> {
        let key = keys::task(holder);
        let Some(held) = self.tasks.get(&key).await? else { return Ok(None) };
        if lane_held(&held.record) == Some(lane) {
            return Ok(Some(held.record));
        }
        if held.record.state != TaskState::Ready || held.record.lane.as_ref() != Some(lane) {
            return Ok(None);
        }
        if self.unclaimed_lanes.age(lane, found) < UNCLAIMED_MAX {
            return Ok(Some(held.record));
        }
        // Only its version and its marker change: its place in the queue stays.
        let bumped = Task { version: held.record.version + 1, ..held.record.clone() };
        match Box::pin(self.write_task(&bumped, Some(&held))).await? {
            TaskWrite::Done => Ok(None),
            TaskWrite::Lost(other) => Ok(other.map(|held| held.record)),
            TaskWrite::Rival(rival) => Ok(Some(rival)),
        }
    }

    /// Releases the lane of a task that was claimed, if the task still holds it. After a failure, the lane is taken
    /// over once [`UNCLAIMED_MAX`] has passed.
    pub(crate) async fn release_lane(&self, task: &Task) {
        let Some(lane) = lane_held(task) else { return };
        if let Err(error) = self.clear_lane(lane, &task.id).await {
            tracing::debug!(%lane, %error, "failed to release a lane");
        }
    }

    async fn clear_lane(&self, lane: &LaneName, holder: &TaskId) -> Result<(), StoreError> {
        let key = keys::lane(lane);
        let Some(found) = self.bucket.get(&key).await? else { return Ok(()) };
        let held: LaneRecord = decode(&key, &found.body)?;
        if held.holder.as_ref() != Some(holder) {
            return Ok(());
        }
        let free = encode(&LaneRecord { holder: None }, &self.write_ids);
        self.bucket.put_if(&key, free, PutCondition::Unchanged(found.tag)).await.map(drop)
    }

    /// Whether a claimed task holds the lane.
    pub(crate) async fn is_lane_busy(&self, lane: &LaneName) -> Result<bool, StoreError> {
        let key = keys::lane(lane);
        let Some(found) = self.bucket.get(&key).await? else { return Ok(false) };
        // An unreadable lane may be held: it counts as busy, and other lanes are not affected.
        let Ok(held) = decode::<LaneRecord>(&key, &found.body) else { return Ok(true) };
        let Some(holder) = held.holder else { return Ok(false) };
        Ok(self.lane_holder(lane, &holder, &found).await?.is_some())
    }
}
