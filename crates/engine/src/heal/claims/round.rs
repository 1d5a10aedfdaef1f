//! One round over claims and locks, page by page.

use std::time::Duration;

use futures_util::future::join_all;
use goldseam_core::lock::Lock;
use goldseam_core::task::{Task, TaskState};
use goldseam_core::{Millis, TaskId};
use goldseam_store::{Expect, LockFilter, StoreError, TaskFilter, Written};

use super::judge::{self, NODE_PREFIX, Roster, Stale};
use super::{RecoveryStats, StaleLock, StaleTask};
use crate::ledger::commit::Ledger;
use crate::ledger::config::ClaimRules;
use crate::ledger::tries::{self, Tries};

/// Records read and healed at a time.
const PAGE: usize = 200;
/// The look for tasks of nodes that are gone; the two before it look for silence.
const OF_NODES: usize = 2;

/// Where each look for tasks goes on.
pub(super) type Cursors = [Option<TaskId>; 3];

/// Whether anything is touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Only look.
    Look,
    /// Heal.
    Heal,
}

/// How far a round goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach {
    pub(super) act: Act,
    pub(super) tries: Tries,
    pub(super) reads_max: usize,
}

/// What a round found and did.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) locks_found: u64,
    pub(super) entries_found: u64,
    locks_cleaned: u64,
    entries_reclaimed: u64,
}

impl Tally {
    pub(super) fn stats(self, now: Millis) -> RecoveryStats {
        RecoveryStats {
            locks_cleaned: self.locks_cleaned,
            entries_reclaimed: self.entries_reclaimed,
            recovery_timestamp: now,
        }
    }
}

/// A round on its way.
#[derive(Debug)]
pub(super) struct Round<'a> {
    ledger: &'a Ledger,
    rules: ClaimRules,
    now: Millis,
    begun: Duration,
    reach: Reach,
    reads_left: usize,
    pub(super) tally: Tally,
    /// Stale locks that were only looked at.
    pub(super) listed: Vec<StaleLock>,
    /// The same for tasks.
    pub(super) entries: Vec<StaleTask>,
}

impl<'a> Round<'a> {
    pub(super) fn new(ledger: &'a Ledger, rules: ClaimRules, now: Millis, reach: Reach) -> Self {
        let begun = ledger.clock.elapsed();
        let (tally, reads_left) = (Tally::default(), reach.reads_max);
        Self { ledger, rules, now, begun, reach, reads_left, tally, listed: Vec::new(), entries: Vec::new() }
    }

    /// What it did; if it only looked, what it would have done.
    pub(super) fn stats(&self) -> RecoveryStats {
        let Tally { locks_found, entries_found, .. } = self.tally;
        match self.reach.act {
            Act::Heal => self.tally.stats(self.now),
            Act::Look => RecoveryStats {
                locks_cleaned: locks_found,
                entries_reclaimed: entries_found,
                recovery_timestamp: self.now,
            },
        }
    }

    pub(super) async fn roster(&self) -> Result<Roster, StoreError> {
        let nodes = tries::ask(self.reach.tries, || self.ledger.store.nodes()).await?;
        Ok(Roster::new(&nodes, self.ledger.process.node().map(|node| node.as_str())))
    }

    /// Locks, then tasks.
    pub(super) async fn all(&mut self, cursors: &mut Cursors) -> Result<(), StoreError> {
        let roster = self.roster().await?;
        self.locks(&roster).await?;
        self.tasks(&roster, cursors).await
    }

    fn page(&self) -> usize {
        PAGE.min(self.reads_left)
    }

