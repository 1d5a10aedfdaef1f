use goldseam_core::task::Task;
use goldseam_core::{Event, Payload, Status, WorkflowName};
use goldseam_store::faulty::{Fault, FaultyStore, Plan};
use goldseam_store::{Expect, MemoryStore, Store, TaskFilter, Written};

use super::*;
use crate::client::{By, Client, StartOptions};
use crate::ledger::clock::{Clock, SystemClock};
use crate::ledger::delivery::delivery_task;
use crate::ledger::entropy::OsEntropy;
use crate::ledger::meter::Meter;
use crate::ledger::process::Process;
use crate::run::context::Context;
use crate::testing::{SimClock, TrueTime};

fn node() -> Arc<Node> {
    node_on(Arc::new(MemoryStore::new(Arc::new(|| goldseam_core::Millis(1)))), Arc::new(SystemClock))
}

/// A node that does nothing by itself.
pub(super) fn node_on(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Arc<Node> {
    node_with(store, clock, Registry::default())
}

/// The same, with workflows.
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
    Node::new((ledger, live_runs), Arc::new(config), registry, (id, time), None)
}

impl Node {
    /// A client of this node's store.
    pub(super) fn client(&self) -> Client {
        Client::of(self.ledger.clone(), Arc::clone(&self.live_runs), self.claims.clone())
    }
}

