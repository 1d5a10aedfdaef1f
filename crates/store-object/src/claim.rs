//! Claiming: from the board to tasks, each taken by compare-and-set.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::join_all;
use goldseam_core::task::Task;
use goldseam_core::{LaneName, Millis};
use goldseam_store::{Claim, ClaimedTasks, StoreError};

use crate::bucket::SIDE_BY_SIDE;
use crate::keys::{self, Ready, TaskMarker};
use crate::records::Held;
use crate::store::Inner;
use crate::tasks::Put;

/// A marker without its task, or ahead of it, is left alone for so long: its writer may be on the way.
const ON_THE_WAY: Duration = Duration::from_secs(600);

/// A ready task as its marker tells it.
#[derive(Debug, Clone)]
struct Offer {
    key: String,
    ready: Ready,
}

/// What became of an offer.
enum Taken {
    Yes(Box<Task>),
    /// Somebody has its lane.
    Blocked,
    /// It is over, or somebody was faster.
    No,
}

impl Inner {
    pub(crate) async fn claim(&self, claim: &Claim) -> Result<ClaimedTasks, StoreError> {
        let pools: BTreeSet<String> = claim.pools.iter().map(|pool| keys::short("pool", pool)).collect();
        let kind = claim.kind.as_ref().map(|kind| keys::short("kind", kind));
        let wanted = |ready: &Ready| {
            pools.contains(&ready.sort.0) && kind.as_ref().is_none_or(|kind| ready.sort.1 == *kind)
        };
        let board = self.board.look(self).await?;
        let mut offers: Vec<Offer> = board
            .into_iter()
            .filter_map(|(key, marker)| match marker {
                TaskMarker::Ready(ready) if wanted(&ready) => Some(Offer { key, ready }),
                _ => None,
            })
            .collect();
        offers.sort_by(|a, b| {
            let order = |offer: &Offer| (Reverse(offer.ready.priority), offer.ready.run_at);
            order(a).cmp(&order(b)).then_with(|| a.ready.task.cmp(&b.ready.task))
        });
        let (due, waiting): (Vec<_>, Vec<_>) =
            offers.into_iter().partition(|offer| offer.ready.run_at <= claim.now);
        let (tasks, left, mut busy) = self.take_due(claim, due).await?;
        let mut rest: Vec<Offer> = left.into_iter().chain(waiting).collect();
        rest.sort_by_key(|offer| offer.ready.run_at);
        let mut next_due = None;
        for offer in rest {
            let blocked = match &offer.ready.lane {
                None => false,
                Some(lane) => self.is_busy(lane, &mut busy).await?,
            };
            if !blocked && self.offered(claim, &offer).await?.is_some() {
                next_due = Some(offer.ready.run_at);
                break;
            }
        }
        Ok(ClaimedTasks { tasks, next_due })
    }

    /// The task that a marker offers, if it is still to be had; it is read only if this process does not know it. A
    /// marker that is over is taken away.
    async fn offered(&self, claim: &Claim, offer: &Offer) -> Result<Option<Held<Task>>, StoreError> {
        let key = keys::task(&offer.ready.task);
        let held = match self.tasks.last_seen(&key).filter(|held| held.record.version >= offer.ready.version)
        {
            Some(held) => Some(held),
            None => self.tasks.get(&self.bucket, &key).await?,
        };
        let behind = |held: &Held<Task>| held.record.version < offer.ready.version;
        if held.as_ref().is_none_or(behind) {
            // Its writer may be on the way.
            self.board.doubt(&offer.key);
            // What cannot be read is offered again once somebody has put it right.
            if self.tasks.why_unreadable(&key).is_none() {
                self.drop_if_old(&offer.key).await;
            }
            return Ok(None);
        }
        // Two writers may have meant the same version, and only one of them was faster.
        let marker = Some(TaskMarker::Ready(offer.ready.clone()));
        let held = held.filter(|held| TaskMarker::of(&held.record) == marker);
        if held.is_none() {
            self.drop_marker(&offer.key).await;
        }
        Ok(held.filter(|held| claim.wants(&held.record)))
    }

    async fn is_busy(
        &self,
        lane: &LaneName,
        busy: &mut BTreeMap<LaneName, bool>,
    ) -> Result<bool, StoreError> {
        if let Some(known) = busy.get(lane) {
            return Ok(*known);
        }
        let is = self.is_lane_busy(lane).await?;
        busy.insert(lane.clone(), is);
        Ok(is)
    }

    /// Takes what is due, best first, several side by side; of each lane at most one.
    async fn take_due(
        &self,
        claim: &Claim,
        due: Vec<Offer>,
    ) -> Result<(Vec<Task>, Vec<Offer>, BTreeMap<LaneName, bool>), StoreError> {
        let mut tasks: Vec<Task> = Vec::new();
        let mut busy: BTreeMap<LaneName, bool> = BTreeMap::new();
        let mut due = due.into_iter().peekable();
        while tasks.len() < claim.limit as usize && due.peek().is_some() {
            let room = (claim.limit as usize - tasks.len()).min(SIDE_BY_SIDE);
            let mut now: Vec<Offer> = Vec::new();
            let mut lanes: BTreeSet<LaneName> = BTreeSet::new();
            while now.len() < room
                && let Some(offer) = due.peek()
            {
                // The next one of a lane waits for what becomes of the first.
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
            let taken = join_all(now.iter().map(|offer| self.take(claim, offer))).await;
            for (offer, taken) in now.into_iter().zip(taken) {
                match taken {
                    Ok(Taken::Yes(task)) => {
                        busy.extend(offer.ready.lane.map(|lane| (lane, true)));
                        tasks.push(*task);
                    }
                    Ok(Taken::Blocked) => busy.extend(offer.ready.lane.map(|lane| (lane, true))),
                    Ok(Taken::No) => {}
                    // A record that cannot be read is passed over; it is named by a look for such records.
                    Err(error @ StoreError::Damaged { .. }) => {
                        tracing::debug!(%error, "skipped an unreadable task");
                        self.board.doubt(&offer.key);
                    }
                    // What was taken already is told; what failed is found by the next look.
                    Err(error) if tasks.is_empty() => return Err(error),
                    Err(error) => tracing::warn!(%error, "failed to claim a task"),
                }
            }
        }
        Ok((tasks, due.collect(), busy))
    }

    async fn take(&self, claim: &Claim, offer: &Offer) -> Result<Taken, StoreError> {
        let Some(held) = self.offered(claim, offer).await? else { return Ok(Taken::No) };
        let task = &held.record;
        let claimed = task.clone().claimed(&claim.owner, claim.now);
        match self.write_task(&claimed, Some(&held)).await? {
            Put::Done => Ok(Taken::Yes(Box::new(claimed))),
            Put::Rival(_) => Ok(Taken::Blocked),
            Put::Lost(found) => {
                if found.is_none_or(|found| found.record.version > offer.ready.version) {
                    self.drop_marker(&offer.key).await;
                }
                Ok(Taken::No)
            }
        }
    }

    async fn drop_if_old(&self, key: &str) {
        let written = self.board.written_at(key);
        if written < Millis::NEVER && self.clock.now().since(written) > ON_THE_WAY {
            self.drop_marker(key).await;
        }
    }
}
