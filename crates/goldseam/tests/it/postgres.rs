//! Engines on Postgres: wrong clocks and restarts of the database.

use std::sync::Arc;
use std::time::Duration;

use goldseam::unstable::core::Event;
use goldseam::unstable::engine::{Clock, SystemClock};
use goldseam::{Context, Engine, Millis, OpenEngine as _, Status};
use goldseam_store_postgres::testing::Schema;
use goldseam_testbed::postgres::{Cluster, ClusterOptions, Shutdown};
use tokio::sync::watch;

use crate::support::{Counter, eventually, run_id};

/// A clock that is wrong by a number of milliseconds.
#[derive(Debug)]
struct WrongClock(i64);

impl Clock for WrongClock {
    fn now(&self) -> Millis {
        Millis(SystemClock.now().0 + self.0)
    }

    fn elapsed(&self) -> Duration {
        SystemClock.elapsed()
    }
}

const HOURS: i64 = 3_600_000;

async fn nap(ctx: Context, _: ()) -> goldseam::Result<u32> {
    ctx.sleep("nap", Duration::from_millis(300)).await?;
    Ok(1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_clocks_may_differ_by_hours() {
    let schema = Schema::fresh();
    let mut engines = Vec::new();
    for hours in [-5, 7] {
        let builder = Engine::open(&schema.url()).await.unwrap().clock(Arc::new(WrongClock(hours * HOURS)));
        engines.push(builder.workflow("nap", nap).start().await.unwrap());
    }
    let before = SystemClock.now();
    for n in 0..20 {
        engines[n % 2].start("nap", &format!("nap-{n}"), &()).await.unwrap();
    }
    for n in 0..20 {
        let run = engines[(n + 1) % 2].start("nap", &format!("nap-{n}"), &()).await.unwrap();
        assert_eq!(run.result::<u32>().await.unwrap(), 1);
    }
    let after = SystemClock.now();
    for n in 0..20 {
        let history = engines[0].client().history(&run_id(&format!("nap-{n}"))).await.unwrap();
        for recorded in &history {
            let at = recorded.at;
            assert!(before.0 - 1_000 <= at.0 && at.0 <= after.0 + 1_000, "{at:?} is not the database's time");
            assert!(!matches!(recorded.event, Event::RunRecovered { .. }), "no node was declared dead");
        }
    }
    for engine in engines {
        engine.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn database_restart_repeats_no_step_and_causes_no_takeover() {
    let cluster = Cluster::start(&ClusterOptions { durable: true, ..ClusterOptions::default() }).unwrap();
    let counter = Counter::default();
    let (open, gate) = watch::channel(false);
    let mut engines = Vec::new();
    for _ in 0..2 {
        let counter = counter.clone();
        let gate = gate.clone();
        let work = move |ctx: Context, name: String| held(ctx, name, counter.clone(), gate.clone());
        let builder = Engine::open(&cluster.url()).await.unwrap();
        engines.push(builder.workflow("work", work).start().await.unwrap());
    }
    for n in 0..20 {
        engines[n % 2].start("work", &format!("w-{n}"), &format!("w-{n}")).await.unwrap();
    }
    eventually("all steps have begun", async || (0..20).all(|n| counter.count(&format!("w-{n} held")) == 1))
        .await;
    for shutdown in [Shutdown::Fast, Shutdown::Immediate, Shutdown::Kill] {
        cluster.restart(shutdown).unwrap();
    }
    open.send_replace(true);
    for n in 0..20 {
        let run = run_id(&format!("w-{n}"));
        let ended =
            async || engines[0].client().get(&run).await.is_ok_and(|summary| summary.status.is_terminal());
        eventually("the run ends", ended).await;
        assert_eq!(engines[0].client().get(&run).await.unwrap().status, Status::Completed, "{run}");
        let history = engines[0].client().history(&run).await.unwrap();
        let recovered = history.iter().find(|recorded| matches!(recorded.event, Event::RunRecovered { .. }));
        assert!(recovered.is_none(), "{run} was taken over: {recovered:?}");
        for step in ["held", "after"] {
            assert_eq!(counter.count(&format!("{run} {step}")), 1, "{step} of {run}");
        }
    }
    for engine in engines {
        engine.shutdown().await;
    }
}

/// A step that waits for the gate, then another step.
async fn held(
    ctx: Context,
    name: String,
    counter: Counter,
    gate: watch::Receiver<bool>,
) -> goldseam::Result<()> {
    let wait = || {
        let counter = counter.clone();
        let mut gate = gate.clone();
        let name = name.clone();
        async move {
            counter.add(format!("{name} held"));
            gate.wait_for(|open| *open)
                .await
                .map_err(|error| goldseam::Error::terminal(error.to_string()))?;
            Ok::<(), goldseam::Error>(())
        }
    };
    ctx.step("held", wait).await?;
    let after = || counter.step(format!("{name} after"));
    ctx.step("after", after).await
}
