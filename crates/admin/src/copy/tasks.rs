//! Tasks: users' own with everything that is in their records, and the engine's.

use goldseam_core::task::{Task, TaskState};
use goldseam_store::{Expect, Written};

use super::Copier;
use super::crew::each;
use super::report::{CopyFinding, CopyReport, Fate, Progress, Stage};
use super::session::Session;
use super::side::{Tasks, count};
use goldseam_engine::ledger::error::EngineError;

/// The task as it begins at the destination. Nodes do not come along: what one of them had is ready again, and
/// nothing is charged for it. Whoever else has a task may go on with it there, under the same fence.
pub(super) fn carried(task: Task, session: &Session) -> Task {
    let by_node = task.owner.as_deref().is_some_and(|owner| session.is_node(owner));
    match task.state == TaskState::Claimed && by_node {
        true => task.taken_back("its store was copied, and its node did not come along", session.at()),
        false => task,
    }
}

impl Copier {
    pub(super) async fn carry_tasks(
        &self,
        session: &Session,
        report: &mut CopyReport,
    ) -> Result<(), EngineError> {
        self.must_be_ours(session).await?;
        let (total, mut done) = (count(Tasks::of(&self.from)).await?, 0);
        // Only then can a task belong to a run that is not at the destination.
        let doubt = report.runs.left_behind > 0;
        let carry = |task: Task| {
            let (copier, session) = (self.clone(), session.clone());
            async move { copier.carry_task(&session, task, doubt).await }
        };
        each(Tasks::of(&self.from), carry, |fate: Fate| {
            if let Some(finding) = fate.count(&mut report.tasks) {
                report.find(finding);
            }
            done += 1;
            self.tell(Progress { stage: Stage::Tasks, done, total });
        })
        .await?;
        if !session.is_dry() {
            // They were not there before this copy.
            let along = report.brought_along.min(report.tasks.there);
            report.tasks.there -= along;
            report.tasks.copied += along;
        }
        Ok(())
    }

    async fn carry_task(&self, session: &Session, task: Task, doubt: bool) -> Result<Fate, EngineError> {
        let task = carried(task, session);
        if doubt
            && let Some(run) = &task.run
            && !self.is_like(run).await?
        {
            return Ok(left(&task, format!("its run {run} stays behind")));
        }
        let found = match session.is_dry() {
            true => self.to.task(&task.id).await?,
            false => match self.put_task(&task, Expect::Absent).await? {
                Written::Done => return Ok(Fate::Copied),
                Written::Lost(found) => found,
            },
        };
        match found {
            Some(found) if found == task => Ok(Fate::There),
            // Nothing but this copy has written here, so it is the same task as it was some time ago.
            Some(found) if !session.merges() && found.id == task.id && found.version < task.version => {
                if session.is_dry() {
                    return Ok(Fate::Copied);
                }
                match self.put_task(&task, Expect::Version(found.version)).await? {
                    Written::Done => Ok(Fate::Copied),
                    Written::Lost(Some(found)) if found == task => Ok(Fate::There),
                    Written::Lost(_) => Ok(left(&task, "somebody else writes it there".to_owned())),
                }
            }
            None if session.is_dry() => Ok(Fate::Copied),
            None => Ok(left(&task, "it is gone again there".to_owned())),
            Some(found) if found.id == task.id => Ok(left(&task, "another task has its id there".to_owned())),
            Some(rival) => Ok(left(&task, format!("task {} has its key or its lane there", rival.id))),
        }
    }

    async fn put_task(&self, task: &Task, expect: Expect) -> Result<Written<Task>, EngineError> {
        self.to.ask("writing a task", || self.to.store().put_task(task.clone(), expect)).await
    }

    /// Whether the destination has the task as it must be.
    pub(super) async fn has_task(&self, session: &Session, task: Task) -> Result<bool, EngineError> {
        let task = carried(task, session);
        Ok(self.to.task(&task.id).await?.as_ref() == Some(&task))
    }
}

fn left(task: &Task, what: String) -> Fate {
    Fate::LeftBehind(CopyFinding::new("GS0403", ("task", task.id.as_str()), what))
}
