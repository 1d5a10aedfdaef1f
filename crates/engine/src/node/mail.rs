//! Telling a parent that its child has ended: a task made with the end itself, so that no crash loses it.

use goldseam_core::state::Outcome;
use goldseam_core::task::{NewTask, Task};
use goldseam_core::{Command, Failure, Hash, Millis, NodeId, Payload, QueueName, RunId, TaskId};
use goldseam_store::{Expect, TaskChange};

use super::Node;
use crate::config::QUEUE_MAIL;
use crate::error::EngineError;

fn queue() -> QueueName {
    QueueName::new(QUEUE_MAIL).unwrap_or_else(|_| unreachable!("a literal that is an id"))
}

/// Whether this is such a task.
pub(super) fn is_delivery(task: &Task) -> bool {
    task.queue.as_str() == QUEUE_MAIL
}

pub(super) fn pool() -> String {
    Task::pool_of(&queue(), None)
}

fn delivery_id(child: &RunId) -> TaskId {
    let id = format!("d-{}", Hash::of_parts(&["deliver", child.as_str()]));
    TaskId::new(id).unwrap_or_else(|_| unreachable!("a hash is an id"))
}

/// The parent and the child of a delivery; none if the engine did not make the task.
fn addressed(task: &Task) -> Option<(RunId, RunId)> {
    let child = task.run.clone().filter(|child| task.id == delivery_id(child) && task.step.is_none())?;
    let names = task.payload.read::<serde_json::Value>().ok()?;
    let parent = RunId::new(names["parent"].as_str()?).ok()?;
    Some((parent, child))
}

/// The task by which the end of `child` reaches `parent`; held by the node that will deliver it at once.
pub(crate) fn delivery_task(parent: &RunId, child: &RunId, node: Option<&NodeId>, now: Millis) -> Task {
    let names = serde_json::json!({ "parent": parent, "child": child }).to_string();
    let new = NewTask {
        id: delivery_id(child),
        kind: "deliver".to_owned(),
        queue: queue(),
        lane: None,
        priority: 0,
        key: None,
        run_at: now,
        payload: Payload::parse(&names, &goldseam_core::Limits::default())
            .unwrap_or_else(|_| Payload::null()),
        attempts_max: u32::MAX,
        silence_max: None,
    };
    let task = Task { run: Some(child.clone()), ..new.into_task(now) };
    match node {
        Some(node) => task.claimed(node.as_str(), now),
        None => task,
    }
}

/// What a parent is told about the end of `child`.
pub(crate) fn child_ended(child: &RunId, outcome: Outcome) -> Command {
    let result = match outcome {
        Outcome::Completed(output) => Ok(output),
        Outcome::Failed(failure) => Err(failure),
        Outcome::Cancelled(reason) => Err(Failure::terminal(reason).with_code("cancelled")),
    };
    Command::ChildEnded { child: child.clone(), result }
}

impl Node {
    /// Delivers the end of a child; the task goes with the delivery.
    pub(super) async fn tell_parent(&self, parent: &RunId, child: &RunId, outcome: Outcome) {
        let told = child_ended(child, outcome);
        let done = vec![TaskChange::Remove { task: delivery_id(child) }];
        match self.ledger.commit_with(parent, &told, done).await {
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
