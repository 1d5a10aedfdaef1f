//! Runs that an operator ends or sends requests to, with and without a worker.

use goldseam_core::event::Request;
use goldseam_core::{Event, NextStep, Seq, Status};

use super::harness::{Harness, id, path};
use super::{Fixture, eventually};
use goldseam_engine::client::recover::RecoverOptions;
use goldseam_engine::client::{By, Jump};
use goldseam_engine::run::context::Context;
use goldseam_engine::{Engine, Error};

fn by(id: &str) -> By {
    By { who: Some("ada".to_owned()), reason: format!("because of {id}"), id: Some(id.to_owned()) }
}

/// `reserve` and `charge`, both with compensations, then a signal; or code that diverges at `charge`.
async fn saga(harness: &Harness<'_>, diverges: bool) -> Engine {
    let witness = harness.witness.clone();
    let work = move |ctx: Context, (): ()| {
        let witness = witness.clone();
        async move {
            let saw = |what: &'static str| {
                let witness = witness.clone();
                move || {
                    witness.saw(what);
                    async { Ok::<u32, Error>(1) }
                }
            };
            let undo = |what: &'static str| {
                let saw = saw(what);
                move |_: u32| {
                    let done = saw();
                    async move { done.await.map(|_| ()) }
                }
            };
            ctx.step("reserve", saw("reserve")).compensate(undo("no reserve")).await?;
            let charge = if diverges { "bill" } else { "charge" };
            ctx.step(charge, saw(charge)).compensate(undo("no charge")).await?;
            ctx.signal::<u32>("go").await
        }
    };
    harness.builder().workflow("saga", work).start().await.unwrap()
}

/// A saga that waits for its signal, without an owner.
async fn at_the_signal(harness: &Harness<'_>, run: &str) {
    let engine = saga(harness, false).await;
    harness.start("saga", run, "null").await;
    harness.reaches(run, Status::Waiting).await;
    harness.rests(run).await;
    engine.shutdown().await;
}

/// A saga parked by V1.
async fn diverged(harness: &Harness<'_>, run: &str) {
    at_the_signal(harness, run).await;
    let engine = saga(harness, true).await;
    harness.client.requeue(&id(run), By::default()).await.unwrap();
    harness.reaches(run, Status::Parked).await;
    engine.shutdown().await;
}

async fn last(harness: &Harness<'_>, run: &str) -> String {
    harness.names(run).await.pop().unwrap_or_default()
}

/// Without a node, a run ends at once if it has nothing to compensate; otherwise it reports what it waits for.
pub async fn cancel_ends_a_run_that_needs_no_worker(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.start("ghost", "queued", "null").await;
    let done = harness.client.request_cancel(&id("queued"), by("c1")).await.unwrap();
    assert_eq!(done.waits_for, None);
    assert_eq!(harness.client.get(&id("queued")).await.unwrap().status, Status::Cancelled);
    assert!(harness.task("queued").await.is_none_or(|task| !task.state.is_live()), "no task is left");

    harness.at_the_question("asks").await;
    let done = harness.client.request_cancel(&id("asks"), by("c1")).await.unwrap();
    assert_eq!(done.waits_for, None, "no live node has it, and it has nothing to undo");
    assert_eq!(last(&harness, "asks").await, "run.cancelled");

    at_the_signal(&harness, "saga").await;
    let done = harness.client.request_cancel(&id("saga"), by("c1")).await.unwrap();
    assert_eq!(done.waits_for.as_deref(), Some("a worker with saga@1 (none is live)"));
    let why = harness.client.why(&id("saga")).await.unwrap();
    let link = "a request to cancel it by ada is pending: it waits for a worker with saga@1 (none is live)";
    assert!(why.links.iter().any(|found| found.what == link && found.since.is_some()), "{why:?}");
    assert!(why.you_can.contains(&NextStep::withdraw(&id("saga"), Request::Cancel).into()), "{why:?}");
    let engine = saga(&harness, false).await;
    harness.reaches("saga", Status::Cancelled).await;
    assert_eq!((harness.witness.count("no charge"), harness.witness.count("no reserve")), (1, 1));
    engine.shutdown().await;
}

