//! Takeovers: fences, leases, and clocks that differ.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use goldseam::prelude::*;
use goldseam::unstable::core::event::Event;
use goldseam::unstable::core::task::NewTask;
use goldseam::unstable::core::{
    LaneName, LockName, NodeId, QueueName, SignalName, StepName, TagKey, TaskId, WorkflowName,
};
use goldseam::unstable::engine::queue::Want;
use goldseam::unstable::store::faulty::{CallFault, FaultPlan, StoreMethod};
use goldseam::unstable::store::{FaultyStore, ManualClock, MemoryStore, RunFilter, Store};
use goldseam::{Config, Payload, RunId, Status};

use super::{Gate, HOUR, World, count, cut_off, id, until};
use crate::support::{self, Counter, Scratch, eventually, new_task, ok, with_state};

fn task(name: &str) -> NewTask {
    NewTask { silence_max: Some(Duration::from_secs(10)), ..new_task(name, "jobs") }
}

fn want(owner: &str) -> Want {
    support::want(owner, "jobs", 1)
}

/// Returns a client of a store with a manual clock.
fn manual_client() -> (Client, ManualClock) {
    let (store, clock) = MemoryStore::manual();
    (Client::new(Arc::new(store)), clock)
}

/// riverqueue/river#1135: a worker continued a discarded job, because nothing informed it.
#[tokio::test]
async fn fenced_worker_is_refused() {
    let (client, clock) = manual_client();
    let queue = client.queue();
    queue.submit(task("t")).await.unwrap();
    let old = queue.claim(want("w1")).await.unwrap().remove(0);
    clock.advance(Duration::from_secs(11));
    let new = queue.claim(want("w2")).await.unwrap().remove(0);
    assert!(new.fence > old.fence);
    // Every call of the old worker is refused and changes nothing.
    assert_eq!(queue.heartbeat(&old.id, old.fence).await.unwrap_err().code(), "GS0301");
    assert_eq!(queue.release(&old.id, old.fence).await.unwrap_err().code(), "GS0301");
    assert_eq!(queue.complete(&old.id, old.fence, Payload::null()).await.unwrap_err().code(), "GS0301");
    let task = queue.get(&new.id).await.unwrap();
    assert_eq!((task.owner.as_deref(), task.fence), (Some("w2"), new.fence));
    queue.complete(&new.id, new.fence, Payload::null()).await.unwrap();
}

/// riverqueue/river#199, #217, #1213: former leaders relied on the duration of their lease and continued to lead.
#[tokio::test]
async fn term_not_time() {
    let (client, clock) = manual_client();
    let locks = client.locks();
    let name = LockName::new("leader").unwrap();
    let old = locks.acquire(&name, "node-1", HOUR).await.unwrap();
    locks.release(&name, "node-1", old.fence).await.unwrap();
    // The same holder again, long before the old term would have expired.
    let new = locks.acquire(&name, "node-1", Duration::from_secs(5)).await.unwrap();
    assert!(new.fence > old.fence);
    assert_eq!(locks.extend(&name, "node-1", old.fence, HOUR).await.unwrap_err().code(), "GS0302");
    assert!(!locks.release(&name, "node-1", old.fence).await.unwrap());
    assert_eq!(locks.get(&name).await.unwrap().unwrap(), new);
    // The term ends exactly at its expiry, also for its holder.
    clock.advance(Duration::from_secs(5));
    assert_eq!(locks.extend(&name, "node-1", new.fence, HOUR).await.unwrap_err().code(), "GS0302");
    let next = locks.acquire(&name, "node-2", HOUR).await.unwrap();
    assert!(next.fence > new.fence);
}

/// Trinity#2846, lion-reader#917: a renewal without a token took the lease back from its new holder.
#[tokio::test]
async fn renew_requires_token() {
    let (client, clock) = manual_client();
    let locks = client.locks();
    let name = LockName::new("build").unwrap();
    let queue = client.queue();
    queue.submit(task("t")).await.unwrap();
    let lock = locks.acquire(&name, "ana", Duration::from_secs(10)).await.unwrap();
    let task = queue.claim(want("ana")).await.unwrap().remove(0);
    clock.advance(Duration::from_secs(11));
    let held = locks.acquire(&name, "ana", HOUR).await.unwrap();
    let claimed = queue.claim(want("ana")).await.unwrap().remove(0);
    for fence in [0, lock.fence, held.fence + 1] {
        assert_eq!(locks.extend(&name, "ana", fence, HOUR).await.unwrap_err().code(), "GS0302", "{fence}");
    }
    for fence in [0, task.fence, claimed.fence + 1] {
        assert_eq!(queue.heartbeat(&task.id, fence).await.unwrap_err().code(), "GS0301", "{fence}");
    }
    assert_eq!(locks.extend(&name, "bob", held.fence, HOUR).await.unwrap_err().code(), "GS0302");
    assert_eq!(locks.get(&name).await.unwrap().unwrap(), held);
    assert_eq!(queue.get(&task.id).await.unwrap(), claimed);
    locks.extend(&name, "ana", held.fence, HOUR).await.unwrap();
    queue.heartbeat(&task.id, claimed.fence).await.unwrap();
}

