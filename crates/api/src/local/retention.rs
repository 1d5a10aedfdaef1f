//! Pruning.

use std::time::Duration;

use async_trait::async_trait;
use goldseam::Status;
use goldseam::admin::retention::{Candidate, PruneReport, Pruner, Retention};
use goldseam::unstable::core::WorkflowName;

use super::LocalApi;
use crate::api::{ApiResult, OnPruned, RetentionApi};
use crate::caller::Caller;
use crate::doc::retention::{
    LeftRunDoc, NewPrune, PrunableRunDoc, PrunePlanDoc, PruneQuery, PrunedDoc, PrunedRunDoc,
};
use crate::problem::Problem;

fn retention(query: PruneQuery) -> ApiResult<Retention> {
    let words = query.status.iter().flat_map(|words| words.split(',')).filter(|word| !word.is_empty());
    let statuses: Result<Vec<Status>, _> = words.map(str::parse).collect();
    let statuses = statuses.map_err(|error| Problem::bad_request(format!("{error}")))?;
    if let Some(status) = statuses.iter().find(|status| !status.is_terminal()) {
        return Err(Problem::bad_request(format!("{status} runs have not ended"))
            .hint("only completed, failed and cancelled runs can be pruned"));
    }
    Ok(Retention {
        older_than: Duration::from_millis(query.completed_before_ms),
        statuses,
        workflow: query.workflow.map(WorkflowName::new).transpose()?,
        limit: query.limit,
    })
}

#[async_trait]
impl RetentionApi for LocalApi {
    async fn plan_prune(&self, query: PruneQuery) -> ApiResult<PrunePlanDoc> {
        let plan = Pruner::new(&self.client).plan(&retention(query)?).await?;
        let item = |candidate: Candidate| PrunableRunDoc {
            events: candidate.events,
            finished_at: candidate.finished_at,
            run: candidate.run,
            status: candidate.status,
            workflow: candidate.workflow,
        };
        Ok(PrunePlanDoc {
            before: plan.before,
            bytes: plan.runs.iter().filter_map(|candidate| candidate.bytes).sum(),
            events: plan.runs.iter().map(|candidate| candidate.events).sum(),
            dry_run: true,
            held: plan.held,
            runs: plan.runs.into_iter().map(item).collect(),
            unfinished: plan.unfinished.len() as u64,
        })
    }

    async fn prune(&self, caller: &Caller, new: NewPrune, progress: OnPruned<'_>) -> ApiResult<PrunedDoc> {
        let archive = self.archive.as_deref().ok_or_else(|| self.no_archive())?;
        let wanted = retention(new.query())?;
        self.check_text("the reason", &new.reason)?;
        let mut by = caller.by("prune", "", &new.reason);
        by.who = self.who(caller, new.by)?;
        let plan = Pruner::new(&self.client).plan(&wanted).await?;
        let report = Pruner::new(&self.client).prune(&plan, archive, &by, progress).await?;
        Ok(PrunedDoc { held: plan.held, more: plan.more, ..PrunedDoc::from(report) })
    }
}

impl LocalApi {
    fn no_archive(&self) -> Problem {
        let (detail, hint) = match &self.namespace {
            Some(_) => {
                ("cannot prune: this server has no archive", "set `archive` in the server's configuration")
            }
            None => {
                ("cannot prune: there is no archive", "pass a directory or s3://BUCKET/PREFIX as the archive")
            }
        };
        Problem::new(409, detail).code("GS0614").hint(hint)
    }
}

impl From<PruneReport> for PrunedDoc {
    fn from(report: PruneReport) -> Self {
        let item = |run: goldseam::admin::retention::PrunedRun| PrunedRunDoc {
            archive: run.archive,
            events: run.events,
            finished_at: run.finished_at,
            run: run.run,
            status: run.status,
            workflow: run.workflow,
        };
        Self {
            events: report.events(),
            freed_bytes: report.freed(),
            archives: report.batches,
            bytes: report.bytes,
            finished: report.finished,
            held: 0,
            left: report.left.into_iter().map(|(run, why)| LeftRunDoc { run, why }).collect(),
            more: false,
            pruned: report.pruned.into_iter().map(item).collect(),
        }
    }
}