/// A parked run without compensations ends at once.
pub async fn cancel_ends_a_parked_run(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.between_steps("r").await;
    let work =
        |ctx: Context, _: bool| async move { ctx.step("other", || async { Ok::<u32, Error>(0) }).await };
    let engine = harness.builder().workflow("two", work).start().await.unwrap();
    harness.reaches("r", Status::Parked).await;
    harness.client.cancel(&id("r"), by("c1")).await.unwrap();
    assert_eq!(harness.client.get(&id("r")).await.unwrap().status, Status::Cancelled);
    assert!(harness.look().await.findings.is_empty(), "nothing is left to find");
    engine.shutdown().await;
}

/// A termination ends any run without its code, and reports what it left standing.
pub async fn terminate_ends_runs_that_cancel_cannot(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    diverged(&harness, "parked").await;
    harness.client.cancel(&id("parked"), by("c1")).await.unwrap();
    let done = harness.client.terminate(&id("parked"), by("t1")).await.unwrap();
    assert_eq!(done.left.standing, [path("charge"), path("reserve")]);
    let again = harness.client.terminate(&id("parked"), by("t1")).await.unwrap();
    assert_eq!(again, done, "a repeat changes nothing");
    assert_eq!(harness.client.terminate(&id("parked"), by("t2")).await.unwrap_err().code(), "GS0105");
    let refused = harness.client.jump(&id("parked"), &path("charge"), Jump::default()).await.unwrap_err();
    assert_eq!(refused.code(), "GS0137");
    let why = harness.client.why(&id("parked")).await.unwrap();
    assert!(why.links.iter().any(|link| link.what.contains("terminated by ada")), "{why:?}");
    assert!(why.links.iter().any(|link| link.what.contains("charge, reserve")), "{why:?}");
    assert_eq!(harness.witness.count("no charge"), 0, "nothing is undone");
    let outcome = harness.client.outcome(&id("parked")).await.unwrap();
    assert_eq!(outcome, goldseam_engine::Outcome::Cancelled("because of t1".to_owned()));
    assert!(harness.look().await.findings.is_empty(), "nothing is left to find");
}

/// The owner of a terminated run stops, wherever the command came from.
pub async fn terminate_fences_the_owner(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = harness.two_steps().await;
    engine.start("two", "r", &false).await.unwrap();
    harness.sees("b", 1).await;
    harness.client.terminate(&id("r"), by("t1")).await.unwrap();
    let end = harness.client.get(&id("r")).await.unwrap().as_of;
    engine.shutdown().await;
    let open = harness.two_steps_open().await;
    open.start("two", "well", &true).await.unwrap();
    assert_eq!(harness.result::<u32>("well").await, 2);
    let summary = harness.client.get(&id("r")).await.unwrap();
    assert_eq!((summary.as_of, summary.status, summary.owner), (end, Status::Cancelled, None));
    open.shutdown().await;
}

/// A parent learns that its child was terminated; a child of a terminated parent is asked to cancel.
pub async fn terminate_reaches_parents_and_children(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = harness.waiting().await;
    let child = |run: &'static str| {
        let harness = &harness;
        async move {
            harness.start("waits", run, "\"child\"").await;
            harness.has_event(run, "child.started").await;
            let state = harness.client.state(&id(run)).await.unwrap();
            let child = state.children.keys().next().unwrap().clone();
            harness.reaches(child.as_str(), Status::Waiting).await;
            child
        }
    };
    let kid = child("parent").await;
    harness.client.terminate(&kid, by("t1")).await.unwrap();
    harness.reaches("parent", Status::Failed).await;
    assert!(harness.names("parent").await.contains(&"child.failed".to_owned()));

    let kid = child("other").await;
    let done = harness.client.terminate(&id("other"), by("t1")).await.unwrap();
    assert_eq!(done.left.children, std::slice::from_ref(&kid));
    harness.reaches(kid.as_str(), Status::Cancelled).await;
    engine.shutdown().await;
}

