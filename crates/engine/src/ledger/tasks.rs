//! Task writes that are not part of an append: submits and changes, by compare-and-set.

use goldseam_core::task::{AuditHeal, NewTask, Task};
use goldseam_store::{Expect, Written};

use crate::ledger::commit::Ledger;
use crate::ledger::error::EngineError;
use crate::ledger::retry::{self, Retries};

impl Ledger {
    /// Submits a task. Returns the live task with the same key, if one exists.
    pub(crate) async fn submit_task(&self, new: NewTask) -> Result<Task, EngineError> {
        new.check()?;
        let task = new.into_task(self.store.now().await?);
        self.create_task(task).await
    }

    /// Submits the task that heals a foreign state, with its audit entry in the same write.
    pub(crate) async fn submit_healing(
        &self,
        new: NewTask,
        what: String,
        heal: AuditHeal,
    ) -> Result<Task, EngineError> {
        new.check()?;
        let task = new.into_task(self.store.now().await?).healing(what, heal);
        self.create_task(task).await
    }

    async fn create_task(&self, task: Task) -> Result<Task, EngineError> {
        match self.put_task(task.clone(), Expect::Absent).await? {
            Written::Done => {
                self.process.task_ready();
                Ok(task)
            }
            Written::Lost(Some(other)) => Ok(other),
            Written::Lost(None) => Ok(task),
        }
    }

    /// Writes a task if it is still as expected. Retries a few times while the store fails.
    pub(crate) async fn put_task(&self, task: Task, expect: Expect) -> Result<Written<Task>, EngineError> {
        let put = |task| self.store.put_task(task, expect);
        Ok(retry::write(&task, Retries::standard(), put).await?)
    }
}
