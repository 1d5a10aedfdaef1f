use goldseam_core::delivery::delivery_task;
use goldseam_core::task::Task;
use goldseam_core::{Event, Payload, Status, WorkflowName};
use goldseam_store::faulty::{CallFault, FaultPlan, FaultyStore};
use goldseam_store::{Expect, MemoryStore, Store, TaskFilter, Written};

use super::*;
use crate::client::{By, Client};
use crate::ledger::clock::{Clock, SystemClock};
use crate::ledger::entropy::OsEntropy;
use crate::ledger::meter::Meter;
use crate::ledger::process::Process;
use crate::run::context::Context;
use crate::testing::{SimClock, TrueTime};

fn node() -> Arc<Node> {
    node_on(Arc::new(MemoryStore::new(Arc::new(|| goldseam_core::Millis(1)))), Arc::new(SystemClock))
}

/// A node without background work.
pub(super) fn node_on(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Arc<Node> {
    node_with(store, clock, Registry::default())
}

/// A node without background work, with workflows.
fn node_with(store: Arc<dyn Store>, clock: Arc<dyn Clock>, registry: Registry) -> Arc<Node> {
    let id = NodeId::new("n-1").unwrap();
    let time = Arc::new(StoreTime::new(Arc::clone(&clock)));
    let config = Config::default();
    let live_runs = Arc::new(LiveRuns::of_client());
    let ledger = Ledger {
        store,
        clock,
        entropy: Arc::new(OsEntropy),
        limits: Arc::new(config.limits.clone()),
        asks: None,
        meter: Meter::default(),
        process: Arc::clone(&live_runs) as Arc<dyn Process>,
        secrets: Arc::default(),
    };
    let config = Arc::new(config);
    Node::new(NodeSetup { ledger, live_runs, config, registry, id, time, handoff: None })
}

impl Node {
    /// A client of the node's store.
    pub(super) fn client(&self) -> Client {
        Client::of(self.ledger.clone(), Arc::clone(&self.live_runs), self.claims.clone(), Arc::default())
    }
}

#[tokio::test]
async fn audit_is_trimmed_by_age_and_only_the_audit() {
    const DAY: i64 = 86_400_000;
    let (store, clock) = MemoryStore::manual();
    let store: Arc<dyn Store> = Arc::new(store);
    let node = node_on(Arc::clone(&store), Arc::new(SystemClock));
    let locks = node.client().locks();
    for (name, at) in [("old", DAY), ("new", 50 * DAY)] {
        clock.set(goldseam_core::Millis(at));
        let lock = goldseam_core::LockName::new(name).unwrap();
        locks.acquire(&lock, "ada", Duration::from_millis(1)).await.unwrap();
        clock.set(goldseam_core::Millis(at + 2));
        assert_eq!(node.claims.detect_and_recover_stale().await.unwrap().locks_cleaned, 1);
    }
    let names = async || -> Vec<String> {
        let filter = goldseam_store::AuditFilter { limit: 9, ..Default::default() };
        let page = store.audit().unwrap().audit_entries(filter).await.unwrap();
        page.items.into_iter().map(|entry| entry.subject).collect()
    };
    assert!(!node.trim_audit().await);
    assert_eq!(names().await, ["new", "old"], "both are younger than 90 days");
    clock.set(goldseam_core::Millis(92 * DAY));
    assert!(!node.trim_audit().await, "there is no more");
    assert_eq!(names().await, ["new"]);
    let all = goldseam_store::LockFilter { limit: 9, ..Default::default() };
    let kept = store.locks(all).await.unwrap();
    assert!(kept.len() == 2 && kept.iter().all(|lock| !lock.audit.is_empty()), "{kept:?}");
}

#[tokio::test]
async fn finished_work_is_removed() {
    let node = node();
    for _ in 0..1_000 {
        let work = spawn(async {});
        while !work.is_finished() {
            tokio::task::yield_now().await;
        }
        node.adopt(work);
    }
    assert!(node.work.lock().unwrap().all.len() <= 64);
}

#[test]
fn poke_of_a_run_being_loaded_is_kept() {
    let node = node();
    let run = RunId::new("r").unwrap();
    node.taking().insert(run.clone(), false);
    node.poke(&run);
    assert_eq!(node.taking().get(&run), Some(&true));
}

/// What the body of a step did, in order.
#[derive(Debug, Clone, Default)]
struct StepLog(Arc<Mutex<Vec<&'static str>>>);

impl StepLog {
    fn all(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }

    fn begins(&self) -> usize {
        self.all().iter().filter(|what| **what == "begin").count()
    }
}

/// Records the end of a step's body, however it ends.
struct Body(StepLog);

impl Drop for Body {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().push("end");
    }
}

/// A store, a node whose workflow has one step that waits for a permit, and a ready run of it.
struct Fixture {
    store: Arc<MemoryStore>,
    node: Arc<Node>,
    steps: StepLog,
    permits: Arc<tokio::sync::Semaphore>,
    client: Client,
    run: RunId,
}

impl Fixture {
    /// `plan` injects faults into the appends of the node, not into those of the client.
    async fn built(plan: FaultPlan) -> Self {
        let time = TrueTime::begin();
        let store = Arc::new(MemoryStore::new(time.store_clock()));
        let clock: Arc<dyn Clock> = Arc::new(SimClock::new(time, 0, 0));
        let steps = StepLog::default();
        let permits = Arc::new(tokio::sync::Semaphore::new(0));
        let mut registry = Registry::default();
        let log = steps.clone();
        let gate = Arc::clone(&permits);
        let work = move |ctx: Context, (): ()| {
            let log = log.clone();
            let gate = Arc::clone(&gate);
            async move {
                ctx.step("ship", || async {
                    log.0.lock().unwrap().push("begin");
                    let _body = Body(log.clone());
                    gate.acquire().await.map_err(|_| crate::Error::terminal("closed"))?.forget();
                    Ok::<u32, crate::Error>(1)
                })
                .await
            }
        };
        registry.add(WorkflowName::new("w").unwrap(), 1, work);
        let faulty: Arc<dyn Store> = Arc::new(FaultyStore::new(Arc::clone(&store) as Arc<dyn Store>, plan));
        let node = node_with(faulty, Arc::clone(&clock), registry);
        let client = node_on(Arc::clone(&store) as Arc<dyn Store>, clock).client();
        let run = RunId::new("r").unwrap();
        client.start("w", &run, &Payload::null()).await.unwrap();
        Self { store, node, steps, permits, client, run }
    }

    /// The run's advance task, claimed by the node.
    async fn task(&self) -> Task {
        let row = self.store.head(&self.run).await.unwrap().unwrap().row.unwrap();
        let filter = TaskFilter { id: row.task, limit: 1, ..TaskFilter::default() };
        let task = self.store.tasks(filter).await.unwrap().remove(0);
        let expect = Expect::Version(task.version);
        let held = task.claimed(self.node.id.as_str(), self.store.now().await.unwrap());
        assert_eq!(self.store.put_task(held.clone(), expect).await.unwrap(), Written::Done);
        held
    }

    fn take(&self, task: Task) -> JoinHandle<()> {
        spawn(Arc::clone(&self.node).take(task))
    }

    async fn has_begun(&self, times: usize) {
        while self.steps.begins() < times {
            pause(Duration::from_millis(10)).await;
        }
    }

    async fn claims(&self) -> usize {
        let log = self.client.history(&self.run).await.unwrap();
        log.iter().filter(|recorded| matches!(recorded.event, Event::RunClaimed(_))).count()
    }
}

/// Returns once only the clock can move anything.
async fn idle() {
    pause(Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn claim_succeeds_only_for_the_current_task() {
    // The claim's append is delayed while another task replaces the run's task.
    let fixture =
        Fixture::built(FaultPlan::pass().at_append(1, CallFault::Delay(Duration::from_secs(1)))).await;
    let older = fixture.take(fixture.task().await);
    pause(Duration::from_millis(500)).await;
    fixture.client.requeue(&fixture.run, By::default()).await.unwrap();
    older.await.unwrap();
    assert_eq!((fixture.claims().await, fixture.steps.begins()), (0, 0));
    let newer = fixture.take(fixture.task().await);
    fixture.has_begun(1).await;
    fixture.permits.add_permits(1);
    newer.await.unwrap();
    assert_eq!(fixture.client.get(&fixture.run).await.unwrap().status, Status::Completed);
    assert_eq!((fixture.claims().await, fixture.steps.all()), (1, vec!["begin", "end"]));
}

#[tokio::test(start_paused = true)]
async fn row_behind_its_log_does_not_end_a_task() {
    // As on object storage, where the row is written after the log and the new task.
    let fixture = Fixture::built(FaultPlan::pass()).await;
    let before = fixture.store.head(&fixture.run).await.unwrap().unwrap().row.unwrap();
    fixture.client.reset(&fixture.run, By::default()).await.unwrap();
    let newer = fixture.task().await;
    assert_ne!(Some(&newer.id), before.task.as_ref());
    let now = fixture.store.head(&fixture.run).await.unwrap().unwrap().row.unwrap();
    fixture.store.put_row(before, Expect::Version(now.summary.as_of.0)).await.unwrap();
    let taken = fixture.take(newer);
    fixture.has_begun(1).await;
    fixture.permits.add_permits(1);
    taken.await.unwrap();
    assert_eq!(fixture.client.get(&fixture.run).await.unwrap().status, Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn second_task_waits_while_its_run_executes_here() {
    let fixture = Fixture::built(FaultPlan::pass()).await;
    let task = fixture.task().await;
    let first = fixture.take(task.clone());
    let second = fixture.take(task.clone());
    fixture.has_begun(1).await;
    let third = fixture.take(task);
    idle().await;
    assert_eq!((fixture.claims().await, fixture.steps.all()), (1, vec!["begin"]));
    assert!(!second.is_finished() && !third.is_finished());
    fixture.permits.add_permits(1);
    for one in [first, second, third] {
        one.await.unwrap();
    }
    assert_eq!((fixture.claims().await, fixture.steps.all()), (1, vec!["begin", "end"]));
    assert!(fixture.node.taking().is_empty());
}

#[tokio::test(start_paused = true)]
async fn execution_ends_before_its_successor_begins() {
    let fixture = Fixture::built(FaultPlan::pass()).await;
    let first = fixture.take(fixture.task().await);
    fixture.has_begun(1).await;
    // The run moves to another branch with another task, and the execution has not noticed.
    fixture.client.reset(&fixture.run, By::default()).await.unwrap();
    let second = fixture.take(fixture.task().await);
    fixture.has_begun(2).await;
    assert_eq!(fixture.steps.all(), ["begin", "end", "begin"]);
    fixture.permits.add_permits(1);
    first.await.unwrap();
    second.await.unwrap();
    assert_eq!(fixture.client.get(&fixture.run).await.unwrap().status, Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn forged_delivery_task_reaches_no_run() {
    let fixture = Fixture::built(FaultPlan::pass()).await;
    let other = RunId::new("other").unwrap();
    fixture.client.start("w", &other, &Payload::null()).await.unwrap();
    fixture.client.cancel(&other, By::default()).await.unwrap();
    let now = fixture.store.now().await.unwrap();
    // Of a run that is not a child; with the id of a step; without a run.
    let sent = delivery_task(&fixture.run, &other, Some(&fixture.node.id), now);
    let step = Task { id: goldseam_core::TaskId::new("s-1").unwrap(), ..sent.clone() };
    let none = Task { id: goldseam_core::TaskId::new("s-2").unwrap(), run: None, ..sent.clone() };
    for task in [sent, step, none] {
        assert_eq!(fixture.store.put_task(task.clone(), Expect::Absent).await.unwrap(), Written::Done);
        fixture.take(task.clone()).await.unwrap();
        let filter = TaskFilter { id: Some(task.id.clone()), limit: 1, ..TaskFilter::default() };
        let left = fixture.store.tasks(filter).await.unwrap().remove(0);
        assert_eq!(left.state, goldseam_core::task::TaskState::Cancelled, "{}", task.id);
    }
    let log = fixture.client.history(&fixture.run).await.unwrap();
    assert!(log.iter().all(|recorded| matches!(recorded.event, Event::RunQueued(_))), "{log:?}");
}
