//! Healing of claims and locks: frees claims and locks without a live holder (rules L1 and L2).
//!
//! Invariant: a heal is one compare-and-set of one record, including its audit entry. So concurrent healers do no
//! harm, an earlier heartbeat protects its claim, and a claimant that was wrongly taken for dead is refused by its
//! fence. A pass over a healthy store writes nothing and only searches indexes.

mod pass;
pub(crate) mod staleness;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use goldseam_core::Millis;
use goldseam_core::lock::Lock;
use goldseam_core::task::{Task, TaskState};
use goldseam_store::{LockFilter, TaskFilter};
use serde::{Deserialize, Serialize};

use crate::ledger::commit::Ledger;
pub use crate::ledger::config::ClaimRules;
use crate::ledger::error::EngineError;
use crate::ledger::retry::{self, Retries};
use crate::ledger::sync::lock;
use pass::{Act, Cursors, Pass, Reach, Tally};

/// Maximum number of records read by a requested pass.
const CALL_READS_MAX: usize = 100_000;
/// Maximum number of records read per tick of an engine. The next tick continues there.
const TICK_READS_MAX: usize = 1_000;
/// Maximum number of records read before a claim.
const CLAIM_READS_MAX: usize = 50;
/// Minimum interval between two passes before claims: a pass costs more than a claim.
const CLAIM_HEALS_EVERY: Duration = Duration::from_secs(1);

/// The result of healing, or of a dry run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RecoveryStats {
    /// Number of stale locks freed.
    pub locks_cleaned: u64,
    /// Number of tasks reclaimed from lost or silent claimants.
    pub entries_reclaimed: u64,
    /// The time of the pass, by the store's clock.
    pub recovery_timestamp: Millis,
}

/// A lock without a live holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StaleLock {
    /// The lock.
    pub lock: Lock,
    /// Why it is stale.
    pub why: String,
}

/// A task without a live claimant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StaleTask {
    /// The task.
    pub task: Task,
    /// Why it is stale.
    pub why: String,
}

/// What a process remembers between two passes.
#[derive(Debug)]
struct Memory {
    rules: ClaimRules,
    /// When a claim last started a pass, by the store's clock.
    healed_at: AtomicI64,
    cursors: Mutex<Cursors>,
}

impl Memory {
    fn new(rules: ClaimRules) -> Self {
        Self { rules, healed_at: AtomicI64::new(i64::MIN), cursors: Mutex::default() }
    }

    /// Whether a claim must heal first. Of many concurrent claims, one must.
    fn is_due(&self, now: Millis, every: Duration) -> bool {
        let later = |last: i64| (now.since(Millis(last)) >= every).then_some(now.0);
        self.healed_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later).is_ok()
    }
}

/// Heals claims and locks. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Claims {
    ledger: Ledger,
    memory: Arc<Memory>,
}

impl Claims {
    pub(crate) fn new(ledger: Ledger, rules: ClaimRules) -> Self {
        Self { ledger, memory: Arc::new(Memory::new(rules)) }
    }

    /// The same memory with another ledger of this store.
    pub(crate) fn on(&self, ledger: Ledger) -> Self {
        Self { ledger, memory: Arc::clone(&self.memory) }
    }

    pub(crate) fn rules(&self) -> ClaimRules {
        self.memory.rules
    }

    /// Frees stale locks and reclaims tasks from lost or silent claimants, among up to 100,000 records. Engines and
    /// claims do this automatically; any number of healers may run at once.
    pub async fn detect_and_recover_stale(&self) -> Result<RecoveryStats, EngineError> {
        let mut pass = self.requested_pass(Act::Heal).await?;
        pass.all(&mut Cursors::default()).await?;
        Ok(pass.stats())
    }

    /// Counts what [`Claims::detect_and_recover_stale`] would do, without a write.
    pub async fn recovery_stats(&self) -> Result<RecoveryStats, EngineError> {
        let mut pass = self.requested_pass(Act::Find).await?;
        pass.all(&mut Cursors::default()).await?;
        Ok(pass.stats())
    }

