//! Healing claims and locks: what nobody alive holds is free again (rules L1 and L2).
//!
//! Invariant: a heal is one compare-and-set of one record, its audit entry inside. So any number of healers do no more
//! than one, a heartbeat that comes first protects its claim, and who was taken for dead is refused by his fence. On a
//! healthy store nothing is written, and every look is a search of an index that finds nothing.

pub(crate) mod judge;
mod round;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use goldseam_core::Millis;
use goldseam_core::lock::Lock;
use goldseam_core::task::{Task, TaskState};
use goldseam_store::{LockFilter, TaskFilter};
use serde::{Deserialize, Serialize};

use crate::ledger::commit::Ledger;
pub use crate::ledger::config::ClaimRules;
use crate::ledger::error::EngineError;
use crate::ledger::tries::{self, Tries};
use round::{Act, Cursors, Reach, Round, Tally};

/// Records that one call by hand reads at the most.
const CALL_READS_MAX: usize = 100_000;
/// Records that one tick of an engine reads at the most; the next one goes on from there.
const TICK_READS_MAX: usize = 1_000;
/// Records that a claim reads at the most before it claims.
const CLAIM_READS_MAX: usize = 50;
/// Claims heal first, but not more often than this: a look costs more than a claim.
const CLAIM_HEALS_EVERY: Duration = Duration::from_secs(1);

/// What healing did, or would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RecoveryStats {
    /// Stale locks that are free again.
    pub locks_cleaned: u64,
    /// Tasks that were taken from claimants who are gone or silent.
    pub entries_reclaimed: u64,
    /// When, by the store's clock.
    pub recovery_timestamp: Millis,
}

/// A lock that nobody alive holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StaleLock {
    /// The lock as it is.
    pub lock: Lock,
    /// Why nobody alive holds it.
    pub why: String,
}

/// A task that nobody alive holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StaleTask {
    /// The task as it is.
    pub task: Task,
    /// Why nobody alive holds it.
    pub why: String,
}

/// What one process remembers of its healing.
#[derive(Debug)]
struct Memory {
    rules: ClaimRules,
    /// When a claim last healed, by the store's clock.
    healed_at: AtomicI64,
    cursors: Mutex<Cursors>,
}

impl Memory {
    fn new(rules: ClaimRules) -> Self {
        Self { rules, healed_at: AtomicI64::new(i64::MIN), cursors: Mutex::default() }
    }

    /// Whether a claim has to heal first; of many at once, one has to.
    fn is_due(&self, now: Millis, every: Duration) -> bool {
        let later = |last: i64| (now.since(Millis(last)) >= every).then_some(now.0);
        self.healed_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later).is_ok()
    }
}

/// Looks after claims and locks. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Claims {
    ledger: Ledger,
    memory: Arc<Memory>,
}

impl Claims {
    pub(crate) fn new(ledger: Ledger, rules: ClaimRules) -> Self {
        Self { ledger, memory: Arc::new(Memory::new(rules)) }
    }

    /// The same memory, with another ledger of this store.
    pub(crate) fn on(&self, ledger: Ledger) -> Self {
        Self { ledger, memory: Arc::clone(&self.memory) }
    }

    pub(crate) fn rules(&self) -> ClaimRules {
        self.memory.rules
    }

    /// Frees stale locks and takes tasks from claimants who are gone or silent, looking at up to 100,000 records.
    /// Engines and claims do the same by themselves; any number may do it at once.
    pub async fn detect_and_recover_stale(&self) -> Result<RecoveryStats, EngineError> {
        let mut round = self.by_hand(Act::Heal).await?;
        round.all(&mut Cursors::default()).await?;
        Ok(round.stats())
    }

    /// Counts what [`Claims::detect_and_recover_stale`] would do, without touching anything.
    pub async fn recovery_stats(&self) -> Result<RecoveryStats, EngineError> {
        let mut round = self.by_hand(Act::Look).await?;
        round.all(&mut Cursors::default()).await?;
        Ok(round.stats())
    }

    /// Takes every task whose claimant gave no sign of life for `threshold`, whatever the task itself allows, and frees
    /// stale locks. The engine's own tasks are left to nodes that live. Returns the number of tasks.
    pub async fn reclaim_stale(&self, threshold: Duration) -> Result<u64, EngineError> {
        let mut round = self.by_hand(Act::Heal).await?;
        let roster = round.roster().await?;
        round.locks(&roster).await?;
        round.silent_for(threshold).await?;
        self.ledger.process.task_ready();
        Ok(round.stats().entries_reclaimed)
    }

