//! Contention: a run makes progress while many clients signal, follow, heal or claim.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use goldseam::prelude::*;
use goldseam::unstable::core::QueueName;
use goldseam::unstable::engine::heal::sweeper::SweepOptions;
use goldseam::unstable::engine::queue::Want;
use goldseam::unstable::engine::{OsEntropy, SystemClock};
use goldseam::unstable::store::faulty::{FaultPlan, StoreMethod};
use goldseam::unstable::store::{FaultyStore, MemoryStore, Store};
use goldseam::{Client, Config, Limits, Payload, Seq};
use goldseam_store_postgres::testing::Schema;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::support::{Scratch, ok, run_id};

/// Number of steps of the run.
const STEPS: u32 = 20;
/// Number of clients that signal the run without pause.
const SIGNALLERS: usize = 32;
/// Maximum number of append races that the owner may lose.
const LOST_MAX: u64 = 400;
/// Limit on unread signals.
const MAIL_MAX: u32 = 100;

/// Waits for `gate`, then executes steps that take no time.
async fn steady(ctx: Context, gate: Arc<Semaphore>) -> goldseam::Result<u32> {
    let opened = || {
        let gate = Arc::clone(&gate);
        async move { gate.acquire().await.map(drop).map_err(|error| Error::retryable(error.to_string())) }
    };
    ctx.step("gate", opened).await?;
    for number in 0..STEPS {
        ctx.step(("tick", number.to_string()), || ok(())).await?;
    }
    Ok(STEPS)
}

/// Starts an engine with a high limit on unread mail; returns it and the gate of its runs.
async fn engine_on(store: Arc<dyn Store>) -> (Engine, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let limits = Limits { mail_unread_max: 1_000_000, ..Limits::default() };
    let config = Config { limits, ..Config::default() };
    let held = Arc::clone(&gate);
    let workflow = move |ctx: Context, (): ()| steady(ctx, Arc::clone(&held));
    (Engine::on(store).config(config).workflow("steady", workflow).start().await.unwrap(), gate)
}

/// Repeats `work` in several tasks until it is dropped, and counts the repetitions.
struct Load {
    tasks: JoinSet<()>,
    done: Arc<AtomicUsize>,
}

impl Load {
    fn start<F, Fut>(count: usize, work: F) -> Self
    where
        F: Fn(usize) -> Fut + Clone + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let mut tasks = JoinSet::new();
        let done = Arc::new(AtomicUsize::new(0));
        for member in 0..count {
            let work = work.clone();
            let done = Arc::clone(&done);
            tasks.spawn(async move {
                loop {
                    work(member).await;
                    done.fetch_add(1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                }
            });
        }
        Self { tasks, done }
    }

    /// Waits until there are as many repetitions as tasks.
    async fn wait_until_busy(&self) {
        while self.done.load(Ordering::Relaxed) < self.tasks.len() {
            tokio::task::yield_now().await;
        }
    }
}