#[tokio::test]
async fn work_that_is_over_is_let_go() {
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
fn a_run_that_is_poked_on_its_way_into_memory_is_not_forgotten() {
    let (node, run) = (node(), RunId::new("r").unwrap());
    node.taking().insert(run.clone(), false);
    node.poke(&run);
    assert_eq!(node.taking().get(&run), Some(&true));
}

/// What the body of a step did, in order.
#[derive(Debug, Clone, Default)]
struct Seen(Arc<Mutex<Vec<&'static str>>>);

impl Seen {
    fn all(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }

    fn begins(&self) -> usize {
        self.all().iter().filter(|what| **what == "begin").count()
    }
}

/// Says when the body of a step is over, however it ends.
struct Body(Seen);

impl Drop for Body {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().push("end");
    }
}

/// A store, a node on it whose workflow has one step behind a door, and a run of it that is ready.
struct House {
    store: Arc<MemoryStore>,
    node: Arc<Node>,
    seen: Seen,
    door: Arc<tokio::sync::Semaphore>,
    client: Client,
    run: RunId,
}

impl House {
    /// The appends of the node go by `plan`; those of the client do not.
    async fn built(plan: Plan) -> Self {
        let time = TrueTime::begin();
        let store = Arc::new(MemoryStore::new(time.store_clock()));
        let clock: Arc<dyn Clock> = Arc::new(SimClock::new(time, 0, 0));
        let (seen, door) = (Seen::default(), Arc::new(tokio::sync::Semaphore::new(0)));
        let mut registry = Registry::default();
        let (log, gate) = (seen.clone(), Arc::clone(&door));
        let work = move |ctx: Context, (): ()| {
            let (log, gate) = (log.clone(), Arc::clone(&gate));
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
        registry.add(WorkflowName::new("w").unwrap(), 1, work, &goldseam_core::Limits::default());
        let faulty: Arc<dyn Store> = Arc::new(FaultyStore::new(Arc::clone(&store) as Arc<dyn Store>, plan));
        let node = node_with(faulty, Arc::clone(&clock), registry);
        let client = node_on(Arc::clone(&store) as Arc<dyn Store>, clock).client();
        let run = RunId::new("r").unwrap();
        client.start("w", &run, Payload::null(), StartOptions::default()).await.unwrap();
        Self { store, node, seen, door, client, run }
    }

    /// The run's own task, claimed by the node.
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
        while self.seen.begins() < times {
            pause(Duration::from_millis(10)).await;
        }
    }

    async fn claims(&self) -> usize {
        let log = self.client.history(&self.run).await.unwrap();
        log.iter().filter(|recorded| matches!(recorded.event, Event::RunClaimed(_))).count()
    }
}

/// Returns once nothing moves any more but by the clock.
async fn idle() {
    pause(Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_lands_only_for_a_task_that_still_counts() {
    // The claim has looked, and its append is on its way when another one gives the run a new task.
    let house = House::built(Plan::pass().at_append(1, Fault::Delay(Duration::from_secs(1)))).await;
    let older = house.take(house.task().await);
    pause(Duration::from_millis(500)).await;
    house.client.requeue(&house.run, By::default()).await.unwrap();
    older.await.unwrap();
    assert_eq!((house.claims().await, house.seen.begins()), (0, 0));
    let newer = house.take(house.task().await);
    house.has_begun(1).await;
    house.door.add_permits(1);
    newer.await.unwrap();
    assert_eq!(house.client.get(&house.run).await.unwrap().status, Status::Completed);
    assert_eq!((house.claims().await, house.seen.all()), (1, vec!["begin", "end"]));
}

#[tokio::test(start_paused = true)]
async fn a_row_behind_its_log_ends_no_task() {
    // As on object storage, where the row is written after the log and the new task.
    let house = House::built(Plan::pass()).await;
    let before = house.store.head(&house.run).await.unwrap().unwrap().row.unwrap();
    house.client.reset(&house.run, By::default()).await.unwrap();
    let newer = house.task().await;
    assert_ne!(Some(&newer.id), before.task.as_ref());
    let now = house.store.head(&house.run).await.unwrap().unwrap().row.unwrap();
    house.store.put_row(before, Expect::Version(now.summary.as_of.0)).await.unwrap();
    let taken = house.take(newer);
    house.has_begun(1).await;
    house.door.add_permits(1);
    taken.await.unwrap();
    assert_eq!(house.client.get(&house.run).await.unwrap().status, Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_second_task_waits_while_its_run_is_executed_here() {
    let house = House::built(Plan::pass()).await;
    let task = house.task().await;
    let first = house.take(task.clone());
    let second = house.take(task.clone());
    house.has_begun(1).await;
    let third = house.take(task);
    idle().await;
    assert_eq!((house.claims().await, house.seen.all()), (1, vec!["begin"]));
    assert!(!second.is_finished() && !third.is_finished());
    house.door.add_permits(1);
    for one in [first, second, third] {
        one.await.unwrap();
    }
    assert_eq!((house.claims().await, house.seen.all()), (1, vec!["begin", "end"]));
    assert!(house.node.taking().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_execution_ends_before_its_successor_begins() {
    let house = House::built(Plan::pass()).await;
    let first = house.take(house.task().await);
    house.has_begun(1).await;
    // Its run goes to another branch, with another task, and it has not noticed.
    house.client.reset(&house.run, By::default()).await.unwrap();
    let second = house.take(house.task().await);
    house.has_begun(2).await;
    assert_eq!(house.seen.all(), ["begin", "end", "begin"]);
    house.door.add_permits(1);
    first.await.unwrap();
    second.await.unwrap();
    assert_eq!(house.client.get(&house.run).await.unwrap().status, Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn mail_that_the_engine_did_not_send_reaches_no_run() {
    let house = House::built(Plan::pass()).await;
    let other = RunId::new("other").unwrap();
    house.client.start("w", &other, Payload::null(), StartOptions::default()).await.unwrap();
    house.client.cancel(&other, By::default()).await.unwrap();
    let now = house.store.now().await.unwrap();
    // Of a run that is no child; under an id of a step; of no run at all.
    let sent = delivery_task(&house.run, &other, Some(&house.node.id), now);
    let step = Task { id: goldseam_core::TaskId::new("s-1").unwrap(), ..sent.clone() };
    let none = Task { id: goldseam_core::TaskId::new("s-2").unwrap(), run: None, ..sent.clone() };
    for task in [sent, step, none] {
        assert_eq!(house.store.put_task(task.clone(), Expect::Absent).await.unwrap(), Written::Done);
        house.take(task.clone()).await.unwrap();
        let filter = TaskFilter { id: Some(task.id.clone()), limit: 1, ..TaskFilter::default() };
        let left = house.store.tasks(filter).await.unwrap().remove(0);
        assert_eq!(left.state, goldseam_core::task::TaskState::Cancelled, "{}", task.id);
    }
    let log = house.client.history(&house.run).await.unwrap();
    assert!(log.iter().all(|recorded| matches!(recorded.event, Event::RunQueued(_))), "{log:?}");
}
