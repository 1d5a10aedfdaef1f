//! The pace of a store: how often an engine polls, and that a slower pace loses nothing.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::task::Task;
use goldseam_core::{Limits, Payload, RunId, Seq, Status, Summary};
use goldseam_engine::{Builder, Client, Config, Context, Engine, Seeded};
use goldseam_sim::clock::{SimClock, TrueTime};
use goldseam_store::faulty::{FaultPlan, StoreMethod};
use goldseam_store::{Append, FaultyStore, MemoryStore, Store, StorePace, TaskChange, TaskFilter};

const SECOND: Duration = Duration::from_secs(1);

/// A store with a pace, in virtual time.
struct Fixture {
    memory: Arc<MemoryStore>,
    time: TrueTime,
}

impl Fixture {
    fn at(pace: StorePace) -> Self {
        let time = TrueTime::begin();
        Self { memory: Arc::new(MemoryStore::new(time.store_clock()).at_pace(pace)), time }
    }

    fn link(&self) -> Arc<FaultyStore> {
        Arc::new(FaultyStore::new(self.memory.clone(), FaultPlan::pass()))
    }

    fn builder(&self, link: &Arc<FaultyStore>, seed: u64) -> Builder {
        let config = Config { beat_on_thread: false, ..Config::default() };
        let clock = Arc::new(SimClock::new(self.time, 0, 0));
        Engine::builder(link.clone()).config(config).clock(clock).entropy(Arc::new(Seeded::new(seed)))
    }

    fn client(&self, link: &Arc<FaultyStore>) -> Client {
        let clock = Arc::new(SimClock::new(self.time, 0, 0));
        Client::with(link.clone(), clock, Arc::new(Seeded::new(99)), Limits::default())
    }
}

/// Returns the number of requests of a call on an idle object store: waiting for changes shares the list of the
/// queue, and every response contains the server's time.
fn requests(op: StoreMethod) -> u64 {
    match op {
        StoreMethod::Changed | StoreMethod::Now => 0,
        _ => 1,
    }
}

fn asked(link: &FaultyStore, from: usize) -> u64 {
    link.calls()[from..].iter().map(|call| requests(call.op)).sum()
}

/// Sleeps for an hour.
async fn nap(ctx: Context, (): ()) -> goldseam_engine::Result<()> {
    ctx.sleep("nap", Duration::from_secs(3600)).await
}

/// One long step.
async fn work(ctx: Context, (): ()) -> goldseam_engine::Result<u32> {
    let long = || async {
        tokio::time::sleep(Duration::from_secs(300)).await;
        Ok(1)
    };
    ctx.step("long", long).without_heartbeat_timeout().await
}

