//! The plan of a prune: which runs may be pruned.

use std::collections::{HashMap, HashSet};

use futures_util::future::try_join_all;
use goldseam_core::{RunId, Seq, Status, Summary};
use goldseam_store::{RunFilter, RunOrder, TaskFilter};

use super::{Candidate, PrunePlan, Pruner, Retention};
use goldseam_engine::ledger::error::EngineError;

/// Rows or tasks per read of the store.
const PAGE: u32 = 200;
/// Maximum number of concurrent reads.
const CONCURRENCY: usize = 8;

/// The runs that have not ended, and their parents. Related runs are not pruned.
#[derive(Debug, Default)]
struct Unended {
    runs: HashSet<RunId>,
    parents: HashSet<RunId>,
}

impl Unended {
    fn holds(&self, row: &Summary) -> bool {
        self.parents.contains(&row.run) || row.parent.as_ref().is_some_and(|run| self.runs.contains(run))
    }
}

impl Pruner<'_> {
    /// Plans a prune. Changes nothing.
    pub async fn plan(&self, retention: &Retention) -> Result<PrunePlan, EngineError> {
        let now = self.client.store().now().await?;
        let mut plan = PrunePlan { before: now - retention.older_than, ..PrunePlan::default() };
        let unended = self.unended_runs().await?;
        let mut tombstones = Vec::new();
        let over: Vec<Status> = Status::ALL.into_iter().filter(|status| status.is_terminal()).collect();
        let wanted = |status: &Status| retention.statuses.is_empty() || retention.statuses.contains(status);
        let mut filter = RunFilter {
            statuses: over.into_iter().filter(wanted).collect(),
            workflow: retention.workflow.clone(),
            order: RunOrder::Oldest,
            limit: PAGE,
            ..RunFilter::default()
        };
        // An empty list would match any status.
        while !filter.statuses.is_empty() {
            let page = self.client.list(filter.clone()).await?;
            for row in page.items {
                let row = row.summary;
                let Some(finished_at) = row.finished_at.filter(|at| *at < plan.before) else { continue };
                if row.pruned.is_some() {
                    tombstones.push((row.run, row.base));
                } else if unended.holds(&row) {
                    plan.held += 1;
                } else {
                    let Summary { run, workflow, status, as_of, bytes, .. } = row;
                    let (events, tasks) = (as_of.0, Vec::new());
                    plan.runs.push(Candidate { run, workflow, status, finished_at, events, bytes, tasks });
                }
            }
            match page.next {
                Some(next) => filter.after = Some(next),
                None => break,
            }
        }
        self.add_tasks(&mut plan).await?;
        let most = retention.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        plan.more = plan.runs.len() > most;
        plan.runs.truncate(most);
        // This costs a read for each tombstone, so repeated prunes with a limit do it once.
        if !plan.more {
            plan.unfinished = self.untrimmed(tombstones).await?;
        }
        Ok(plan)
    }

    /// All runs that have not ended, and their parents.
    async fn unended_runs(&self) -> Result<Unended, EngineError> {
        let statuses = Status::ALL.into_iter().filter(|status| !status.is_terminal()).collect();
        let mut filter = RunFilter { statuses, order: RunOrder::Oldest, limit: PAGE, ..RunFilter::default() };
        let mut unended = Unended::default();
        loop {
            let page = self.client.list(filter.clone()).await?;
            for row in page.items {
                unended.parents.extend(row.summary.parent);
                unended.runs.insert(row.summary.run);
            }
            match page.next {
                Some(next) => filter.after = Some(next),
                None => return Ok(unended),
            }
        }
    }

    /// Adds the tasks of the candidates, and removes candidates with an open or dead task.
    async fn add_tasks(&self, plan: &mut PrunePlan) -> Result<(), EngineError> {
        let mut of: HashMap<RunId, usize> =
            plan.runs.iter().enumerate().map(|(at, candidate)| (candidate.run.clone(), at)).collect();
        let mut filter = TaskFilter { limit: PAGE, ..TaskFilter::default() };
        while !of.is_empty() {
            let page = self.client.store().tasks(filter.clone()).await?;
            let Some(last) = page.last() else { break };
            filter.after = Some(last.id.clone());
            for task in page {
                let Some(at) = task.run.as_ref().and_then(|run| of.get(run).copied()) else { continue };
                // A dead task waits for an operator.
                if task.state.is_live() || task.state == goldseam_core::task::TaskState::Dead {
                    of.remove(&plan.runs[at].run);
                } else {
                    plan.runs[at].tasks.push(task.id);
                }
            }
        }
        let before = plan.runs.len();
        plan.runs.retain(|candidate| of.contains_key(&candidate.run));
        plan.held += (before - plan.runs.len()) as u64;
        Ok(())
    }

    /// Tombstones before which events are left.
    async fn untrimmed(&self, tombstones: Vec<(RunId, Seq)>) -> Result<Vec<(RunId, Seq)>, EngineError> {
        let mut left = Vec::new();
        for some in tombstones.chunks(CONCURRENCY) {
            let reads = some.iter().map(|(run, _)| self.client.store().read(run, Seq::ZERO, 1));
            let firsts = try_join_all(reads).await?;
            let is_left = |(first, (_, seq)): &(&Vec<goldseam_store::Record>, &(RunId, Seq))| {
                first.first().is_some_and(|first| first.seq < *seq)
            };
            left.extend(firsts.iter().zip(some).filter(is_left).map(|(_, tombstone)| tombstone.clone()));
        }
        Ok(left)
    }
}
