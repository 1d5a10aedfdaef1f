//! Healing of stale claims and locks, in memory and on SQLite, with a manual clock.

mod locks;
mod passes;
mod reclaim;

use std::sync::Arc;
use std::time::Duration;

use goldseam::unstable::core::lock::{Ask, Lock};
use goldseam::unstable::core::task::{NewTask, Task, TaskState};
use goldseam::unstable::core::{LockName, NodeId, TaskId};
use goldseam::unstable::engine::queue::Want;
use goldseam::unstable::store::faulty::{Called, FaultPlan, StoreMethod};
use goldseam::unstable::store::{
    Expect, FaultyStore, LockFilter, ManualClock, MemoryStore, NodeRecord, NodeState, Store, TaskFilter,
    Written,
};
use goldseam::{Client, Millis};
use goldseam_store_sqlite::{SqliteOptions, SqliteStore};

use crate::support::{self, new_task};

const LEASE: Duration = Duration::from_secs(300);
const SECOND: Duration = Duration::from_secs(1);

/// A store with a manual clock.
struct Fixture {
    store: Arc<dyn Store>,
    clock: ManualClock,
    memory: Option<Arc<MemoryStore>>,
    folder: Option<tempfile::TempDir>,
}

/// The process of a node that executes nothing.
struct Process {
    id: NodeId,
    memory: Option<Arc<MemoryStore>>,
    /// The node's connection, which holds its liveness lock.
    _file: Option<SqliteStore>,
}

impl Process {
    fn die(self) {
        if let Some(memory) = &self.memory {
            memory.kill(&self.id);
        }
    }
}

impl Fixture {
    fn in_memory() -> Self {
        let clock = ManualClock::default();
        let memory = Arc::new(MemoryStore::new(clock.clock()));
        Self { store: memory.clone(), clock, memory: Some(memory), folder: None }
    }

    fn on_file() -> Self {
        let clock = ManualClock::default();
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(open(&folder, &clock));
        Self { store, clock, memory: None, folder: Some(folder) }
    }

    fn client(&self) -> Client {
        Client::new(self.store.clone())
    }

    /// Returns a client whose calls are recorded and fail by `plan`.
    fn faulty(&self, plan: FaultPlan) -> (Client, Arc<FaultyStore>) {
        let link = Arc::new(FaultyStore::new(self.store.clone(), plan));
        (Client::new(link.clone()), link)
    }

    async fn process(&self, number: u64) -> Process {
        let id = NodeId::new(format!("n-{number:016x}")).unwrap();
        let record = NodeRecord {
            id: id.clone(),
            name: format!("host:{number}"),
            started_at: Millis(0),
            workflows: Vec::new(),
            slots: 1,
            timing: None,
            state: NodeState::Up,
        };
        let file = self.folder.as_ref().map(|folder| open(folder, &self.clock));
        match &file {
            Some(file) => file.beat(&record).await.unwrap(),
            None => self.store.beat(&record).await.unwrap(),
        };
        Process { id, memory: self.memory.clone(), _file: file }
    }

    /// Returns all tasks and asserts that each is consistent.
    async fn tasks(&self) -> Vec<Task> {
        let all = TaskFilter { limit: 10_000, ..TaskFilter::default() };
        let tasks = self.store.tasks(all).await.unwrap();
        for task in &tasks {
            assert_eq!(task.flaw(), None, "{task:?}");
        }
        tasks
    }

    async fn count(&self, state: TaskState) -> usize {
        self.tasks().await.iter().filter(|task| task.state == state).count()
    }

    async fn task(&self, id: &str) -> Task {
        self.tasks().await.into_iter().find(|task| task.id.as_str() == id).unwrap()
    }

    async fn lock(&self, name: &str) -> Lock {
        let filter = LockFilter { limit: 1_000, ..LockFilter::default() };
        let all = self.store.locks(filter).await.unwrap();
        all.into_iter().find(|lock| lock.name.as_str() == name).unwrap()
    }

    /// Puts a lock that is held through a node.
    async fn lock_through(&self, name: &str, node: &NodeId, ttl: Duration) {
        let name = LockName::new(name).unwrap();
        let ask = Ask { name: &name, holder: "ana", node: Some(node.as_str()), ttl };
        let lock = Lock::acquired(None, ask, self.clock.now()).unwrap();
        assert_eq!(self.store.put_lock(lock, Expect::Absent).await.unwrap(), Written::Done);
    }

    async fn claim(&self, owner: &str) -> Vec<Task> {
        self.client().queue().claim(want(owner)).await.unwrap()
    }
}

fn open(folder: &tempfile::TempDir, clock: &ManualClock) -> SqliteStore {
    let options = SqliteOptions { clock: clock.clock(), ..SqliteOptions::default() };
    SqliteStore::open(&folder.path().join("gold.db"), options).unwrap()
}

fn fixtures() -> [Fixture; 2] {
    [Fixture::in_memory(), Fixture::on_file()]
}

fn task(id: &str) -> NewTask {
    new_task(id, "merges")
}

/// A task whose claimant may be silent for 10 seconds.
fn strict(id: &str) -> NewTask {
    NewTask { silence_max: Some(10 * SECOND), ..task(id) }
}

fn want(owner: &str) -> Want {
    support::want(owner, "merges", 10)
}

fn id(name: &str) -> TaskId {
    TaskId::new(name).unwrap()
}

fn writes(calls: &[Called]) -> Vec<StoreMethod> {
    let write = |op: &StoreMethod| {
        matches!(
            op,
            StoreMethod::Append
                | StoreMethod::PutTask
                | StoreMethod::PutLock
                | StoreMethod::PutRow
                | StoreMethod::Forget
        )
    };
    calls.iter().map(|called| called.op).filter(write).collect()
}
