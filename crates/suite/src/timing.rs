//! Deadlines, delayed starts, lanes and defaults of steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use goldseam_core::event::CancelRequested;
use goldseam_core::{Event, Failure, Millis, Retry, Status};

use super::harness::{EffectCounter, Harness, id};
use super::{Fixture, eventually};
use goldseam_engine::client::By;
use goldseam_engine::ledger::config::StepDefaults;
use goldseam_engine::run::context::Context;
use goldseam_engine::{Engine, Error, StartOptions};

/// A deadline that passes soon, but not before a loaded machine has begun the run.
const SOON: Duration = Duration::from_secs(2);

fn within(span: Duration) -> StartOptions {
    StartOptions::default().timeout(span)
}

fn seen(
    witness: &EffectCounter,
    what: &'static str,
) -> impl Fn() -> futures_util::future::Ready<Result<u32, Error>> + use<> {
    let witness = witness.clone();
    move || {
        witness.saw(what);
        futures_util::future::ready(Ok(1))
    }
}

/// `reserve` with a compensation, a child that waits, then what the input names: a signal, a sleep, or a step that never
/// ends.
async fn saga(harness: &Harness<'_>) -> Engine {
    let witness = harness.witness.clone();
    let work = move |ctx: Context, what: String| {
        let witness = witness.clone();
        async move {
            let undo = seen(&witness, "no reserve");
            let undo = move |_: u32| {
                let done = undo();
                async move { done.await.map(|_| ()) }
            };
            ctx.step("reserve", seen(&witness, "reserve")).compensate(undo).await?;
            match what.as_str() {
                "signal" => ctx.signal::<u32>("go").await?,
                "sleep" => ctx.sleep("nap", Duration::from_secs(3_600)).await.map(|()| 1)?,
                "child" => ctx.child("wait", "idle", &()).await?,
                "hang" => std::future::pending().await,
                _ => ctx.step("stuck", std::future::pending::<Result<u32, Error>>).await?,
            };
            ctx.step("after", seen(&witness, "after")).await
        }
    };
    let idle = |ctx: Context, (): ()| async move { ctx.signal::<u32>("never").await };
    harness.builder().workflow("saga", work).workflow("idle", idle).start().await.unwrap()
}

async fn failure(harness: &Harness<'_>, run: &str) -> Failure {
    harness.reaches(run, Status::Failed).await;
    let history = harness.client.history(&id(run)).await.unwrap();
    match history.into_iter().last().map(|recorded| recorded.event) {
        Some(Event::RunFailed { failure }) => failure,
        other => panic!("{run} did not fail: {other:?}"),
    }
}

/// Asserts that the run timed out and undid its step, once.
async fn timed_out(harness: &Harness<'_>, run: &str) {
    let failure = failure(harness, run).await;
    assert_eq!(failure.code.as_deref(), Some("timeout"), "{failure:?}");
    assert!(
        failure.message.contains("its deadline 2") && failure.message.ends_with("has passed"),
        "{failure:?}"
    );
    let history = harness.client.history(&id(run)).await.unwrap();
    let requests: Vec<&CancelRequested> = history
        .iter()
        .filter_map(|recorded| match &recorded.event {
            Event::RunCancelRequested(request) => Some(request),
            _ => None,
        })
        .collect();
    assert_eq!(requests.len(), 1);
    let request = history.iter().find(|recorded| recorded.event.name() == "run.cancel_requested").unwrap();
    assert!(requests[0].deadline.unwrap() <= request.at, "never early");
    assert!(harness.task(run).await.is_none_or(|task| !task.state.is_live()), "no task is left");
}

/// A run stops wherever it is: at a signal, a sleep, a child, in the middle of an attempt, or in code of its own.
pub async fn a_run_stops_at_its_deadline_wherever_it_is(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = saga(&harness).await;
    let ways = ["signal", "sleep", "child", "hang", "stuck"];
    for way in ways {
        engine.start_with("saga", way, &way, within(SOON)).await.unwrap();
    }
    for way in ways {
        timed_out(&harness, way).await;
        assert!(harness.names(way).await.iter().any(|name| name == "compensation.completed"), "{way}");
    }
    assert_eq!((harness.witness.count("no reserve"), harness.witness.count("after")), (5, 0));
    let child = harness.client.history(&id("child")).await.unwrap();
    let child = child.iter().find_map(|recorded| match &recorded.event {
        Event::ChildStarted(child) => Some(child.run.clone()),
        _ => None,
    });
    harness.reaches(child.unwrap().as_str(), Status::Cancelled).await;
    engine.shutdown().await;
}

