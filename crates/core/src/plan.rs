//! The tasks that go with an append: pure functions of a decision.

use crate::decide::{Decision, TaskMove};
use crate::delivery::delivery_task;
use crate::id::{NodeId, TaskId};
use crate::payload::Payload;
use crate::seal::Sealed;
use crate::summary::Summary;
use crate::task::{NewTask, Task};
use crate::time::Millis;

/// A change of a task together with an append. Rules repair a lost change, so a change never fails the append.
#[derive(Debug, Clone, PartialEq)]
pub enum TaskChange {
    /// Creates a task, unless a task with the same id exists, a live one with the same key, or, if the task is
    /// claimed, another claimed one in the same lane. An advance task becomes the run's own, if the run has a row.
    Create(Box<Task>),
    /// Makes the task ready at `run_at`, without an owner. Ignored if the task has ended or does not exist.
    Rest {
        /// The task.
        task: TaskId,
        /// When it is due.
        run_at: Millis,
    },
    /// Makes the run's own task due at `at` if it is ready and due later; pokes the claimant if it is claimed.
    Wake {
        /// When it is due.
        at: Millis,
    },
    /// Cancels the task. Ignored if it has ended or does not exist.
    Cancel {
        /// The task.
        task: TaskId,
    },
    /// Deletes the task.
    Remove {
        /// The task.
        task: TaskId,
    },
}

/// What a plan of tasks depends on, besides the decision and the row.
#[derive(Debug, Clone, Copy)]
pub struct PlanBasis<'a> {
    /// The advance task that the run had.
    pub task: Option<&'a TaskId>,
    /// When the row was last written.
    pub updated_at: Millis,
    /// The node that reports the end of a child to the parent at once.
    pub node: Option<&'a NodeId>,
    /// The time of the append.
    pub now: Millis,
}

/// The changes of tasks that go with an append.
#[derive(Debug, Default)]
pub struct Planned {
    /// The changes, in order.
    pub tasks: Vec<TaskChange>,
    /// The new advance task, if there is one.
    pub advance: Option<TaskId>,
}

/// Returns the changes of tasks for a decision: tasks of remote steps, the advance task, and the report of a child's
/// end. `row` is the row after the append.
pub fn plan_tasks(decision: &Decision, sealed: &Sealed, row: &Summary, basis: PlanBasis<'_>) -> Planned {
    let mut planned = Planned::default();
    // Creations first: one append may create and cancel the same task.
    planned.tasks.extend(decision.handed.iter().map(|task| TaskChange::Create(Box::new(task.clone()))));
    planned.tasks.extend(decision.dropped.iter().map(|task| TaskChange::Cancel { task: task.clone() }));
    planned.plan_advance(row, decision.task, basis);
    let report = report_to_parent(row, sealed, basis.node, basis.now);
    planned.tasks.extend(report.map(|task| TaskChange::Create(Box::new(task))));
    planned
}

impl Planned {
    fn plan_advance(&mut self, row: &Summary, task: TaskMove, basis: PlanBasis<'_>) {
        let PlanBasis { task: old, updated_at, now, .. } = basis;
        let remove = |tasks: &mut Vec<TaskChange>| {
            tasks.extend(old.map(|id| TaskChange::Remove { task: id.clone() }));
        };
        match task {
            TaskMove::Keep => {}
            TaskMove::Wake => self.tasks.push(TaskChange::Wake { at: now }),
            TaskMove::Rest(run_at) => {
                self.tasks.extend(old.map(|id| TaskChange::Rest { task: id.clone(), run_at }));
            }
            TaskMove::Remove => remove(&mut self.tasks),
            TaskMove::Renew(run_at) => {
                remove(&mut self.tasks);
                let key = Some(format!("{}:advance:{}", row.run, updated_at.0));
                self.create_advance(Task { run_at, key, ..advance_task(row, now) });
            }
            TaskMove::Ready => {
                remove(&mut self.tasks);
                self.create_advance(advance_task(row, now));
            }
            TaskMove::Held => {
                remove(&mut self.tasks);
                let ready = advance_task(row, now);
                self.create_advance(match &row.owner {
                    Some(owner) => ready.claimed(owner.as_str(), now),
                    None => ready,
                });
            }
        }
    }

    fn create_advance(&mut self, task: Task) {
        self.advance = Some(task.id.clone());
        self.tasks.push(TaskChange::Create(Box::new(task)));
    }
}

/// Returns the task that reports the end of a child to its parent, if this append ends a child.
pub fn report_to_parent(row: &Summary, sealed: &Sealed, node: Option<&NodeId>, now: Millis) -> Option<Task> {
    let parent = row.parent.as_ref()?;
    let ended = sealed.records.iter().any(|recorded| recorded.event.is_terminal());
    ended.then(|| delivery_task(parent, &row.run, node, now))
}

/// Returns a new advance task for the run, ready now or when its delayed start is due.
fn advance_task(row: &Summary, now: Millis) -> Task {
    let new = NewTask {
        id: Task::advance_id(&row.run, row.as_of.0),
        kind: Task::advance_kind(row.workflow.as_str(), row.version),
        queue: row.queue.clone(),
        lane: row.lane.clone(),
        priority: row.priority,
        key: None,
        run_at: row.ready_at(now),
        payload: Payload::null(),
        attempts_max: 1,
        silence_max: None,
    };
    Task { run: Some(row.run.clone()), ..new.into_task(now) }
}
