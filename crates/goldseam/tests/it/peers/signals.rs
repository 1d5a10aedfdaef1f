//! Signals at branch switches and ends of runs, sagas, and followers that reconnect.

use std::time::Duration;

use goldseam::client::follow::Followed;
use goldseam::client::{By, Jump};
use goldseam::prelude::*;
use goldseam::unstable::core::event::Event;
use goldseam::unstable::engine::heal::sweeper::SweepOptions;
use goldseam::unstable::store::faulty::{CallFault, FaultPlan, FaultRates};
use goldseam::{EngineError, Path, RunId, Seq, Status};

use super::{World, count, id, stores, until};
use crate::support::{Counter, eventually, ok, reaches};

/// temporalio/temporal#2694, uber/cadence#2717: a signal was refused while a run continued as new.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signal_races_branch_switch() {
    const MAIL: u32 = 30;
    for fixture in stores().await {
        let renewing = |ctx: Context, mut got: Vec<u32>| async move {
            got.push(ctx.signal::<u32>("n").await?);
            if got.len() < MAIL as usize {
                return ctx.continue_as_new(&got);
            }
            Ok(got)
        };
        let back = |ctx: Context, (): ()| async move {
            ctx.step("begin", || ok(())).await?;
            let mut got = Vec::new();
            for _ in 0..MAIL {
                got.push(ctx.signal::<u32>("n").await?);
            }
            Ok::<_, Error>(got)
        };
        let engine = Engine::on(fixture.store.clone()).workflow("renewing", renewing).workflow("back", back);
        let engine = engine.start().await.unwrap();
        let run = engine.start("renewing", "renewing", &Vec::<u32>::new()).await.unwrap();
        for number in 0..MAIL {
            run.signal("n", &number).await.unwrap();
        }
        assert_eq!(run.result::<Vec<u32>>().await.unwrap(), (0..MAIL).collect::<Vec<_>>());
        let run = engine.start("back", "back", &()).await.unwrap();
        eventually("the first step completes", || async {
            count(engine.client(), run.id(), "step.completed").await == 1
        })
        .await;
        let to = Path::new("begin").unwrap();
        for number in 0..MAIL {
            run.signal("n", &number).await.unwrap();
            if number % 10 == 5 {
                // The jump is refused until the run has reached the step after the previous jump.
                let back = || async { engine.client().jump(run.id(), &to, Jump::default()).await.is_ok() };
                eventually("the jump is accepted", back).await;
            }
        }
        assert_eq!(run.result::<Vec<u32>>().await.unwrap(), (0..MAIL).collect::<Vec<_>>());
        engine.shutdown().await;
    }
}

/// cschleiden/go-workflows#137: a signal to a finished instance restarted it.
#[tokio::test]
async fn terminal_is_final() {
    for fixture in stores().await {
        let flow = |ctx: Context, how: String| async move {
            match how.as_str() {
                "completed" => Ok(()),
                "failed" => Err(Error::terminal("no")),
                _ => ctx.signal::<()>("never").await,
            }
        };
        let engine = Engine::on(fixture.store.clone()).workflow("w", flow).start().await.unwrap();
        for status in [Status::Completed, Status::Failed, Status::Cancelled] {
            let run = engine.start("w", status.as_str(), &status.as_str()).await.unwrap();
            if status == Status::Cancelled {
                run.cancel("no longer wanted").await.unwrap();
            }
            reaches(engine.client(), status.as_str(), status).await;
            let before = engine.client().history(run.id()).await.unwrap();
            let refused = [
                run.signal("never", &()).await,
                run.answer("never", &()).await,
                run.cancel("no longer wanted").await,
                engine.client().pause(run.id(), By::default()).await,
            ];
            for refusal in refused {
                assert!(matches!(refusal, Err(EngineError::Refused { .. })), "{status}: {refusal:?}");
            }
            assert!(engine.client().resume(run.id(), By::default()).await.is_err());
            // A repeated start returns the same, ended run.
            let again = engine.start("w", status.as_str(), &status.as_str()).await.unwrap();
            assert_eq!(again.status().await.unwrap(), status);
            assert_eq!(engine.client().history(run.id()).await.unwrap(), before, "{status}");
        }
        let options =
            SweepOptions { stale_after: Some(Duration::ZERO), deep: true, ..SweepOptions::default() };
        let report = engine.client().sweeper(options).sweep().await.unwrap();
        assert_eq!((report.terminal, report.healed, report.stalled.len()), (3, 0, 0), "{report:?}");
        engine.shutdown().await;
    }
}

/// Books up to three things, each with a compensation, then fails.
fn saga(counter: &Counter) -> impl Fn(Context, usize) -> super::Running + Send + Sync + use<> {
    let counter = counter.clone();
    move |ctx, steps| {
        let counter = counter.clone();
        Box::pin(async move {
            for name in ["hotel", "flight", "car"].into_iter().take(steps) {
                let done = counter.clone();
                let undone = counter.clone();
                let book = move || {
                    done.add(format!("book {name}"));
                    ok(name.to_owned())
                };
                let cancel = move |booked: String| undone.step(format!("cancel {booked}"));
                ctx.step(name, book).compensate(cancel).await?;
            }
            Err(Error::terminal("the card was declined"))
        })
    }
}

