//! Engines on Postgres: what many machines add to what every store does.

use std::sync::Arc;
use std::time::Duration;

use goldseam::core::Event;
use goldseam::engine::{Clock, SystemClock};
use goldseam::{Context, Engine, Millis, RunId, Status};
use goldseam_store_postgres::testing::Schema;
use goldseam_testbed::postgres::{Cluster, Options, Shutdown};
use tokio::sync::watch;

use crate::support::{Witness, eventually};

/// A machine whose clock is wrong.
#[derive(Debug)]
struct Wrong(i64);

impl Clock for Wrong {
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
async fn clocks_that_differ_by_hours_change_nothing() {
    let schema = Schema::fresh();
    let mut engines = Vec::new();
    for hours in [-5, 7] {
        let builder = Engine::open(&schema.url()).await.unwrap().clock(Arc::new(Wrong(hours * HOURS)));
        engines.push(builder.workflow("nap", nap).start().await.unwrap());
    }
    let before = SystemClock.now();
    for n in 0..20 {
        engines[n % 2].run("nap", &format!("nap-{n}"), &()).await.unwrap();
    }
    for n in 0..20 {
        let run = engines[(n + 1) % 2].run("nap", &format!("nap-{n}"), &()).await.unwrap();
        assert_eq!(run.result::<u32>().await.unwrap(), 1);
    }
    let after = SystemClock.now();
    for n in 0..20 {
        let history = engines[0].history(&RunId::new(format!("nap-{n}")).unwrap()).await.unwrap();
        for recorded in &history {
            let at = recorded.at;
            assert!(before.0 - 1_000 <= at.0 && at.0 <= after.0 + 1_000, "{at:?} is not the database's time");
            assert!(!matches!(recorded.event, Event::RunRecovered { .. }), "nobody was taken for dead");
        }
    }
    for engine in engines {
        engine.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_server_repeats_nothing_and_takes_nothing_over() {
    let cluster = Cluster::start(&Options { durable: true, ..Options::default() }).unwrap();
    let witness = Witness::default();
    let (open, gate) = watch::channel(false);
    let mut engines = Vec::new();
    for _ in 0..2 {
        let (witness, gate) = (witness.clone(), gate.clone());
        let work = move |ctx: Context, name: String| held(ctx, name, witness.clone(), gate.clone());
        let builder = Engine::open(&cluster.url()).await.unwrap();
        engines.push(builder.workflow("work", work).start().await.unwrap());
    }
    for n in 0..20 {
        engines[n % 2].run("work", &format!("w-{n}"), &format!("w-{n}")).await.unwrap();
    }
    eventually("all are in the middle", async || (0..20).all(|n| witness.count(&format!("w-{n} held")) == 1))
        .await;
    for shutdown in [Shutdown::Fast, Shutdown::Immediate, Shutdown::Kill] {
        cluster.restart(shutdown).unwrap();
    }
    open.send_replace(true);
    for n in 0..20 {
        let run = RunId::new(format!("w-{n}")).unwrap();
        let over = async || engines[0].get(&run).await.is_ok_and(|summary| summary.status.is_terminal());
        eventually("it ends", over).await;
        assert_eq!(engines[0].get(&run).await.unwrap().status, Status::Completed, "{run}");
        let history = engines[0].history(&run).await.unwrap();
        let recovered = history.iter().find(|recorded| matches!(recorded.event, Event::RunRecovered { .. }));
        assert!(recovered.is_none(), "{run} was taken over: {recovered:?}");
        for step in ["held", "after"] {
            assert_eq!(witness.count(&format!("{run} {step}")), 1, "{step} of {run}");
        }
    }
    for engine in engines {
        engine.shutdown().await;
    }
}

/// A step that waits for the gate, and one behind it.
async fn held(
    ctx: Context,
    name: String,
    witness: Witness,
    gate: watch::Receiver<bool>,
) -> goldseam::Result<()> {
    let wait = || {
        let (witness, mut gate, name) = (witness.clone(), gate.clone(), name.clone());
        async move {
            witness.saw(format!("{name} held"));
            gate.wait_for(|open| *open)
                .await
                .map_err(|error| goldseam::Error::terminal(error.to_string()))?;
            Ok::<(), goldseam::Error>(())
        }
    };
    ctx.step("held", wait).await?;
    let after = || {
        witness.saw(format!("{name} after"));
        async { Ok::<(), goldseam::Error>(()) }
    };
    ctx.step("after", after).await
}