/// A run with a damaged log can be ended, and stays ended.
pub async fn terminate_ends_a_damaged_run(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    for run in ["gap", "text", "active"] {
        at_the_signal(&harness, run).await;
    }
    harness.damage().lose_event(&id("gap"), Seq(2)).await;
    harness.damage().corrupt(&id("text"), Seq(3), "{\"half").await;
    harness.fix().await;
    harness.damage().corrupt(&id("active"), Seq(3), "{}").await;
    for run in ["gap", "text", "active"] {
        let done = harness.client.terminate(&id(run), by("t1")).await.unwrap();
        assert!(done.left.unknown.as_ref().unwrap().contains("damaged"), "{run}: {done:?}");
        assert!(done.left.standing.contains(&path("charge")), "{run}: {done:?}");
        let again = harness.client.terminate(&id(run), by("t1")).await.unwrap();
        assert_eq!(again, done, "{run}: a repeat changes nothing");
        assert_eq!(harness.client.terminate(&id(run), by("t2")).await.unwrap_err().code(), "GS0105", "{run}");
        let row = harness.row(run).await.summary;
        assert_eq!((row.status, row.terminated, row.as_of), (Status::Cancelled, true, done.end), "{run}");
        let outcome = harness.client.outcome(&id(run)).await.unwrap();
        assert_eq!(outcome, goldseam_engine::Outcome::Cancelled("because of t1".to_owned()), "{run}");
        let why = harness.client.why(&id(run)).await.unwrap();
        assert!(why.links[0].what.contains("terminated"), "{run}: {why:?}");
    }
    assert!(harness.look().await.findings.is_empty(), "nothing is left to find");
    let engine = saga(&harness, false).await;
    harness.fix().await;
    engine.shutdown().await;
    for run in ["gap", "text", "active"] {
        let events = harness.client.readable(&id(run)).await.unwrap();
        let ended = |event: &Event| matches!(event, Event::RunCancelled { .. });
        assert!(ended(&events.last().unwrap().event), "{run}: something follows its end");
        assert_eq!(events.iter().filter(|one| one.event.is_terminal()).count(), 1, "{run}");
    }
}

/// The row of a terminated damaged run is a hint like any other.
pub async fn a_terminated_damaged_run_stays_ended_without_its_row(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    at_the_signal(&harness, "r").await;
    harness.damage().corrupt(&id("r"), Seq(3), "{}").await;
    let done = harness.client.terminate(&id("r"), by("t1")).await.unwrap();
    harness.damage().lose_row(&id("r")).await;
    harness.fix().await;
    harness.fix().await;
    let events = harness.client.readable(&id("r")).await.unwrap();
    assert_eq!(events.last().unwrap().seq, done.end, "nothing follows its end");
    let row = harness.row("r").await.summary;
    assert_eq!((row.status, row.terminated), (Status::Cancelled, true));
}

