//! Building blocks of the cases: ordinary ids, appends, rows and tasks.

use std::sync::Arc;

use goldseam_core::task::{NewTask, Task};
use goldseam_core::{
    BranchId, Hash, LaneName, Millis, Payload, QueueName, RunId, Seq, Status, Summary, TaskId, WorkflowName,
};
use goldseam_store::api::{
    Append, ClaimRequest, ClaimedTasks, Expect, Head, Record, Row, Store, TaskChange, TaskFilter, Written,
};

use super::Fixture;

/// The base time of the cases.
pub const T: Millis = goldseam_store::clock::ManualClock::START;
/// The queue of the cases.
pub const QUEUE: &str = "main";
/// A limit that no case reaches.
pub const ALL: u32 = 100_000;

/// Returns `T` plus `millis`.
pub fn at(millis: i64) -> Millis {
    Millis(T.0 + millis)
}

/// Returns the id of a run.
pub fn run(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

/// Returns the id of a task.
pub fn task_id(name: &str) -> TaskId {
    TaskId::new(name).unwrap()
}

/// Returns an append of these texts only.
pub fn append(name: &str, after: u64, bodies: &[&str]) -> Append {
    let bodies = bodies.iter().map(|body| (*body).to_owned()).collect();
    Append { run: run(name), after: Seq(after), bodies, row: None, tasks: vec![] }
}

/// Returns an append of one event with the matching row.
pub fn append_with_row(name: &str, after: u64) -> Append {
    let row = summary(name, after + 1);
    Append { row: Some(Box::new(row)), ..append(name, after, &["{}"]) }
}

/// Returns an append of one event with these changes of tasks.
pub fn append_with(name: &str, after: u64, tasks: Vec<TaskChange>) -> Append {
    Append { tasks, ..append(name, after, &["{}"]) }
}

/// Returns an ordinary row.
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
        attributes: Default::default(),
        attributes_at: None,
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
        lane: None,
        start_at: None,
        deadline: None,
        timed_out: false,
        published: Default::default(),
        answered: vec![],
        steps: 0,
        step: None,
        failed_step: None,
        trouble: None,
        terminated: false,
        pruned: None,
    }
}

/// Returns a user's task, due at `T`.
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

/// Returns a user's task in this lane.
pub fn task_in(lane: &str, name: &str) -> Task {
    Task { lane: Some(LaneName::new(lane).unwrap()), ..task(name) }
}

/// Returns the advance task of a run of `checkout`, due at `T`.
pub fn advance(run_name: &str, name: &str) -> Task {
    Task { kind: Task::advance_kind("checkout", 1), run: Some(run(run_name)), ..task(name) }
}

/// Returns the pool of [`advance`] tasks.
pub fn advance_pool() -> String {
    advance("r", "t").pool()
}

/// Returns the change that creates this task.
pub fn create(task: Task) -> TaskChange {
    TaskChange::Create(Box::new(task))
}

/// Returns a claim of everything that is due in the common queue at `now`.
pub fn claim_at(now: Millis) -> ClaimRequest {
    ClaimRequest {
        owner: "n1".to_owned(),
        pools: vec![QUEUE.to_owned(), advance_pool()],
        kind: None,
        limit: ALL,
        now,
    }
}

/// Returns a filter that selects all tasks.
pub fn any_task() -> TaskFilter {
    TaskFilter { limit: ALL, ..TaskFilter::default() }
}

/// Returns the names of these tasks.
pub fn names(tasks: &[Task]) -> Vec<&str> {
    tasks.iter().map(|task| task.id.as_str()).collect()
}

/// Calls with only the expected outcome.
impl Fixture {
    /// Returns the store, for a spawned task.
    pub fn shared(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// Appends.
    pub async fn append(&self, append: Append) -> Seq {
        self.store.append(append).await.unwrap()
    }

    /// Returns the whole log.
    pub async fn log(&self, name: &str) -> Vec<Record> {
        self.store.read(&run(name), Seq::ZERO, ALL).await.unwrap()
    }

    /// Returns the head of an existing run.
    pub async fn head(&self, name: &str) -> Head {
        self.store.head(&run(name)).await.unwrap().unwrap()
    }

    /// Returns the row of a run that has one.
    pub async fn row(&self, name: &str) -> Row {
        self.head(name).await.row.unwrap()
    }

    /// Creates a task.
    pub async fn submit(&self, task: Task) {
        assert_eq!(self.store.put_task(task, Expect::Absent).await.unwrap(), Written::Done);
    }

    /// Replaces a task that is at `version`.
    pub async fn replace(&self, task: Task, version: u64) {
        assert_eq!(self.store.put_task(task, Expect::Version(version)).await.unwrap(), Written::Done);
    }

    /// Returns the task of this name, if it exists.
    pub async fn find(&self, name: &str) -> Option<Task> {
        let filter = TaskFilter { id: Some(task_id(name)), ..any_task() };
        self.store.tasks(filter).await.unwrap().pop()
    }

    /// Returns the task of this name.
    pub async fn task(&self, name: &str) -> Task {
        self.find(name).await.unwrap()
    }

    /// Claims everything that is due in the common queue.
    pub async fn claim(&self, now: Millis) -> ClaimedTasks {
        self.store.claim(claim_at(now)).await.unwrap()
    }
}