fn id(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

#[tokio::test(start_paused = true)]
async fn idle_engine_makes_fewer_than_two_requests_per_second() {
    let fixture = Fixture::at(StorePace::remote(Duration::from_millis(50)));
    let link = fixture.link();
    let engine = fixture.builder(&link, 1).workflow("nap", nap).start().await.unwrap();
    engine.start("nap", "sleeper", &()).await.unwrap();
    tokio::time::sleep(30 * SECOND).await;
    let begun = link.calls().len();
    tokio::time::sleep(600 * SECOND).await;
    let count = asked(&link, begun);
    assert!(count <= 2 * 600, "{count} requests in ten minutes");
    // It does poll: it is not dead.
    assert!(count >= 600, "{count} requests in ten minutes");
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn idle_engine_polls_a_fast_store_a_few_times_per_second() {
    let fixture = Fixture::at(StorePace::default());
    let link = fixture.link();
    let engine = fixture.builder(&link, 1).start().await.unwrap();
    tokio::time::sleep(30 * SECOND).await;
    let begun = link.calls().len();
    tokio::time::sleep(600 * SECOND).await;
    let count = asked(&link, begun);
    assert!(count <= 4 * 600, "{count} reads and writes in ten minutes");
    assert!(count >= 2 * 600, "{count} reads and writes in ten minutes");
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn no_call_is_made_more_often_than_the_pace_allows() {
    let pace = StorePace::remote(Duration::ZERO);
    let fixture = Fixture::at(pace);
    let link = fixture.link();
    let engine = fixture.builder(&link, 1).workflow("nap", nap).start().await.unwrap();
    tokio::time::sleep(30 * SECOND).await;
    let begun = link.calls().len();
    tokio::time::sleep(600 * SECOND).await;
    let count = |op: StoreMethod| link.calls()[begun..].iter().filter(|call| call.op == op).count() as u64;
    let most = |every: Duration| 600 / every.as_secs() + 1;
    assert!(count(StoreMethod::Beat) <= most(pace.beat));
    assert!(count(StoreMethod::Claim) <= most(pace.poll));
    assert!(count(StoreMethod::Locks) <= 2 * most(pace.claim_watch));
    assert!(count(StoreMethod::Rowless) <= most(pace.sweep));
    assert!(count(StoreMethod::Runs) <= 2 * most(pace.sweep));
    let rounds = most(pace.claim_watch) + most(pace.monitor) + most(pace.sweep) + most(pace.reconcile);
    assert!(count(StoreMethod::Nodes) <= most(pace.watch) + rounds);
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn silent_node_is_taken_over_but_a_slow_one_is_not() {
    let fixture = Fixture::at(StorePace::remote(Duration::from_millis(100)));
    let first_link = fixture.link();
    let second_link = fixture.link();
    let first = fixture.builder(&first_link, 1).workflow("work", work).start().await.unwrap();
    fixture.memory.silence(first.node_id());
    first.start("work", "a", &()).await.unwrap();
    let second = fixture.builder(&second_link, 2).workflow("work", work).start().await.unwrap();
    fixture.memory.silence(second.node_id());
    tokio::time::sleep(200 * SECOND).await;
    let owner = async || second.client().get(&id("a")).await.unwrap().owner;
    assert_eq!(owner().await.as_ref(), Some(first.node_id()), "the owner beats and keeps the run");
    first_link.crash();
    first.crash();
    let silence = StorePace::remote(Duration::from_millis(100)).silence_max;
    tokio::time::sleep(silence - 4 * SECOND).await;
    assert_ne!(owner().await.as_ref(), Some(second.node_id()), "the owner may still live");
    // One poll notices the last beat, and another one the silence.
    tokio::time::sleep(4 * SECOND + 2 * 6 * SECOND + SECOND).await;
    assert_eq!(owner().await.as_ref(), Some(second.node_id()), "the silent owner is replaced");
    assert_eq!(second.handle(id("a")).result::<u32>().await.unwrap(), 1);
    second.shutdown().await;
}

/// Ten steps of a second each.
async fn steps(ctx: Context, (): ()) -> goldseam_engine::Result<()> {
    for number in 0..10 {
        let short = || async {
            tokio::time::sleep(SECOND).await;
            Ok(())
        };
        ctx.step(format!("step-{number}").as_str(), short).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn node_trusts_its_claim_by_the_pace_not_by_its_config() {
    let fixture = Fixture::at(StorePace::remote(Duration::from_millis(100)));
    let link = fixture.link();
    let hasty = Config {
        beat: Duration::from_millis(100),
        silence_max: Duration::from_millis(500),
        sweep: None,
        beat_on_thread: false,
        ..Config::default()
    };
    let engine = fixture.builder(&link, 1).config(hasty).workflow("steps", steps).start().await.unwrap();
    let begun = link.calls().len();
    engine.start("steps", "a", &()).await.unwrap().result::<()>().await.unwrap();
    // A node that does not trust its claim reads the head before every step.
    let heads = link.calls()[begun..].iter().filter(|call| call.op == StoreMethod::Head).count();
    assert!(heads <= 2, "{heads} reads of the head");
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn waiting_client_reads_the_head_once() {
    let fixture = Fixture::at(StorePace::remote(Duration::from_millis(50)));
    let link = fixture.link();
    let other = fixture.link();
    let engine = fixture.builder(&link, 1).workflow("work", work).start().await.unwrap();
    let client = fixture.client(&other);
    let run = client.start("work", &id("a"), &Payload::null()).await.unwrap();
    let begun = other.calls().len();
    let from = fixture.time.elapsed();
    assert_eq!(run.result::<u32>().await.unwrap(), 1);
    let seconds = (fixture.time.elapsed() - from).as_secs();
    let calls = other.calls()[begun..].to_vec();
    let count = |op: StoreMethod| calls.iter().filter(|call| call.op == op).count() as u64;
    assert!(seconds >= 300, "{seconds} s");
    assert!(count(StoreMethod::Head) <= 4, "{} reads of the head", count(StoreMethod::Head));
    assert!(count(StoreMethod::Read) <= 2 * (seconds + 2), "{} reads of the log", count(StoreMethod::Read));
    assert_eq!(engine.client().get(&id("a")).await.unwrap().status, Status::Completed);
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn store_without_a_pace_is_polled_as_configured() {
    let fixture = Fixture::at(StorePace::default());
    let link = fixture.link();
    let engine = fixture.builder(&link, 1).workflow("nap", nap).start().await.unwrap();
    let other = fixture.builder(&fixture.link(), 2).workflow("nap", nap).start().await.unwrap();
    let polls = || link.calls().iter().filter(|call| call.op == StoreMethod::Nodes).count();
    tokio::time::sleep(10 * SECOND).await;
    let before = polls();
    tokio::time::sleep(10 * SECOND).await;
    let nodes = polls() - before;
    assert!(nodes >= 90, "{nodes} polls of the nodes in ten seconds");
    other.shutdown().await;
    assert_eq!(link.pace(), StorePace::default());
    engine.shutdown().await;
}

/// Most requests of an idle engine per hour, as docs/guides/nothing-but-s3.md states them: two per second, and the share of
/// the walk over the dormant runs.
const IDLE_MAX: u64 = 2 * 3_600;
const WALK_MAX: u64 = 12 * (2 + 2_000 * 4 + 2);

/// Copies the resting run `pattern` this many times.
async fn copy_pattern(store: &dyn Store, copies: u32) {
    let row = store.head(&id("pattern")).await.unwrap().unwrap().row.unwrap();
    let own = TaskFilter { run: Some(id("pattern")), limit: 1, ..TaskFilter::default() };
    let task = store.tasks(own).await.unwrap().remove(0);
    let log = store.read(&id("pattern"), Seq::ZERO, 100).await.unwrap();
    for number in 0..copies {
        let run = id(&format!("dormant-{number:05}"));
        let summary = Summary { run: run.clone(), ..row.summary.clone() };
        let task = Task { id: Task::advance_id(&run, 1), run: Some(run.clone()), version: 1, ..task.clone() };
        let append = Append {
            run,
            after: Seq::ZERO,
            bodies: log.iter().map(|record| record.body.clone()).collect(),
            row: Some(Box::new(summary)),
            tasks: vec![TaskChange::Create(Box::new(task))],
        };
        store.append(append).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn idle_engine_in_a_bucket_makes_no_more_requests_than_stated() {
    let time = TrueTime::begin();
    let store = Arc::new(goldseam_store_object::testing::paid_store(time.store_clock()));
    let config = Config { beat_on_thread: false, ..Config::default() };
    let clock = Arc::new(SimClock::new(time, 0, 0));
    let builder =
        Engine::builder(store.clone()).config(config).clock(clock).entropy(Arc::new(Seeded::new(1)));
    let listen = |ctx: Context, (): ()| async move { ctx.signal::<()>("go").await };
    let engine = builder.workflow("listen", listen).start().await.unwrap();
    engine.start("listen", "pattern", &()).await.unwrap();
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(engine.client().get(&id("pattern")).await.unwrap().status, Status::Waiting);
    let mut hours = Vec::new();
    for dormant in [0, 5_000] {
        copy_pattern(&*store, dormant).await;
        // The first walk over new runs reads each of them once.
        tokio::time::sleep(3_600 * SECOND).await;
        let before = store.request_counts();
        tokio::time::sleep(3_600 * SECOND).await;
        let hour = store.request_counts().since(&before);
        println!("{dormant} dormant runs: {hour:?}");
        hours.push(hour.puts + hour.gets + hour.lists + hour.deletes);
    }
    assert!((3_600..=IDLE_MAX).contains(&hours[0]), "{hours:?}");
    assert!(hours[1] <= IDLE_MAX + WALK_MAX, "{hours:?}");
    engine.shutdown().await;
}
