//! Who has something, and who only thinks so: fences, leases, and clocks that differ.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use goldseam::core::event::Event;
use goldseam::core::task::NewTask;
use goldseam::core::{
    LaneName, LockName, NodeId, QueueName, SignalName, StepName, TagKey, TaskId, WorkflowName,
};
use goldseam::engine::queue::Want;
use goldseam::prelude::*;
use goldseam::store::faulty::{Fault, Op, Plan};
use goldseam::store::{FaultyStore, ManualClock, MemoryStore, RunFilter, Store};
use goldseam::{Config, Millis, Payload, RunId, Status};

use super::{Gate, HOUR, World, count, cut_off, id, until};
use crate::support::{Scratch, Witness, eventually};

fn new_task(name: &str) -> NewTask {
    NewTask {
        id: TaskId::new(name).unwrap(),
        kind: "mail".to_owned(),
        queue: QueueName::new("jobs").unwrap(),
        lane: None,
        priority: 0,
        key: None,
        run_at: Millis(0),
        payload: Payload::null(),
        attempts_max: 1,
        silence_max: Some(Duration::from_secs(10)),
    }
}

fn want(owner: &str) -> Want {
    Want { owner: owner.to_owned(), queue: QueueName::new("jobs").unwrap(), kind: None, limit: 1 }
}

/// A client of a store whose clock the test moves.
fn by_hand() -> (Client, ManualClock) {
    let (store, clock) = MemoryStore::manual();
    (Client::new(Arc::new(store)), clock)
}

/// riverqueue/river#1135: a job that was discarded went on in a worker that nobody told.
#[tokio::test]
async fn fenced_worker_is_told() {
    let (client, clock) = by_hand();
    let queue = client.queue();
    queue.submit(new_task("t")).await.unwrap();
    let old = queue.claim(want("w1")).await.unwrap().remove(0);
    clock.advance(Duration::from_secs(11));
    let new = queue.claim(want("w2")).await.unwrap().remove(0);
    assert!(new.fence > old.fence);
    // Whatever the old worker does next, it is told, and changes nothing.
    assert_eq!(queue.heartbeat(&old.id, old.fence).await.unwrap_err().code(), "GS0301");
    assert_eq!(queue.release(&old.id, old.fence).await.unwrap_err().code(), "GS0301");
    assert_eq!(queue.complete(&old.id, old.fence, Payload::null()).await.unwrap_err().code(), "GS0301");
    let task = queue.get(&new.id).await.unwrap();
    assert_eq!((task.owner.as_deref(), task.fence), (Some("w2"), new.fence));
    queue.complete(&new.id, new.fence, Payload::null()).await.unwrap();
}

/// riverqueue/river#199, #217, #1213: former leaders went by the time that their lease should last, and led on.
#[tokio::test]
async fn term_not_time() {
    let (client, clock) = by_hand();
    let (locks, name) = (client.locks(), LockName::new("leader").unwrap());
    let old = locks.acquire(&name, "node-1", HOUR).await.unwrap();
    locks.release(&name, "node-1", old.fence).await.unwrap();
    // The same name, long before the old term should have ended.
    let new = locks.acquire(&name, "node-1", Duration::from_secs(5)).await.unwrap();
    assert!(new.fence > old.fence);
    assert_eq!(locks.extend(&name, "node-1", old.fence, HOUR).await.unwrap_err().code(), "GS0302");
    assert!(!locks.release(&name, "node-1", old.fence).await.unwrap());
    assert_eq!(locks.get(&name).await.unwrap().unwrap(), new);
    // At its end exactly the term is over, for its holder too.
    clock.advance(Duration::from_secs(5));
    assert_eq!(locks.extend(&name, "node-1", new.fence, HOUR).await.unwrap_err().code(), "GS0302");
    let next = locks.acquire(&name, "node-2", HOUR).await.unwrap();
    assert!(next.fence > new.fence);
}