/// bullmq#3056, #3183, bull#850: a blocked event loop did not renew its lock, and the job ran twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocked_runtime_keeps_lease() {
    let scratch = Scratch::new();
    let counter = Counter::default();
    let (release, blocked) = mpsc::channel::<()>();
    let config = Config {
        beat: Duration::from_millis(50),
        silence_max: Duration::from_secs(2),
        watch: Duration::from_millis(100),
        ..Config::default()
    };
    let url = scratch.url();
    let own = config.clone();
    let seen = counter.clone();
    let blocked = Arc::new(Mutex::new(blocked));
    let thread = std::thread::Builder::new().name("blocked".to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let flow = move |ctx: Context, (): ()| {
                let seen = seen.clone();
                let blocked = Arc::clone(&blocked);
                async move {
                    let step = || {
                        seen.add("blocks");
                        // Blocks the whole runtime.
                        blocked.lock().unwrap().recv().unwrap();
                        ok(1)
                    };
                    ctx.step("blocks", step).await
                }
            };
            let builder = Engine::open(&url).await.unwrap().config(own).workflow("w", flow);
            let engine = builder.start().await.unwrap();
            let run = engine.start("w", "r", &()).await.unwrap();
            assert_eq!(run.result::<u32>().await.unwrap(), 1);
            engine.shutdown().await;
        });
    });
    eventually("the runtime is blocked", || async { counter.count("blocks") == 1 }).await;
    let link = goldseam::open_store(&scratch.url()).await.unwrap();
    let link = Arc::new(FaultyStore::new(link, FaultPlan::pass()));
    let flow = with_state(&counter, move |ctx: Context, (): (), counter| async move {
        let step = || {
            counter.add("blocks");
            ok(2)
        };
        ctx.step("blocks", step).await
    });
    let other = Engine::on(link.clone()).config(config).workflow("w", flow).start().await.unwrap();
    // 60 polls take three times as long as `silence_max`.
    let polls = || link.calls().iter().filter(|called| called.op == StoreMethod::Nodes).count();
    eventually("the other node has polled 60 times", || async { polls() >= 60 }).await;
    release.send(()).unwrap();
    thread.unwrap().join().unwrap();
    let summary = other.client().get(&id("r")).await.unwrap();
    assert_eq!((summary.status, summary.recoveries), (Status::Completed, 0));
    assert_eq!((counter.count("blocks"), count(other.client(), &id("r"), "run.claimed").await), (1, 1));
    other.shutdown().await;
}

/// databasement#488: a lease of 90 s for jobs of two hours was accepted without an error.
#[tokio::test]
async fn config_ttl_vs_timeout_rejected() {
    let store = Arc::new(MemoryStore::default());
    let secs = Duration::from_secs;
    let refused = [
        Config { beat: secs(10), silence_max: secs(10), ..Config::default() },
        Config { beat: secs(3), ..Config::default() },
        Config { silence_max: secs(7), ..Config::default() },
        Config { beat: Duration::ZERO, ..Config::default() },
        Config { poll: Duration::ZERO, ..Config::default() },
    ];
    for config in refused {
        let error = Engine::on(store.clone()).config(config).start().await.unwrap_err();
        assert_eq!(error.code(), "GS0120", "{error}");
    }
    assert!(store.nodes().await.unwrap().is_empty(), "no refused engine has joined");
    let minimal = Config { beat: secs(2), silence_max: secs(8), ..Config::default() };
    Engine::on(store.clone()).config(minimal).start().await.unwrap().shutdown().await;
}

