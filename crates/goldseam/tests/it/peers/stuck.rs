//! Situations in which other engines got stuck forever.

use std::sync::Arc;
use std::time::Duration;

use goldseam::client::follow::Followed;
use goldseam::prelude::*;
use goldseam::unstable::store::faulty::{CallFault, FaultPlan, StoreMethod};
use goldseam::unstable::store::{FaultyStore, NodeState, Store};
use goldseam::{Config, Limits, Payload, Seq, Status};
use goldseam_conformance::Fixture;

use super::{HOUR, World, count, cut_off, id, queue, stores};
use crate::support::{Counter, Scratch, eventually, ok, reaches, with_state};

/// Maximum time from the end of the faults to progress: the takeover of a silent node, a sweep, and some slack.
const BOUND: Duration = Duration::from_secs(60);

/// A workflow of three steps, each followed by a sleep.
fn steps(counter: &Counter) -> impl Fn(Context, String) -> super::Running + Send + Sync + use<> {
    let counter = counter.clone();
    move |ctx, name| {
        let counter = counter.clone();
        Box::pin(async move {
            for number in 0..3u32 {
                let step = || counter.step(format!("{name} {number}"));
                ctx.step(("step", number), step).await?;
                ctx.sleep(("nap", number), Duration::from_secs(2)).await?;
            }
            Ok(1)
        })
    }
}

/// restatedev/restate#5033: a leader accepted invocations but applied none of them.
#[tokio::test(start_paused = true)]
async fn accepting_implies_progress() {
    for alone in [true, false] {
        let world = World::new();
        let counter = Counter::default();
        let link = world.link();
        let leader = world.node(link.clone()).workflow("w", steps(&counter)).start().await.unwrap();
        let other = if alone {
            None
        } else {
            Some(world.node(world.link()).workflow("w", steps(&counter)).start().await.unwrap())
        };
        leader.start("w", "r", &"r").await.unwrap();
        link.follow(cut_off());
        if alone {
            tokio::time::sleep(Duration::from_secs(600)).await;
            link.follow(FaultPlan::pass());
        }
        let client = world.client();
        let since = world.store.now().await.unwrap();
        client.handle(id("r")).result::<u32>().await.unwrap();
        let took = world.store.now().await.unwrap().since(since);
        assert!(took <= BOUND, "alone: {alone}, {took:?}");
        assert_eq!(count(&client, &id("r"), "step.completed").await, 3);
        leader.crash();
        if let Some(other) = other {
            other.shutdown().await;
        }
    }
}

