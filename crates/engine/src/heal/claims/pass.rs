//! One pass over claims and locks, page by page.

use std::time::Duration;

use futures_util::future::join_all;
use goldseam_core::delivery::is_delivery;
use goldseam_core::lock::Lock;
use goldseam_core::recovery::Code;
use goldseam_core::task::{AuditHeal, Task, TaskState};
use goldseam_core::{Millis, TaskId};
use goldseam_store::{Expect, LockFilter, StoreError, TaskFilter, Written};

use super::staleness::{self, NODE_PREFIX, Roster, Stale};
use super::{RecoveryStats, StaleLock, StaleTask};
use crate::ledger::commit::Ledger;
use crate::ledger::config::ClaimRules;
use crate::ledger::meter::RecoveryTimes;
use crate::ledger::retry::{self, Retries};

/// Records per read of the store.
const PAGE: usize = 200;
/// Index of the search for tasks of lost nodes; the two before it search for silence.
const OF_NODES: usize = 2;

/// The cursors of the searches for tasks.
pub(super) type Cursors = [Option<TaskId>; 3];

/// Whether a pass writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Only find.
    Find,
    /// Heal.
    Heal,
}

/// The limits of a pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach {
    pub(super) act: Act,
    pub(super) retries: Retries,
    pub(super) reads_max: usize,
}

/// The counts of a pass.
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

