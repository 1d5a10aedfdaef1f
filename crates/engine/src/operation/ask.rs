//! What clients ask about operations and failures.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use goldseam_core::operation::{
    Chapter, Examples, OperationPhase, PlanPage, Progress, QUEUE, Spec, SpecError, TargetResult, VERSION,
    is_operation,
};
use goldseam_core::search::{
    Condition, ConditionSubject, Group, GroupBy, Grouping, Literal, Operator, RunField,
};
use goldseam_core::state::{OpKind, Outcome, StepProgress};
use goldseam_core::{Millis, Path, Payload, RunId, Seq, State, Status, Summary};
use goldseam_store::{GroupQuery, Page, RunFilter, RunOrder, Unreadable};

use super::act::BATCH;
use super::{OperationWorker, plan, workflow};
use crate::client::{Client, StartOptions};
use crate::ledger::commit::Committed;
use crate::ledger::error::EngineError;
use crate::ledger::open_name::open_run;

/// Rows read at a time.
const PAGE: u32 = 500;
/// Most groups of a preview.
const PREVIEW_GROUPS: usize = 20;
/// Most runs that a preview names.
const SAMPLES: usize = 5;
/// Most groups of failures.
const GROUPS_MAX: u32 = 1_000;

/// An operation, as its log describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// The row of its run.
    pub summary: Summary,
    /// What it does.
    pub spec: Spec,
    /// How far it is.
    pub progress: Progress,
}

/// What an operation would do now.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Preview {
    /// The condition, as canonical text.
    pub condition: String,
    /// Number of runs that match.
    pub matched: u64,
    /// Number of runs that the verb would be carried out on.
    pub would_act: u64,
    /// Runs that would be skipped, by reason.
    pub skipped: BTreeMap<String, Examples>,
    /// The matching runs by cause, the largest group first.
    pub groups: Vec<Group>,
    /// A few runs that the verb would be carried out on.
    pub samples: Vec<RunId>,
    /// For each stage, how many runs have been acted on when it ends.
    pub stages: Vec<u64>,
    /// Unreadable rows, which are left out.
    pub unreadable: Vec<Unreadable>,
}

/// Failed and parked runs with the same cause.
#[derive(Debug, Clone, PartialEq)]
pub struct FailureGroup {
    /// The fingerprint; none for runs without one.
    pub cause: Option<String>,
    /// Number of runs.
    pub count: u64,
    /// When the first of them failed.
    pub first: Millis,
    /// When the last of them failed.
    pub last: Millis,
    /// The run that failed last.
    pub example: RunId,
    /// Its message.
    pub message: String,
    /// Its code.
    pub code: Option<String>,
    /// The step that failed in it.
    pub step: Option<Path>,
    /// Workflows and versions of the runs, as `order@2`.
    pub workflows: BTreeSet<String>,
}

/// Failed and parked runs, by cause.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FailureGroups {
    /// Number of runs.
    pub total: u64,
    /// The groups, the largest first.
    pub groups: Vec<FailureGroup>,
    /// Runs of further groups.
    pub left_out: u64,
    /// Unreadable rows, which are left out.
    pub unreadable: Vec<Unreadable>,
}

fn field(field: RunField, operator: Operator, value: Literal) -> Condition {
    Condition::Compare { subject: ConditionSubject::Field(field), operator, value }
}

/// Returns the condition that selects no operation.
pub(crate) fn no_operation() -> Condition {
    field(RunField::Workflow, Operator::NotEqual, Literal::Text(workflow().as_str().to_owned()))
}

impl Client {
    /// Parses the condition of an operation. Relative times are relative to the store's clock.
    pub async fn parse_condition(&self, text: &str) -> Result<Condition, EngineError> {
        if text.trim().is_empty() {
            return Err(SpecError::no_condition().into());
        }
        Ok(Condition::parse(text, self.store().now().await?)?)
    }

