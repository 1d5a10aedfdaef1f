//! A store where every call is a request: how often an engine asks it, and that nothing is lost by asking less.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::{Limits, Payload, RunId, Status};
use goldseam_engine::{Builder, Client, Config, Context, Engine, Seeded};
use goldseam_sim::clock::{SimClock, TrueTime};
use goldseam_store::faulty::{Op, Plan};
use goldseam_store::{FaultyStore, MemoryStore, Pace, Store};

const SECOND: Duration = Duration::from_secs(1);

/// A store that is asked at this pace, in virtual time.
struct House {
    memory: Arc<MemoryStore>,
    time: TrueTime,
}

impl House {
    fn at(pace: Pace) -> Self {
        let time = TrueTime::begin();
        Self { memory: Arc::new(MemoryStore::new(time.store_clock()).at_pace(pace)), time }
    }

    fn link(&self) -> Arc<FaultyStore> {
        Arc::new(FaultyStore::new(self.memory.clone(), Plan::pass()))
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

/// Requests that a call is on a store where nothing has changed: waiting shares its list with the queue, and the
/// clock is told with every answer.
fn requests(op: Op) -> u64 {
    match op {
        Op::Changed | Op::Now => 0,
        _ => 1,
    }
}

fn asked(link: &FaultyStore, from: usize) -> u64 {
    link.calls()[from..].iter().map(|call| requests(call.op)).sum()
}

/// Waits an hour, or for ever.
async fn nap(ctx: Context, (): ()) -> goldseam_engine::Result<()> {
    ctx.sleep("nap", Duration::from_secs(3600)).await
}

/// One long step.
async fn work(ctx: Context, (): ()) -> goldseam_engine::Result<u32> {
    let long = || async {
        tokio::time::sleep(Duration::from_secs(300)).await;
        Ok::<_, goldseam_engine::Error>(1)
    };
    ctx.step("long", long).await
}

fn id(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_idle_engine_asks_less_than_twice_a_second() {
    let house = House::at(Pace::remote(Duration::from_millis(50)));
    let link = house.link();
    let engine = house.builder(&link, 1).workflow("nap", nap).start().await.unwrap();
    engine.run("nap", "sleeper", &()).await.unwrap();
    tokio::time::sleep(30 * SECOND).await;
    let begun = link.calls().len();
    tokio::time::sleep(600 * SECOND).await;
    let count = asked(&link, begun);
    assert!(count <= 2 * 600, "{count} requests in ten minutes");
    // It does ask: the bound is kept by pace, not by death.
    assert!(count >= 600, "{count} requests in ten minutes");
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_engine_on_a_quick_store_asks_a_few_times_a_second() {
    let house = House::at(Pace::default());
    let link = house.link();
    let engine = house.builder(&link, 1).start().await.unwrap();
    tokio::time::sleep(30 * SECOND).await;
    let begun = link.calls().len();
    tokio::time::sleep(600 * SECOND).await;
    let count = asked(&link, begun);
    assert!(count <= 4 * 600, "{count} reads and writes in ten minutes");
    assert!(count >= 2 * 600, "{count} reads and writes in ten minutes");
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn no_sort_of_question_is_asked_more_often_than_the_pace_allows() {
    let pace = Pace::remote(Duration::ZERO);
    let house = House::at(pace);
    let link = house.link();
    let engine = house.builder(&link, 1).workflow("nap", nap).start().await.unwrap();
    tokio::time::sleep(30 * SECOND).await;
    let begun = link.calls().len();
    tokio::time::sleep(600 * SECOND).await;
    let count = |op: Op| link.calls()[begun..].iter().filter(|call| call.op == op).count() as u64;
    let most = |every: Duration| 600 / every.as_secs() + 1;
    assert!(count(Op::Beat) <= most(pace.beat));
    assert!(count(Op::Claim) <= most(pace.poll));
    assert!(count(Op::Locks) <= 2 * most(pace.claim_watch));
    assert!(count(Op::Rowless) <= most(pace.sweep));
    assert!(count(Op::Runs) <= 2 * most(pace.sweep));
    let rounds = most(pace.claim_watch) + most(pace.monitor) + most(pace.sweep) + most(pace.reconcile);
    assert!(count(Op::Nodes) <= most(pace.watch) + rounds);
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_is_taken_over_from_and_a_slow_one_is_not() {
    let house = House::at(Pace::remote(Duration::from_millis(100)));
    let (first_link, second_link) = (house.link(), house.link());
    let first = house.builder(&first_link, 1).workflow("work", work).start().await.unwrap();
    house.memory.silence(first.node_id());
    first.run("work", "a", &()).await.unwrap();
    let second = house.builder(&second_link, 2).workflow("work", work).start().await.unwrap();
    house.memory.silence(second.node_id());
    tokio::time::sleep(200 * SECOND).await;
    let owner = async || second.get(&id("a")).await.unwrap().owner;
    assert_eq!(owner().await.as_ref(), Some(first.node_id()), "its owner beats, and keeps it");
    first_link.crash();
    first.crash();
    let silence = Pace::remote(Duration::from_millis(100)).silence_max;
    tokio::time::sleep(silence - 4 * SECOND).await;
    assert_ne!(owner().await.as_ref(), Some(second.node_id()), "its owner may still live");
    // The last beat is noticed after a look, and silence with the first look after it has lasted.
    tokio::time::sleep(4 * SECOND + 2 * 6 * SECOND + SECOND).await;
    assert_eq!(owner().await.as_ref(), Some(second.node_id()), "nobody has heard of its owner");
    assert_eq!(second.handle(id("a")).result::<u32>().await.unwrap(), 1);
    second.shutdown().await;
}

/// Ten steps of a second each.
async fn steps(ctx: Context, (): ()) -> goldseam_engine::Result<()> {
    for number in 0..10 {
        let short = || async {
            tokio::time::sleep(SECOND).await;
            Ok::<_, goldseam_engine::Error>(())
        };
        ctx.step(format!("step-{number}").as_str(), short).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_node_is_sure_of_itself_by_the_pace_and_not_by_what_it_was_told() {
    let house = House::at(Pace::remote(Duration::from_millis(100)));
    let link = house.link();
    let hasty = Config {
        beat: Duration::from_millis(100),
        silence_max: Duration::from_millis(500),
        sweep: None,
        beat_on_thread: false,
        ..Config::default()
    };
    let engine = house.builder(&link, 1).config(hasty).workflow("steps", steps).start().await.unwrap();
    let begun = link.calls().len();
    engine.run("steps", "a", &()).await.unwrap().result::<()>().await.unwrap();
    // Whoever is not sure asks the store about its claim before every step.
    let heads = link.calls()[begun..].iter().filter(|call| call.op == Op::Head).count();
    assert!(heads <= 2, "{heads} looks at the head");
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_waits_elsewhere_reads_the_head_once() {
    let house = House::at(Pace::remote(Duration::from_millis(50)));
    let (link, other) = (house.link(), house.link());
    let engine = house.builder(&link, 1).workflow("work", work).start().await.unwrap();
    let client = house.client(&other);
    let run = client.start("work", &id("a"), Payload::null(), Default::default()).await.unwrap();
    let begun = other.calls().len();
    let from = house.time.elapsed();
    assert_eq!(run.result::<u32>().await.unwrap(), 1);
    let seconds = (house.time.elapsed() - from).as_secs();
    let calls = other.calls()[begun..].to_vec();
    let count = |op: Op| calls.iter().filter(|call| call.op == op).count() as u64;
    assert!(seconds >= 300, "{seconds} s");
    assert!(count(Op::Head) <= 4, "{} looks at the head", count(Op::Head));
    assert!(count(Op::Read) <= 2 * (seconds + 2), "{} looks at the log", count(Op::Read));
    assert_eq!(engine.get(&id("a")).await.unwrap().status, Status::Completed);
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_store_without_a_pace_is_asked_as_configured() {
    let house = House::at(Pace::default());
    let link = house.link();
    let engine = house.builder(&link, 1).workflow("nap", nap).start().await.unwrap();
    let other = house.builder(&house.link(), 2).workflow("nap", nap).start().await.unwrap();
    let looks = || link.calls().iter().filter(|call| call.op == Op::Nodes).count();
    tokio::time::sleep(10 * SECOND).await;
    let before = looks();
    tokio::time::sleep(10 * SECOND).await;
    let nodes = looks() - before;
    assert!(nodes >= 90, "{nodes} looks at another node in ten seconds");
    other.shutdown().await;
    assert_eq!(link.pace(), Pace::default());
    engine.shutdown().await;
}