    /// Counts the tasks that [`Claims::reclaim_stale`] would take, without touching anything.
    pub async fn count_stale(&self, threshold: Duration) -> Result<u64, EngineError> {
        let mut round = self.by_hand(Act::Look).await?;
        round.silent_for(threshold).await?;
        Ok(round.stats().entries_reclaimed)
    }

    /// Locks that nobody alive holds and that were not freed yet, with the reason.
    pub async fn stale_locks(&self) -> Result<Vec<StaleLock>, EngineError> {
        let mut round = self.by_hand(Act::Look).await?;
        let roster = round.roster().await?;
        round.locks(&roster).await?;
        Ok(round.listed)
    }

    /// Tasks that nobody alive holds and that were not taken back yet, with the reason.
    pub async fn stale_tasks(&self) -> Result<Vec<StaleTask>, EngineError> {
        let mut round = self.by_hand(Act::Look).await?;
        round.all(&mut Cursors::default()).await?;
        Ok(round.entries)
    }

    /// Frees every lock that nobody alive holds, and leaves tasks alone.
    pub(crate) async fn free_stale_locks(&self) -> Result<(), EngineError> {
        let mut round = self.by_hand(Act::Heal).await?;
        let roster = round.roster().await?;
        Ok(round.locks(&roster).await?)
    }

    /// Takes back every task that nobody alive holds, and leaves locks alone.
    pub(crate) async fn reclaim_stale_tasks(&self) -> Result<(), EngineError> {
        let mut round = self.by_hand(Act::Heal).await?;
        let roster = round.roster().await?;
        Ok(round.tasks(&roster, &mut Cursors::default()).await?)
    }

    /// One look of an engine: heals what it finds, up to a bound, and goes on from there the next time.
    pub async fn tick(&self, now: Millis) -> Result<RecoveryStats, EngineError> {
        let tally = self.go_on(now, TICK_READS_MAX).await?;
        self.count(tally);
        Ok(tally.stats(now))
    }

    fn count(&self, tally: Tally) {
        self.ledger.meter.findings("L1", tally.locks_found);
        self.ledger.meter.findings("L2", tally.entries_found);
    }

    /// The same with fewer reads on an idle store. Returns whether the store is idle.
    pub(crate) async fn tick_unless_idle(&self, now: Millis) -> Result<bool, EngineError> {
        if self.is_idle(now).await? {
            self.count(Tally::default());
            return Ok(true);
        }
        self.tick(now).await.map(|_| false)
    }

    /// Whether no lock and no claimed task exists that could be stale, which is usual for an idle store. Takes half of the
    /// reads of a full round. Skipped while this node executes runs, and on stores where each read is a paid request.
    async fn is_idle(&self, now: Millis) -> Result<bool, EngineError> {
        let store = &self.ledger.store;
        if !self.ledger.process.is_idle() || !store.pace().claim_watch.is_zero() {
            return Ok(false);
        }
        let state = Some(TaskState::Claimed);
        let claimed = TaskFilter { state, advance: Some(false), limit: 1, ..TaskFilter::default() };
        let of_nodes = LockFilter { node_none_of: Some(Vec::new()), limit: 1, ..LockFilter::default() };
        let expired = LockFilter { stale_at: Some(now), limit: 1, ..LockFilter::default() };
        Ok(store.tasks(claimed).await?.is_empty()
            && store.locks(of_nodes).await?.is_empty()
            && store.locks(expired).await?.is_empty())
    }

    /// What a claim does first. It never stops the claim.
    pub(crate) async fn before_claim(&self, now: Millis) {
        let every = CLAIM_HEALS_EVERY.max(self.ledger.store.pace().claim_watch);
        if !self.memory.is_due(now, every) {
            return;
        }
        if let Err(error) = self.go_on(now, CLAIM_READS_MAX).await {
            tracing::warn!(%error, "healing before a claim failed; the claim goes on");
        }
    }

    async fn by_hand(&self, act: Act) -> Result<Round<'_>, EngineError> {
        let now = tries::ask(Tries::five(), || self.ledger.store.now()).await?;
        let reach = Reach { act, tries: Tries::five(), reads_max: CALL_READS_MAX };
        Ok(Round::new(&self.ledger, self.memory.rules, now, reach))
    }

    async fn go_on(&self, now: Millis, reads_max: usize) -> Result<Tally, EngineError> {
        let remembered = || self.memory.cursors.lock().unwrap_or_else(PoisonError::into_inner);
        let reach = Reach { act: Act::Heal, tries: Tries::once(), reads_max };
        let mut round = Round::new(&self.ledger, self.memory.rules, now, reach);
        let mut cursors = remembered().clone();
        let outcome = round.all(&mut cursors).await;
        *remembered() = cursors;
        outcome?;
        Ok(round.tally)
    }
}