/// Whichever process had the run: the next one ends it, also if none lived at the deadline.
pub async fn a_deadline_that_no_node_saw_is_kept(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = saga(&harness).await;
    engine.start_with("saga", "r", "signal", within(SOON)).await.unwrap();
    harness.sees("reserve", 1).await;
    engine.shutdown().await;
    until_overdue(&harness, "r").await;
    let engine = saga(&harness).await;
    timed_out(&harness, "r").await;
    assert_eq!((harness.witness.count("reserve"), harness.witness.count("no reserve")), (1, 1));
    engine.shutdown().await;
}

async fn until_overdue(harness: &Harness<'_>, run: &str) {
    let deadline = harness.client.get(&id(run)).await.unwrap().deadline.unwrap();
    eventually("the deadline passes", || async { harness.store().now().await.unwrap() >= deadline }).await;
}

/// A run that never began ends by a sweep, without a node that has its code.
pub async fn an_unstarted_run_ends_without_its_code(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let options = within(Duration::from_millis(20));
    harness.client.start_with("ghost", "r", &(), options).await.unwrap();
    until_overdue(&harness, "r").await;
    harness.fix().await;
    timed_out(&harness, "r").await;
    assert!(!harness.names("r").await.iter().any(|name| name == "run.started"), "it never begins");
}

/// A deadline ends a pause and a parking.
pub async fn paused_and_parked_runs_time_out(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = saga(&harness).await;
    let run = engine.start_with("saga", "p", "signal", within(SOON)).await.unwrap();
    harness.sees("reserve", 1).await;
    run.pause("wait").await.unwrap();
    timed_out(&harness, "p").await;
    assert_eq!(harness.witness.count("no reserve"), 1);
    // A worker with other code parks the run.
    engine.start_with("saga", "v", "signal", within(SOON)).await.unwrap();
    harness.sees("reserve", 2).await;
    engine.shutdown().await;
    let other = |ctx: Context, _: String| async move { ctx.step("other", || async { Ok(1_u32) }).await };
    let engine = harness.builder().workflow("saga", other).start().await.unwrap();
    harness.client.handle(id("v")).signal("go", &1).await.unwrap();
    harness.reaches("v", Status::Parked).await;
    engine.shutdown().await;
    let engine = saga(&harness).await;
    timed_out(&harness, "v").await;
    assert_eq!(harness.witness.count("no reserve"), 2);
    engine.shutdown().await;
}

/// Starts `booked`, which has a step to undo, and `idle`, which has none, pauses both, and ends the engine.
async fn pause_two(harness: &Harness<'_>) {
    let engine = saga(harness).await;
    engine.start_with("saga", "booked", "signal", within(SOON)).await.unwrap();
    engine.start_with("idle", "idle", &(), within(SOON)).await.unwrap();
    for run in ["booked", "idle"] {
        harness.rests(run).await;
        harness.client.handle(id(run)).pause("wait").await.unwrap();
    }
    let why = harness.client.why(&id("booked")).await.unwrap().verdict.to_string();
    assert!(why.starts_with("needs you: an operator paused it; it times out at 2"), "{why}");
    engine.shutdown().await;
}

/// What only its code can undo waits for a worker, and `why` says so; everything else ends at the deadline.
async fn ended_without_code(harness: &Harness<'_>) {
    timed_out(harness, "idle").await;
    eventually("the end of the other run is requested", || async {
        harness.client.get(&id("booked")).await.unwrap().timed_out
    })
    .await;
    let why = harness.client.why(&id("booked")).await.unwrap();
    let links: Vec<String> = why.links.iter().map(|link| link.what.to_string()).collect();
    let waits =
        "its deadline has passed, and its end is pending: it waits for a worker with saga@1 (none is live)";
    assert!(links.iter().any(|link| link == waits), "{links:?}");
    let engine = saga(harness).await;
    timed_out(harness, "booked").await;
    assert_eq!(harness.witness.count("no reserve"), 1);
    engine.shutdown().await;
}

/// A repair by hand ends paused runs whose deadline has passed, without a node.
pub async fn stopped_runs_time_out_without_their_code(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    pause_two(&harness).await;
    until_overdue(&harness, "booked").await;
    until_overdue(&harness, "idle").await;
    // A repair that still sees the node of the engine requests the end only, and the next repair completes it.
    eventually("a repair ends the run that has nothing to undo", || async {
        harness.fix().await;
        harness.client.get(&id("idle")).await.unwrap().status == Status::Failed
    })
    .await;
    ended_without_code(&harness).await;
}

