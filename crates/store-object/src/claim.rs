//! Claims: the ready index offers tasks, and each is taken by compare-and-set.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::join_all;
use goldseam_core::task::Task;
use goldseam_core::{LaneName, Millis};
use goldseam_store::{ClaimRequest, ClaimedTasks, StoreError};

use crate::bucket::CONCURRENT_GETS;
use crate::inner::BucketState;
use crate::keys::{self, ReadyMarker, TaskMarker};
use crate::records::Tagged;
use crate::tasks::TaskWrite;

/// How long a marker without its task, or with a later version than its task, is kept: its writer may be about to write
/// the task.
const PENDING_MAX: Duration = Duration::from_secs(600);

/// A ready task as its marker describes it.
#[derive(Debug, Clone)]
struct OfferedTask {
    key: String,
    ready: ReadyMarker,
}

/// The outcome of an attempt to claim an offered task.
enum ClaimAttempt {
    Claimed(Box<Task>),
    /// Another task holds its lane.
    Blocked,
    /// The marker is stale, or another claimant was faster.
    Gone,
}

/// Which lanes are busy, as far as this claim knows.
type BusyLanes = BTreeMap<LaneName, bool>;

/// The outcome of claiming due tasks.
struct DueClaimed {
    tasks: Vec<Task>,
    /// Offers that were not needed.
    left: Vec<OfferedTask>,
    busy: BusyLanes,
}

impl BucketState {
    pub(crate) async fn claim(&self, claim: &ClaimRequest) -> Result<ClaimedTasks, StoreError> {
        let pools: BTreeSet<String> = claim.pools.iter().map(|pool| keys::short_hash("pool", pool)).collect();
        let kind = claim.kind.as_ref().map(|kind| keys::short_hash("kind", kind));
        let is_wanted = |ready: &ReadyMarker| {
            pools.contains(&ready.pool_hash) && kind.as_ref().is_none_or(|kind| ready.kind_hash == *kind)
        };
        let markers = self.ready_index.markers(&self.bucket, self.markers_age_max()).await?;
        let mut offers: Vec<OfferedTask> = markers
            .into_iter()
            .filter_map(|(key, marker)| match marker {
                TaskMarker::Ready(ready) if is_wanted(&ready) => Some(OfferedTask { key, ready }),
                _ => None,
            })
            .collect();
        offers.sort_by(|a, b| {
            let order = |offer: &OfferedTask| (Reverse(offer.ready.priority), offer.ready.run_at);
            order(a).cmp(&order(b)).then_with(|| a.ready.task.cmp(&b.ready.task))
        });
        let (due, waiting): (Vec<_>, Vec<_>) =
            offers.into_iter().partition(|offer| offer.ready.run_at <= claim.now);
        let DueClaimed { tasks, left, mut busy } = self.claim_due(claim, due).await?;
        let mut rest: Vec<OfferedTask> = left.into_iter().chain(waiting).collect();
        rest.sort_by_key(|offer| offer.ready.run_at);
        let mut next_due = None;
        for offer in rest {
            let is_blocked = match &offer.ready.lane {
                None => false,
                Some(lane) => self.is_busy(lane, &mut busy).await?,
            };
            if !is_blocked && self.offered(claim, &offer).await?.is_some() {
                next_due = Some(offer.ready.run_at);
                break;
            }
        }
        Ok(ClaimedTasks { tasks, next_due })
    }

    /// The task that a marker offers, if it can still be claimed. Reads it only if this process does not remember it,
    /// and removes a stale marker.
    async fn offered(
        &self,
        claim: &ClaimRequest,
        offer: &OfferedTask,
    ) -> Result<Option<Tagged<Task>>, StoreError> {
        let key = keys::task(&offer.ready.task);
        let is_behind = |task: &Tagged<Task>| task.record.version < offer.ready.version;
        let found = match self.tasks.last_seen(&key).filter(|seen| !is_behind(seen)) {
            Some(seen) => Some(seen),
            None => self.tasks.get(&key).await?,
        };
        if found.as_ref().is_none_or(is_behind) {
            // Its writer may be about to write it.
            self.ready_index.skip(&offer.key);
            // An unreadable task is offered again once it is repaired.
            if !self.tasks.is_unreadable(&key) {
                self.drop_if_old(&offer.key).await;
            }
            return Ok(None);
        }
        // Two writers may have written markers of the same version, of which only one wrote the task.
        let marker = Some(TaskMarker::Ready(offer.ready.clone()));
        let found = found.filter(|found| TaskMarker::of(&found.record) == marker);
        if found.is_none() {
            self.drop_marker(&offer.key).await;
        }
        Ok(found.filter(|found| claim.wants(&found.record)))
    }