/// Trinity#2846, lion-reader#917: a renewal that named no token took the lease back from its new holder.
#[tokio::test]
async fn renew_requires_token() {
    let (client, clock) = by_hand();
    let (locks, name) = (client.locks(), LockName::new("build").unwrap());
    let queue = client.queue();
    queue.submit(new_task("t")).await.unwrap();
    let (lock, task) = (locks.acquire(&name, "ana", Duration::from_secs(10)).await.unwrap(), want("ana"));
    let task = queue.claim(task).await.unwrap().remove(0);
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

/// bullmq#3056, #3183, bull#850: a loop that was kept busy did not renew its lock, and the job ran twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocked_runtime_keeps_lease() {
    let (scratch, witness) = (Scratch::new(), Witness::default());
    let (release, blocked) = mpsc::channel::<()>();
    let config = Config {
        beat: Duration::from_millis(50),
        silence_max: Duration::from_secs(2),
        watch: Duration::from_millis(100),
        ..Config::default()
    };
    let (url, own, seen, blocked) =
        (scratch.url(), config.clone(), witness.clone(), Arc::new(Mutex::new(blocked)));
    let thread = std::thread::Builder::new().name("blocked".to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let flow = move |ctx: Context, (): ()| {
                let (seen, blocked) = (seen.clone(), Arc::clone(&blocked));
                async move {
                    let step = || {
                        seen.saw("blocks");
                        // Nothing else moves on this runtime meanwhile.
                        blocked.lock().unwrap().recv().unwrap();
                        async { Ok::<_, Error>(1) }
                    };
                    ctx.step("blocks", step).await
                }
            };
            let builder = Engine::open(&url).await.unwrap().config(own).workflow("w", flow);
            let engine = builder.start().await.unwrap();
            let run = engine.run("w", "r", &()).await.unwrap();
            assert_eq!(run.result::<u32>().await.unwrap(), 1);
            engine.shutdown().await;
        });
    });
    eventually("it is blocked", || async { witness.count("blocks") == 1 }).await;
    let link = goldseam::open_store(&scratch.url()).await.unwrap();
    let link = Arc::new(FaultyStore::new(link, Plan::pass()));
    let seen = witness.clone();
    let flow = move |ctx: Context, (): ()| {
        let seen = seen.clone();
        async move {
            let step = || {
                seen.saw("blocks");
                async { Ok::<_, Error>(2) }
            };
            ctx.step("blocks", step).await
        }
    };
    let other = Engine::on(link.clone()).config(config).workflow("w", flow).start().await.unwrap();
    // So many looks take three times as long as a node may be silent.
    let looks = || link.calls().iter().filter(|called| called.op == Op::Nodes).count();
    eventually("the other node has looked for long", || async { looks() >= 60 }).await;
    release.send(()).unwrap();
    thread.unwrap().join().unwrap();
    let summary = other.get(&id("r")).await.unwrap();
    assert_eq!((summary.status, summary.recoveries), (Status::Completed, 0));
    assert_eq!((witness.count("blocks"), count(&other, &id("r"), "run.claimed").await), (1, 1));
    other.shutdown().await;
}

/// databasement#488: a lease of 90 s under jobs of two hours, and nothing said that this cannot work.
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
    assert!(store.nodes().await.unwrap().is_empty(), "none of them has joined");
    let just = Config { beat: secs(2), silence_max: secs(8), ..Config::default() };
    Engine::on(store.clone()).config(just).start().await.unwrap().shutdown().await;
}