    /// Reclaims every task whose claimant gave no sign of life for `threshold`, even if the task allows more, and
    /// frees stale locks. Leaves the engine's own tasks to live nodes. Returns the number of reclaimed tasks.
    pub async fn reclaim_stale(&self, threshold: Duration) -> Result<u64, EngineError> {
        let mut pass = self.requested_pass(Act::Heal).await?;
        let roster = pass.roster().await?;
        pass.locks(&roster).await?;
        pass.silent_for(threshold).await?;
        self.ledger.process.task_ready();
        Ok(pass.stats().entries_reclaimed)
    }

    /// Counts the tasks that [`Claims::reclaim_stale`] would reclaim, without a write.
    pub async fn count_stale(&self, threshold: Duration) -> Result<u64, EngineError> {
        let mut pass = self.requested_pass(Act::Find).await?;
        pass.silent_for(threshold).await?;
        Ok(pass.stats().entries_reclaimed)
    }

    /// Lists stale locks, with reasons.
    pub async fn stale_locks(&self) -> Result<Vec<StaleLock>, EngineError> {
        let mut pass = self.requested_pass(Act::Find).await?;
        let roster = pass.roster().await?;
        pass.locks(&roster).await?;
        Ok(pass.listed)
    }

    /// Lists stale tasks, with reasons.
    pub async fn stale_tasks(&self) -> Result<Vec<StaleTask>, EngineError> {
        let mut pass = self.requested_pass(Act::Find).await?;
        pass.all(&mut Cursors::default()).await?;
        Ok(pass.entries)
    }

    /// Frees every stale lock. Leaves tasks.
    pub(crate) async fn free_stale_locks(&self) -> Result<(), EngineError> {
        let mut pass = self.requested_pass(Act::Heal).await?;
        let roster = pass.roster().await?;
        Ok(pass.locks(&roster).await?)
    }

    /// Reclaims every stale task. Leaves locks.
    pub(crate) async fn reclaim_stale_tasks(&self) -> Result<(), EngineError> {
        let mut pass = self.requested_pass(Act::Heal).await?;
        let roster = pass.roster().await?;
        Ok(pass.tasks(&roster, &mut Cursors::default()).await?)
    }

    /// Runs one bounded pass of an engine, continuing after the previous one.
    pub async fn tick(&self, now: Millis) -> Result<RecoveryStats, EngineError> {
        let tally = self.continue_pass(now, TICK_READS_MAX).await?;
        self.count(tally);
        Ok(tally.stats(now))
    }

    fn count(&self, tally: Tally) {
        self.ledger.meter.findings("L1", tally.locks_found);
        self.ledger.meter.findings("L2", tally.entries_found);
    }

    /// Like [`Claims::tick`], with fewer reads on an idle store. Returns whether the store is idle.
    pub(crate) async fn tick_unless_idle(&self, now: Millis) -> Result<bool, EngineError> {
        if self.is_idle(now).await? {
            self.count(Tally::default());
            return Ok(true);
        }
        self.tick(now).await.map(|_| false)
    }

    /// Whether no lock and no claimed task exists that could be stale, which is usual for an idle store. Takes half
    /// of the reads of a full pass. Skipped while this node executes runs, and on stores where each read is a paid
    /// request.
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

    /// Heals stale claims before a claim. Errors do not stop the claim.
    pub(crate) async fn before_claim(&self, now: Millis) {
        let every = CLAIM_HEALS_EVERY.max(self.ledger.store.pace().claim_watch);
        if !self.memory.is_due(now, every) {
            return;
        }
        if let Err(error) = self.continue_pass(now, CLAIM_READS_MAX).await {
            tracing::warn!(%error, "failed to heal stale claims before claiming");
        }
    }

    async fn requested_pass(&self, act: Act) -> Result<Pass<'_>, EngineError> {
        let now = retry::read(Retries::standard(), || self.ledger.store.now()).await?;
        let reach = Reach { act, retries: Retries::standard(), reads_max: CALL_READS_MAX };
        Ok(Pass::new(&self.ledger, self.memory.rules, now, reach))
    }

    async fn continue_pass(&self, now: Millis, reads_max: usize) -> Result<Tally, EngineError> {
        let remembered = || lock(&self.memory.cursors);
        let reach = Reach { act: Act::Heal, retries: Retries::none(), reads_max };
        let mut pass = Pass::new(&self.ledger, self.memory.rules, now, reach);
        let mut cursors = remembered().clone();
        let outcome = pass.all(&mut cursors).await;
        *remembered() = cursors;
        outcome?;
        Ok(pass.tally)
    }
}