    async fn is_busy(&self, lane: &LaneName, busy: &mut BusyLanes) -> Result<bool, StoreError> {
        if let Some(known) = busy.get(lane) {
            return Ok(*known);
        }
        let is_busy = self.is_lane_busy(lane).await?;
        busy.insert(lane.clone(), is_busy);
        Ok(is_busy)
    }

    /// Claims due tasks, best first, several concurrently, but at most one of each lane.
    async fn claim_due(&self, claim: &ClaimRequest, due: Vec<OfferedTask>) -> Result<DueClaimed, StoreError> {
        let mut tasks: Vec<Task> = Vec::new();
        let mut busy = BusyLanes::new();
        let mut due = due.into_iter().peekable();
        while tasks.len() < claim.limit as usize && due.peek().is_some() {
            let room = (claim.limit as usize - tasks.len()).min(CONCURRENT_GETS);
            let mut now: Vec<OfferedTask> = Vec::new();
            let mut lanes: BTreeSet<LaneName> = BTreeSet::new();
            while now.len() < room
                && let Some(offer) = due.peek()
            {
                // The next task of a lane waits for the outcome of the first.
                if let Some(lane) = &offer.ready.lane {
                    if lanes.contains(lane) {
                        break;
                    }
                    if busy.get(lane) == Some(&true) {
                        due.next();
                        continue;
                    }
                    lanes.insert(lane.clone());
                }
                now.extend(due.next());
            }
            let attempts = join_all(now.iter().map(|offer| self.try_claim(claim, offer))).await;
            for (offer, attempt) in now.into_iter().zip(attempts) {
                match attempt {
                    Ok(ClaimAttempt::Claimed(task)) => {
                        busy.extend(offer.ready.lane.map(|lane| (lane, true)));
                        tasks.push(*task);
                    }
                    Ok(ClaimAttempt::Blocked) => busy.extend(offer.ready.lane.map(|lane| (lane, true))),
                    Ok(ClaimAttempt::Gone) => {}
                    // Skip an unreadable record; `unreadable` names it.
                    Err(error @ StoreError::Damaged { .. }) => {
                        tracing::debug!(%error, "skipped an unreadable task");
                        self.ready_index.skip(&offer.key);
                    }
                    // Return the tasks that are already claimed; the next claim finds the failed one again.
                    Err(error) if tasks.is_empty() => return Err(error),
                    Err(error) => tracing::warn!(%error, "failed to claim a task"),
                }
            }
        }
        Ok(DueClaimed { tasks, left: due.collect(), busy })
    }

    async fn try_claim(&self, claim: &ClaimRequest, offer: &OfferedTask) -> Result<ClaimAttempt, StoreError> {
        let Some(found) = self.offered(claim, offer).await? else { return Ok(ClaimAttempt::Gone) };
        let claimed = found.record.clone().claimed(&claim.owner, claim.now);
        match self.write_task(&claimed, Some(&found)).await? {
            TaskWrite::Done => Ok(ClaimAttempt::Claimed(Box::new(claimed))),
            TaskWrite::Rival(_) => Ok(ClaimAttempt::Blocked),
            TaskWrite::Lost(stored) => {
                if stored.is_none_or(|stored| stored.record.version > offer.ready.version) {
                    self.drop_marker(&offer.key).await;
                }
                Ok(ClaimAttempt::Gone)
            }
        }
    }

    async fn drop_if_old(&self, key: &str) {
        let written = self.ready_index.written_at(key);
        if written < Millis::NEVER && self.clock.now().since(written) > PENDING_MAX {
            self.drop_marker(key).await;
        }
    }
}