/// restatedev/restate#447: a crash between the output and the end of an invocation had its output played again.
#[tokio::test(start_paused = true)]
async fn crash_between_output_and_end() {
    let mut crashes = 0;
    for fault in [Fault::CrashBefore, Fault::CrashAfter] {
        for number in 1.. {
            let (world, witness) = (World::new(), Witness::default());
            let link = world.link();
            link.follow(Plan::pass().at(number, fault));
            let first = world.node(link.clone()).workflow("w", outputs(&witness)).start().await;
            if let Ok(first) = &first {
                let _ = first.run("w", "r", &()).await;
            }
            let client = world.client();
            let over = || async { client.get(&id("r")).await.is_ok_and(|run| run.status.is_terminal()) };
            until("it ends, or its node dies", || async { link.is_crashed() || over().await }).await;
            let before = completed(&client).await;
            let ran = before.keys().map(|step| (step.clone(), witness.count(step))).collect::<Vec<_>>();
            if let Ok(first) = first {
                world.kill(first);
            }
            let second = world.node(world.link()).workflow("w", outputs(&witness)).start().await.unwrap();
            let run = second.run("w", "r", &()).await.unwrap();
            assert_eq!(run.result::<Vec<u32>>().await.unwrap(), [1, 2, 3], "{number} {fault:?}");
            for (step, times) in ran {
                assert_eq!(witness.count(&step), times, "{number} {fault:?}: {step} ran again");
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

/// Three steps, the last two at once, so that one of them is the last thing in the log before the end.
fn outputs(witness: &Witness) -> impl Fn(Context, ()) -> Outputs + Send + Sync + use<> {
    let witness = witness.clone();
    move |ctx, ()| {
        let witness = witness.clone();
        Box::pin(async move {
            let step = |number: u32| {
                let witness = witness.clone();
                ctx.step(("out", number), move || {
                    witness.saw(format!("out#{number}"));
                    async move { Ok::<_, Error>(number) }
                })
            };
            let first = step(1).await?;
            let rest = ctx.join([step(2), step(3)]).await?;
            Ok([vec![first], rest].concat())
        })
    }
}

type Outputs = std::pin::Pin<Box<dyn Future<Output = goldseam::Result<Vec<u32>>> + Send>>;

/// How often each step's end is in the log, by what the witness calls it.
async fn completed(client: &Client) -> BTreeMap<String, u32> {
    let mut steps = BTreeMap::new();
    for recorded in client.history(&id("r")).await.unwrap_or_default() {
        if let Event::StepCompleted(done) = &recorded.event {
            *steps.entry(format!("out#{}", done.output.as_str())).or_default() += 1;
        }
    }
    steps
}

/// dbos-inc/dbos-transact-py#759: an empty id made a ghost that ran 96 times a day for a month, never counted.
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
        // What comes out of a log or a record goes through the same door.
        let text = serde_json::to_string(bad).unwrap();
        assert!(serde_json::from_str::<RunId>(&text).is_err(), "{bad:?}");
        assert!(serde_json::from_str::<TaskId>(&text).is_err(), "{bad:?}");
    }
    let store = Arc::new(MemoryStore::default());
    let engine = Engine::on(store.clone()).workflow("w", |_: Context, (): ()| async { Ok::<_, Error>(()) });
    let engine = engine.start().await.unwrap();
    for bad in ["", " ", ".."] {
        assert_eq!(engine.run("w", bad, &()).await.unwrap_err().code(), "GS0101");
        assert_eq!(engine.run(bad, "r", &()).await.unwrap_err().code(), "GS0101");
        let started = engine.start(bad, &id("r"), Payload::null(), StartOptions::default()).await;
        assert_eq!(started.unwrap_err().code(), "GS0101");
        let queued = StartOptions::default().queue(bad);
        assert_eq!(engine.run_with("w", "r", &(), queued).await.unwrap_err().code(), "GS0101");
    }
    assert!(store.runs(RunFilter { limit: 1, ..RunFilter::default() }).await.unwrap().items.is_empty());
    engine.shutdown().await;
}

/// objectstack#14619, mlflow/mlflow#25199, yorkie#1426: replicas judged a lease by their own clocks.
#[tokio::test(start_paused = true)]
async fn lease_uses_store_clock() {
    const HOURS: i64 = 3_600_000;
    let (world, witness) = (World::new(), Witness::default());
    let mut engines = Vec::new();
    for hours in [-5, 0, 7] {
        let seen = witness.clone();
        let flow = move |ctx: Context, name: String| {
            let seen = seen.clone();
            async move {
                ctx.sleep("nap", Duration::from_secs(30)).await?;
                let step = || {
                    seen.saw(name.clone());
                    async { Ok::<_, Error>(()) }
                };
                ctx.step("work", step).await
            }
        };
        let node = world.node_wrong_by(world.link(), hours * HOURS);
        engines.push(node.workflow("w", flow).start().await.unwrap());
    }
    let name = LockName::new("deploy").unwrap();
    let lock = engines[0].locks().acquire(&name, "slow", Duration::from_secs(60)).await.unwrap();
    assert_eq!(lock.expires_at, world.store.now().await.unwrap() + Duration::from_secs(60));
    for (number, engine) in engines.iter().enumerate() {
        let run = format!("r-{number}");
        engine.run("w", &run, &run).await.unwrap();
        // To one of them it has long expired, to the store it has not.
        assert_eq!(engine.locks().acquire(&name, "fast", HOUR).await.unwrap_err().code(), "GS0302");
        assert!(!engine.locks().is_stale(&name).await.unwrap());
    }
    let client = world.client();
    for number in 0..engines.len() {
        let run = id(&format!("r-{number}"));
        client.handle(run.clone()).result::<()>().await.unwrap();
        let history = client.history(&run).await.unwrap();
        let took = history[history.len() - 1].at.since(history[0].at);
        assert!(took >= Duration::from_secs(30) && took < Duration::from_secs(40), "{took:?}");
        assert_eq!((witness.count(run.as_str()), count(&client, &run, "run.recovered").await), (1, 0));
    }
    tokio::time::sleep(Duration::from_secs(31)).await;
    engines[2].locks().acquire(&name, "fast", HOUR).await.unwrap();
    for engine in engines {
        engine.shutdown().await;
    }
}

/// temporalio/temporal#7101: an owner without traffic never noticed that it was one no more, and stood still for ever.
#[tokio::test(start_paused = true)]
async fn idle_shard_detects_fence() {
    struct Dropped(Witness);

    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.saw("dropped");
        }
    }

    let (world, witness, gate) = (World::new(), Witness::default(), Gate::closed());
    let flow = |hangs: bool| {
        let (witness, gate) = (witness.clone(), gate.clone());
        move |ctx: Context, (): ()| {
            let (witness, gate) = (witness.clone(), gate.clone());
            async move {
                let step = || {
                    let (witness, gate) = (witness.clone(), gate.clone());
                    async move {
                        let dropped = Dropped(witness.clone());
                        witness.saw("begun");
                        if hangs {
                            gate.passed().await;
                        }
                        std::mem::forget(dropped);
                        Ok::<_, Error>(1)
                    }
                };
                ctx.step("long", step).await
            }
        }
    };
    let link = world.link();
    let idle = world.node(link.clone()).workflow("w", flow(true)).start().await.unwrap();
    idle.run("w", "r", &()).await.unwrap();
    // From here on it has nothing to write before its end.
    until("it is known to be long", || async { count(&idle, &id("r"), "step.started").await == 1 }).await;
    let other = world.node(world.link()).workflow("w", flow(false)).start().await.unwrap();
    link.follow(cut_off());
    assert_eq!(other.handle(id("r")).result::<u32>().await.unwrap(), 1);
    assert_eq!((witness.count("dropped"), idle.hot_runs()), (0, 1), "nobody could tell it");
    link.follow(Plan::pass());
    let healed = world.store.now().await.unwrap();
    until("it lets go", || async { idle.hot_runs() == 0 }).await;
    let took = world.store.now().await.unwrap().since(healed);
    assert!(took <= Duration::from_secs(30), "{took:?}");
    assert_eq!((witness.count("dropped"), witness.count("begun")), (1, 2));
    idle.shutdown().await;
    other.shutdown().await;
}
