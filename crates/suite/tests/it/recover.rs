//! The recovery of single runs at the request of an operator.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use goldseam_conformance::Fixture;
use goldseam_core::event::JumpRequested;
use goldseam_core::recovery::Code;
use goldseam_core::{Event, Path, Status};
use goldseam_engine::client::By;
use goldseam_engine::client::recover::RecoverOptions;
use goldseam_engine::heal::Healed;
use goldseam_engine::{Clock, Context, Engine, Error, SystemClock};
use goldseam_suite::eventually;
use goldseam_suite::harness::{Harness, id, path};

fn fresh() -> Fixture {
    Fixture::memory_on(Arc::new(|| SystemClock.now()))
}

fn compensating() -> RecoverOptions {
    RecoverOptions { compensate: true, ..RecoverOptions::default() }
}

fn dry() -> RecoverOptions {
    RecoverOptions { dry_run: true, ..RecoverOptions::default() }
}

/// `car` is booked; then a question is asked, and `hotel` is booked meanwhile. Both have compensations.
async fn trips(harness: &Harness<'_>) -> Engine {
    let witness = harness.witness.clone();
    let work = move |ctx: Context, (): ()| {
        let witness = witness.clone();
        async move {
            let saw = |what: &'static str| {
                let witness = witness.clone();
                move || {
                    witness.saw(what);
                    async { Ok::<(), Error>(()) }
                }
            };
            let undo = |what: &'static str| {
                let saw = saw(what);
                move |(): ()| saw()
            };
            ctx.step("car", saw("car")).compensate(undo("no car")).await?;
            let asks = ctx.arm("asks")?;
            let books = ctx.arm("books")?;
            let question = async { asks.ask::<String>("sure", "Go?").await };
            let booking = async {
                books.signal::<()>("book").await?;
                books.step("hotel", saw("hotel")).compensate(undo("no hotel")).await
            };
            let (answer, booked) = tokio::join!(question, booking);
            booked?;
            answer
        }
    };
    harness.builder().workflow("trip", work).start().await.unwrap()
}

/// A trip with an open question, while the hotel is being booked, and with a row that hides it.
async fn hidden_trip(harness: &Harness<'_>, run: &str) {
    let engine = trips(harness).await;
    harness.start("trip", run, "null").await;
    let asked =
        || async { harness.client.get(&id(run)).await.is_ok_and(|summary| !summary.inputs.is_empty()) };
    eventually("the question is asked", asked).await;
    harness.client.handle(id(run)).signal("book", &()).await.unwrap();
    harness.sees("hotel", 1).await;
    harness.reaches(run, Status::Waiting).await;
    harness.rests(run).await;
    engine.shutdown().await;
    harness.lie(run, |row| row.status = Status::Running).await;
}

/// The recorded operation of this name.
async fn named(harness: &Harness<'_>, run: &str, name: &str) -> Path {
    let state = harness.client.state(&id(run)).await.unwrap();
    state.ops.keys().find(|path| path.name() == name).unwrap().clone()
}

async fn jumps(harness: &Harness<'_>, run: &str) -> Vec<JumpRequested> {
    let history = harness.client.history(&id(run)).await.unwrap();
    let jump = |event: Event| match event {
        Event::JumpRequested(jump) => Some(jump),
        _ => None,
    };
    history.into_iter().filter_map(|recorded| jump(recorded.event)).collect()
}

fn counts<const N: usize>(harness: &Harness<'_>, names: [&str; N]) -> [u32; N] {
    names.map(|name| harness.witness.count(name))
}

#[tokio::test]
async fn cut_with_compensation_undoes_standing_steps() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    hidden_trip(&harness, "r").await;
    let sure = named(&harness, "r", "sure").await;
    let hotel = named(&harness, "r", "hotel").await;
    let before = harness.names("r").await;
    let planned =
        harness.client.recover(&id("r"), RecoverOptions { dry_run: true, ..compensating() }).await.unwrap();
    assert_eq!(
        (planned.standing.as_slice(), &planned.healed, planned.status),
        ([hotel].as_slice(), &None, Status::Waiting)
    );
    assert!(planned.was_needed() && !planned.has_healed() && planned.branch().is_none());
    assert_eq!(harness.names("r").await, before);

    let done = harness.client.recover(&id("r"), compensating()).await.unwrap();
    let found = done.found.clone().unwrap().diagnosis;
    assert_eq!((found.rule, done.standing.as_slice(), done.branch()), (Code::A2, [].as_slice(), None));
    assert!(done.has_healed() && done.was_needed());
    let jump = jumps(&harness, "r").await.remove(0);
    assert_eq!((jump.to, jump.compensate, jump.drop_mail), (sure.clone(), true, false));
    assert_eq!(jump.note.reason, format!("rule A2: {}", found.evidence));

    let engine = trips(&harness).await;
    harness.has_event("r", "branch.opened").await;
    harness.client.handle(id("r")).answer(sure.as_str(), &"yes").await.unwrap();
    assert_eq!(harness.result::<String>("r").await, "yes");
    assert_eq!(counts(&harness, ["car", "no car", "hotel", "no hotel"]), [1, 0, 2, 1]);
    engine.shutdown().await;
}