/// A pass in progress.
#[derive(Debug)]
pub(super) struct Pass<'a> {
    ledger: &'a Ledger,
    rules: ClaimRules,
    now: Millis,
    begun: Duration,
    reach: Reach,
    reads_left: usize,
    pub(super) tally: Tally,
    /// Stale locks found by a pass that does not heal.
    pub(super) listed: Vec<StaleLock>,
    /// Stale tasks found by a pass that does not heal.
    pub(super) entries: Vec<StaleTask>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(ledger: &'a Ledger, rules: ClaimRules, now: Millis, reach: Reach) -> Self {
        let begun = ledger.clock.elapsed();
        let tally = Tally::default();
        let reads_left = reach.reads_max;
        Self { ledger, rules, now, begun, reach, reads_left, tally, listed: Vec::new(), entries: Vec::new() }
    }

    /// The counts of the pass; if it did not heal, what it would have done.
    pub(super) fn stats(&self) -> RecoveryStats {
        let Tally { locks_found, entries_found, .. } = self.tally;
        match self.reach.act {
            Act::Heal => self.tally.stats(self.now),
            Act::Find => RecoveryStats {
                locks_cleaned: locks_found,
                entries_reclaimed: entries_found,
                recovery_timestamp: self.now,
            },
        }
    }

    pub(super) async fn roster(&self) -> Result<Roster, StoreError> {
        let nodes = retry::read(self.reach.retries, || self.ledger.store.nodes()).await?;
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

    /// Expired locks, and locks held by lost nodes.
    pub(super) async fn locks(&mut self, roster: &Roster) -> Result<(), StoreError> {
        let expired = LockFilter { stale_at: Some(self.now), ..LockFilter::default() };
        let of_nodes = LockFilter { node_none_of: Some(roster.alive()), ..LockFilter::default() };
        for mut filter in [expired, of_nodes] {
            while self.page() > 0 {
                filter.limit = u32::try_from(self.page()).unwrap_or(u32::MAX);
                let page =
                    retry::read(self.reach.retries, || self.ledger.store.locks(filter.clone())).await?;
                let last = self.count(&mut filter.after, page.last().map(|lock| &lock.name), page.len());
                self.free(page, filter.stale_at.is_none()).await?;
                if last {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Tasks silent past their own limit, silent past the lease, or held by lost nodes.
    pub(super) async fn tasks(&mut self, roster: &Roster, cursors: &mut Cursors) -> Result<(), StoreError> {
        let users = TaskFilter { advance: Some(false), ..TaskFilter::default() };
        let quiet_since = Some(self.now - self.rules.lease);
        let others = TaskFilter { owner_none_of: Some(roster.alive()), ..users.clone() };
        let searches = [
            TaskFilter { silent_at: Some(self.now), ..users },
            TaskFilter { quiet_since, ..others.clone() },
            TaskFilter { owner_prefix: Some(NODE_PREFIX.to_owned()), ..others },
        ];
        for (search, filter) in searches.into_iter().enumerate() {
            while self.page() > 0 {
                let page = self.read(&filter, &mut cursors[search]).await?;
                // The earlier searches found the silent ones.
                let tasks =
                    page.into_iter().filter(|task| search < OF_NODES || !self.is_silent(task)).collect();
                let lease = self.rules.lease;
                self.reclaim(tasks, |task, roster, now| staleness::task(task, roster, now, lease)).await?;
                if cursors[search].is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Whether the searches for silence find the task.
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
            self.reclaim(page, |task, roster, now| staleness::silent_past(task, roster, now, threshold))
                .await?;
            if cursor.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Reads one page after the cursor, which becomes none after the last page.
    async fn read(
        &mut self,
        filter: &TaskFilter,
        cursor: &mut Option<TaskId>,
    ) -> Result<Vec<Task>, StoreError> {
        let limit = u32::try_from(self.page()).unwrap_or(u32::MAX);
        let filter = TaskFilter { after: cursor.clone(), limit, ..filter.clone() };
        let page = retry::read(self.reach.retries, || self.ledger.store.tasks(filter.clone())).await?;
        if self.count(cursor, page.last().map(|task| &task.id), page.len()) {
            *cursor = None;
        }
        for (task, flaw) in page.iter().filter_map(|task| Some((task, task.flaw()?))) {
            tracing::error!(task = %task.id, flaw, "task record is inconsistent");
        }
        Ok(page)
    }

    /// Moves a cursor to the end of a page and counts its records. Returns whether it was the last page.
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
        // Read the nodes after the locks: a node beats before it acquires one, so a node missing here is gone.
        let roster = self.roster().await?;
        let now = self.now;
        let new = page.into_iter().filter(|lock| !(expired_are_done && lock.is_stale(now)));
        let stale: Vec<(Lock, Stale)> =
            new.filter_map(|lock| staleness::lock(&lock, &roster, now).map(|stale| (lock, stale))).collect();
        self.tally.locks_found += stale.len() as u64;
        if self.reach.act == Act::Find {
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
        let before = lock.version;
        let freed =
            lock.cleaned(&stale.why, self.now).healed(before, self.audited(Code::L1, &stale, holder.clone()));
        let put = retry::write(&freed, self.reach.retries, |lock| self.ledger.store.put_lock(lock, expect));
        let done = self.settle("L1", &stale, put.await)?;
        if done {
            self.ledger.meter.lock_cleaned();
            tracing::info!(lock = %freed.name, holder, why = stale.why, "freed stale lock");
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
        // Read the nodes after the tasks, for the same reason.
        let roster = self.roster().await?;
        let now = self.now;
        let found = page.into_iter().filter_map(|task| judge(&task, &roster, now).map(|stale| (task, stale)));
        let stale: Vec<(Task, Stale)> = found.collect();
        self.tally.entries_found += stale.len() as u64;
        if self.reach.act == Act::Find {
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
        let before = task.version;
        // Deliveries never become dead: the end of a child must reach its parent, however many nodes die.
        let most = if is_delivery(&task) { u32::MAX } else { self.rules.deliveries_max };
        let back = task.reclaimed(&stale.why, most, self.now);
        // The log of a run records the takeover of its advance task.
        let back = match back.is_advance() {
            true => back,
            false => back.healed(before, self.audited(Code::L2, &stale, owner.clone())),
        };
        let put = retry::write(&back, self.reach.retries, |task| self.ledger.store.put_task(task, expect));
        let done = self.settle("L2", &stale, put.await)?;
        if done {
            self.ledger.meter.entry_reclaimed();
            tracing::info!(task = %back.id, owner, why = stale.why, "reclaimed task");
        }
        if done && back.state == TaskState::Dead {
            self.ledger.meter.attempts_exceeded("");
            tracing::warn!(task = %back.id, deliveries = back.deliveries, "task is dead: its claimants crashed too often");
        }
        Ok(done)
    }

    /// What the audit records of a heal; the record adds its version.
    fn audited(&self, rule: Code, stale: &Stale, holder: Option<String>) -> AuditHeal {
        AuditHeal {
            rule: rule.to_string(),
            version: 0,
            reason: stale.recorded_reason().as_str().to_owned(),
            attempt: 1,
            stale_ms: stale.span.map_or(0, |span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX)),
            node: self.ledger.process.node().cloned(),
            holder,
            ended: None,
            state: None,
        }
    }

    /// Whether this healer wrote the record. Losing to another writer is not an error.
    fn settle<T>(
        &self,
        rule: &'static str,
        stale: &Stale,
        written: Result<Written<T>, StoreError>,
    ) -> Result<bool, StoreError> {
        match written {
            Ok(Written::Done) => {
                let heal = self.ledger.clock.elapsed().saturating_sub(self.begun);
                self.ledger.meter.recovered(
                    rule,
                    "",
                    stale.reason,
                    RecoveryTimes { stale: stale.span, heal },
                );
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

/// Counts the writes. Returns the first error only after all writes have finished.
fn counted(healed: Vec<Result<bool, StoreError>>) -> Result<u64, StoreError> {
    let mut count = 0;
    for done in healed {
        count += u64::from(done?);
    }
    Ok(count)
}
