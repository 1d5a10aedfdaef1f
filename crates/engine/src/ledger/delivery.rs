//! The task that reports the end of a child to its parent. It is created by the append that ends the child, so that no
//! crash loses it.

use goldseam_core::id::{IdLiteral, kind};
use goldseam_core::state::Outcome;
use goldseam_core::task::{NewTask, Task};
use goldseam_core::{Command, Failure, Hash, Millis, NodeId, Payload, QueueName, RunId, TaskId};

use crate::ledger::config::QUEUE_MAIL;

fn queue() -> QueueName {
    const MAIL: IdLiteral<kind::Queue> = IdLiteral::new(QUEUE_MAIL);
    MAIL.id()
}

/// Whether this is such a task.
pub(crate) fn is_delivery(task: &Task) -> bool {
    task.queue.as_str() == QUEUE_MAIL
}

pub(crate) fn pool() -> String {
    Task::pool_of(&queue(), None)
}

pub(crate) fn delivery_id(child: &RunId) -> TaskId {
    let id = format!("d-{}", Hash::of_parts(&["deliver", child.as_str()]));
    TaskId::new(id).unwrap_or_else(|_| unreachable!("a hash is an id"))
}

/// The parent and the child of a delivery; none if the engine did not make the task.
pub(crate) fn addressed(task: &Task) -> Option<(RunId, RunId)> {
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

/// The command that reports the end of `child` to its parent.
pub(crate) fn child_ended(child: &RunId, outcome: Outcome) -> Command {
    let result = match outcome {
        Outcome::Completed(output) => Ok(output),
        Outcome::Failed(failure) => Err(failure),
        Outcome::Cancelled(reason) => Err(Failure::terminal(reason).with_code("cancelled")),
    };
    Command::ChildEnded { child: child.clone(), result }
}