#[tokio::test]
async fn cut_without_compensation_reports_standing_steps() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    hidden_trip(&harness, "r").await;
    let hotel = named(&harness, "r", "hotel").await;
    let done = harness.client.recover(&id("r"), RecoverOptions::default()).await.unwrap();
    assert_eq!(
        (done.standing.as_slice(), done.branch().map(|branch| branch.0)),
        ([hotel].as_slice(), Some(2))
    );
    assert!(jumps(&harness, "r").await.is_empty());
    assert_eq!(harness.rules("r").await, ["A2"]);
}

#[tokio::test]
async fn cut_without_standing_steps_needs_no_jump() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    harness.at_the_question("r").await;
    harness.lie("r", |row| row.status = Status::Running).await;
    let done = harness.client.recover(&id("r"), compensating()).await.unwrap();
    assert_eq!((done.standing.as_slice(), done.branch().map(|branch| branch.0)), ([].as_slice(), Some(2)));
    assert!(jumps(&harness, "r").await.is_empty());
}

#[tokio::test]
async fn steps_left_by_a_jump_are_listed_latest_first() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    hidden_trip(&harness, "r").await;
    let [car, sure, hotel] = [
        named(&harness, "r", "car").await,
        named(&harness, "r", "sure").await,
        named(&harness, "r", "hotel").await,
    ];
    let standing = async |to: &Path| harness.client.standing(&id("r"), to).await.unwrap();
    assert_eq!(standing(&car).await, [hotel.clone(), car]);
    assert_eq!(standing(&sure).await, [hotel]);
    let error = harness.client.standing(&id("r"), &path("train")).await.unwrap_err();
    assert!(error.to_string().contains("train"), "{error}");
}

#[tokio::test]
async fn only_the_requested_rule_is_applied() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    harness.between_steps("r").await;
    let task = harness.task("r").await.unwrap();
    harness.damage().lose_task(&task.id).await;
    let examined = harness.client.examine(&id("r")).await.unwrap();
    let rules: Vec<Code> = examined.found.iter().map(|found| found.diagnosis.rule).collect();
    assert_eq!(rules, [Code::O1, Code::N1]);
    let by = |rule| RecoverOptions { rule: Some(rule), ..RecoverOptions::default() };
    let found = harness.client.recover(&id("r"), by(Code::N1)).await.unwrap();
    assert_eq!(found.found.as_ref().map(|found| found.diagnosis.rule), Some(Code::N1));
    assert_eq!((found.healed.clone(), found.has_healed()), (Some(Healed::NeedsOperator), false));
    let done = harness.client.recover(&id("r"), by(Code::O1)).await.unwrap();
    assert_eq!(done.found.as_ref().map(|found| found.diagnosis.rule), Some(Code::O1));
    assert!(done.has_healed());
    assert_eq!(harness.rules("r").await, ["O1"]);
}

#[tokio::test]
async fn late_row_is_rewritten_except_in_a_dry_run() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    let engine = harness.asked("r").await;
    harness
        .lie("r", |row| {
            row.status = Status::Running;
            row.as_of = row.as_of.before();
        })
        .await;
    let late = harness.row("r").await;
    assert!(!harness.client.recover(&id("r"), dry()).await.unwrap().was_needed());
    assert_eq!(harness.row("r").await, late);
    assert!(!harness.client.recover(&id("r"), RecoverOptions::default()).await.unwrap().was_needed());
    let row = harness.row("r").await;
    assert_eq!((row.summary.status, row.summary.as_of), (Status::Waiting, late.summary.as_of.next()));
    engine.shutdown().await;
}

#[tokio::test]
async fn parked_run_is_only_resumed() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    harness.at_rest("r", "\"60000\"", Status::Sleeping).await;
    harness.forge("r", vec![Event::TimerFired { path: path("nap") }]).await;
    harness.lie("r", |row| row.status = Status::Waiting).await;
    let parked = harness.client.recover(&id("r"), RecoverOptions::default()).await.unwrap_err();
    assert_eq!(parked.code(), "GS0135");
    harness.reaches("r", Status::Parked).await;
    let resumed = harness.client.resume(&id("r"), By::default()).await.unwrap();
    assert!(resumed.rested);
    assert_eq!(resumed.recovery.status, Status::Parked);
    assert_eq!((resumed.recovery.found, resumed.recovery.healed), (None, None));
    let engine = harness.waiting().await;
    assert_eq!(harness.result::<u32>("r").await, 7);
    engine.shutdown().await;
}

#[tokio::test]
async fn resume_that_only_recovers_returns_the_end_of_the_log() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    harness.between_steps("r").await;
    let task = harness.task("r").await.unwrap();
    harness.damage().lose_task(&task.id).await;
    let resumed = harness.client.resume(&id("r"), By::default()).await.unwrap();
    assert_eq!((resumed.rested, resumed.recovery.has_healed()), (false, true));
    assert_eq!(resumed.end, harness.client.get(&id("r")).await.unwrap().as_of);
    let error = harness.client.resume(&id("r"), By::default()).await.unwrap_err();
    assert_eq!(error.code(), "GS0110", "what waits for a node is neither recovered nor resumed");
}
