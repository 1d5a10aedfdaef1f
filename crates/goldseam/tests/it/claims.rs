//! Healing of stale claims and locks, in memory and on SQLite, with a manual clock.

use std::sync::Arc;
use std::time::Duration;

use goldseam::core::lock::{Ask, Lock, TTL_DEFAULT};
use goldseam::core::task::{NewTask, Task, TaskState};
use goldseam::core::{LaneName, LockName, NodeId, TaskId};
use goldseam::engine::claims::{ClaimRules, RecoveryStats};
use goldseam::engine::queue::Want;
use goldseam::store::faulty::{Called, Fault, Op, Plan};
use goldseam::store::{
    Expect, FaultyStore, LockFilter, ManualClock, MemoryStore, NodeRecord, NodeState, Store, TaskFilter,
    Written,
};
use goldseam::{Client, Config, Millis, Payload};
use goldseam_store_sqlite::{Options, SqliteStore};

use crate::support::{self, Scratch, eventually, new_task};

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
    fn faulty(&self, plan: Plan) -> (Client, Arc<FaultyStore>) {
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
    let options = Options { clock: clock.clock(), ..Options::default() };
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

fn writes(calls: &[Called]) -> Vec<Op> {
    let write = |op: &Op| matches!(op, Op::Append | Op::PutTask | Op::PutLock | Op::PutRow | Op::Forget);
    calls.iter().map(|called| called.op).filter(write).collect()
}

#[tokio::test]
async fn claim_reclaims_tasks_of_silent_claimants_first() {
    for fixture in fixtures() {
        let payload = Payload::of(&"diff 7", &goldseam::Limits::default()).unwrap();
        let new = NewTask { priority: 9, key: Some("pr-7".to_owned()), payload, ..task("t") };
        let lane = Some(LaneName::new("main").unwrap());
        fixture.client().queue().submit(NewTask { lane, ..new }).await.unwrap();
        let first = fixture.claim("w1").await.remove(0);
        fixture.clock.advance(LEASE - SECOND);
        assert!(fixture.claim("w2").await.is_empty(), "the lease has not expired");
        fixture.clock.advance(SECOND);
        let second = fixture.claim("w2").await.remove(0);
        assert_eq!((second.owner.as_deref(), second.deliveries), (Some("w2"), 1));
        assert!(second.fence > first.fence && second.started_at == Some(fixture.clock.now()));
        let kept = |task: &Task| {
            (task.id.clone(), task.priority, task.payload.clone(), task.key.clone(), task.lane.clone())
        };
        assert_eq!(kept(&second), kept(&first), "identity, priority and payload are kept");
        assert_eq!(second.audit.len(), 1);
        assert_eq!(second.audit[0].what, "reclaimed from w1: no sign of life for 300000 ms");
    }
}

#[tokio::test]
async fn reclaimed_task_is_ready_without_owner_and_start() {
    for fixture in fixtures() {
        fixture.client().queue().submit(strict("t")).await.unwrap();
        let held = fixture.claim("w").await.remove(0);
        fixture.clock.advance(10 * SECOND);
        let stats = fixture.client().claims().detect_and_recover_stale().await.unwrap();
        assert_eq!((stats.entries_reclaimed, stats.recovery_timestamp), (1, fixture.clock.now()));
        let back = fixture.task("t").await;
        assert_eq!((back.state, &back.owner, back.started_at), (TaskState::Ready, &None, None));
        assert_eq!((back.heartbeat_at, back.deliveries, back.attempts), (None, 1, 0));
        assert_eq!((back.changed_at, back.version), (fixture.clock.now(), held.version + 1));
        let again = fixture.client().claims().detect_and_recover_stale().await.unwrap();
        assert_eq!(again.entries_reclaimed, 0, "healing is idempotent");
    }
}

#[tokio::test]
async fn fence_refuses_late_completion_by_an_old_claimant() {
    for fixture in fixtures() {
        let queue = fixture.client().queue();
        queue.submit(strict("t")).await.unwrap();
        let old = fixture.claim("w1").await.remove(0);
        fixture.clock.advance(10 * SECOND);
        fixture.client().claims().detect_and_recover_stale().await.unwrap();
        let late = queue.complete(&old.id, old.fence, Payload::null()).await.unwrap_err();
        assert_eq!(late.code(), "GS0301", "refused even while the task is unclaimed");
        let new = fixture.claim("w2").await.remove(0);
        for refused in [
            queue.complete(&old.id, old.fence, Payload::null()).await,
            queue.heartbeat(&old.id, old.fence).await,
            queue.release(&old.id, old.fence).await,
        ] {
            assert_eq!(refused.unwrap_err().code(), "GS0301");
        }
        queue.complete(&new.id, new.fence, Payload::null()).await.unwrap();
    }
}

#[tokio::test]
async fn heartbeats_keep_a_long_claim() {
    for fixture in fixtures() {
        let queue = fixture.client().queue();
        queue.submit(task("leased")).await.unwrap();
        queue.submit(strict("strict")).await.unwrap();
        let held = fixture.claim("w1").await;
        for _ in 0..100 {
            fixture.clock.advance(9 * SECOND);
            for task in &held {
                queue.heartbeat(&task.id, task.fence).await.unwrap();
            }
            assert!(fixture.claim("w2").await.is_empty());
            assert_eq!(fixture.client().claims().recovery_stats().await.unwrap().entries_reclaimed, 0);
        }
        fixture.clock.advance(10 * SECOND);
        assert_eq!(fixture.claim("w2").await[0].id.as_str(), "strict");
    }
}

#[tokio::test(start_paused = true)]
async fn heartbeat_between_read_and_reclaim_keeps_the_claim() {
    let fixture = Fixture::in_memory();
    fixture.client().queue().submit(strict("t")).await.unwrap();
    let held = fixture.claim("w").await.remove(0);
    fixture.clock.advance(10 * SECOND);
    let (healer, link) = fixture.faulty(Plan::pass().at(7, Fault::Delay(Duration::from_millis(80))));
    let queue = fixture.client().queue();
    let beat = async {
        while link.count() < 7 {
            tokio::task::yield_now().await;
        }
        queue.heartbeat(&held.id, held.fence).await.unwrap();
    };
    let claims = healer.claims();
    let (stats, ()) = tokio::join!(claims.detect_and_recover_stale(), beat);
    assert_eq!(link.calls()[6].op, Op::PutTask);
    assert_eq!(stats.unwrap().entries_reclaimed, 0);
    queue.complete(&held.id, held.fence, Payload::null()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn node_that_joins_during_healing_keeps_its_claims() {
    let fixture = Fixture::in_memory();
    for name in ["t", "u"] {
        fixture.client().queue().submit(task(name)).await.unwrap();
    }
    let (healer, link) = fixture.faulty(Plan::pass().at(7, Fault::Delay(Duration::from_millis(80))));
    let joins = async {
        while link.count() < 7 {
            tokio::task::yield_now().await;
        }
        let node = fixture.process(1).await;
        assert_eq!(fixture.claim(node.id.as_str()).await.len(), 2);
        fixture.lock_through("l", &node.id, LEASE).await;
    };
    let claims = healer.claims();
    let (stats, ()) = tokio::join!(claims.detect_and_recover_stale(), joins);
    assert_eq!(link.calls()[6].op, Op::Tasks);
    assert_eq!(stats.unwrap().entries_reclaimed, 0);
    assert_eq!(link.calls()[7].op, Op::Nodes, "the nodes are read again before tasks are judged");
}

#[tokio::test]
async fn reclaims_claimed_tasks_in_every_state() {
    for fixture in fixtures() {
        let queue = fixture.client().queue();
        for name in ["claimed", "beaten", "poked", "released-and-claimed"] {
            queue.submit(strict(name)).await.unwrap();
        }
        let held = fixture.claim("w").await;
        for task in held {
            match task.id.as_str() {
                "beaten" => drop(queue.heartbeat(&task.id, task.fence).await.unwrap()),
                "poked" => {
                    let expect = Expect::Version(task.version);
                    let poked = Task { poked: true, version: task.version + 1, ..task };
                    assert_eq!(fixture.store.put_task(poked, expect).await.unwrap(), Written::Done);
                }
                "released-and-claimed" => {
                    queue.release(&task.id, task.fence).await.unwrap();
                    assert_eq!(fixture.claim("w").await.len(), 1);
                }
                _ => {}
            }
        }
        fixture.clock.advance(10 * SECOND);
        let stats = fixture.client().claims().detect_and_recover_stale().await.unwrap();
        assert_eq!((stats.entries_reclaimed, fixture.count(TaskState::Ready).await), (4, 4));
    }
}

#[tokio::test]
async fn task_is_dead_after_too_many_crashed_claimants() {
    for fixture in fixtures() {
        let queue = fixture.client().queue();
        queue.submit(NewTask { key: Some("k".to_owned()), ..strict("t") }).await.unwrap();
        for crash in 1..=3 {
            assert_eq!(fixture.claim("w").await[0].deliveries, crash - 1);
            fixture.clock.advance(10 * SECOND);
        }
        assert_eq!(fixture.claim("w").await[0].deliveries, 3, "the limit itself is allowed");
        fixture.clock.advance(10 * SECOND);
        assert!(fixture.claim("w").await.is_empty());
        let dead = fixture.task("t").await;
        assert_eq!((dead.state, dead.deliveries, dead.audit.len()), (TaskState::Dead, 4, 4));
        fixture.clock.advance(10 * LEASE);
        assert_eq!(fixture.client().claims().recovery_stats().await.unwrap().entries_reclaimed, 0);
        let next = queue.submit(NewTask { key: Some("k".to_owned()), ..task("u") }).await.unwrap();
        assert_eq!(next.id.as_str(), "u", "a dead task frees its key");
    }
}

#[tokio::test]
async fn lease_and_delivery_limit_are_configurable() {
    for fixture in fixtures() {
        let rules = ClaimRules { lease: 5 * SECOND, deliveries_max: 0 };
        let client = fixture.client().with_claim_rules(rules);
        client.queue().submit(task("t")).await.unwrap();
        client.queue().claim(want("w")).await.unwrap();
        fixture.clock.advance(5 * SECOND);
        assert!(client.queue().claim(want("w")).await.unwrap().is_empty());
        assert_eq!(fixture.task("t").await.state, TaskState::Dead);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_healers_reclaim_each_task_once() {
    for fixture in fixtures() {
        let fixture = Arc::new(fixture);
        for n in 0..60 {
            fixture.client().queue().submit(strict(&format!("t{n}"))).await.unwrap();
            let name = LockName::new(format!("l{n}")).unwrap();
            fixture.client().locks().acquire(&name, "w", SECOND).await.unwrap();
        }
        while !fixture.claim("w").await.is_empty() {}
        fixture.clock.advance(10 * SECOND);
        let healers: Vec<_> = (0..4)
            .map(|_| {
                let client = fixture.client();
                tokio::spawn(async move { client.claims().detect_and_recover_stale().await.unwrap() })
            })
            .collect();
        let mut entries = 0;
        let mut locks = 0;
        for healer in healers {
            let stats = healer.await.unwrap();
            entries += stats.entries_reclaimed;
            locks += stats.locks_cleaned;
        }
        assert_eq!((entries, locks), (60, 60), "each healed by exactly one healer");
        for task in fixture.tasks().await {
            assert_eq!((task.state, task.deliveries, task.audit.len()), (TaskState::Ready, 1, 1));
        }
        assert_eq!(fixture.lock("l7").await.fence, 2);
    }
}

#[tokio::test]
async fn claim_frees_expired_locks_and_raises_their_fence() {
    for fixture in fixtures() {
        let locks = fixture.client().locks();
        let name = LockName::new("lane-main").unwrap();
        let held = locks.acquire(&name, "ana", TTL_DEFAULT).await.unwrap();
        fixture.clock.advance(TTL_DEFAULT - Duration::from_millis(1));
        fixture.claim("w").await;
        assert_eq!(fixture.lock("lane-main").await, held, "not before its expiry");
        fixture.clock.advance(SECOND);
        assert!(locks.is_stale(&name).await.unwrap());
        fixture.claim("w").await;
        let free = fixture.lock("lane-main").await;
        assert_eq!((&free.holder, free.fence), (&None, held.fence + 1));
        assert_eq!(free.audit[0].what, "cleaned, held by ana: it expired");
        assert!(!locks.is_stale(&name).await.unwrap());
        assert!(
            !locks.release(&name, "ana", held.fence).await.unwrap(),
            "nothing to release is not an error"
        );
        assert_eq!(locks.extend(&name, "ana", held.fence, LEASE).await.unwrap_err().code(), "GS0302");
        assert!(locks.acquire(&name, "ben", LEASE).await.unwrap().fence > held.fence + 1);
    }
}

#[tokio::test]
async fn frees_locks_of_dead_nodes_but_not_of_silent_nodes() {
    for fixture in fixtures() {
        let silent = fixture.process(1).await;
        let dead = fixture.process(2).await;
        let left = fixture.process(3).await;
        fixture.lock_through("of-silent", &silent.id, 10 * LEASE).await;
        fixture.lock_through("of-dead", &dead.id, 10 * LEASE).await;
        fixture.lock_through("of-left", &left.id, 10 * LEASE).await;
        if let Some(memory) = &fixture.memory {
            memory.silence(&silent.id);
        }
        fixture.clock.advance(LEASE);
        let claims = fixture.client().claims();
        assert_eq!(claims.stale_locks().await.unwrap(), []);
        dead.die();
        fixture.store.forget(&left.id).await.unwrap();
        let stale = claims.stale_locks().await.unwrap();
        let names: Vec<&str> = stale.iter().map(|stale| stale.lock.name.as_str()).collect();
        assert_eq!(names, ["of-dead", "of-left"]);
        assert!(stale[0].why.contains("n-0000000000000002"), "{}", stale[0].why);
        assert!(stale[1].why.contains("n-0000000000000003"), "{}", stale[1].why);
        assert_eq!(claims.detect_and_recover_stale().await.unwrap().locks_cleaned, 2);
        assert_eq!(fixture.lock("of-dead").await.holder, None);
        assert_eq!(
            fixture.lock("of-silent").await.holder.as_deref(),
            Some("ana"),
            "silence does not prove death"
        );
    }
}

#[tokio::test]
async fn reclaims_at_once_when_node_is_dead_but_not_when_silent() {
    for fixture in fixtures() {
        let silent = fixture.process(1).await;
        let dead = fixture.process(2).await;
        let left = fixture.process(3).await;
        for process in [&silent, &dead, &left] {
            fixture.client().queue().submit(task(&format!("of-{}", process.id))).await.unwrap();
            assert_eq!(fixture.claim(process.id.as_str()).await.len(), 1);
        }
        if let Some(memory) = &fixture.memory {
            memory.silence(&silent.id);
        }
        fixture.clock.advance(10 * LEASE);
        let claims = fixture.client().claims();
        let stats = claims.recovery_stats().await.unwrap();
        assert_eq!(stats.entries_reclaimed, 0, "the beats of the node count as heartbeats");
        dead.die();
        fixture.store.forget(&left.id).await.unwrap();
        assert_eq!(claims.detect_and_recover_stale().await.unwrap().entries_reclaimed, 2);
        let held: Vec<Task> =
            fixture.tasks().await.into_iter().filter(|task| task.state == TaskState::Claimed).collect();
        assert_eq!(held.len(), 1);
        assert_eq!(held[0].owner.as_deref(), Some(silent.id.as_str()));
    }
}

/// Creates stale and healthy claims and locks of each kind. Returns the process of the live node.
async fn mixed_claims(fixture: &Fixture) -> Process {
    let queue = fixture.client().queue();
    let locks = fixture.client().locks();
    let lives = fixture.process(1).await;
    let dead = fixture.process(2).await;
    for name in ["strict", "leased", "of-node", "of-dead", "strict-of-dead"] {
        let new = if name.starts_with("strict") { strict(name) } else { task(name) };
        queue.submit(new).await.unwrap();
        let owner = match name {
            "of-node" => lives.id.as_str(),
            "of-dead" | "strict-of-dead" => dead.id.as_str(),
            _ => "w",
        };
        assert_eq!(fixture.claim(owner).await.len(), 1);
    }
    for (name, ttl) in [("brief", SECOND), ("long", 10 * LEASE)] {
        locks.acquire(&LockName::new(name).unwrap(), "w", ttl).await.unwrap();
    }
    fixture.lock_through("of-dead", &dead.id, 10 * LEASE).await;
    fixture.lock_through("brief-of-dead", &dead.id, SECOND).await;
    fixture.clock.advance(LEASE);
    dead.die();
    lives
}

#[tokio::test]
async fn dry_run_counts_exactly_what_healing_changes() {
    for fixture in fixtures() {
        let _lives = mixed_claims(&fixture).await;
        let (client, link) = fixture.faulty(Plan::pass());
        let claims = client.claims();
        let dry = claims.recovery_stats().await.unwrap();
        assert_eq!(writes(&link.calls()), [], "a dry run writes nothing");
        let expected =
            RecoveryStats { locks_cleaned: 3, entries_reclaimed: 4, recovery_timestamp: fixture.clock.now() };
        assert_eq!(dry, expected);
        assert_eq!(claims.detect_and_recover_stale().await.unwrap(), dry);
        assert_eq!(writes(&link.calls()).len(), 7, "one write per record, including its audit entry");
        let left = claims.recovery_stats().await.unwrap();
        assert_eq!((left.locks_cleaned, left.entries_reclaimed), (0, 0));
        assert_eq!(fixture.count(TaskState::Claimed).await, 1);
    }
}

#[tokio::test]
async fn healing_a_healthy_store_writes_nothing() {
    for fixture in fixtures() {
        let (client, link) = fixture.faulty(Plan::pass());
        let node = fixture.process(1).await;
        for n in 0..30 {
            client.queue().submit(task(&format!("t{n}"))).await.unwrap();
        }
        client.queue().claim(want(node.id.as_str())).await.unwrap();
        client.queue().claim(want("w")).await.unwrap();
        fixture.lock_through("l", &node.id, 10 * LEASE).await;
        client.locks().acquire(&LockName::new("m").unwrap(), "w", 10 * LEASE).await.unwrap();
        fixture.clock.advance(LEASE - SECOND);
        let before = writes(&link.calls()).len();
        for _ in 0..10 {
            let claims = client.claims();
            claims.tick(fixture.clock.now()).await.unwrap();
            claims.detect_and_recover_stale().await.unwrap();
            claims.recovery_stats().await.unwrap();
            claims.reclaim_stale(LEASE).await.unwrap();
        }
        assert_eq!(writes(&link.calls()).len(), before);
    }
}

#[tokio::test]
async fn reclaim_by_hand_uses_only_the_given_threshold() {
    for fixture in fixtures() {
        let queue = fixture.client().queue();
        queue.submit(NewTask { silence_max: Some(10 * LEASE), ..task("patient") }).await.unwrap();
        queue.submit(task("leased")).await.unwrap();
        fixture.claim("w").await;
        fixture.clock.advance(30 * SECOND);
        queue.submit(task("young")).await.unwrap();
        fixture.claim("w").await;
        fixture.clock.advance(30 * SECOND);
        let claims = fixture.client().claims();
        assert_eq!(claims.count_stale(61 * SECOND).await.unwrap(), 0);
        assert_eq!(claims.reclaim_stale(61 * SECOND).await.unwrap(), 0);
        assert_eq!(claims.count_stale(60 * SECOND).await.unwrap(), 2);
        assert_eq!(claims.reclaim_stale(60 * SECOND).await.unwrap(), 2);
        assert_eq!(claims.reclaim_stale(60 * SECOND).await.unwrap(), 0);
        assert_eq!(fixture.task("young").await.state, TaskState::Claimed);
    }
}

#[tokio::test]
async fn reclaim_by_hand_spares_advance_tasks_of_live_nodes() {
    for fixture in fixtures() {
        let lives = fixture.process(1).await;
        let dead = fixture.process(2).await;
        for process in [&lives, &dead] {
            let kind = Task::advance_kind("order", 1);
            let new = NewTask { kind, ..task(&format!("advance-{}", process.id)) };
            let held = new.into_task(fixture.clock.now()).claimed(process.id.as_str(), fixture.clock.now());
            assert_eq!(fixture.store.put_task(held, Expect::Absent).await.unwrap(), Written::Done);
        }
        fixture.clock.advance(LEASE);
        let dead_id = dead.id.clone();
        let claims = fixture.client().claims();
        dead.die();
        assert_eq!(
            claims.detect_and_recover_stale().await.unwrap().entries_reclaimed,
            0,
            "advance tasks are left to keepers"
        );
        assert_eq!(claims.reclaim_stale(LEASE).await.unwrap(), 1);
        assert_eq!(fixture.task(&format!("advance-{dead_id}")).await.state, TaskState::Ready);
        assert_eq!(fixture.task(&format!("advance-{}", lives.id)).await.state, TaskState::Claimed);
    }
}

#[tokio::test]
async fn healing_errors_do_not_fail_a_claim() {
    for on_file in [false, true] {
        for fault in [Fault::FailBefore, Fault::LoseReply] {
            let mut number = 1;
            loop {
                let fixture = if on_file { Fixture::on_file() } else { Fixture::in_memory() };
                let _lives = mixed_claims(&fixture).await;
                fixture.client().queue().submit(task("wanted")).await.unwrap();
                let (client, link) = fixture.faulty(Plan::pass().at(number, fault));
                let claimed = client.queue().claim(want("w")).await;
                let calls = link.calls();
                if calls.len() < usize::try_from(number).unwrap() {
                    break;
                }
                let failed = calls[usize::try_from(number).unwrap() - 1];
                if failed.op != Op::Claim || fault == Fault::FailBefore {
                    let claimed = claimed.unwrap();
                    assert!(claimed.iter().any(|task| task.id == id("wanted")), "{failed:?} of {calls:?}");
                }
                number += 1;
            }
            assert!(number > 15, "the claim healed in {number} calls");
        }
    }
}

#[tokio::test]
async fn each_claim_heals_a_bounded_number_of_tasks() {
    for fixture in fixtures() {
        let client = fixture.client();
        for n in 0..120 {
            client.queue().submit(strict(&format!("t{n:03}"))).await.unwrap();
        }
        let all = Want { limit: 1_000, ..want("w") };
        assert_eq!(client.queue().claim(all).await.unwrap().len(), 120);
        fixture.clock.advance(10 * SECOND);
        let none = || Want { limit: 0, ..want("w") };
        for expected in [50, 100, 120] {
            client.queue().claim(none()).await.unwrap();
            client.queue().claim(none()).await.unwrap();
            assert_eq!(fixture.count(TaskState::Ready).await, expected, "once a second");
            fixture.clock.advance(SECOND);
        }
    }
}

#[tokio::test]
async fn silent_claimant_frees_its_lane() {
    for fixture in fixtures() {
        let lane = Some(LaneName::new("main").unwrap());
        for name in ["a", "b"] {
            let new = NewTask { lane: lane.clone(), ..strict(name) };
            fixture.client().queue().submit(new).await.unwrap();
            fixture.clock.advance(SECOND);
        }
        assert_eq!(fixture.claim("w1").await[0].id.as_str(), "a");
        assert!(fixture.claim("w2").await.is_empty());
        fixture.clock.advance(10 * SECOND);
        let next = fixture.claim("w2").await;
        assert_eq!(next.len(), 1, "one task of a lane at a time");
        assert_eq!(next[0].id.as_str(), "a", "the order is kept");
    }
}

#[tokio::test]
async fn inconsistent_task_is_reported_and_reclaimed() {
    for fixture in fixtures() {
        let held = task("t").into_task(fixture.clock.now()).claimed("w", fixture.clock.now());
        let flawed = Task { owner: None, ..held };
        assert_eq!(fixture.store.put_task(flawed, Expect::Absent).await.unwrap(), Written::Done);
        let stats = fixture.client().queue().stats().await.unwrap();
        assert_eq!(stats.flaws.len(), 1);
        assert_eq!(stats.flaws[0].flaw, "`owner` must be set exactly while the task is claimed");
        fixture.clock.advance(LEASE);
        assert_eq!(fixture.claim("w").await.len(), 1);
        assert_eq!(fixture.client().queue().stats().await.unwrap().flaws, []);
    }
}

#[tokio::test]
async fn stats_count_tasks_by_state() {
    for fixture in fixtures() {
        let queue = fixture.client().queue();
        for name in ["a", "b", "c"] {
            queue.submit(task(name)).await.unwrap();
        }
        queue.submit(NewTask { run_at: Millis::NEVER, ..task("d") }).await.unwrap();
        let one = Want { limit: 1, ..want("w") };
        let done = queue.claim(one.clone()).await.unwrap().remove(0);
        queue.complete(&done.id, done.fence, Payload::null()).await.unwrap();
        queue.claim(one).await.unwrap();
        fixture.clock.advance(7 * SECOND);
        let stats = queue.stats().await.unwrap();
        let found = &stats.queues[0];
        assert_eq!((stats.queues.len(), found.queue.as_str(), stats.complete), (1, "merges", true));
        assert_eq!((found.ready, found.due, found.claimed, found.dead), (2, 1, 1, 0));
        assert_eq!((found.oldest_ms, stats.counted), (Some(7_000), 3), "ended tasks are not counted");
    }
}

#[tokio::test]
async fn engine_frees_locks_and_tasks_of_a_crashed_engine() {
    let scratch = Scratch::new();
    let first = scratch.builder().await.start().await.unwrap();
    let name = LockName::new("deploy").unwrap();
    first.locks().acquire(&name, "ana", LEASE).await.unwrap();
    first.queue().submit(task("t")).await.unwrap();
    let held = first.queue().claim(want(first.node_id().as_str())).await.unwrap();
    assert_eq!(held.len(), 1);
    first.crash();
    let config = Config { claim_watch: Duration::from_millis(10), ..Config::default() };
    let second = scratch.builder().await.config(config).start().await.unwrap();
    eventually("the lock is free", || async {
        second.locks().get(&name).await.unwrap().is_some_and(|lock| lock.holder.is_none())
    })
    .await;
    eventually("the task is ready", || async {
        second.queue().get(&id("t")).await.unwrap().state == TaskState::Ready
    })
    .await;
    second.shutdown().await;
}

#[tokio::test]
async fn shutdown_frees_the_tasks_of_an_engine() {
    let scratch = Scratch::new();
    let engine = scratch.builder().await.start().await.unwrap();
    engine.queue().submit(task("t")).await.unwrap();
    engine.queue().claim(want(engine.node_id().as_str())).await.unwrap();
    let client = scratch.client().await;
    assert!(client.queue().claim(want("w")).await.unwrap().is_empty());
    engine.shutdown().await;
    let fresh = scratch.client().await;
    assert_eq!(fresh.queue().claim(want("w")).await.unwrap()[0].deliveries, 1);
}
