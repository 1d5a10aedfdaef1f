//! Healers and sweeps that act on outdated findings.

use std::time::Duration;

use goldseam::prelude::*;
use goldseam::recovery::Code;
use goldseam::unstable::engine::heal::Healed;
use goldseam::unstable::engine::heal::sweeper::SweepOptions;
use goldseam::unstable::store::Store;
use goldseam::{Seq, Status};
use goldseam_conformance::Fixture;

use super::{Gate, World, count, id, lose_task, queue, stores, until};
use crate::support::{Counter, eventually, with_state};

fn at_once() -> SweepOptions {
    SweepOptions { stale_after: Some(Duration::ZERO), ..SweepOptions::default() }
}

/// A workflow with one step that waits for the gate.
fn held(counter: &Counter, gate: &Gate) -> impl Fn(Context, ()) -> super::Running + Send + Sync + use<> {
    let counter = counter.clone();
    let gate = gate.clone();
    move |ctx, ()| {
        let counter = counter.clone();
        let gate = gate.clone();
        Box::pin(async move {
            let step = || {
                let counter = counter.clone();
                let gate = gate.clone();
                async move {
                    counter.add("held");
                    gate.passed().await;
                    Ok(1)
                }
            };
            ctx.step("held", step).await
        })
    }
}

/// riverqueue/river#1302: a rescuer overwrote jobs that were completed or claimed again after its scan.
#[tokio::test]
async fn sweep_stale_snapshot_never_rewrites() {
    for fixture in stores().await {
        for ended in [true, false] {
            let counter = Counter::default();
            let gate = Gate::closed();
            let client = Client::new(fixture.store.clone());
            let run = queue(&client, "w", if ended { "ended" } else { "claimed" }).await;
            lose_task(&fixture, &run).await;
            let healer = client.healer();
            let liveness = healer.liveness().await.unwrap();
            let scan = healer.examine(&run, &liveness).await.unwrap().found;
            let found = scan.iter().find(|found| found.diagnosis.rule == Code::O1).unwrap();
            let first = healer.heal(&run, found.at, &found.diagnosis).await.unwrap();
            assert!(matches!(first, Healed::Done { .. }), "{first:?}");
            let engine = Engine::on(fixture.store.clone()).workflow("w", held(&counter, &gate));
            let engine = engine.start().await.unwrap();
            eventually("the step begins", || async { counter.count("held") == 1 }).await;
            if ended {
                gate.open();
                engine.handle(run.clone()).result::<u32>().await.unwrap();
            }
            let before = client.get(&run).await.unwrap().status;
            let late = healer.heal(&run, found.at, &found.diagnosis).await.unwrap();
            assert_eq!(late, Healed::Moved);
            assert_eq!(client.get(&run).await.unwrap().status, before);
            gate.open();
            engine.handle(run.clone()).result::<u32>().await.unwrap();
            assert_eq!((counter.count("held"), count(&client, &run, "run.recovered").await), (1, 1));
            engine.shutdown().await;
        }
    }
}

/// riverqueue/river#1318, #1258: a page full of jobs that the rescuer ignored hid all later jobs for months.
#[tokio::test]
async fn sweep_pages_to_end() {
    const MANY: usize = 450;
    let fixture = Fixture::memory_on(goldseam_store_sqlite::system_clock());
    let client = Client::new(fixture.store.clone());
    let damage = fixture.damage.clone().unwrap();
    // A sweep can repair neither: half of the logs lack their first event, and no node has the workflow.
    for number in 0..MANY {
        let run = queue(&client, "w", &format!("a-{number}")).await;
        if number % 2 == 0 {
            damage.corrupt(&run, Seq(1), "{}").await;
            damage.lose_row(&run).await;
        }
    }
    let rowless = queue(&client, "w", "z-1").await;
    let idle = queue(&client, "w", "z-2").await;
    damage.lose_row(&rowless).await;
    lose_task(&fixture, &rowless).await;
    lose_task(&fixture, &idle).await;
    client.sweeper(at_once()).sweep().await.unwrap();
    for run in [rowless, idle] {
        let row = fixture.store.head(&run).await.unwrap().unwrap().row;
        assert_eq!(row.map(|row| row.summary.recoveries), Some(1), "{run}");
    }
}

