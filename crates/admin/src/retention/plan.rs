//! The plan of a prune: which runs may be pruned.

use std::collections::{HashMap, HashSet};

use futures_util::future::try_join_all;
use goldseam_core::decide::Refusal;
use goldseam_core::task::{Task, TaskState};
use goldseam_core::{Millis, RunId, Seq, Status, Summary};
use goldseam_store::{RunFilter, RunOrder, TaskFilter};

use super::{Candidate, PrunePlan, Pruner, Retention};
use goldseam_engine::ledger::error::EngineError;

/// Rows or tasks per read of the store.
const PAGE: u32 = 200;
/// Maximum number of concurrent reads.
const CONCURRENCY: usize = 8;
/// Most runs whose tasks are read one by one.
const EACH_MAX: usize = 500;

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

/// An ended run that a policy no longer keeps, according to its row.
#[derive(Debug)]
pub(super) struct DueRun {
    pub(super) row: Summary,
    pub(super) finished_at: Millis,
    /// Runs that ended before this time are not kept.
    pub(super) before: Millis,
}

impl Candidate {
    fn of(row: Summary, finished_at: Millis, before: Millis) -> Self {
        let Summary { run, workflow, status, as_of, bytes, .. } = row;
        Self { run, workflow, status, finished_at, events: as_of.0, bytes, before, tasks: Vec::new() }
    }
}

/// The tasks of candidates, by run.
struct CandidateTasks<'a> {
    runs: &'a mut [Candidate],
    /// The positions of the candidates that no task holds.
    free: HashMap<RunId, usize>,
}

impl CandidateTasks<'_> {
    /// Adds a finished task to its candidate, or lets an open or dead one hold it.
    fn add(&mut self, task: Task) {
        let Some(at) = task.run.as_ref().and_then(|run| self.free.get(run).copied()) else { return };
        // A dead task waits for an operator.
        if task.state.is_live() || task.state == TaskState::Dead {
            self.free.remove(&self.runs[at].run);
        } else {
            self.runs[at].tasks.push(task.id);
        }
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
                    plan.runs.push(Candidate::of(row, finished_at, plan.before));
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

    /// Plans a prune of a few runs, by the same rules. Unlike [`Pruner::plan`], does not read all active runs and
    /// tasks, unless the store could find those of a run only by reading all.
    pub(super) async fn plan_of(
        &self,
        due: Vec<DueRun>,
        tombstones: Vec<(RunId, Seq)>,
    ) -> Result<PrunePlan, EngineError> {
        let mut plan = PrunePlan { unfinished: self.untrimmed(tombstones).await?, ..PrunePlan::default() };
        if due.is_empty() {
            return Ok(plan);
        }
        let unended = match self.has_indexes() {
            true => self.unended_relatives(&due).await?,
            false => self.unended_runs().await?,
        };
        for DueRun { row, finished_at, before } in due {
            plan.before = plan.before.max(before);
            if unended.holds(&row) {
                plan.held += 1;
            } else {
                plan.runs.push(Candidate::of(row, finished_at, before));
            }
        }
        self.add_tasks(&mut plan).await?;
        Ok(plan)
    }

    /// Whether the store finds the children and the tasks of a run without reading those of all runs.
    pub(super) fn has_indexes(&self) -> bool {
        self.client.store().pace().sweep.is_zero()
    }

    /// The parents of these runs that have not ended, and the runs of which a child has not ended.
    async fn unended_relatives(&self, due: &[DueRun]) -> Result<Unended, EngineError> {
        let mut unended = Unended::default();
        let parents: HashSet<&RunId> = due.iter().filter_map(|due| due.row.parent.as_ref()).collect();
        for parent in parents {
            let is_over = match self.client.get(parent).await {
                Ok(row) => row.status.is_terminal(),
                Err(EngineError::Refused { refusal: Refusal::NoSuchRun, .. }) => true,
                // An unreadable parent may not have ended.
                Err(EngineError::Corrupt { .. }) => false,
                Err(error) => return Err(error),
            };
            if !is_over {
                unended.runs.insert(parent.clone());
            }
        }
        for some in due.chunks(CONCURRENCY) {
            let filter = |due: &DueRun| RunFilter {
                parent: Some(due.row.run.clone()),
                statuses: Status::ALL.into_iter().filter(|status| !status.is_terminal()).collect(),
                limit: 1,
                ..RunFilter::default()
            };
            let pages = try_join_all(some.iter().map(|due| self.client.store().runs(filter(due)))).await?;
            for (page, due) in pages.into_iter().zip(some) {
                // An unreadable child may not have ended.
                if !page.items.is_empty() || !page.unreadable.is_empty() {
                    unended.parents.insert(due.row.run.clone());
                }
            }
        }
        Ok(unended)
    }

    /// Adds the tasks of the candidates, and removes candidates with an open or dead task.
    async fn add_tasks(&self, plan: &mut PrunePlan) -> Result<(), EngineError> {
        let runs: Vec<RunId> = plan.runs.iter().map(|candidate| candidate.run.clone()).collect();
        let free = runs.iter().cloned().zip(0..).collect();
        let mut tasks = CandidateTasks { runs: &mut plan.runs, free };
        // Asking for each run is cheaper only for a few runs.
        if runs.len() <= EACH_MAX && self.has_indexes() {
            for run in &runs {
                self.add_tasks_of(&mut tasks, Some(run)).await?;
            }
        } else {
            self.add_tasks_of(&mut tasks, None).await?;
        }
        let free = tasks.free;
        let before = plan.runs.len();
        plan.runs.retain(|candidate| free.contains_key(&candidate.run));
        plan.held += (before - plan.runs.len()) as u64;
        Ok(())
    }

    /// Adds the tasks of one run, or of all.
    async fn add_tasks_of(
        &self,
        to: &mut CandidateTasks<'_>,
        run: Option<&RunId>,
    ) -> Result<(), EngineError> {
        let mut filter = TaskFilter { run: run.cloned(), limit: PAGE, ..TaskFilter::default() };
        while !to.free.is_empty() {
            let page = self.client.store().tasks(filter.clone()).await?;
            let Some(last) = page.last() else { break };
            filter.after = Some(last.id.clone());
            page.into_iter().for_each(|task| to.add(task));
        }
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