/// The regular sweeps of an engine with other workflows do the same.
pub async fn an_engine_without_the_code_ends_runs_at_their_deadline(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    pause_two(&harness).await;
    let other = |ctx: Context, (): ()| async move { ctx.signal::<u32>("never").await };
    let sweep = Some(Duration::from_millis(100));
    let engine =
        harness.builder_like(Default::default(), sweep).workflow("other", other).start().await.unwrap();
    ended_without_code(&harness).await;
    engine.shutdown().await;
}

/// A retry after the deadline continues without one.
pub async fn a_retry_of_a_timed_out_run_has_no_deadline(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = saga(&harness).await;
    engine.start_with("saga", "r", "signal", within(SOON)).await.unwrap();
    timed_out(&harness, "r").await;
    harness.client.retry(&id("r"), By::default()).await.unwrap();
    harness.reaches("r", Status::Waiting).await;
    assert_eq!(harness.client.get(&id("r")).await.unwrap().deadline, None);
    harness.client.handle(id("r")).signal("go", &1).await.unwrap();
    assert_eq!(harness.result::<u32>("r").await, 1);
    assert_eq!(harness.witness.count("reserve"), 2, "what was undone is done again");
    engine.shutdown().await;
}

/// A lost task is made again with the times of the run.
pub async fn o1_keeps_the_deadline_and_the_delayed_start(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = saga(&harness).await;
    engine.start_with("saga", "r", "signal", within(Duration::from_secs(3_600))).await.unwrap();
    harness.sees("reserve", 1).await;
    harness.rests("r").await;
    let options = StartOptions::default().delay(Duration::from_secs(600)).lane("tenant-7");
    engine.start_with("saga", "later", "signal", options).await.unwrap();
    for (run, lane) in [("r", None), ("later", Some("tenant-7"))] {
        let summary = harness.client.get(&id(run)).await.unwrap();
        let due = summary.deadline.or(summary.start_at).unwrap();
        let task = harness.task(run).await.unwrap();
        assert_eq!(task.run_at, due, "{run}");
        harness.damage().lose_task(&task.id).await;
        assert_eq!(harness.fix().await.healed, 1, "{run}");
        let again = harness.task(run).await.unwrap();
        assert_eq!((again.run_at, again.lane.as_ref().map(|lane| lane.as_str())), (due, lane), "{run}");
    }
    engine.shutdown().await;
}

/// A delayed run is not a stall: no rule finds it, and `why` says when it begins.
pub async fn a_delayed_run_begins_at_its_time(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = saga(&harness).await;
    let far =
        StartOptions::default().start_at(SystemTime::from(harness.client.now()) + Duration::from_secs(600));
    engine.start_with("saga", "far", "sleep", far).await.unwrap();
    let near = StartOptions::default().delay(Duration::from_millis(300));
    engine.start_with("saga", "near", "sleep", near).await.unwrap();
    harness.reaches("near", Status::Sleeping).await;
    let begun = harness.client.history(&id("near")).await.unwrap();
    let summary = harness.client.get(&id("near")).await.unwrap();
    let claimed = begun.iter().find(|recorded| recorded.event.name() == "run.claimed").unwrap();
    assert!(claimed.at >= summary.start_at.unwrap(), "never early");
    assert_eq!(harness.client.get(&id("far")).await.unwrap().status, Status::Queued);
    assert!(harness.codes().await.is_empty(), "nothing is stalled");
    let why = harness.client.why(&id("far")).await.unwrap();
    assert!(why.verdict.to_string().contains("its start is delayed"), "{why:?}");
    assert_eq!(why.moves_at, harness.client.get(&id("far")).await.unwrap().start_at);
    engine.shutdown().await;
}

