//! Claims and locks that heal themselves, on memory and on a real file, by a clock that the test moves.

use std::sync::Arc;
use std::time::Duration;

use goldseam::core::lock::{Ask, Lock, TTL_DEFAULT};
use goldseam::core::task::{NewTask, Task, TaskState};
use goldseam::core::{LaneName, LockName, NodeId, QueueName, TaskId};
use goldseam::engine::claims::{ClaimRules, RecoveryStats};
use goldseam::engine::queue::Want;
use goldseam::store::faulty::{Called, Fault, Op, Plan};
use goldseam::store::{
    Expect, FaultyStore, LockFilter, ManualClock, MemoryStore, NodeRecord, NodeState, Store, TaskFilter,
    Written,
};
use goldseam::{Client, Config, Millis, Payload};
use goldseam_store_sqlite::{Options, SqliteStore};

use crate::support::{Scratch, eventually};

const LEASE: Duration = Duration::from_secs(300);
const SECOND: Duration = Duration::from_secs(1);

/// A store whose clock the test moves.
struct Place {
    store: Arc<dyn Store>,
    clock: ManualClock,
    memory: Option<Arc<MemoryStore>>,
    folder: Option<tempfile::TempDir>,
}

/// The process of a node that never runs anything.
struct Process {
    id: NodeId,
    memory: Option<Arc<MemoryStore>>,
    /// A connection of its own: the liveness lock goes with it.
    _file: Option<SqliteStore>,
}

impl Process {
    fn die(self) {
        if let Some(memory) = &self.memory {
            memory.kill(&self.id);
        }
    }
}

impl Place {
    fn in_memory() -> Self {
        let clock = ManualClock::default();
        let memory = Arc::new(MemoryStore::new(clock.clock()));
        Self { store: memory.clone(), clock, memory: Some(memory), folder: None }
    }

    fn on_file() -> Self {
        let (clock, folder) = (ManualClock::default(), tempfile::tempdir().unwrap());
        let store = Arc::new(open(&folder, &clock));
        Self { store, clock, memory: None, folder: Some(folder) }
    }

    fn client(&self) -> Client {
        Client::new(self.store.clone())
    }

    /// A client whose calls are written down and fail by `plan`.
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
            state: NodeState::Up,
        };
        let file = self.folder.as_ref().map(|folder| open(folder, &self.clock));
        match &file {
            Some(file) => file.beat(&record).await.unwrap(),
            None => self.store.beat(&record).await.unwrap(),
        };
        Process { id, memory: self.memory.clone(), _file: file }
    }

    /// Every task there is; no record contradicts itself.
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

    /// A lock that is held through a node.
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

/// The same story on every store.
fn places() -> [Place; 2] {
    [Place::in_memory(), Place::on_file()]
}

fn task(id: &str) -> NewTask {
    NewTask {
        id: TaskId::new(id).unwrap(),
        kind: "merge".to_owned(),
        queue: queue(),
        lane: None,
        priority: 0,
        key: None,
        run_at: Millis(0),
        payload: Payload::null(),
        attempts_max: 1,
        silence_max: None,
    }
}

fn strict(id: &str) -> NewTask {
    NewTask { silence_max: Some(10 * SECOND), ..task(id) }
}

fn queue() -> QueueName {
    QueueName::new("merges").unwrap()
}

fn want(owner: &str) -> Want {
    Want { owner: owner.to_owned(), queue: queue(), kind: None, limit: 10 }
}

fn id(name: &str) -> TaskId {
    TaskId::new(name).unwrap()
}

fn writes(calls: &[Called]) -> Vec<Op> {
    let write = |op: &Op| matches!(op, Op::Append | Op::PutTask | Op::PutLock | Op::PutRow | Op::Forget);
    calls.iter().map(|called| called.op).filter(write).collect()
}

