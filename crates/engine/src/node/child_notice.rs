//! Reports the end of a child to its parent.

use goldseam_core::RunId;
use goldseam_core::delivery::{addressed, child_ended, delivery_id};
use goldseam_core::state::Outcome;
use goldseam_core::task::Task;
use goldseam_store::{Expect, TaskChange};

use super::Node;
use crate::ledger::commit::With;
use crate::ledger::error::EngineError;

impl Node {
    /// Delivers the end of a child to its parent; the same append removes the task.
    pub(super) async fn notify_parent(&self, parent: &RunId, child: &RunId, outcome: Outcome) {
        let notice = child_ended(child, outcome);
        let done = vec![TaskChange::Remove { task: delivery_id(child) }];
        match self.ledger.commit_on(None, parent, &notice, With { extra: done, ..With::default() }).await {
            Ok(committed) if !committed.records.is_empty() => {}
            Ok(_) | Err(EngineError::Refused { .. }) => self.drop_delivery(child).await,
            Err(error) => {
                tracing::warn!(%parent, %child, %error, "failed to deliver the end of a child; will be retried");
            }
        }
    }

    /// Cancels a delivery that the parent no longer needs.
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

    /// Makes a delivery that another node failed to make. Cancels a task in this queue that is not a delivery.
    pub(super) async fn deliver(&self, task: Task) {
        let Some((parent, child)) = addressed(&task) else {
            tracing::warn!(task = %task.id, "cancelled a task in the delivery queue that is not a delivery");
            let expect = Expect::Version(task.version);
            let now = self.ledger.clock.now();
            if let Ok(over) = task.cancelled(now) {
                let _ = self.ledger.store.put_task(over, expect).await;
            }
            return;
        };
        match self.ledger.outcome(&child).await {
            Ok(Some(outcome)) => self.notify_parent(&parent, &child, outcome).await,
            Ok(None) => self.drop_delivery(&child).await,
            Err(error) => tracing::warn!(%child, %error, "failed to read an ended child"),
        }
    }
}