/// Returns how many append races the owner lost while all clients signal without pause.
///
/// Counts the owner's own appends, not those of others in between, which depend on when the owner is scheduled.
async fn races_lost(store: Arc<dyn Store>) -> u64 {
    let link = Arc::new(FaultyStore::new(Arc::clone(&store), FaultPlan::pass()));
    let (engine, gate) = engine_on(link.clone()).await;
    let run = engine.start("steady", "r", &()).await.unwrap();
    let limits = Limits { mail_unread_max: 1_000_000, ..Limits::default() };
    let client = Arc::new(Client::with(store, Arc::new(SystemClock), Arc::new(OsEntropy), limits));
    let load = Load::start(SIGNALLERS, move |_| {
        let client = Arc::clone(&client);
        async move { drop(client.handle(run_id("r")).signal("more", &()).await) }
    });
    load.wait_until_busy().await;
    gate.add_permits(1);
    assert_eq!(run.result::<u32>().await.unwrap(), STEPS);
    drop(load);
    let history = engine.client().history(&run_id("r")).await.unwrap();
    let own = history.iter().filter(|recorded| recorded.event.name() != "signal.received");
    let won: HashSet<_> = own.map(|recorded| recorded.write).collect();
    link.appends() - won.len() as u64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_at_full_rate_do_not_stop_the_owner_on_sqlite() {
    let scratch = Scratch::new();
    let store = goldseam::open_store(&scratch.url()).await.unwrap();
    let lost = races_lost(store).await;
    assert!(lost <= LOST_MAX, "{lost}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_at_full_rate_do_not_stop_the_owner_on_postgres() {
    let schema = Schema::fresh();
    let store = goldseam::open_store(&schema.url()).await.unwrap();
    let lost = races_lost(store).await;
    assert!(lost <= LOST_MAX, "{lost}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_at_full_rate_do_not_stop_the_owner_in_memory() {
    let lost = races_lost(Arc::new(MemoryStore::default())).await;
    assert!(lost <= LOST_MAX, "{lost}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_followers_do_not_stop_a_run() {
    let scratch = Scratch::new();
    let (engine, gate) = engine_on(goldseam::open_store(&scratch.url()).await.unwrap()).await;
    let client = Arc::new(scratch.client().await);
    let run = engine.start("steady", "r", &()).await.unwrap();
    let mut followers = JoinSet::new();
    for _ in 0..200 {
        let client = Arc::clone(&client);
        followers.spawn(async move {
            let mut seen = Vec::new();
            while seen.last().is_none_or(|name| *name != "run.completed") {
                let after = Seq(seen.len() as u64);
                let events = client.follow(&run_id("r"), after).await.unwrap();
                seen.extend(events.iter().map(|recorded| recorded.event.name()));
            }
            seen
        });
    }
    gate.add_permits(1);
    assert_eq!(run.result::<u32>().await.unwrap(), STEPS);
    let whole: Vec<_> = engine
        .client()
        .history(run.id())
        .await
        .unwrap()
        .iter()
        .map(|recorded| recorded.event.name())
        .collect();
    for seen in followers.join_all().await {
        assert_eq!(seen, whole);
    }
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_healers_neither_stop_a_run_nor_heal_it() {
    let scratch = Scratch::new();
    let (engine, gate) = engine_on(goldseam::open_store(&scratch.url()).await.unwrap()).await;
    let client = Arc::new(scratch.client().await);
    let load = Load::start(8, move |_| {
        let client = Arc::clone(&client);
        async move {
            let options = SweepOptions { stale_after: Some(Duration::ZERO), ..SweepOptions::default() };
            drop(client.sweeper(options).sweep().await.unwrap());
        }
    });
    load.wait_until_busy().await;
    gate.add_permits(1);
    for number in 0..5 {
        let run = engine.start("steady", &format!("r-{number}"), &()).await.unwrap();
        assert_eq!(run.result::<u32>().await.unwrap(), STEPS);
        let history = engine.client().history(run.id()).await.unwrap();
        assert!(history.iter().all(|recorded| recorded.event.name() != "run.recovered"));
    }
    drop(load);
    engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_claimants_do_not_stop_a_run() {
    let scratch = Scratch::new();
    let (engine, gate) = engine_on(goldseam::open_store(&scratch.url()).await.unwrap()).await;
    let client = Arc::new(scratch.client().await);
    let load = Load::start(200, move |member| {
        let client = Arc::clone(&client);
        async move {
            let queue = QueueName::new("images").unwrap();
            let want = Want { owner: format!("w-{member}"), queue, kind: None, limit: 10 };
            assert!(client.queue().claim(want).await.unwrap().is_empty());
        }
    });
    load.wait_until_busy().await;
    gate.add_permits(1);
    let run = engine.start("steady", "r", &()).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), STEPS);
    drop(load);
    engine.shutdown().await;
}

/// A run is taken over and replays while clients send a thousand signals: signals up to the limit are kept, and the
/// others are refused with an error and a hint.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_during_replay_are_bounded_and_the_run_continues() {
    async fn listens(ctx: Context, (): ()) -> goldseam::Result<u32> {
        for number in 0..STEPS {
            ctx.step(("tick", number.to_string()), || ok(())).await?;
        }
        ctx.signal::<u32>("go").await?;
        ctx.signal::<u32>("go").await
    }
    let scratch = Scratch::new();
    let first = scratch.engine("listens", listens).await;
    first.start("listens", "r", &()).await.unwrap();
    crate::support::reaches(first.client(), "r", goldseam::Status::Waiting).await;
    first.crash();
    let store = goldseam::open_store(&scratch.url()).await.unwrap();
    let limits = Limits { mail_unread_max: MAIL_MAX, ..Limits::default() };
    let client = Arc::new(Client::with(store, Arc::new(SystemClock), Arc::new(OsEntropy), limits));
    client.handle(run_id("r")).signal("go", &0).await.unwrap();
    let mut senders = JoinSet::new();
    for _ in 0..20 {
        let client = Arc::clone(&client);
        senders.spawn(async move {
            let run = client.handle(run_id("r"));
            let mut kept = 0;
            let mut refused = 0;
            for number in 0..50 {
                match run.signal("noise", &number).await {
                    Ok(_) => kept += 1,
                    Err(error) => {
                        assert_eq!(error.code(), "GS0109", "{error}");
                        assert!(error.hint().is_some());
                        refused += 1;
                    }
                }
            }
            (kept, refused)
        });
    }
    let second = scratch.engine("listens", listens).await;
    let counts = senders.join_all().await;
    let (kept, refused) = counts.iter().fold((1, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    assert_eq!(kept + refused, 1_001);
    // The run reads the first signal, which makes room for one more.
    assert!((MAIL_MAX as usize..=MAIL_MAX as usize + 1).contains(&kept), "{kept}");
    let history = client.history(&run_id("r")).await.unwrap();
    assert_eq!(history.iter().filter(|r| r.event.name() == "signal.received").count(), kept);
    let room = Client::new(Arc::clone(client.store())).handle(run_id("r"));
    room.signal("go", &7).await.unwrap();
    assert_eq!(room.result::<u32>().await.unwrap(), 7);
    second.shutdown().await;
}

#[tokio::test]
async fn sending_10000_signals_reads_no_log() {
    const SIGNALS: u32 = 10_000;
    let link = Arc::new(FaultyStore::new(Arc::new(MemoryStore::default()), FaultPlan::pass()));
    let limits = Limits { mail_unread_max: SIGNALS, ..Limits::default() };
    let client = Client::with(link.clone(), Arc::new(SystemClock), Arc::new(OsEntropy), limits);
    let run = client.start("steady", &run_id("r"), &Payload::null()).await.unwrap();
    for number in 0..SIGNALS {
        run.signal("noise", &number).await.unwrap();
    }
    let read = link.calls().iter().filter(|call| call.op == StoreMethod::Read).count();
    assert_eq!(read, 0, "sending a signal reads no log");
    assert_eq!(client.get(run.id()).await.unwrap().mail_unread, SIGNALS);
}