#[tokio::test]
async fn claiming_takes_back_the_entry_of_a_silent_claimant_first() {
    for place in places() {
        let payload = Payload::of(&"diff 7", &goldseam::Limits::default()).unwrap();
        let new = NewTask { priority: 9, key: Some("pr-7".to_owned()), payload, ..task("t") };
        let lane = Some(LaneName::new("main").unwrap());
        place.client().queue().submit(NewTask { lane, ..new }).await.unwrap();
        let first = place.claim("w1").await.remove(0);
        place.clock.advance(LEASE - SECOND);
        assert!(place.claim("w2").await.is_empty(), "a silent claimant has its lease");
        place.clock.advance(SECOND);
        let second = place.claim("w2").await.remove(0);
        assert_eq!((second.owner.as_deref(), second.deliveries), (Some("w2"), 1));
        assert!(second.fence > first.fence && second.started_at == Some(place.clock.now()));
        let kept = |task: &Task| {
            (task.id.clone(), task.priority, task.payload.clone(), task.key.clone(), task.lane.clone())
        };
        assert_eq!(kept(&second), kept(&first), "identity, priority and payload are kept");
        assert_eq!(second.audit.len(), 1);
        assert_eq!(second.audit[0].what, "reclaimed from w1: no sign of life for 300000 ms");
    }
}

#[tokio::test]
async fn a_reclaimed_entry_is_ready_with_owner_and_start_cleared() {
    for place in places() {
        place.client().queue().submit(strict("t")).await.unwrap();
        let held = place.claim("w").await.remove(0);
        place.clock.advance(10 * SECOND);
        let stats = place.client().claims().detect_and_recover_stale().await.unwrap();
        assert_eq!((stats.entries_reclaimed, stats.recovery_timestamp), (1, place.clock.now()));
        let back = place.task("t").await;
        assert_eq!((back.state, &back.owner, back.started_at), (TaskState::Ready, &None, None));
        assert_eq!((back.heartbeat_at, back.deliveries, back.attempts), (None, 1, 0));
        assert_eq!((back.changed_at, back.version), (place.clock.now(), held.version + 1));
        let again = place.client().claims().detect_and_recover_stale().await.unwrap();
        assert_eq!(again.entries_reclaimed, 0, "what was healed is healed");
    }
}

