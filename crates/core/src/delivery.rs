//! The task that reports the end of a child to its parent. It is created by the append that ends the child, so that no
//! crash loses it.

use crate::command::Command;
use crate::error::Failure;
use crate::hash::Hash;
use crate::id::{IdLiteral, NodeId, QueueName, RunId, TaskId, kind};
use crate::limits::Limits;
use crate::payload::Payload;
use crate::reserved::EngineTask;
use crate::state::Outcome;
use crate::task::{NewTask, Task};
use crate::time::Millis;

/// The queue of these tasks.
pub const QUEUE_MAIL: &str = "goldseam-mail";

fn queue() -> QueueName {
    const MAIL: IdLiteral<kind::Queue> = IdLiteral::new(QUEUE_MAIL);
    MAIL.id()
}

/// Returns whether this is such a task.
pub fn is_delivery(task: &Task) -> bool {
    task.queue.as_str() == QUEUE_MAIL
}

/// Returns the pool of these tasks.
pub fn pool() -> String {
    Task::pool_of(&queue(), None)
}

/// Returns the id of the task that reports the end of `child`.
pub fn delivery_id(child: &RunId) -> TaskId {
    EngineTask::Delivery.id(Hash::of_parts(&["deliver", child.as_str()]))
}

/// Returns the parent and the child of a delivery; none if the engine did not make the task.
pub fn addressed(task: &Task) -> Option<(RunId, RunId)> {
    let child = task.run.clone().filter(|child| task.id == delivery_id(child) && task.step.is_none())?;
    let names = task.payload.read::<serde_json::Value>().ok()?;
    let parent = RunId::new(names["parent"].as_str()?).ok()?;
    Some((parent, child))
}

/// Returns the task by which the end of `child` reaches `parent`; held by the node that will deliver it at once.
pub fn delivery_task(parent: &RunId, child: &RunId, node: Option<&NodeId>, now: Millis) -> Task {
    let names = serde_json::json!({ "parent": parent, "child": child }).to_string();
    let new = NewTask {
        id: delivery_id(child),
        kind: "deliver".to_owned(),
        queue: queue(),
        lane: None,
        priority: 0,
        key: None,
        run_at: now,
        payload: Payload::parse(&names, &Limits::default()).unwrap_or_else(|_| Payload::null()),
        attempts_max: u32::MAX,
        silence_max: None,
    };
    let task = Task { run: Some(child.clone()), ..new.into_task(now) };
    match node {
        Some(node) => task.claimed(node.as_str(), now),
        None => task,
    }
}

/// Returns the command that reports the end of `child` to its parent.
pub fn child_ended(child: &RunId, outcome: Outcome) -> Command {
    let result = match outcome {
        Outcome::Completed(output) => Ok(output),
        Outcome::Failed(failure) => Err(failure),
        Outcome::Cancelled(reason) => Err(Failure::terminal(reason).with_code("cancelled")),
    };
    Command::ChildEnded { child: child.clone(), result }
}
