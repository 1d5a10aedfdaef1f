//! Applies retention policies: bounded passes over the ended runs, oldest first, one node at a time.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::Millis;
use goldseam_core::search::{Condition, ConditionSubject, Literal, Operator, RunField};
use goldseam_engine::Client;
use goldseam_engine::client::By;
use goldseam_engine::ledger::clock::pause;
use goldseam_engine::ledger::error::EngineError;
use goldseam_store::{Archive, RunFilter, RunOrder};

use super::plan::DueRun;
use super::policy::RetentionPolicies;
use super::walk::{RetentionWalk, TakenWalk};
use super::{PrunePlan, PruneReport, Pruner};

/// The author in the tombstones of runs that a policy prunes.
const AUTHOR: &str = "retention policy";

/// How much a pass reads, and how often.
#[derive(Debug, Clone, Copy)]
struct PassLimits {
    /// Between two passes.
    every: Duration,
    /// Most runs that a pass prunes, and tombstones that it examines.
    runs: u32,
    /// Most pages of rows that it reads.
    pages: u32,
}

/// Limits on a database.
const INDEXED: PassLimits = PassLimits { every: Duration::from_secs(60), runs: 200, pages: 25 };
/// Limits in a bucket, where each row is a request and relatives are found by a list of all active runs.
const BUCKET: PassLimits = PassLimits { every: Duration::from_secs(600), runs: 500, pages: 1 };

/// Prunes the runs that retention policies no longer keep. Attach its [`run`](Retainer::run) to an engine with
/// [`Engine::attach`](goldseam_engine::Engine::attach).
#[derive(Debug)]
pub struct Retainer {
    client: Client,
    archive: Arc<dyn Archive>,
    policies: RetentionPolicies,
}

/// The result of a pass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RetentionPass {
    /// What was pruned.
    pub report: PruneReport,
    /// Number of runs that are due, but have an active parent, child or task.
    pub held: u64,
    /// Whether the walk over all ended runs is complete; the next pass begins again with the oldest.
    pub is_round_over: bool,
}

/// The rows that a pass has found.
#[derive(Debug, Default)]
struct Slice {
    plan: PrunePlan,
    /// The cursor of the next slice.
    next: Option<String>,
}

impl Retainer {
    /// Creates a retainer, which prunes into this archive.
    pub fn new(client: Client, archive: Arc<dyn Archive>, policies: RetentionPolicies) -> Self {
        Self { client, archive, policies }
    }

    /// Makes passes until the future is dropped, which is safe at any moment. The first pass begins some time after
    /// the start. Returns at once if the policies prune nothing.
    pub async fn run(self) {
        let every = self.limits().every;
        while !self.policies.is_empty() {
            // Spread the passes of nodes that started together.
            let spread = every.mul_f64((self.client.ledger().entropy.next() % 1_000) as f64 / 10_000.0);
            pause(every + spread).await;
            match self.pass().await {
                Ok(pass) => pass.iter().for_each(log_pass),
                Err(error) => {
                    tracing::warn!(%error, "retention pass failed; runs that were not archived are unchanged");
                }
            }
        }
    }

    /// Makes one pass: examines the next ended runs, and prunes those that no policy keeps. Returns none if another
    /// node makes the passes, or if the last pass was a short time ago.
    pub async fn pass(&self) -> Result<Option<RetentionPass>, EngineError> {
        self.pass_at(self.client.store().now().await?).await
    }

    /// Like [`Retainer::pass`], at this time of the store's clock.
    pub async fn pass_at(&self, now: Millis) -> Result<Option<RetentionPass>, EngineError> {
        let Some(shortest) = self.policies.shortest() else { return Ok(None) };
        let store = self.client.store();
        let Some(taken) = TakenWalk::take(&**store, now).await? else { return Ok(None) };
        let slice = self.slice(&taken.walk, now, now - shortest).await;
        let next = slice.as_ref().ok().and_then(|slice| slice.next.clone());
        let pruned = match slice {
            Ok(slice) => self.prune(&slice.plan).await,
            Err(error) => Err(error),
        };
        let next_at = now + self.limits().every;
        let walk = match &pruned {
            Ok(_) => taken.walk.advanced(next.clone(), next_at),
            Err(_) => taken.walk.failed(next.clone(), next_at),
        };
        // If this fails, the walk stays where it was, and the next pass begins later.
        let left = taken.leave(&**store, &walk, now).await;
        let pass = RetentionPass { is_round_over: next.is_none(), ..pruned? };
        left?;
        Ok(Some(pass))
    }

    fn limits(&self) -> PassLimits {
        if Pruner::new(&self.client).has_indexes() { INDEXED } else { BUCKET }
    }

    /// The ended runs that may be due.
    fn filter(&self, before: Millis) -> RunFilter {
        let ended = Condition::Compare {
            subject: ConditionSubject::Field(RunField::Ended),
            operator: Operator::Less,
            value: Literal::Time(before),
        };
        RunFilter {
            statuses: self.policies.statuses(),
            workflow: self.policies.only_workflow().cloned(),
            condition: Some(Arc::new(ended)),
            order: RunOrder::Oldest,
            ..RunFilter::default()
        }
    }

    /// Reads the next rows and plans what to prune.
    async fn slice(&self, walk: &RetentionWalk, now: Millis, before: Millis) -> Result<Slice, EngineError> {
        let PassLimits { runs, pages, .. } = self.limits();
        let mut filter = RunFilter { after: walk.after.clone(), ..self.filter(before) };
        let mut due = Vec::new();
        let mut tombstones = Vec::new();
        for _ in 0..pages {
            let found = u32::try_from(due.len() + tombstones.len()).unwrap_or(u32::MAX);
            filter.limit = runs.saturating_sub(found);
            if filter.limit == 0 {
                break;
            }
            let page = self.client.store().runs(filter.clone()).await?;
            for row in page.items {
                let row = row.summary;
                if row.pruned.is_some() {
                    tombstones.extend(walk.unchecked(&row));
                    continue;
                }
                let Some(keep) = self.policies.keep(&row.workflow, row.status) else { continue };
                let before = now - keep;
                let Some(finished_at) = row.finished_at.filter(|at| *at < before) else { continue };
                due.push(DueRun { row, finished_at, before });
            }
            filter.after = page.next;
            if filter.after.is_none() {
                break;
            }
        }
        let plan = Pruner::new(&self.client).plan_of(due, tombstones).await?;
        Ok(Slice { plan, next: filter.after })
    }

    async fn prune(&self, plan: &PrunePlan) -> Result<RetentionPass, EngineError> {
        let by = By { who: Some(AUTHOR.to_owned()), reason: String::new(), id: None };
        let report = Pruner::new(&self.client).prune(plan, &*self.archive, &by, &mut |_| ()).await?;
        Ok(RetentionPass { report, held: plan.held, is_round_over: false })
    }
}

fn log_pass(pass: &RetentionPass) {
    let RetentionPass { report, held, .. } = pass;
    for (run, why) in &report.left {
        tracing::debug!(%run, why, "retention policy left a run unchanged");
    }
    if !report.pruned.is_empty() || report.finished > 0 {
        let runs = report.pruned.len();
        let events = report.events();
        let bytes = report.freed();
        let finished = report.finished;
        tracing::info!(runs, events, bytes, finished, held, "retention policy pruned runs");
    }
}