/// restatedev/restate#447: a crash between the output and the end of an invocation repeated the output.
#[tokio::test(start_paused = true)]
async fn crash_between_output_and_end() {
    let mut crashes = 0;
    for fault in [CallFault::CrashBefore, CallFault::CrashAfter] {
        for number in 1.. {
            let world = World::new();
            let counter = Counter::default();
            let link = world.link();
            link.follow(FaultPlan::pass().at(number, fault));
            let first = world.node(link.clone()).workflow("w", outputs(&counter)).start().await;
            if let Ok(first) = &first {
                let _ = first.start("w", "r", &()).await;
            }
            let client = world.client();
            let ended = || async { client.get(&id("r")).await.is_ok_and(|run| run.status.is_terminal()) };
            until("the run ends or its node crashes", || async { link.is_crashed() || ended().await }).await;
            let before = completed(&client).await;
            let ran = before.keys().map(|step| (step.clone(), counter.count(step))).collect::<Vec<_>>();
            if let Ok(first) = first {
                world.kill(first);
            }
            let second = world.node(world.link()).workflow("w", outputs(&counter)).start().await.unwrap();
            let run = second.start("w", "r", &()).await.unwrap();
            assert_eq!(run.result::<Vec<u32>>().await.unwrap(), [1, 2, 3], "{number} {fault:?}");
            for (step, times) in ran {
                assert_eq!(counter.count(&step), times, "{number} {fault:?}: {step} ran again");
            }
            assert!(completed(&client).await.values().all(|times| *times == 1), "{number} {fault:?}");
            assert_eq!(count(&client, run.id(), "run.completed").await, 1);
            second.shutdown().await;
            if !link.is_crashed() {
                break;
            }
            crashes += 1;
        }
    }
    assert!(crashes > 20, "{crashes}");
}

/// Three steps, the last two in parallel, so that one of them is the last event before the end.
fn outputs(counter: &Counter) -> impl Fn(Context, ()) -> Outputs + Send + Sync + use<> {
    let counter = counter.clone();
    move |ctx, ()| {
        let counter = counter.clone();
        Box::pin(async move {
            let step = |number: u32| {
                let counter = counter.clone();
                ctx.step(("out", number), move || {
                    counter.add(format!("out#{number}"));
                    ok(number)
                })
            };
            let first = step(1).await?;
            let rest = ctx.join([step(2), step(3)]).await?;
            Ok([vec![first], rest].concat())
        })
    }
}

type Outputs = std::pin::Pin<Box<dyn Future<Output = goldseam::Result<Vec<u32>>> + Send>>;

/// Counts the completions of each step in the log, by the names in the counter.
async fn completed(client: &Client) -> BTreeMap<String, u32> {
    let mut steps = BTreeMap::new();
    for recorded in client.history(&id("r")).await.unwrap_or_default() {
        if let Event::StepCompleted(done) = &recorded.event {
            *steps.entry(format!("out#{}", done.output.as_str())).or_default() += 1;
        }
    }
    steps
}

/// dbos-inc/dbos-transact-py#759: a run with an empty id was recovered 96 times a day for a month, without a count.
#[tokio::test]
async fn empty_id_rejected_everywhere() {
    for bad in ["", " ", "\t", "\u{a0}", "..", "a b", "a/b", "\u{0}", "ｒ"] {
        assert!(RunId::new(bad).is_err(), "{bad:?}");
        assert!(WorkflowName::new(bad).is_err(), "{bad:?}");
        assert!(SignalName::new(bad).is_err(), "{bad:?}");
        assert!(StepName::new(bad).is_err() || bad == "a b", "{bad:?}");
        assert!(TaskId::new(bad).is_err(), "{bad:?}");
        assert!(QueueName::new(bad).is_err(), "{bad:?}");
        assert!(LaneName::new(bad).is_err(), "{bad:?}");
        assert!(LockName::new(bad).is_err(), "{bad:?}");
        assert!(NodeId::new(bad).is_err(), "{bad:?}");
        assert!(TagKey::new(bad).is_err(), "{bad:?}");
        // Ids that are read from a log or a record pass the same check.
        let text = serde_json::to_string(bad).unwrap();
        assert!(serde_json::from_str::<RunId>(&text).is_err(), "{bad:?}");
        assert!(serde_json::from_str::<TaskId>(&text).is_err(), "{bad:?}");
    }
    let store = Arc::new(MemoryStore::default());
    let engine = Engine::on(store.clone()).workflow("w", |_: Context, (): ()| ok(()));
    let engine = engine.start().await.unwrap();
    for bad in ["", " ", ".."] {
        assert_eq!(engine.start("w", bad, &()).await.unwrap_err().code(), "GS0101");
        assert_eq!(engine.start(bad, "r", &()).await.unwrap_err().code(), "GS0101");
        let started = engine.client().start(bad, &id("r"), &Payload::null()).await;
        assert_eq!(started.unwrap_err().code(), "GS0101");
        let queued = StartOptions::default().queue(bad);
        assert_eq!(engine.start_with("w", "r", &(), queued).await.unwrap_err().code(), "GS0101");
    }
    assert!(store.runs(RunFilter { limit: 1, ..RunFilter::default() }).await.unwrap().items.is_empty());
    engine.shutdown().await;
}

