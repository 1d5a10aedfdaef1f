//! What the cases are made of: ids, appends, rows and tasks with nothing unusual about them.

use std::sync::Arc;

use goldseam_core::task::{NewTask, Task};
use goldseam_core::{
    BranchId, Hash, LaneName, Millis, Payload, QueueName, RunId, Seq, Status, Summary, TaskId, WorkflowName,
};

use super::Fixture;
use crate::api::{
    Append, Claim, ClaimedTasks, Expect, Head, Record, Row, Store, TaskChange, TaskFilter, Written,
};

/// The moment around which the cases play.
pub const T: Millis = crate::clock::ManualClock::START;
/// The queue of the cases.
pub const QUEUE: &str = "main";
/// More than any case holds.
pub const ALL: u32 = 100_000;

/// `T` and so many milliseconds.
pub fn at(millis: i64) -> Millis {
    Millis(T.0 + millis)
}

/// The run of this name.
pub fn run(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

/// The task of this name.
pub fn task_id(name: &str) -> TaskId {
    TaskId::new(name).unwrap()
}

/// An append of these texts and nothing else.
pub fn append(name: &str, after: u64, bodies: &[&str]) -> Append {
    let bodies = bodies.iter().map(|body| (*body).to_owned()).collect();
    Append { run: run(name), after: Seq(after), bodies, row: None, tasks: vec![] }
}

/// An append of one event with the row that follows from it.
pub fn append_with_row(name: &str, after: u64) -> Append {
    let row = summary(name, after + 1);
    Append { row: Some(Box::new(row)), ..append(name, after, &["{}"]) }
}

/// An append of one event with these changes of tasks.
pub fn append_with(name: &str, after: u64, tasks: Vec<TaskChange>) -> Append {
    Append { tasks, ..append(name, after, &["{}"]) }
}

/// A row that says nothing unusual.
pub fn summary(name: &str, as_of: u64) -> Summary {
    Summary {
        run: run(name),
        workflow: WorkflowName::new("checkout").unwrap(),
        version: 1,
        initial_version: 1,
        status: Status::Queued,
        queue: QueueName::new(QUEUE).unwrap(),
        priority: 0,
        tags: Default::default(),
        parent: None,
        input_hash: Hash::ZERO,
        created_at: T,
        last_event_at: T,
        finished_at: None,
        as_of: Seq(as_of),
        head: Hash::ZERO,
        base: Seq(1),
        bytes: Some(2),
        branch: BranchId::ROOT,
        epoch: Seq::ZERO,
        owner: None,
        started: false,
        attempt: 0,
        claimed_at: None,
        alone: false,
        under_way: Vec::new(),
        recovery: None,
        lived_ms: None,
        recoveries: 0,
        recovered_at: None,
        paused: false,
        cancel: None,
        cancel_asked: None,
        jump: None,
        compensating: false,
        parked: false,
        waits: vec![],
        inputs: vec![],
        cut_off: vec![],
        mail_ids: vec![],
        mail_count: 0,
        mail_unread: 0,
        steps: 0,
        step: None,
        trouble: None,
        terminated: false,
        pruned: None,
    }
}

/// A user's task, due at `T`.
pub fn task(name: &str) -> Task {
    let new = NewTask {
        id: task_id(name),
        kind: "mail".to_owned(),
        queue: QueueName::new(QUEUE).unwrap(),
        lane: None,
        priority: 0,
        key: None,
        run_at: T,
        payload: Payload::null(),
        attempts_max: 3,
        silence_max: None,
    };
    new.into_task(T)
}

/// A user's task in this lane.
pub fn task_in(lane: &str, name: &str) -> Task {
    Task { lane: Some(LaneName::new(lane).unwrap()), ..task(name) }
}

/// The advance task of a run of `checkout`, due at `T`.
pub fn advance(run_name: &str, name: &str) -> Task {
    Task { kind: Task::advance_kind("checkout", 1), run: Some(run(run_name)), ..task(name) }
}

/// The pool of [`advance`] tasks.
pub fn advance_pool() -> String {
    advance("r", "t").pool()
}

/// The change that puts this task there.
pub fn create(task: Task) -> TaskChange {
    TaskChange::Create(Box::new(task))
}

/// A claim of everything that is due in the common queue at `now`.
pub fn claim_at(now: Millis) -> Claim {
    Claim {
        owner: "n1".to_owned(),
        pools: vec![QUEUE.to_owned(), advance_pool()],
        kind: None,
        limit: ALL,
        now,
    }
}

/// Tasks without any condition.
pub fn any_task() -> TaskFilter {
    TaskFilter { limit: ALL, ..TaskFilter::default() }
}

/// The names of these tasks.
pub fn names(tasks: &[Task]) -> Vec<&str> {
    tasks.iter().map(|task| task.id.as_str()).collect()
}

/// What the cases do over and over, with no outcome but the expected one.
impl Fixture {
    /// The store, for a spawned task.
    pub fn shared(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// Appends.
    pub async fn append(&self, append: Append) -> Seq {
        self.store.append(append).await.unwrap()
    }

    /// The whole log.
    pub async fn log(&self, name: &str) -> Vec<Record> {
        self.store.read(&run(name), Seq::ZERO, ALL).await.unwrap()
    }

    /// The head of a run that is there.
    pub async fn head(&self, name: &str) -> Head {
        self.store.head(&run(name)).await.unwrap().unwrap()
    }

    /// The row of a run that has one.
    pub async fn row(&self, name: &str) -> Row {
        self.head(name).await.row.unwrap()
    }

    /// A new task.
    pub async fn submit(&self, task: Task) {
        assert_eq!(self.store.put_task(task, Expect::Absent).await.unwrap(), Written::Done);
    }

    /// Replaces a task that is at `version`.
    pub async fn replace(&self, task: Task, version: u64) {
        assert_eq!(self.store.put_task(task, Expect::Version(version)).await.unwrap(), Written::Done);
    }

    /// The task of this name, if it is there.
    pub async fn find(&self, name: &str) -> Option<Task> {
        let filter = TaskFilter { id: Some(task_id(name)), ..any_task() };
        self.store.tasks(filter).await.unwrap().pop()
    }

    /// The task of this name.
    pub async fn task(&self, name: &str) -> Task {
        self.find(name).await.unwrap()
    }

    /// Claims everything that is due in the common queue.
    pub async fn claim(&self, now: Millis) -> ClaimedTasks {
        self.store.claim(claim_at(now)).await.unwrap()
    }
}