#[tokio::test]
async fn an_old_claimants_late_completion_is_refused_by_its_fence() {
    for place in places() {
        let queue = place.client().queue();
        queue.submit(strict("t")).await.unwrap();
        let old = place.claim("w1").await.remove(0);
        place.clock.advance(10 * SECOND);
        place.client().claims().detect_and_recover_stale().await.unwrap();
        let late = queue.complete(&old.id, old.fence, Payload::null()).await.unwrap_err();
        assert_eq!(late.code(), "GS0301", "not even while nobody else has it");
        let new = place.claim("w2").await.remove(0);
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
async fn a_renewed_heartbeat_protects_a_long_entry() {
    for place in places() {
        let queue = place.client().queue();
        queue.submit(task("leased")).await.unwrap();
        queue.submit(strict("strict")).await.unwrap();
        let held = place.claim("w1").await;
        for _ in 0..100 {
            place.clock.advance(9 * SECOND);
            for task in &held {
                queue.heartbeat(&task.id, task.fence).await.unwrap();
            }
            assert!(place.claim("w2").await.is_empty());
            assert_eq!(place.client().claims().recovery_stats().await.unwrap().entries_reclaimed, 0);
        }
        place.clock.advance(10 * SECOND);
        assert_eq!(place.claim("w2").await[0].id.as_str(), "strict");
    }
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_that_comes_between_a_healers_look_and_its_write_wins() {
    let place = Place::in_memory();
    place.client().queue().submit(strict("t")).await.unwrap();
    let held = place.claim("w").await.remove(0);
    place.clock.advance(10 * SECOND);
    let (healer, link) = place.faulty(Plan::pass().at(7, Fault::Delay(Duration::from_millis(80))));
    let queue = place.client().queue();
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
async fn a_node_that_joins_while_a_healer_looks_is_not_taken_for_gone() {
    let place = Place::in_memory();
    for name in ["t", "u"] {
        place.client().queue().submit(task(name)).await.unwrap();
    }
    let (healer, link) = place.faulty(Plan::pass().at(7, Fault::Delay(Duration::from_millis(80))));
    let joins = async {
        while link.count() < 7 {
            tokio::task::yield_now().await;
        }
        let node = place.process(1).await;
        assert_eq!(place.claim(node.id.as_str()).await.len(), 2);
        place.lock_through("l", &node.id, LEASE).await;
    };
    let claims = healer.claims();
    let (stats, ()) = tokio::join!(claims.detect_and_recover_stale(), joins);
    assert_eq!(link.calls()[6].op, Op::Tasks);
    assert_eq!(stats.unwrap().entries_reclaimed, 0);
    assert_eq!(link.calls()[7].op, Op::Nodes, "what was found is judged by who is there now");
}

#[tokio::test]
async fn every_state_of_a_claimed_entry_is_watched() {
    for place in places() {
        let queue = place.client().queue();
        for name in ["claimed", "beaten", "poked", "released-and-claimed"] {
            queue.submit(strict(name)).await.unwrap();
        }
        let held = place.claim("w").await;
        for task in held {
            match task.id.as_str() {
                "beaten" => drop(queue.heartbeat(&task.id, task.fence).await.unwrap()),
                "poked" => {
                    let expect = Expect::Version(task.version);
                    let poked = Task { poked: true, version: task.version + 1, ..task };
                    assert_eq!(place.store.put_task(poked, expect).await.unwrap(), Written::Done);
                }
                "released-and-claimed" => {
                    queue.release(&task.id, task.fence).await.unwrap();
                    assert_eq!(place.claim("w").await.len(), 1);
                }
                _ => {}
            }
        }
        place.clock.advance(10 * SECOND);
        let stats = place.client().claims().detect_and_recover_stale().await.unwrap();
        assert_eq!((stats.entries_reclaimed, place.count(TaskState::Ready).await), (4, 4));
    }
}

#[tokio::test]
async fn an_entry_that_takes_too_many_claimants_down_is_dead_not_looped() {
    for place in places() {
        let queue = place.client().queue();
        queue.submit(NewTask { key: Some("k".to_owned()), ..strict("t") }).await.unwrap();
        for crash in 1..=3 {
            assert_eq!(place.claim("w").await[0].deliveries, crash - 1);
            place.clock.advance(10 * SECOND);
        }
        assert_eq!(place.claim("w").await[0].deliveries, 3, "the limit itself is allowed");
        place.clock.advance(10 * SECOND);
        assert!(place.claim("w").await.is_empty());
        let dead = place.task("t").await;
        assert_eq!((dead.state, dead.deliveries, dead.audit.len()), (TaskState::Dead, 4, 4));
        place.clock.advance(10 * LEASE);
        assert_eq!(place.client().claims().recovery_stats().await.unwrap().entries_reclaimed, 0);
        let next = queue.submit(NewTask { key: Some("k".to_owned()), ..task("u") }).await.unwrap();
        assert_eq!(next.id.as_str(), "u", "a dead entry keeps no key");
    }
}

#[tokio::test]
async fn lease_and_limit_can_be_chosen() {
    for place in places() {
        let rules = ClaimRules { lease: 5 * SECOND, deliveries_max: 0 };
        let client = place.client().with_claim_rules(rules);
        client.queue().submit(task("t")).await.unwrap();
        client.queue().claim(want("w")).await.unwrap();
        place.clock.advance(5 * SECOND);
        assert!(client.queue().claim(want("w")).await.unwrap().is_empty());
        assert_eq!(place.task("t").await.state, TaskState::Dead);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_healers_at_once_never_reclaim_the_same_entry_twice() {
    for place in places() {
        let place = Arc::new(place);
        for n in 0..60 {
            place.client().queue().submit(strict(&format!("t{n}"))).await.unwrap();
            let name = LockName::new(format!("l{n}")).unwrap();
            place.client().locks().acquire(&name, "w", SECOND).await.unwrap();
        }
        while !place.claim("w").await.is_empty() {}
        place.clock.advance(10 * SECOND);
        let healers: Vec<_> = (0..4)
            .map(|_| {
                let client = place.client();
                tokio::spawn(async move { client.claims().detect_and_recover_stale().await.unwrap() })
            })
            .collect();
        let (mut entries, mut locks) = (0, 0);
        for healer in healers {
            let stats = healer.await.unwrap();
            entries += stats.entries_reclaimed;
            locks += stats.locks_cleaned;
        }
        assert_eq!((entries, locks), (60, 60), "each by one of them");
        for task in place.tasks().await {
            assert_eq!((task.state, task.deliveries, task.audit.len()), (TaskState::Ready, 1, 1));
        }
        assert_eq!(place.lock("l7").await.fence, 2);
    }
}

#[tokio::test]
async fn an_expired_lock_is_cleaned_by_a_claim_with_its_fence_moved_on() {
    for place in places() {
        let (locks, name) = (place.client().locks(), LockName::new("lane-main").unwrap());
        let held = locks.acquire(&name, "ana", TTL_DEFAULT).await.unwrap();
        place.clock.advance(TTL_DEFAULT - Duration::from_millis(1));
        place.claim("w").await;
        assert_eq!(place.lock("lane-main").await, held, "not before its expiry");
        place.clock.advance(SECOND);
        assert!(locks.is_stale(&name).await.unwrap());
        place.claim("w").await;
        let free = place.lock("lane-main").await;
        assert_eq!((&free.holder, free.fence), (&None, held.fence + 1));
        assert_eq!(free.audit[0].what, "cleaned, held by ana: it expired");
        assert!(!locks.is_stale(&name).await.unwrap());
        assert!(!locks.release(&name, "ana", held.fence).await.unwrap(), "no error, and nothing to release");
        assert_eq!(locks.extend(&name, "ana", held.fence, LEASE).await.unwrap_err().code(), "GS0302");
        assert!(locks.acquire(&name, "ben", LEASE).await.unwrap().fence > held.fence + 1);
    }
}

#[tokio::test]
async fn a_lock_of_a_node_proven_gone_is_freed_early_and_of_a_silent_node_not() {
    for place in places() {
        let (silent, dead, left) = (place.process(1).await, place.process(2).await, place.process(3).await);
        place.lock_through("of-silent", &silent.id, 10 * LEASE).await;
        place.lock_through("of-dead", &dead.id, 10 * LEASE).await;
        place.lock_through("of-left", &left.id, 10 * LEASE).await;
        if let Some(memory) = &place.memory {
            memory.silence(&silent.id);
        }
        place.clock.advance(LEASE);
        let claims = place.client().claims();
        assert_eq!(claims.stale_locks().await.unwrap(), []);
        dead.die();
        place.store.forget(&left.id).await.unwrap();
        let stale = claims.stale_locks().await.unwrap();
        let why: Vec<(&str, &str)> = stale.iter().map(|s| (s.lock.name.as_str(), s.why.as_str())).collect();
        let expected = [
            ("of-dead", "the process of its node n-0000000000000002 is gone"),
            ("of-left", "its node n-0000000000000003 is gone"),
        ];
        assert_eq!(why, expected);
        assert_eq!(claims.detect_and_recover_stale().await.unwrap().locks_cleaned, 2);
        assert_eq!(place.lock("of-dead").await.holder, None);
        assert_eq!(place.lock("of-silent").await.holder.as_deref(), Some("ana"), "silence proves nothing");
    }
}

#[tokio::test]
async fn an_entry_of_a_node_proven_gone_goes_back_at_once_and_of_a_silent_node_not() {
    for place in places() {
        let (silent, dead, left) = (place.process(1).await, place.process(2).await, place.process(3).await);
        for process in [&silent, &dead, &left] {
            place.client().queue().submit(task(&format!("of-{}", process.id))).await.unwrap();
            assert_eq!(place.claim(process.id.as_str()).await.len(), 1);
        }
        if let Some(memory) = &place.memory {
            memory.silence(&silent.id);
        }
        place.clock.advance(10 * LEASE);
        let claims = place.client().claims();
        assert_eq!(claims.recovery_stats().await.unwrap().entries_reclaimed, 0, "its node is its heartbeat");
        dead.die();
        place.store.forget(&left.id).await.unwrap();
        assert_eq!(claims.detect_and_recover_stale().await.unwrap().entries_reclaimed, 2);
        let held: Vec<Task> =
            place.tasks().await.into_iter().filter(|task| task.state == TaskState::Claimed).collect();
        assert_eq!(held.len(), 1);
        assert_eq!(held[0].owner.as_deref(), Some(silent.id.as_str()));
    }
}

/// Something of everything that is stale, and of much that is not. The process is that of the node that lives.
async fn a_mess(place: &Place) -> Process {
    let (queue, locks) = (place.client().queue(), place.client().locks());
    let (lives, dead) = (place.process(1).await, place.process(2).await);
    for name in ["strict", "leased", "of-node", "of-dead", "strict-of-dead"] {
        let new = if name.starts_with("strict") { strict(name) } else { task(name) };
        queue.submit(new).await.unwrap();
        let owner = match name {
            "of-node" => lives.id.as_str(),
            "of-dead" | "strict-of-dead" => dead.id.as_str(),
            _ => "w",
        };
        assert_eq!(place.claim(owner).await.len(), 1);
    }
    for (name, ttl) in [("brief", SECOND), ("long", 10 * LEASE)] {
        locks.acquire(&LockName::new(name).unwrap(), "w", ttl).await.unwrap();
    }
    place.lock_through("of-dead", &dead.id, 10 * LEASE).await;
    place.lock_through("brief-of-dead", &dead.id, SECOND).await;
    place.clock.advance(LEASE);
    dead.die();
    lives
}

#[tokio::test]
async fn a_dry_run_counts_exactly_what_healing_then_does() {
    for place in places() {
        let _lives = a_mess(&place).await;
        let (client, link) = place.faulty(Plan::pass());
        let claims = client.claims();
        let dry = claims.recovery_stats().await.unwrap();
        assert_eq!(writes(&link.calls()), [], "looking touches nothing");
        let expected =
            RecoveryStats { locks_cleaned: 3, entries_reclaimed: 4, recovery_timestamp: place.clock.now() };
        assert_eq!(dry, expected);
        assert_eq!(claims.detect_and_recover_stale().await.unwrap(), dry);
        assert_eq!(writes(&link.calls()).len(), 7, "one write per record, its audit entry inside");
        let left = claims.recovery_stats().await.unwrap();
        assert_eq!((left.locks_cleaned, left.entries_reclaimed), (0, 0));
        assert_eq!(place.count(TaskState::Claimed).await, 1);
    }
}

#[tokio::test]
async fn nothing_is_written_on_a_healthy_store() {
    for place in places() {
        let (client, link) = place.faulty(Plan::pass());
        let node = place.process(1).await;
        for n in 0..30 {
            client.queue().submit(task(&format!("t{n}"))).await.unwrap();
        }
        client.queue().claim(want(node.id.as_str())).await.unwrap();
        client.queue().claim(want("w")).await.unwrap();
        place.lock_through("l", &node.id, 10 * LEASE).await;
        client.locks().acquire(&LockName::new("m").unwrap(), "w", 10 * LEASE).await.unwrap();
        place.clock.advance(LEASE - SECOND);
        let before = writes(&link.calls()).len();
        for _ in 0..10 {
            let claims = client.claims();
            claims.tick(place.clock.now()).await.unwrap();
            claims.detect_and_recover_stale().await.unwrap();
            claims.recovery_stats().await.unwrap();
            claims.reclaim_stale(LEASE).await.unwrap();
        }
        assert_eq!(writes(&link.calls()).len(), before);
    }
}

#[tokio::test]
async fn by_hand_a_threshold_decides_whatever_the_entry_allows() {
    for place in places() {
        let queue = place.client().queue();
        queue.submit(NewTask { silence_max: Some(10 * LEASE), ..task("patient") }).await.unwrap();
        queue.submit(task("leased")).await.unwrap();
        place.claim("w").await;
        place.clock.advance(30 * SECOND);
        queue.submit(task("young")).await.unwrap();
        place.claim("w").await;
        place.clock.advance(30 * SECOND);
        let claims = place.client().claims();
        assert_eq!(claims.count_stale(61 * SECOND).await.unwrap(), 0);
        assert_eq!(claims.reclaim_stale(61 * SECOND).await.unwrap(), 0);
        assert_eq!(claims.count_stale(60 * SECOND).await.unwrap(), 2);
        assert_eq!(claims.reclaim_stale(60 * SECOND).await.unwrap(), 2);
        assert_eq!(claims.reclaim_stale(60 * SECOND).await.unwrap(), 0);
        assert_eq!(place.task("young").await.state, TaskState::Claimed);
    }
}

#[tokio::test]
async fn by_hand_the_tasks_of_runs_are_left_to_living_nodes() {
    for place in places() {
        let (lives, dead) = (place.process(1).await, place.process(2).await);
        for process in [&lives, &dead] {
            let kind = Task::advance_kind("order", 1);
            let new = NewTask { kind, ..task(&format!("advance-{}", process.id)) };
            let held = new.into_task(place.clock.now()).claimed(process.id.as_str(), place.clock.now());
            assert_eq!(place.store.put_task(held, Expect::Absent).await.unwrap(), Written::Done);
        }
        place.clock.advance(LEASE);
        let (dead_id, claims) = (dead.id.clone(), place.client().claims());
        dead.die();
        assert_eq!(
            claims.detect_and_recover_stale().await.unwrap().entries_reclaimed,
            0,
            "keepers see to it"
        );
        assert_eq!(claims.reclaim_stale(LEASE).await.unwrap(), 1);
        assert_eq!(place.task(&format!("advance-{dead_id}")).await.state, TaskState::Ready);
        assert_eq!(place.task(&format!("advance-{}", lives.id)).await.state, TaskState::Claimed);
    }
}

#[tokio::test]
async fn healing_errors_never_stop_a_claim() {
    for on_file in [false, true] {
        for fault in [Fault::FailBefore, Fault::LoseReply] {
            let mut number = 1;
            loop {
                let place = if on_file { Place::on_file() } else { Place::in_memory() };
                let _lives = a_mess(&place).await;
                place.client().queue().submit(task("wanted")).await.unwrap();
                let (client, link) = place.faulty(Plan::pass().at(number, fault));
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
            assert!(number > 15, "the claim healed: {number}");
        }
    }
}

#[tokio::test]
async fn a_claim_heals_a_bounded_number_of_entries_and_the_next_one_goes_on() {
    for place in places() {
        let client = place.client();
        for n in 0..120 {
            client.queue().submit(strict(&format!("t{n:03}"))).await.unwrap();
        }
        let all = Want { limit: 1_000, ..want("w") };
        assert_eq!(client.queue().claim(all).await.unwrap().len(), 120);
        place.clock.advance(10 * SECOND);
        let none = || Want { limit: 0, ..want("w") };
        for expected in [50, 100, 120] {
            client.queue().claim(none()).await.unwrap();
            client.queue().claim(none()).await.unwrap();
            assert_eq!(place.count(TaskState::Ready).await, expected, "once a second");
            place.clock.advance(SECOND);
        }
    }
}

#[tokio::test]
async fn a_lane_is_free_again_once_its_claimant_is_silent() {
    for place in places() {
        let lane = Some(LaneName::new("main").unwrap());
        for name in ["a", "b"] {
            let new = NewTask { lane: lane.clone(), ..strict(name) };
            place.client().queue().submit(new).await.unwrap();
            place.clock.advance(SECOND);
        }
        assert_eq!(place.claim("w1").await[0].id.as_str(), "a");
        assert!(place.claim("w2").await.is_empty());
        place.clock.advance(10 * SECOND);
        let next = place.claim("w2").await;
        assert_eq!(next.len(), 1, "one at a time");
        assert_eq!(next[0].id.as_str(), "a", "and still the first");
    }
}

#[tokio::test]
async fn a_record_that_contradicts_itself_is_reported_and_freed() {
    for place in places() {
        let held = task("t").into_task(place.clock.now()).claimed("w", place.clock.now());
        let flawed = Task { owner: None, ..held };
        assert_eq!(place.store.put_task(flawed, Expect::Absent).await.unwrap(), Written::Done);
        let stats = place.client().queue().stats().await.unwrap();
        assert_eq!(stats.flaws.len(), 1);
        assert_eq!(stats.flaws[0].flaw, "it has an owner exactly while it is claimed");
        place.clock.advance(LEASE);
        assert_eq!(place.claim("w").await.len(), 1);
        assert_eq!(place.client().queue().stats().await.unwrap().flaws, []);
    }
}

#[tokio::test]
async fn queues_are_counted_by_what_stands_in_them() {
    for place in places() {
        let queue = place.client().queue();
        for name in ["a", "b", "c"] {
            queue.submit(task(name)).await.unwrap();
        }
        queue.submit(NewTask { run_at: Millis::NEVER, ..task("d") }).await.unwrap();
        let one = Want { limit: 1, ..want("w") };
        let done = queue.claim(one.clone()).await.unwrap().remove(0);
        queue.complete(&done.id, done.fence, Payload::null()).await.unwrap();
        queue.claim(one).await.unwrap();
        place.clock.advance(7 * SECOND);
        let stats = queue.stats().await.unwrap();
        let found = &stats.queues[0];
        assert_eq!((stats.queues.len(), found.queue.as_str(), stats.complete), (1, "merges", true));
        assert_eq!((found.ready, found.due, found.claimed, found.dead), (2, 1, 1, 0));
        assert_eq!((found.oldest_ms, stats.counted), (Some(7_000), 3), "what is over is not counted");
    }
}

#[tokio::test]
async fn an_engine_frees_what_a_crashed_one_held() {
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
async fn an_engine_that_leaves_keeps_nothing_from_others() {
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