/// objectstack#14619, mlflow/mlflow#25199, yorkie#1426: replicas compared a lease with their own clocks.
#[tokio::test(start_paused = true)]
async fn lease_uses_store_clock() {
    const HOURS: i64 = 3_600_000;
    let world = World::new();
    let counter = Counter::default();
    let mut engines = Vec::new();
    for hours in [-5, 0, 7] {
        let flow = with_state(&counter, move |ctx: Context, name: String, counter| async move {
            ctx.sleep("nap", Duration::from_secs(30)).await?;
            let step = || counter.step(name.clone());
            ctx.step("work", step).await
        });
        let node = world.node_wrong_by(world.link(), hours * HOURS);
        engines.push(node.workflow("w", flow).start().await.unwrap());
    }
    let name = LockName::new("deploy").unwrap();
    let lock = engines[0].client().locks().acquire(&name, "slow", Duration::from_secs(60)).await.unwrap();
    assert_eq!(lock.expires_at, world.store.now().await.unwrap() + Duration::from_secs(60));
    for (number, engine) in engines.iter().enumerate() {
        let run = format!("r-{number}");
        engine.start("w", &run, &run).await.unwrap();
        // The lock has expired by this node's clock, but not by the store's clock.
        assert_eq!(engine.client().locks().acquire(&name, "fast", HOUR).await.unwrap_err().code(), "GS0302");
        assert!(!engine.client().locks().is_stale(&name).await.unwrap());
    }
    let client = world.client();
    for number in 0..engines.len() {
        let run = id(&format!("r-{number}"));
        client.handle(run.clone()).result::<()>().await.unwrap();
        let history = client.history(&run).await.unwrap();
        let took = history[history.len() - 1].at.since(history[0].at);
        assert!(took >= Duration::from_secs(30) && took < Duration::from_secs(40), "{took:?}");
        assert_eq!((counter.count(run.as_str()), count(&client, &run, "run.recovered").await), (1, 0));
    }
    tokio::time::sleep(Duration::from_secs(31)).await;
    engines[2].client().locks().acquire(&name, "fast", HOUR).await.unwrap();
    for engine in engines {
        engine.shutdown().await;
    }
}

/// temporalio/temporal#7101: an idle owner never noticed that it had lost its ownership, and stayed stuck forever.
#[tokio::test(start_paused = true)]
async fn idle_shard_detects_fence() {
    struct Dropped(Counter);

    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.add("dropped");
        }
    }

    let world = World::new();
    let counter = Counter::default();
    let gate = Gate::closed();
    let flow = |hangs: bool| {
        let counter = counter.clone();
        let gate = gate.clone();
        move |ctx: Context, (): ()| {
            let counter = counter.clone();
            let gate = gate.clone();
            async move {
                let step = || {
                    let counter = counter.clone();
                    let gate = gate.clone();
                    async move {
                        let dropped = Dropped(counter.clone());
                        counter.add("begun");
                        if hangs {
                            gate.passed().await;
                        }
                        std::mem::forget(dropped);
                        Ok(1)
                    }
                };
                ctx.step("long", step).await
            }
        }
    };
    let link = world.link();
    let idle = world.node(link.clone()).workflow("w", flow(true)).start().await.unwrap();
    idle.start("w", "r", &()).await.unwrap();
    // From now on the step writes nothing until it ends.
    until("the step is recorded as started", || async {
        count(idle.client(), &id("r"), "step.started").await == 1
    })
    .await;
    let other = world.node(world.link()).workflow("w", flow(false)).start().await.unwrap();
    link.follow(cut_off());
    assert_eq!(other.handle(id("r")).result::<u32>().await.unwrap(), 1);
    assert_eq!((counter.count("dropped"), idle.live_runs()), (0, 1), "the idle node cannot know yet");
    link.follow(FaultPlan::pass());
    let healed = world.store.now().await.unwrap();
    until("the idle node drops the run", || async { idle.live_runs() == 0 }).await;
    let took = world.store.now().await.unwrap().since(healed);
    assert!(took <= Duration::from_secs(30), "{took:?}");
    assert_eq!((counter.count("dropped"), counter.count("begun")), (1, 2));
    idle.shutdown().await;
    other.shutdown().await;
}
