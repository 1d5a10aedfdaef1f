//! Several engines on one bucket.

use std::time::Duration;

use goldseam::unstable::core::Event;
use goldseam::unstable::engine::Config;
use goldseam::{Client, Context, Engine, OpenEngine as _, Payload, RunId, Status};
use goldseam_fake_s3::{FakeS3, Match, RequestFault, RequestGate, ServerClock};
use tokio::sync::watch;

use crate::support::{Counter, eventually, ok, reaches, run_id};

const HOURS: i64 = 3_600_000;

/// Short intervals, so that tests are fast.
fn config() -> Config {
    Config {
        beat: Duration::from_millis(100),
        silence_max: Duration::from_millis(800),
        watch: Duration::from_millis(50),
        grace: Duration::from_millis(100),
        poll: Duration::from_millis(100),
        ..Config::default()
    }
}

fn url(fake: &FakeS3, name: &str) -> String {
    format!("{}&requests=free", fake.url_for(name, "fleet"))
}

/// State that the nodes of a test share besides the bucket.
#[derive(Clone)]
struct Outside {
    counter: Counter,
    /// True once the step `held` may end.
    gate: watch::Receiver<bool>,
}

/// Three steps. The second one waits for the gate on the first node that executes it.
async fn work(ctx: Context, name: String, (node, outside): (String, Outside)) -> goldseam::Result<String> {
    let saw = |what: &str| {
        outside.counter.add(format!("{name} {what}"));
        ok(())
    };
    ctx.step("before", || saw("before")).await?;
    let held = || {
        let outside = outside.clone();
        let name = name.clone();
        let node = node.clone();
        async move {
            let first = outside.counter.add(format!("{name} held")) == 1;
            outside.counter.add(format!("{name} held by {node}"));
            let mut gate = outside.gate;
            if first {
                gate.wait_for(|open| *open)
                    .await
                    .map_err(|error| goldseam::Error::terminal(error.to_string()))?;
            }
            Ok::<String, goldseam::Error>(node)
        }
    };
    let by = ctx.step("held", held).await?;
    ctx.step("after", || saw("after")).await?;
    Ok(by)
}

async fn node(fake: &FakeS3, name: &str, outside: &Outside) -> Engine {
    let with = (name.to_owned(), outside.clone());
    let builder = Engine::open(&url(fake, name)).await.unwrap().config(config());
    builder.workflow("work", move |ctx, input| work(ctx, input, with.clone())).start().await.unwrap()
}

/// Returns the paths of the completed steps in the log.
async fn ends(client: &Client, run: &RunId) -> Vec<String> {
    let history = client.history(run).await.unwrap();
    let end = |event: &Event| match event {
        Event::StepCompleted(done) => Some(done.path.as_str().to_owned()),
        _ => None,
    };
    history.iter().filter_map(|recorded| end(&recorded.event)).collect()
}

struct Held {
    fake: FakeS3,
    outside: Outside,
    open: watch::Sender<bool>,
    first: Engine,
    second: Engine,
    client: Client,
    run: RunId,
}

/// Starts two nodes, and a run that waits in its second step on the first node.
async fn held() -> Held {
    let fake = FakeS3::start().unwrap();
    let (open, gate) = watch::channel(false);
    let outside = Outside { counter: Counter::default(), gate };
    let first = node(&fake, "first", &outside).await;
    let second = node(&fake, "second", &outside).await;
    let client = goldseam::connect(&url(&fake, "client")).await.unwrap();
    first.start("work", "w", &"w").await.unwrap();
    eventually("the first node executes `held`", async || outside.counter.count("w held by first") == 1)
        .await;
    Held { fake, outside, open, first, second, client, run: run_id("w") }
}

