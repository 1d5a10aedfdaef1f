//! Deadlines and lanes in an explanation.

use goldseam_core::task::Task;

use super::{ExplainedRun, Link};
use crate::ledger::error::EngineError;

impl ExplainedRun<'_> {
    /// When the run times out, if it has a deadline.
    pub(super) fn deadline(&self) -> Option<Link> {
        let summary = &self.state.summary;
        let deadline = summary.times_out_at()?;
        let what = match deadline <= self.liveness.now {
            true => "its deadline has passed; the next node that claims it, or the next sweep, ends it",
            false => "it times out at its deadline",
        };
        Some(self.link(what.to_owned(), None, Some(deadline)))
    }

    /// Which run or task holds the lane that the run waits for.
    pub(super) async fn lane(&self, task: &Task) -> Result<Link, EngineError> {
        let queue = &task.queue;
        let Some(lane) = &task.lane else {
            return Ok(self.link(format!("its task is ready in queue {queue}"), Some(task.changed_at), None));
        };
        let Some(holder) = self.healer.holder_of_lane(lane).await? else {
            let what = format!(
                "its task is ready in queue {queue}, and lane {lane} is free: a node will claim it soon"
            );
            return Ok(self.link(what, Some(task.changed_at), None));
        };
        let who = match &holder.run {
            Some(run) if holder.is_advance() => format!("run {run}"),
            Some(run) => format!("task {} of run {run}", holder.id),
            None => format!("task {}", holder.id),
        };
        Ok(self.link(format!("its task waits for lane {lane}, which {who} holds"), holder.started_at, None))
    }
}