/// Two engines never execute two runs of a lane at once, and a run that waits holds nothing.
pub async fn runs_of_a_lane_take_turns(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let now = Arc::new(AtomicU32::new(0));
    let most = Arc::new(AtomicU32::new(0));
    let builder = || {
        let now = Arc::clone(&now);
        let most = Arc::clone(&most);
        let work = move |ctx: Context, (): ()| {
            let now = Arc::clone(&now);
            let most = Arc::clone(&most);
            async move {
                let body = || async {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    now.fetch_sub(1, Ordering::SeqCst);
                    Ok::<u32, Error>(1)
                };
                ctx.step("alone", body).await
            }
        };
        let idle = |ctx: Context, (): ()| async move { ctx.signal::<u32>("go").await };
        harness.builder().workflow("lone", work).workflow("idle", idle)
    };
    let engines = [builder().start().await.unwrap(), builder().start().await.unwrap()];
    let lane = || StartOptions::default().lane("tenant-7");
    engines[0].start_with("idle", "waits", &(), lane()).await.unwrap();
    harness.reaches("waits", Status::Waiting).await;
    harness.rests("waits").await;
    for n in 0..6 {
        engines[n % 2].start_with("lone", format!("r{n}"), &(), lane()).await.unwrap();
    }
    for n in 0..6 {
        assert_eq!(harness.result::<u32>(&format!("r{n}")).await, 1);
    }
    assert_eq!(most.load(Ordering::SeqCst), 1);
    assert!(harness.client.start_with("lone", "x", &(), lane().lane("no lane")).await.is_err());
    for engine in engines {
        engine.shutdown().await;
    }
}

/// A run that waits for its lane is not stalled; `why` names the run that holds the lane.
pub async fn why_names_the_holder_of_a_lane(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = saga(&harness).await;
    let lane = || StartOptions::default().lane("tenant-7");
    engine.start_with("saga", "holds", "stuck", lane()).await.unwrap();
    harness.sees("reserve", 1).await;
    engine.start_with("saga", "waits", "signal", lane()).await.unwrap();
    let link = "its task waits for lane tenant-7, which run holds holds";
    let says_so = || async {
        let why = harness.client.why(&id("waits")).await.unwrap();
        why.links.iter().any(|found| found.what == link)
    };
    eventually("why names the holder of the lane", says_so).await;
    assert!(harness.codes().await.is_empty(), "nothing is stalled");
    harness.client.cancel(&id("waits"), By::default()).await.unwrap();
    engine.shutdown().await;
}

/// Steps that state neither retry nor limit use those of their workflow, else of the engine.
pub async fn defaults_apply_to_steps_that_state_none(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let work = |ctx: Context, bounded: bool| async move {
        let slow = || async {
            tokio::time::sleep(Duration::from_millis(900)).await;
            Ok::<u32, Error>(1)
        };
        match bounded {
            true => ctx.step("slow", slow).without_heartbeat_timeout().await,
            false => ctx.step("stuck", std::future::pending::<Result<u32, Error>>).await,
        }
    };
    let steps = StepDefaults::default()
        .retry(Retry::fixed(Duration::ZERO).attempts_max(2))
        .heartbeat_timeout(Duration::from_millis(300));
    let engine = harness.builder().workflow("w", work).steps("w", steps).start().await.unwrap();
    engine.start("w", "bounded", &true).await.unwrap();
    engine.start("w", "silent", &false).await.unwrap();
    assert_eq!(harness.result::<u32>("bounded").await, 1);
    let failure = failure(&harness, "silent").await;
    assert_eq!(failure.code.as_deref(), Some("heartbeat-timeout"), "{failure:?}");
    let names = harness.names("silent").await;
    assert_eq!(names.iter().filter(|name| *name == "step.timeout").count(), 2, "{names:?}");
    engine.shutdown().await;
}

/// Times that make no sense are refused, and nothing is started.
pub async fn senseless_times_are_refused(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let past = SystemTime::from(Millis(1_000));
    let soon = SystemTime::from(harness.client.now()) + Duration::from_secs(60);
    for (n, options) in [
        within(Duration::ZERO),
        within(Duration::MAX),
        StartOptions::default().deadline(past),
        StartOptions::default().start_at(soon + Duration::from_secs(60)).deadline(soon),
        StartOptions::default().delay(Duration::MAX),
    ]
    .into_iter()
    .enumerate()
    {
        let error = harness.client.start_with("w", "r", &(), options).await.unwrap_err();
        assert_eq!((error.code(), error.hint().is_some()), ("GS0160", true), "{n}: {error}");
    }
    assert!(harness.client.get(&id("r")).await.is_err(), "nothing was started");
    harness.client.start_with("w", "r", &(), StartOptions::default().start_at(past)).await.unwrap();
    assert_eq!(
        harness.client.get(&id("r")).await.unwrap().start_at,
        None,
        "a time that has passed means at once"
    );
}