/// lance-format/lance#6432: a fenced writer continued to write its log with plain puts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_zombie_writer_rejected() {
    let Held { fake, outside, open, first, second, client, run } = held().await;
    let frozen = RequestGate::closed();
    fake.fail(Match::any().by("first"), RequestFault::held(&frozen));
    reaches(&client, "w", Status::Completed).await;
    let before = client.history(&run).await.unwrap();
    // The step ends on the first node, which writes the result once its requests are unblocked.
    open.send_replace(true);
    frozen.open();
    let asked = fake.log().len();
    let late = |request: &goldseam_fake_s3::Logged| request.request.by == "first" && request.status.is_some();
    assert!(fake.wait_for_log(|log| log.len() > asked + 10 && log[asked..].iter().any(late)));
    eventually("the first node drops the run", async || first.live_runs() == 0).await;
    assert_eq!(client.history(&run).await.unwrap(), before);
    assert_eq!(ends(&client, &run).await, ["before", "held", "after"]);
    assert_eq!(second.start("work", "w", &"w").await.unwrap().result::<String>().await.unwrap(), "second");
    for step in ["before", "after"] {
        assert_eq!(outside.counter.count(&format!("w {step}")), 1, "{step}");
    }
    first.shutdown().await;
    second.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashed_node_is_taken_over_after_its_beats_stop() {
    let Held { fake: _fake, open: _closed, outside, first, second, client, run } = held().await;
    first.crash();
    reaches(&client, "w", Status::Completed).await;
    assert_eq!(ends(&client, &run).await, ["before", "held", "after"]);
    assert_eq!(outside.counter.count("w before"), 1);
    let history = client.history(&run).await.unwrap();
    assert!(history.iter().any(|recorded| matches!(recorded.event, Event::RunRecovered { .. })));
    second.shutdown().await;
}

async fn nap(ctx: Context, _: ()) -> goldseam::Result<u32> {
    ctx.sleep("nap", Duration::from_millis(300)).await?;
    Ok(1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_clock_may_be_wrong_and_jump() {
    let fake = FakeS3::start().unwrap();
    fake.set_clock(ServerClock::Running { ahead: 5 * HOURS });
    let mut engines = Vec::new();
    for name in ["first", "second"] {
        let builder = Engine::open(&url(&fake, name)).await.unwrap().config(config());
        engines.push(builder.workflow("nap", nap).start().await.unwrap());
    }
    for (round, hours) in [5, 9, 2, -3].into_iter().enumerate() {
        fake.set_clock(ServerClock::Running { ahead: hours * HOURS });
        for n in 0..4 {
            let id = format!("nap-{round}-{n}");
            engines[n % 2].start("nap", &id, &()).await.unwrap();
        }
        for n in 0..4 {
            let id = format!("nap-{round}-{n}");
            reaches(engines[(n + 1) % 2].client(), &id, Status::Completed).await;
            let history = engines[0].client().history(&run_id(&id)).await.unwrap();
            let recovered =
                history.iter().find(|recorded| matches!(recorded.event, Event::RunRecovered { .. }));
            assert!(recovered.is_none(), "a live node was taken over: {recovered:?}");
        }
    }
    for engine in engines {
        engine.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_started_by_a_client_execute_once() {
    let fake = FakeS3::start().unwrap();
    let (_open, gate) = watch::channel(true);
    let outside = Outside { counter: Counter::default(), gate };
    let engines = [node(&fake, "first", &outside).await, node(&fake, "second", &outside).await];
    let client = goldseam::connect(&url(&fake, "client")).await.unwrap();
    for n in 0..20 {
        let name = format!("w-{n}");
        let input = Payload::of(&name, &goldseam::Limits::default()).unwrap();
        let run = run_id(&name);
        client.start("work", &run, &input).await.unwrap();
    }
    for n in 0..20 {
        let name = format!("w-{n}");
        reaches(&client, &name, Status::Completed).await;
        for step in ["before", "held", "after"] {
            assert_eq!(outside.counter.count(&format!("{name} {step}")), 1, "{step} of {name}");
        }
        assert_eq!(ends(&client, &run_id(&name)).await, ["before", "held", "after"]);
    }
    for engine in engines {
        engine.shutdown().await;
    }
}
