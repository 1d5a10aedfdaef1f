//! Reports the end of a child to its parent.

use goldseam_core::RunId;
use goldseam_core::state::Outcome;
use goldseam_core::task::Task;
use goldseam_store::{Expect, TaskChange};

use super::Node;
use crate::ledger::commit::With;
use crate::ledger::delivery::{addressed, child_ended, delivery_id};
use crate::ledger::error::EngineError;

impl Node {
    /// Delivers the end of a child; the task goes with the delivery.
    pub(super) async fn tell_parent(&self, parent: &RunId, child: &RunId, outcome: Outcome) {
        let told = child_ended(child, outcome);
        let done = vec![TaskChange::Remove { task: delivery_id(child) }];
        match self.ledger.commit_on(None, parent, &told, With { extra: done, ..With::default() }).await {
            Ok(committed) if !committed.records.is_empty() => {}
            Ok(_) | Err(EngineError::Refused { .. }) => self.drop_delivery(child).await,
            Err(error) => tracing::warn!(%parent, %child, %error, "a child's end could not be delivered yet"),
        }
    }

    /// The parent is over or gone: nobody needs to be told.
    async fn drop_delivery(&self, child: &RunId) {
        let filter =
            goldseam_store::TaskFilter { id: Some(delivery_id(child)), limit: 1, ..Default::default() };
        let Ok(found) = self.ledger.store.tasks(filter).await else { return };
        for task in found {
            let expect = Expect::Version(task.version);
            if let Ok(over) = task.cancelled(self.ledger.clock.now()) {
                let _ = self.ledger.store.put_task(over, expect).await;
            }
        }
    }

    /// A delivery that some node could not make. A task that the engine did not make delivers nothing and is cancelled.
    pub(super) async fn deliver(&self, task: Task) {
        let Some((parent, child)) = addressed(&task) else {
            tracing::warn!(task = %task.id, "cancelled a task in the engine's mail that is not a delivery");
            let (expect, now) = (Expect::Version(task.version), self.ledger.clock.now());
            if let Ok(over) = task.cancelled(now) {
                let _ = self.ledger.store.put_task(over, expect).await;
            }
            return;
        };
        match self.ledger.outcome(&child).await {
            Ok(Some(outcome)) => self.tell_parent(&parent, &child, outcome).await,
            Ok(None) => self.drop_delivery(&child).await,
            Err(error) => tracing::warn!(%child, %error, "a child that ended could not be read"),
        }
    }
}
