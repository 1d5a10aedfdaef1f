//! The object of a lane, and how long this process has seen lanes with an unclaimed holder.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use goldseam_core::{LaneName, TaskId};
use serde::{Deserialize, Serialize};

use crate::bucket::StoredObject;
use crate::clock::MonotonicTime;

/// The record of `lane/{name}`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LaneRecord {
    pub(crate) holder: Option<TaskId>,
}

/// Lanes whose holder is not claimed: the content of the object, and since when this process has seen it.
#[derive(Debug, Default)]
pub(crate) struct UnclaimedLanes {
    since: Mutex<HashMap<LaneName, (Bytes, MonotonicTime)>>,
}

impl UnclaimedLanes {
    /// How long this process has seen the lane with exactly this content.
    pub(crate) fn age(&self, lane: &LaneName, found: &StoredObject) -> Duration {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = since.entry(lane.clone()).or_insert_with(|| (found.body.clone(), MonotonicTime::now()));
        if seen.0 != found.body {
            *seen = (found.body.clone(), MonotonicTime::now());
        }
        seen.1.elapsed()
    }

    pub(crate) fn remove(&self, lane: &LaneName) {
        self.since.lock().unwrap_or_else(PoisonError::into_inner).remove(lane);
    }
}