/// Returns the compensated paths, in order.
async fn undone(client: &Client, run: &RunId) -> Vec<String> {
    let path = |event: &Event| match event {
        Event::CompensationCompleted { path } => Some(path.as_str().to_owned()),
        _ => None,
    };
    client.history(run).await.unwrap().iter().filter_map(|recorded| path(&recorded.event)).collect()
}

/// python-cqrs#47, forge-loop#301, workflow-core#258, #288: sagas were compensated again at every start, or skipped a
/// step.
#[tokio::test(start_paused = true)]
async fn saga_matrix() {
    const BACK: [&str; 3] = ["car", "flight", "hotel"];
    for steps in 0..=BACK.len() {
        for fault in
            [CallFault::FailBefore, CallFault::LoseReply, CallFault::CrashBefore, CallFault::CrashAfter]
        {
            for number in 1.. {
                let world = World::new();
                let counter = Counter::default();
                let link = world.link();
                let first = world.node(link.clone()).workflow("trip", saga(&counter)).start().await.unwrap();
                let offset = link.count();
                link.follow(FaultPlan::pass().at(offset + number, fault));
                let _ = first.start("trip", "r", &steps).await;
                let client = world.client();
                let ended = || async { client.get(&id("r")).await.is_ok_and(|run| run.status.is_terminal()) };
                until("the run ends or its node crashes", || async { link.is_crashed() || ended().await })
                    .await;
                let passed = link.count() < offset + number;
                world.kill(first);
                let second = world.node(world.link()).workflow("trip", saga(&counter)).start().await.unwrap();
                let run = second.start("trip", "r", &steps).await.unwrap();
                let error = run.result::<u32>().await.unwrap_err();
                assert_eq!(error.code(), "GS0117", "{error}");
                let back = &BACK[BACK.len() - steps..];
                let at = format!("{steps} steps, {fault:?} {number}");
                assert_eq!(undone(&client, run.id()).await, back, "{at}");
                assert_eq!(run.status().await.unwrap(), Status::Failed, "{at}");
                // The next engine has nothing to compensate.
                let seen = BACK.map(|name| counter.count(&format!("cancel {name}")));
                second.shutdown().await;
                let third = world.node(world.link()).workflow("trip", saga(&counter)).start().await.unwrap();
                third.client().sweeper(SweepOptions::default()).sweep().await.unwrap();
                tokio::time::sleep(Duration::from_secs(5)).await;
                assert_eq!(BACK.map(|name| counter.count(&format!("cancel {name}"))), seen, "{at}");
                third.shutdown().await;
                if passed {
                    break;
                }
            }
        }
    }
}

/// etcd#17529, #18089, #20221, aiq#272, vayu#21: watchers lost events, repeated events, or returned to old ones.
#[tokio::test(start_paused = true)]
async fn follow_exactly_once_over_reconnects() {
    for seed in 0..20 {
        let world = World::new();
        let flow = |ctx: Context, (): ()| async move {
            for number in 0..12u32 {
                ctx.step(("step", number), || ok("x".repeat(50))).await?;
                ctx.sleep(("nap", number), Duration::from_millis(700)).await?;
            }
            ctx.signal::<()>("end").await
        };
        let mut engine = world.node(world.link()).workflow("w", flow).start().await.unwrap();
        let run = engine.start("w", "r", &()).await.unwrap().id().clone();
        let link = world.link();
        let rates = FaultRates {
            fail_before: 150,
            delay: 200,
            delay_max: Duration::from_millis(90),
            ..FaultRates::default()
        };
        link.follow(FaultPlan::seeded(seed, rates));
        let client = world.client_on(link);
        let mut seen = Vec::new();
        let mut breaks = 0u64;
        while seen.last().is_none_or(|last: &goldseam::unstable::core::Recorded| !last.event.is_terminal()) {
            let after = seen.last().map_or(Seq::ZERO, |last| last.seq);
            let mut follower = client.follower(run.clone(), after);
            // The follower fails by itself, or the test cuts it off within a page.
            while let Ok(Followed::Events(events)) = follower.next().await {
                let kept =
                    if (seed + breaks).is_multiple_of(3) { events.len().div_ceil(2) } else { events.len() };
                seen.extend(events.into_iter().take(kept));
                if (seed + breaks).is_multiple_of(3)
                    || seen.last().is_some_and(|last| last.event.is_terminal())
                {
                    break;
                }
            }
            breaks += 1;
            if breaks.is_multiple_of(4) && breaks <= 12 {
                world.kill(engine);
                engine = world.node(world.link()).workflow("w", flow).start().await.unwrap();
            }
            if breaks == 14 {
                world.client().handle(run.clone()).signal("end", &()).await.unwrap();
            }
        }
        assert!(breaks >= 14, "{breaks}");
        assert_eq!(seen, world.client().history(&run).await.unwrap(), "seed {seed}");
        engine.shutdown().await;
    }
}