    /// Locks past their expiry, and those held through nodes that are gone.
    pub(super) async fn locks(&mut self, roster: &Roster) -> Result<(), StoreError> {
        let expired = LockFilter { stale_at: Some(self.now), ..LockFilter::default() };
        let of_nodes = LockFilter { node_none_of: Some(roster.alive()), ..LockFilter::default() };
        for mut filter in [expired, of_nodes] {
            while self.page() > 0 {
                filter.limit = u32::try_from(self.page()).unwrap_or(u32::MAX);
                let page = tries::ask(self.reach.tries, || self.ledger.store.locks(filter.clone())).await?;
                let last = self.count(&mut filter.after, page.last().map(|lock| &lock.name), page.len());
                self.free(page, filter.stale_at.is_none()).await?;
                if last {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Tasks that are silent past their own limit, quiet past the lease, or held by nodes that are gone.
    pub(super) async fn tasks(&mut self, roster: &Roster, cursors: &mut Cursors) -> Result<(), StoreError> {
        let users = TaskFilter { advance: Some(false), ..TaskFilter::default() };
        let quiet_since = Some(self.now - self.rules.lease);
        let others = TaskFilter { owner_none_of: Some(roster.alive()), ..users.clone() };
        let looks = [
            TaskFilter { silent_at: Some(self.now), ..users },
            TaskFilter { quiet_since, ..others.clone() },
            TaskFilter { owner_prefix: Some(NODE_PREFIX.to_owned()), ..others },
        ];
        for (look, filter) in looks.into_iter().enumerate() {
            while self.page() > 0 {
                let page = self.read(&filter, &mut cursors[look]).await?;
                // What was silent has been looked at already.
                let tasks =
                    page.into_iter().filter(|task| look < OF_NODES || !self.is_silent(task)).collect();
                let lease = self.rules.lease;
                self.reclaim(tasks, |task, roster, now| judge::task(task, roster, (now, lease))).await?;
                if cursors[look].is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Whether the looks for silence find it.
    fn is_silent(&self, task: &Task) -> bool {
        let allowed = task.silence_max.unwrap_or(self.rules.lease);
        task.last_sign() + allowed <= self.now
    }

    /// Every claimed task without a sign of life for `threshold`.
    pub(super) async fn silent_for(&mut self, threshold: Duration) -> Result<(), StoreError> {
        let filter = TaskFilter { state: Some(TaskState::Claimed), ..TaskFilter::default() };
        let mut cursor = None;
        while self.page() > 0 {
            let page = self.read(&filter, &mut cursor).await?;
            self.reclaim(page, |task, roster, now| judge::by_hand(task, roster, (now, threshold))).await?;
            if cursor.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// One page after the cursor, which is none after the last one.
    async fn read(
        &mut self,
        filter: &TaskFilter,
        cursor: &mut Option<TaskId>,
    ) -> Result<Vec<Task>, StoreError> {
        let limit = u32::try_from(self.page()).unwrap_or(u32::MAX);
        let filter = TaskFilter { after: cursor.clone(), limit, ..filter.clone() };
        let page = tries::ask(self.reach.tries, || self.ledger.store.tasks(filter.clone())).await?;
        if self.count(cursor, page.last().map(|task| &task.id), page.len()) {
            *cursor = None;
        }
        for (task, flaw) in page.iter().filter_map(|task| Some((task, task.flaw()?))) {
            tracing::error!(task = %task.id, flaw, "the record of a task contradicts itself");
        }
        Ok(page)
    }

    /// Moves a cursor behind a page and counts it. Whether it was the last one.
    fn count<T: Clone>(&mut self, cursor: &mut Option<T>, last: Option<&T>, len: usize) -> bool {
        let short = len < self.page();
        self.reads_left -= len.min(self.reads_left);
        *cursor = last.cloned();
        short
    }

    async fn free(&mut self, page: Vec<Lock>, expired_are_done: bool) -> Result<(), StoreError> {
        if page.is_empty() {
            return Ok(());
        }
        // After the locks: a node beats before it takes one, so a node that is missing here is gone.
        let (roster, now) = (self.roster().await?, self.now);
        let new = page.into_iter().filter(|lock| !(expired_are_done && lock.is_stale(now)));
        let stale: Vec<(Lock, Stale)> =
            new.filter_map(|lock| judge::lock(&lock, &roster, now).map(|stale| (lock, stale))).collect();
        self.tally.locks_found += stale.len() as u64;
        if self.reach.act == Act::Look {
            self.listed.extend(stale.into_iter().map(|(lock, Stale { why, .. })| StaleLock { lock, why }));
            return Ok(());
        }
        let healed = join_all(stale.into_iter().map(|(lock, stale)| self.free_one(lock, stale))).await;
        self.tally.locks_cleaned += counted(healed)?;
        Ok(())
    }

    async fn free_one(&self, lock: Lock, stale: Stale) -> Result<bool, StoreError> {
        let expect = Expect::Version(lock.version);
        let holder = lock.holder.clone();
        let freed = lock.cleaned(&stale.why, self.now);
        let put = tries::put(&freed, self.reach.tries, |lock| self.ledger.store.put_lock(lock, expect));
        let done = self.settle("L1", &stale, put.await)?;
        if done {
            self.ledger.meter.lock_cleaned();
            tracing::info!(lock = %freed.name, holder, why = stale.why, "a stale lock was freed");
        }
        Ok(done)
    }

    async fn reclaim(
        &mut self,
        page: Vec<Task>,
        judge: impl Fn(&Task, &Roster, Millis) -> Option<Stale>,
    ) -> Result<(), StoreError> {
        if page.is_empty() {
            return Ok(());
        }
        // After the tasks, for the same reason.
        let (roster, now) = (self.roster().await?, self.now);
        let found = page.into_iter().filter_map(|task| judge(&task, &roster, now).map(|stale| (task, stale)));
        let stale: Vec<(Task, Stale)> = found.collect();
        self.tally.entries_found += stale.len() as u64;
        if self.reach.act == Act::Look {
            self.entries.extend(stale.into_iter().map(|(task, Stale { why, .. })| StaleTask { task, why }));
            return Ok(());
        }
        let healed = join_all(stale.into_iter().map(|(task, stale)| self.reclaim_one(task, stale))).await;
        self.tally.entries_reclaimed += counted(healed)?;
        Ok(())
    }

    async fn reclaim_one(&self, task: Task, stale: Stale) -> Result<bool, StoreError> {
        let expect = Expect::Version(task.version);
        let owner = task.owner.clone();
        // The engine's own mail never dies: the end of a child must reach its parent, however many nodes fall.
        let most = if judge::is_mail(&task) { u32::MAX } else { self.rules.deliveries_max };
        let back = task.reclaimed(&stale.why, most, self.now);
        let put = tries::put(&back, self.reach.tries, |task| self.ledger.store.put_task(task, expect));
        let done = self.settle("L2", &stale, put.await)?;
        if done {
            self.ledger.meter.entry_reclaimed();
            tracing::info!(task = %back.id, owner, why = stale.why, "a task was taken back");
        }
        if done && back.state == TaskState::Dead {
            self.ledger.meter.attempts_exceeded("");
            tracing::warn!(task = %back.id, deliveries = back.deliveries, "a task took too many claimants down");
        }
        Ok(done)
    }

    /// Whether this healer did it; losing to another, or to a sign of life, is no error.
    fn settle<T>(
        &self,
        rule: &'static str,
        stale: &Stale,
        written: Result<Written<T>, StoreError>,
    ) -> Result<bool, StoreError> {
        match written {
            Ok(Written::Done) => {
                let heal = self.ledger.clock.elapsed().saturating_sub(self.begun);
                self.ledger.meter.recovered(rule, "", stale.reason, (stale.span, heal));
                Ok(true)
            }
            Ok(Written::Lost(_)) => Ok(false),
            Err(error) => {
                self.ledger.meter.recovery_failed(rule);
                Err(error)
            }
        }
    }
}

/// How many were done. One that failed hides none that were: they are all carried out before it is told.
fn counted(healed: Vec<Result<bool, StoreError>>) -> Result<u64, StoreError> {
    let mut count = 0;
    for done in healed {
        count += u64::from(done?);
    }
    Ok(count)
}