    /// Begins an operation: queues its run, which any engine of this release executes. The same id and the same
    /// operation is the same run. Nothing changes before an engine has claimed it.
    pub async fn begin_operation(&self, id: &RunId, spec: Spec) -> Result<Committed, EngineError> {
        spec.check()?;
        open_run(id)?;
        Condition::parse(&spec.condition, Millis(0))?;
        let input = Payload::of(&Chapter::first(spec), &self.ledger().limits)?;
        let options = StartOptions::default().queue(QUEUE).version(VERSION);
        self.queue_run(workflow(), id, input, options).await
    }

    /// Reads an operation.
    pub async fn operation(&self, id: &RunId) -> Result<Operation, EngineError> {
        let summary = self.get(id).await?;
        if !is_operation(&summary.workflow) {
            return Err(SpecError::no_operation(id).into());
        }
        let (mut operation, mut chapter) = self.read_operation(id).await?;
        if operation.progress.outcome.is_none() && operation.summary.status.is_terminal() {
            chapter.progress = operation.progress;
            operation.progress = self.count_interrupted(id, &chapter).await?;
        }
        Ok(operation)
    }

    /// Reads an operation, and its chapter with the whole plan.
    async fn read_operation(&self, id: &RunId) -> Result<(Operation, Chapter), EngineError> {
        let state = self.state(id).await?;
        let unreadable = |_| SpecError::no_operation(id);
        let mut chapter: Chapter = state.queued.input.read().map_err(unreadable)?;
        let progress = progress(&state, &chapter);
        for (_, output) in completed(&state, "index") {
            chapter.plan.extend(output.read::<Vec<PlanPage>>().unwrap_or_default());
        }
        Ok((Operation { summary: state.summary, spec: chapter.spec.clone(), progress }, chapter))
    }

