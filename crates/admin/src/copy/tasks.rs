//! The copying of tasks: those of users with their whole records, and those of the engine.

use goldseam_core::task::{Task, TaskState};
use goldseam_store::{Expect, Written};

use super::Copier;
use super::concurrent::each;
use super::report::{CopyFinding, CopyProgress, CopyReport, CopyStage, RecordFate, RecordName};
use super::session::Session;
use super::side::{TaskPages, count};
use goldseam_engine::ledger::error::EngineError;

/// The task as it starts at the destination. A task of a node is ready again, without a counted delivery, because
/// nodes are not copied. Any other claimant may continue with its task there, under the same fence, except in a backup.
pub(super) fn carried(task: Task, session: &Session) -> Task {
    let by_node = task.owner.as_deref().is_some_and(|owner| session.is_node(owner));
    match task.state == TaskState::Claimed {
        true if session.ends_claims() => task.taken_back("its store was restored", session.at()),
        true if by_node => task.taken_back("its store was copied without its node", session.at()),
        _ => task,
    }
}

impl Copier {
    pub(super) async fn carry_tasks(
        &self,
        session: &Session,
        report: &mut CopyReport,
    ) -> Result<(), EngineError> {
        self.must_be_ours(session).await?;
        let total = if session.cut().is_some() { 0 } else { count(TaskPages::of(&self.from)).await? };
        let mut done = 0;
        // Only if runs were left behind can a task belong to a run that the destination lacks.
        let check_run = report.runs.left_behind > 0;
        let carry = |task: Task| {
            let copier = self.clone();
            let session = session.clone();
            async move {
                match copier.is_of_backup(&session, &task).await? {
                    true => copier.carry_task(&session, task, check_run).await.map(Some),
                    false => Ok(None),
                }
            }
        };
        each(TaskPages::of(&self.from), carry, |fate: Option<RecordFate>| {
            let Some(fate) = fate else { return };
            if let Some(finding) = fate.count(&mut report.tasks) {
                report.find(finding);
            }
            done += 1;
            self.report_progress(CopyProgress { stage: CopyStage::Tasks, done, total });
        })
        .await?;
        if !session.is_dry() {
            // They were created by this copy.
            let along = report.brought_along.min(report.tasks.there);
            report.tasks.there -= along;
            report.tasks.copied += along;
        }
        Ok(())
    }

    /// Whether a backup keeps the task: it is not younger than the cut, and neither is its run. Advance tasks come
    /// with their runs.
    async fn is_of_backup(&self, session: &Session, task: &Task) -> Result<bool, EngineError> {
        match (session.cut(), &task.run) {
            (None, _) => Ok(true),
            (Some(cut), _) if task.created_at > cut || task.is_advance() => Ok(false),
            (Some(_), None) => Ok(true),
            (Some(_), Some(run)) => Ok(self.to.head(run).await?.is_some()),
        }
    }

    async fn carry_task(
        &self,
        session: &Session,
        task: Task,
        check_run: bool,
    ) -> Result<RecordFate, EngineError> {
        let task = carried(task, session);
        if check_run
            && let Some(run) = &task.run
            && !self.is_like(run).await?
        {
            return Ok(left(&task, format!("its run {run} is left behind")));
        }
        let found = match session.is_dry() {
            true => self.to.task(&task.id).await?,
            false => match self.put_task(&task, Expect::Absent).await? {
                Written::Done => return Ok(RecordFate::Copied),
                Written::Lost(found) => found,
            },
        };
        match found {
            Some(found) if found == task => Ok(RecordFate::There),
            // Only this copy has written here, so it is an earlier version of the same task.
            Some(found) if !session.merges() && found.id == task.id && found.version < task.version => {
                if session.is_dry() {
                    return Ok(RecordFate::Copied);
                }
                match self.put_task(&task, Expect::Version(found.version)).await? {
                    Written::Done => Ok(RecordFate::Copied),
                    Written::Lost(Some(found)) if found == task => Ok(RecordFate::There),
                    Written::Lost(_) => {
                        Ok(left(&task, "another process writes it at the destination".to_owned()))
                    }
                }
            }
            None if session.is_dry() => Ok(RecordFate::Copied),
            None => Ok(left(&task, "it was removed again at the destination".to_owned())),
            Some(found) if found.id == task.id => {
                Ok(left(&task, "another task at the destination has its id".to_owned()))
            }
            Some(rival) => {
                Ok(left(&task, format!("task {} at the destination has its key or its lane", rival.id)))
            }
        }
    }

    async fn put_task(&self, task: &Task, expect: Expect) -> Result<Written<Task>, EngineError> {
        self.to.ask("writing a task", || self.to.store().put_task(task.clone(), expect)).await
    }

    /// Whether the destination has the task as expected.
    pub(super) async fn has_task(&self, session: &Session, task: Task) -> Result<bool, EngineError> {
        let task = carried(task, session);
        Ok(self.to.task(&task.id).await?.as_ref() == Some(&task))
    }
}

fn left(task: &Task, what: String) -> RecordFate {
    RecordFate::LeftBehind(CopyFinding::new("GS0403", RecordName::task(&task.id), what))
}