/// riverqueue/river#1105: a rescuer discarded healthy jobs whose kinds only other deployments had.
#[tokio::test]
async fn sweep_ignores_foreign_types() {
    for fixture in stores().await {
        let counter = Counter::default();
        let gate = Gate::closed();
        let client = Client::new(fixture.store.clone());
        let ours = Engine::on(fixture.store.clone()).workflow("ours", held(&counter, &gate));
        let ours = ours.start().await.unwrap();
        let theirs = Engine::on(fixture.store.clone()).workflow("theirs", held(&counter, &gate));
        let theirs = theirs.start().await.unwrap();
        queue(&client, "theirs", "begun").await;
        eventually("the other engine begins its step", || async { counter.count("held") == 1 }).await;
        theirs.crash();
        queue(&client, "theirs", "queued").await;
        let mut sweeper = ours.client().sweeper(at_once());
        for _ in 0..3 {
            sweeper.sweep().await.unwrap();
        }
        for run in ["begun", "queued"] {
            let status = client.get(&id(run)).await.unwrap().status;
            assert!(status.is_active(), "{run} is {status}");
        }
        gate.open();
        let theirs = Engine::on(fixture.store.clone()).workflow("theirs", held(&counter, &gate));
        let theirs = theirs.start().await.unwrap();
        for run in ["begun", "queued"] {
            assert_eq!(theirs.handle(id(run)).result::<u32>().await.unwrap(), 1);
        }
        ours.shutdown().await;
        theirs.shutdown().await;
    }
}

/// dbos-inc/dbos-transact-py#742: a second recovery executed runs of a list that the first had already recovered.
#[tokio::test]
async fn stale_recovery_list_is_harmless() {
    for fixture in stores().await {
        let counter = Counter::default();
        let gate = Gate::closed();
        gate.open();
        let client = Client::new(fixture.store.clone());
        let healer = client.healer();
        let liveness = healer.liveness().await.unwrap();
        let mut list = Vec::new();
        for number in 0..3 {
            let run = queue(&client, "w", &format!("r-{number}")).await;
            lose_task(&fixture, &run).await;
            list.extend(healer.examine(&run, &liveness).await.unwrap().found);
        }
        let recover = || async {
            let mut done = 0;
            for found in &list {
                let healed = healer.heal(&found.run, found.at, &found.diagnosis).await.unwrap();
                done += usize::from(matches!(healed, Healed::Done { .. }));
            }
            done
        };
        assert_eq!(recover().await, 3);
        let engine = Engine::on(fixture.store.clone()).workflow("w", held(&counter, &gate));
        let engine = engine.start().await.unwrap();
        for number in 0..3 {
            engine.handle(id(&format!("r-{number}"))).result::<u32>().await.unwrap();
        }
        assert_eq!(recover().await, 0);
        client.sweeper(at_once()).sweep().await.unwrap();
        assert_eq!(counter.count("held"), 3);
        for number in 0..3 {
            assert_eq!(client.get(&id(&format!("r-{number}"))).await.unwrap().status, Status::Completed);
        }
        engine.shutdown().await;
    }
}

/// oban#1141, hexpm/hexpm#1825: jobs that took longer than the rescue age ran two or three times every night.
#[tokio::test(start_paused = true)]
async fn long_step_with_heartbeat_runs_once() {
    let world = World::new();
    let counter = Counter::default();
    let flow = || {
        with_state(&counter, |ctx: Context, (): (), counter| async move {
            let body = |attempt: Attempt| {
                let counter = counter.clone();
                async move {
                    counter.add("long");
                    for minute in 0..30 {
                        attempt.heartbeat(&minute);
                        tokio::time::sleep(Duration::from_secs(60)).await;
                    }
                    Ok(7)
                }
            };
            ctx.step_with("long", body).heartbeat_timeout(Duration::from_secs(90)).await
        })
    };
    let first = world.node(world.link()).workflow("w", flow()).start().await.unwrap();
    let second = world.node(world.link()).workflow("w", flow()).start().await.unwrap();
    let run = first.start("w", "r", &()).await.unwrap();
    let client = world.client();
    let mut sweeper = client.sweeper(at_once());
    while client.get(run.id()).await.unwrap().status.is_active() {
        let report = sweeper.sweep().await.unwrap();
        assert_eq!((report.healed, report.stalled.len()), (0, 0), "{report:?}");
        tokio::time::sleep(Duration::from_secs(61)).await;
    }
    assert_eq!(run.result::<u32>().await.unwrap(), 7);
    assert_eq!((counter.count("long"), client.get(run.id()).await.unwrap().recoveries), (1, 0));
    first.shutdown().await;
    second.shutdown().await;
}