/// restatedev/restate#2565, #2655, #3067: after a partition healed, some invocations stayed stuck forever.
#[tokio::test(start_paused = true)]
async fn heal_then_progress() {
    const RUNS: usize = 12;
    // The sets of nodes to cut off, one after another.
    let partitions: [&[usize]; 5] = [&[0], &[1, 2], &[0, 1, 2], &[2, 0], &[1]];
    let world = World::new();
    let counter = Counter::default();
    let links: Vec<_> = (0..3).map(|_| world.link()).collect();
    let mut nodes = Vec::new();
    for link in &links {
        nodes.push(world.node(link.clone()).workflow("w", steps(&counter)).start().await.unwrap());
    }
    for number in 0..RUNS {
        let run = format!("r-{number}");
        nodes[number % 3].start("w", &run, &run).await.unwrap();
    }
    for cut in partitions {
        for number in cut {
            links[*number].follow(cut_off());
        }
        tokio::time::sleep(Duration::from_secs(3)).await;
        for link in &links {
            link.follow(FaultPlan::pass());
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let client = world.client();
    let healed = world.store.now().await.unwrap();
    for number in 0..RUNS {
        let run = id(&format!("r-{number}"));
        client.handle(run.clone()).result::<u32>().await.unwrap();
        assert_eq!(count(&client, &run, "step.completed").await, 3);
    }
    let took = world.store.now().await.unwrap().since(healed);
    assert!(took <= BOUND, "{took:?}");
    for node in nodes {
        node.shutdown().await;
    }
}

/// hatchet-dev/hatchet#4254: a worker that no longer received tasks still sent heartbeats and counted as healthy.
#[tokio::test]
async fn heartbeat_without_polls_is_unhealthy() {
    let fixture = Fixture::memory_on(goldseam_store_sqlite::system_clock());
    let counter = Counter::default();
    // The test ends long before `silence_max`: if the run continues, its node reported itself as lame.
    let config = Config {
        beat: Duration::from_millis(20),
        poll: Duration::from_millis(20),
        silence_max: HOUR,
        wedged_after: Duration::from_secs(2),
        ..Config::default()
    };
    let flow = |hangs: bool| {
        with_state(&counter, move |ctx: Context, (): (), counter| async move {
            let step = || {
                counter.add("begun");
                async move {
                    if hangs {
                        std::future::pending::<()>().await;
                    }
                    Ok(1)
                }
            };
            ctx.step("step", step).await
        })
    };
    let link = Arc::new(FaultyStore::new(fixture.store.clone(), FaultPlan::pass()));
    let lame = Engine::on(link.clone()).config(config.clone()).workflow("w", flow(true));
    let lame = lame.start().await.unwrap();
    lame.start("w", "r", &()).await.unwrap();
    eventually("the step begins", || async { counter.count("begun") == 1 }).await;
    let other = Engine::on(fixture.store.clone()).config(config).workflow("w", flow(false));
    let other = other.start().await.unwrap();
    link.follow(FaultPlan::pass().every(StoreMethod::Claim, CallFault::Delay(HOUR)));
    let run = other.handle(id("r"));
    tokio::time::timeout(Duration::from_secs(20), run.result::<u32>()).await.unwrap().unwrap();
    let up = fixture
        .store
        .nodes()
        .await
        .unwrap()
        .into_iter()
        .filter(|seen| seen.record.id == *lame.node_id() && seen.record.state == NodeState::Up);
    assert_eq!(up.count(), 0);
    lame.crash();
    other.shutdown().await;
}

/// hatchet-dev/hatchet#2573: a NUL byte, or JSON other than an object, blocked an event and its run forever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_json_never_sticks() {
    let texts = [
        r#""\u0000""#.to_owned(),
        r#"{"a\u0000b":"\u0000"}"#.to_owned(),
        r#""\ud800""#.to_owned(),
        r#""\udc00\ud800""#.to_owned(),
        "1e400".to_owned(),
        "123456789012345678901234567890".to_owned(),
        r#"{"a":1,"a":2}"#.to_owned(),
        "[]".to_owned(),
        "7".to_owned(),
        "\"\u{2028}\u{feff}\u{10ffff}\"".to_owned(),
        format!("{}{}", "[".repeat(64), "]".repeat(64)),
        "\"\u{0}\"".to_owned(),
    ];
    let [memory, sqlite] = stores().await;
    for fixture in [memory, sqlite, goldseam_store_postgres::testing::fixture_on_real_clock().await] {
        let flow = |ctx: Context, input: serde_json::Value| async move {
            let echoed = ctx.step("echo", || ok(input.clone())).await?;
            let mail: serde_json::Value = ctx.signal("mail").await?;
            Ok::<_, Error>((echoed, mail))
        };
        let engine = Engine::on(fixture.store.clone()).workflow("w", flow).start().await.unwrap();
        let mut accepted = 0;
        for (number, text) in texts.iter().enumerate() {
            // Each text is refused here, or its run ends, or its run is parked with a reason.
            let Ok(payload) = Payload::parse(text, &Limits::default()) else { continue };
            accepted += 1;
            let run = id(&format!("r-{number}"));
            engine.client().start("w", &run, &payload).await.unwrap();
            let _ = engine.client().signal(&run, "mail", payload, None).await;
            let settled = async {
                let mut mark = 0;
                loop {
                    let status = engine.client().get(&run).await.unwrap().status;
                    if status.is_terminal() || status == goldseam::Status::Parked {
                        return;
                    }
                    mark = engine.client().wait_for_change(mark).await.unwrap();
                }
            };
            let settled = tokio::time::timeout(Duration::from_secs(20), settled).await;
            assert!(settled.is_ok(), "the run with {text} is stuck");
        }
        assert!(accepted >= 5, "{accepted}");
        engine.shutdown().await;
    }
}

/// oxidecomputer/omicron#5948: the recovery of a saga read only the first pages of its log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_read_pages_complete() {
    const STEPS: u32 = 1_100;
    let scratch = Scratch::new();
    let on_file = goldseam::open_store(&scratch.url()).await.unwrap();
    let in_memory = Fixture::memory_on(goldseam_store_sqlite::system_clock());
    for store in [in_memory.store.clone(), on_file] {
        let client = Client::new(store.clone());
        let counter = Counter::default();
        let run = queue(&client, "w", "r").await;
        let flow = || {
            with_state(&counter, move |ctx: Context, (): (), counter| async move {
                let mut sum = 0;
                for number in 0..STEPS {
                    let step = || {
                        counter.add("step");
                        ok(number)
                    };
                    sum += ctx.step(("step", number), step).await?;
                }
                ctx.signal::<()>("end").await?;
                Ok(sum)
            })
        };
        let first = Engine::on(store.clone()).workflow("w", flow()).start().await.unwrap();
        reaches(&client, "r", Status::Waiting).await;
        first.crash();
        let second = Engine::on(store.clone()).workflow("w", flow()).start().await.unwrap();
        client.handle(run.clone()).signal("end", &()).await.unwrap();
        let sum = second.handle(run.clone()).result::<u32>().await.unwrap();
        assert_eq!((sum, counter.count("step")), (STEPS * (STEPS - 1) / 2, STEPS));
        let history = client.history(&run).await.unwrap();
        assert!(history.len() > STEPS as usize, "{}", history.len());
        assert!(history.iter().zip(1..).all(|(recorded, seq)| recorded.seq == Seq(seq)));
        assert_eq!(client.readable(&run).await.unwrap(), history);
        let mut follower = client.follower(run.clone(), Seq::ZERO);
        let mut followed = Vec::new();
        while followed.len() < history.len() {
            if let Followed::Events(events) = follower.next().await.unwrap() {
                followed.extend(events);
            }
        }
        assert_eq!(followed, history);
        assert_eq!(client.get(&run).await.unwrap().status, Status::Completed);
        second.shutdown().await;
    }
}