    /// Counts the actions of a batch that a stop interrupted: they are in the logs of the targets, but the batch left no
    /// result.
    async fn count_interrupted(&self, id: &RunId, chapter: &Chapter) -> Result<Progress, EngineError> {
        let mut progress = chapter.progress.clone();
        let worker = OperationWorker::of(self.clone(), id, &chapter.spec)?;
        for run in worker.targets(chapter, progress.handled, BATCH).await? {
            match self.get(&run).await {
                Ok(summary) => {
                    if worker.has_acted_on(&run, &summary).await? {
                        progress.count(&run, TargetResult::Acted);
                    }
                }
                Err(EngineError::Refused { .. } | EngineError::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(progress)
    }

    /// Lists operations, the latest first. Operations of a newer release that this one cannot read are left out.
    pub async fn operations(
        &self,
        after: Option<String>,
        limit: u32,
    ) -> Result<Page<Operation>, EngineError> {
        let filter = RunFilter { workflow: Some(workflow()), after, limit, ..RunFilter::default() };
        let page = self.store().runs(filter).await?;
        let mut items = Vec::with_capacity(page.items.len());
        for row in page.items {
            match self.read_operation(&row.summary.run).await {
                Ok((operation, _)) => items.push(operation),
                Err(
                    EngineError::Operation(_) | EngineError::Corrupt { .. } | EngineError::Refused { .. },
                ) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Page { items, next: page.next, unreadable: page.unreadable })
    }

    /// Returns what an operation would do now. Changes nothing.
    pub async fn preview_operation(&self, spec: &Spec) -> Result<Preview, EngineError> {
        spec.check()?;
        let condition = Arc::new(Condition::parse(&spec.condition, Millis(0))?);
        let mut preview = Preview { condition: condition.to_string(), ..Preview::default() };
        let mut grouping = Grouping::new(GroupBy::Cause, PREVIEW_GROUPS);
        let mut counted = Progress::default();
        let mut filter = RunFilter {
            condition: Some(condition),
            order: RunOrder::Oldest,
            limit: PAGE,
            ..RunFilter::default()
        };
        loop {
            let page = self.store().runs(filter.clone()).await?;
            preview.unreadable.extend(page.unreadable);
            for row in page.items.iter().filter(|row| !is_operation(&row.summary.workflow)) {
                preview.matched += 1;
                grouping.add(&row.summary);
                match spec.verb.skips(&row.summary) {
                    Some(reason) => {
                        counted.count(&row.summary.run, TargetResult::Skipped(reason));
                    }
                    None => {
                        preview.would_act += 1;
                        if preview.samples.len() < SAMPLES {
                            preview.samples.push(row.summary.run.clone());
                        }
                    }
                }
            }
            match page.next {
                Some(next) => filter.after = Some(next),
                None => break,
            }
        }
        preview.skipped = counted.skipped;
        preview.groups = grouping.finish().0;
        preview.stages = match &spec.canary {
            Some(canary) => canary.quotas(preview.matched),
            None => vec![preview.matched],
        };
        Ok(preview)
    }

    /// Groups failed and parked runs by the fingerprint of their cause.
    pub async fn failures(&self, condition: Option<Condition>) -> Result<FailureGroups, EngineError> {
        let statuses = [Status::Failed, Status::Parked].map(Literal::Status).to_vec();
        let mut wanted =
            Condition::In { subject: ConditionSubject::Field(RunField::Status), values: statuses }
                .and(no_operation());
        if let Some(condition) = condition {
            wanted = wanted.and(condition);
        }
        let filter = RunFilter { condition: Some(Arc::new(wanted)), ..RunFilter::default() };
        let found = self.store().groups(GroupQuery::by(filter, GroupBy::Cause, GROUPS_MAX)).await?;
        let mut groups = Vec::with_capacity(found.groups.len());
        for group in found.groups {
            let row = self.store().head(&group.example).await?.and_then(|head| head.row);
            let trouble = row.and_then(|row| row.summary.trouble);
            groups.push(FailureGroup {
                cause: group.key,
                count: group.count,
                first: group.first,
                last: group.last,
                example: group.example,
                message: trouble.as_ref().map(|trouble| trouble.message.clone()).unwrap_or_default(),
                code: trouble.as_ref().and_then(|trouble| trouble.code.clone()),
                step: trouble.and_then(|trouble| trouble.step),
                workflows: group.workflows,
            });
        }
        let total = found.total;
        let left_out = found.left_out;
        let unreadable = found.unreadable;
        Ok(FailureGroups { total, groups, left_out, unreadable })
    }
}

/// Returns the results of the completed steps with this name, each with its position.
fn completed<'a>(state: &'a State, name: &'static str) -> impl Iterator<Item = (Seq, &'a Payload)> {
    state.ops.iter().filter_map(move |(path, op)| match &op.kind {
        OpKind::Step(step) if path.as_str().split('#').next() == Some(name) => match &step.progress {
            StepProgress::Completed(output) => Some((op.last, output)),
            _ => None,
        },
        _ => None,
    })
}

/// Returns how far an operation is, from the results of its steps.
fn progress(state: &State, chapter: &Chapter) -> Progress {
    if let Some(Outcome::Completed(output)) = &state.outcome
        && let Ok(progress) = output.read()
    {
        return progress;
    }
    let completed = |name| completed(state, name);
    let latest = completed("act").chain(completed("watch")).max_by_key(|(last, _)| *last);
    let mut progress = match latest.and_then(|(_, output)| output.read().ok()) {
        Some(progress) => progress,
        None => {
            let mut progress = chapter.progress.clone();
            let pages =
                completed("plan").filter_map(|(_, output)| output.read::<plan::PlannedTargets>().ok());
            progress.planned += pages.map(|page| page.runs.len() as u64).sum::<u64>();
            if progress.phase == OperationPhase::Planning
                && completed("index").next().is_some()
                && chapter.plan.is_empty()
            {
                progress.begin_acting(&chapter.spec);
            }
            progress
        }
    };
    if state.summary.status.is_terminal() {
        progress.phase = OperationPhase::Ended;
    }
    progress
}