/// oban#862, dbos-transact-py#804: a node that restarted under its old name did not recover its orphaned runs.
#[tokio::test(start_paused = true)]
async fn boot_id_unique_no_strand() {
    let world = World::new();
    let counter = Counter::default();
    let gate = Gate::closed();
    let flow = held(&counter, &gate);
    let old = world.node(world.link()).workflow("w", held(&counter, &gate)).start().await.unwrap();
    old.start("w", "r", &()).await.unwrap();
    until("the step begins", || async { counter.count("held") == 1 }).await;
    // An overlapping deploy: the same host and process, while the old node still runs.
    let new = world.node(world.link()).workflow("w", flow).start().await.unwrap();
    assert_ne!(old.node_id(), new.node_id());
    let names: Vec<String> =
        world.store.nodes().await.unwrap().into_iter().map(|seen| seen.record.name).collect();
    assert_eq!((names.len(), &names[0]), (2, &names[1]), "both nodes have the same display name");
    world.kill(old);
    gate.open();
    assert_eq!(new.handle(id("r")).result::<u32>().await.unwrap(), 1);
    let summary = new.client().get(&id("r")).await.unwrap();
    assert_eq!((summary.recoveries, counter.count("held")), (1, 2));
    new.shutdown().await;
}

/// dbos-inc/dbos-transact-java#491: recovery at start-up adopted a run that began in the same millisecond.
#[tokio::test(start_paused = true)]
async fn startup_recovery_same_instant() {
    let world = World::new();
    let counter = Counter::default();
    let gate = Gate::closed();
    let first = world.node(world.link()).workflow("w", held(&counter, &gate)).start().await.unwrap();
    let run = first.start("w", "r", &()).await.unwrap();
    let second = world.node(world.link()).workflow("w", held(&counter, &gate)).start().await.unwrap();
    let joined: Vec<_> =
        world.store.nodes().await.unwrap().iter().map(|seen| seen.record.started_at).collect();
    let history = first.client().history(run.id()).await.unwrap();
    assert!(joined.iter().all(|at| *at == history[0].at), "the clock has not moved: {joined:?}");
    until("the step begins", || async { counter.count("held") == 1 }).await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    gate.open();
    assert_eq!(run.result::<u32>().await.unwrap(), 1);
    assert_eq!((counter.count("held"), count(first.client(), run.id(), "run.claimed").await), (1, 1));
    first.shutdown().await;
    second.shutdown().await;
}

/// dbos-inc/dbos-transact-ts#1205, #1207, #1219: two processes recovered one run and received different messages.
#[tokio::test(start_paused = true)]
async fn dual_recovery_single_result() {
    for number in 0..8 {
        let world = World::new();
        let counter = Counter::default();
        let flow = || {
            with_state(&counter, |ctx: Context, (): (), counter| async move {
                let got: u32 = ctx.signal("n").await?;
                let seen = || counter.step(format!("got {got}"));
                ctx.step("use", seen).await?;
                let next: u32 = ctx.signal("n").await?;
                Ok((got, next))
            })
        };
        let dead = world.node(world.link()).workflow("w", flow()).start().await.unwrap();
        let run = dead.start("w", "r", &()).await.unwrap().id().clone();
        let client = world.client();
        until("the run waits", || async { client.get(&run).await.unwrap().status == Status::Waiting }).await;
        world.kill(dead);
        let start = || world.node(world.link()).workflow("w", flow()).start();
        let (left, right) = tokio::join!(start(), start());
        let left = left.unwrap();
        let right = right.unwrap();
        // Vary the moment of the recovery at which the messages arrive.
        tokio::time::sleep(Duration::from_millis(20 * number)).await;
        let one = left.handle(run.clone());
        let two = right.handle(run.clone());
        one.signal("n", &1).await.unwrap();
        two.signal("n", &2).await.unwrap();
        let results = tokio::join!(one.result::<(u32, u32)>(), two.result::<(u32, u32)>());
        assert_eq!((results.0.unwrap(), results.1.unwrap()), ((1, 2), (1, 2)));
        assert_eq!((counter.count("got 1"), counter.count("got 2")), (1, 0));
        left.shutdown().await;
        right.shutdown().await;
    }
}