/// A jump without a worker blocks nothing, is shown, and can be withdrawn.
pub async fn a_jump_that_waits_is_shown_and_withdrawn(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    diverged(&harness, "r").await;
    let run = id("r");
    let undoing = |id: &str| Jump { compensate: true, by: by(id), ..Jump::default() };
    harness.client.jump(&run, &path("reserve"), undoing("j1")).await.unwrap();
    let waits_for = harness.client.jump_waits_for(&run).await.unwrap();
    assert_eq!(waits_for.as_deref(), Some("a worker with saga@1 (none is live) to undo charge, reserve"));
    let engine = saga(&harness, true).await;
    harness.reaches("r", Status::Parked).await;
    engine.shutdown().await;
    let why = harness.client.why(&run).await.unwrap();
    let pending =
        |link: &goldseam_engine::client::why::Link| link.what.contains("a jump to reserve by ada is pending");
    assert!(why.links.iter().any(pending), "{why:?}");
    assert!(why.you_can.contains(&NextStep::withdraw(&id("r"), Request::Jump).into()), "{why:?}");

    let withdrawn = harness.client.withdraw(&run, None, by("w1")).await.unwrap();
    assert_eq!(withdrawn.what, Request::Jump);
    assert_eq!(harness.client.jump_waits_for(&run).await.unwrap(), None);
    harness.client.jump(&run, &path("reserve"), undoing("j2")).await.unwrap();
    harness.client.jump(&run, &path("charge"), undoing("j3")).await.unwrap();
    let engine = saga(&harness, false).await;
    harness.has_event("r", "branch.opened").await;
    harness.reaches("r", Status::Waiting).await;
    assert_eq!(
        (harness.witness.count("no charge"), harness.witness.count("no reserve")),
        (1, 0),
        "the last one counts"
    );
    assert_eq!(harness.witness.count("charge"), 2);
    harness.client.handle(run).signal("go", &4).await.unwrap();
    assert_eq!(harness.result::<u32>("r").await, 4);
    engine.shutdown().await;
}

/// An acknowledged request to cancel is dropped only if an operator requests it.
pub async fn a_pending_cancel_is_not_forgotten(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    at_the_signal(&harness, "r").await;
    let run = id("r");
    harness.client.cancel(&run, by("c1")).await.unwrap();
    let refused = harness.client.jump(&run, &path("charge"), Jump::default()).await.unwrap_err();
    assert_eq!(refused.code(), "GS0136");
    assert!(refused.hint().unwrap().contains("drop_cancel"), "{refused}");
    let withdrawn = harness.client.withdraw(&run, None, by("w1")).await.unwrap();
    assert_eq!(withdrawn.what, Request::Cancel);
    harness.client.cancel(&run, by("c2")).await.unwrap();
    let jump = Jump { drop_cancel: true, by: by("j1"), ..Jump::default() };
    harness.client.jump(&run, &path("charge"), jump).await.unwrap();
    let engine = saga(&harness, false).await;
    eventually("it goes on", || async { harness.witness.count("charge") == 2 }).await;
    harness.client.handle(run).signal("go", &4).await.unwrap();
    assert_eq!(harness.result::<u32>("r").await, 4, "it is not cancelled");
    engine.shutdown().await;
}

/// "No stable event found" is an error of the command that requested the recovery.
pub async fn no_stable_event_is_an_error(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    for run in ["recovered", "resumed"] {
        harness.at_rest(run, "\"60000\"", Status::Sleeping).await;
        harness.forge(run, vec![Event::TimerFired { path: path("nap") }]).await;
        harness.lie(run, |row| row.status = Status::Waiting).await;
    }
    let refused = harness.client.recover(&id("recovered"), RecoverOptions::default()).await.unwrap_err();
    assert_eq!(refused.code(), "GS0135");
    assert!(refused.to_string().contains("no stable event found"), "{refused}");
    assert_eq!(harness.client.get(&id("recovered")).await.unwrap().status, Status::Parked);
    let again = harness.client.recover(&id("recovered"), RecoverOptions::default()).await.unwrap_err();
    assert_eq!(again.code(), "GS0135");

    let refused = harness.client.resume(&id("resumed"), By::default()).await.unwrap_err();
    assert_eq!(refused.code(), "GS0135");
    assert_eq!(last(&harness, "resumed").await, "run.parked", "it was not resumed");
    let resumed = harness.client.resume(&id("resumed"), By::default()).await.unwrap();
    assert!(resumed.rested, "an operator may resume it");
    let engine = harness.waiting().await;
    assert_eq!(harness.result::<u32>("resumed").await, 7);
    engine.shutdown().await;
}
