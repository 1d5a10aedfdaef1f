//! The targets of an operation: found once, and read back from its log.

use std::sync::Arc;

use goldseam_core::operation::{Chapter, PlanPage, is_operation};
use goldseam_core::{Corrupt, Event, Millis, Path, RunId, StepName, codec};
use goldseam_store::{Page, Row, RunFilter, RunOrder};
use serde::{Deserialize, Serialize};

use super::OperationWorker;
use crate::ledger::error::EngineError;
use crate::run::context::Context;

/// Most targets in a page of the plan. An id has at most 128 bytes, so a page fits into any payload limit.
const PAGE: u32 = 500;

/// A page of the plan: the result of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PlannedTargets {
    /// The targets, earliest queued first.
    pub(super) runs: Vec<RunId>,
    /// Where the plan continues; none: it is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
    /// Unreadable rows that were left out.
    #[serde(default)]
    pub(super) unreadable: u64,
}

impl OperationWorker {
    /// Finds the next targets. Runs that were queued after the operation began, and operations, are no targets.
    pub(super) async fn plan(
        &self,
        mut cursor: Option<String>,
        begun_at: Millis,
    ) -> Result<PlannedTargets, EngineError> {
        let mut planned = PlannedTargets { runs: Vec::new(), next: None, unreadable: 0 };
        loop {
            let left = PAGE.saturating_sub(u32::try_from(planned.runs.len()).unwrap_or(PAGE));
            let filter = RunFilter {
                condition: Some(Arc::clone(&self.condition)),
                order: RunOrder::Oldest,
                after: cursor,
                limit: left,
                ..RunFilter::default()
            };
            let Page { items, next, unreadable } = self.client.store().runs(filter).await?;
            planned.unreadable += unreadable.len() as u64;
            let is_target =
                |row: &Row| row.summary.created_at <= begun_at && !is_operation(&row.summary.workflow);
            planned.runs.extend(items.into_iter().filter(is_target).map(|row| row.summary.run));
            cursor = next;
            if cursor.is_none() || planned.runs.len() >= PAGE as usize {
                planned.next = cursor;
                return Ok(planned);
            }
        }
    }

    /// Reads targets from the log of the operation, from `position` on, at most `most` and at most to the end of a page.
    pub(super) async fn targets(
        &self,
        chapter: &Chapter,
        position: u64,
        most: usize,
    ) -> Result<Vec<RunId>, EngineError> {
        let Some((page, place)) = chapter.place(position) else { return Ok(Vec::new()) };
        let corrupt = |corrupt: Corrupt| EngineError::Corrupt { run: self.operation.clone(), corrupt };
        let records = self.client.store().read(&self.operation, page.at.before(), 1).await?;
        let missing = || corrupt(Corrupt::new(page.at, "the page of the plan is missing"));
        let record = records.first().filter(|record| record.seq == page.at).ok_or_else(missing)?;
        let recorded = codec::decode(record.seq, &record.body).map_err(corrupt)?;
        let planned = match &recorded.event {
            Event::StepCompleted(step) => step.output.read::<PlannedTargets>().ok(),
            _ => None,
        };
        let planned = planned.ok_or_else(missing)?;
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        Ok(planned.runs.into_iter().skip(place).take(most).collect())
    }
}

/// Returns where the log has the pages of this chapter. Called in a step, so all of them are durable.
pub(super) fn index(ctx: &Context, pages: u32) -> Vec<PlanPage> {
    let inner = ctx.live.lock();
    let name = StepName::new("plan").unwrap_or_else(|_| unreachable!("the name is valid"));
    let page = |count: u32| {
        let op = inner.state.ops.get(&Path::root().child(&name, None, count))?;
        let goldseam_core::state::OpKind::Step(step) = &op.kind else { return None };
        let goldseam_core::state::StepProgress::Completed(output) = &step.progress else { return None };
        let count = output.read::<PlannedTargets>().map_or(0, |planned| planned.runs.len() as u64);
        Some(PlanPage { at: op.last, count })
    };
    (1..=pages).filter_map(page).collect()
}
