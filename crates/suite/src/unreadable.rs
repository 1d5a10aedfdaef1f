//! Unreadable records: they are found, rebuilt if they are hints, and do not affect other records.

use std::time::Duration;

use goldseam_conformance::damage::{Garble, Target};
use goldseam_core::codec::chain;
use goldseam_core::decide::Stamped;
use goldseam_core::event::Note;
use goldseam_core::seal::{Place, row_after, seal};
use goldseam_core::{Event, Payload, Seq, Status, WriteId};
use goldseam_store::Append;

use super::harness::{Harness, id};
use super::{Fixture, eventually};
use goldseam_engine::EngineError;
use goldseam_engine::client::By;
use goldseam_engine::client::doctor::DoctorOptions;
use goldseam_engine::ledger::config::Recovery;

fn number(number: u32) -> Payload {
    Payload::of(&number, &goldseam_core::Limits::default()).unwrap()
}

async fn garble_row(harness: &Harness<'_>, run: &str, how: Garble) {
    harness.damage().garble(Target::Row(&id(run)), how).await;
}

/// One unreadable row, then one unreadable task, beside a run that lost its task: all of them are healed.
pub async fn unreadable_hints_are_rebuilt_and_hide_no_other(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    for how in Garble::ALL {
        let [row, task, lost] = ["row", "task", "lost"].map(|name| format!("{name}-{how:?}"));
        for run in [&row, &task, &lost] {
            harness.at_rest(run, "\"signal\"", Status::Waiting).await;
        }
        let [own, other] = [&task, &lost].map(|run| harness.row(run));
        let own = own.await.task.unwrap();
        let other = other.await.task.unwrap();
        harness.damage().lose_task(&other).await;
        harness.damage().garble(Target::Task(&own), how).await;
        garble_row(&harness, &row, how).await;
        let checkup = harness.fix().await;
        assert!(checkup.rows_rewritten >= 1, "{how:?}: {checkup:?}");
        assert_eq!(harness.rules(&lost).await, ["O1"], "{how:?}");
        assert_eq!(harness.rules(&task).await, ["O1"], "{how:?}");
        assert_eq!(harness.row(&row).await.summary.status, Status::Waiting, "{how:?}");
        let left = harness.look().await.findings;
        assert!(left.iter().all(|finding| finding.code.as_str() == "N1"), "{how:?}: {left:?}");
    }
    let engine = harness.waiting().await;
    for run in ["row-Torn", "task-Later", "lost-Type"] {
        harness.client.signal(&id(run), "go", number(3), None).await.unwrap();
        assert_eq!(harness.result::<u32>(run).await, 3);
    }
    engine.shutdown().await;
}

/// A command works without a readable row, and writes one.
pub async fn a_signal_reaches_a_run_with_an_unreadable_row(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    for how in Garble::ALL {
        let run = format!("r-{how:?}");
        harness.at_rest(&run, "\"signal\"", Status::Waiting).await;
        garble_row(&harness, &run, how).await;
        harness.client.signal(&id(&run), "go", number(4), None).await.unwrap();
        assert_eq!(harness.row(&run).await.summary.mail_count, 1, "{how:?}");
        let engine = harness.waiting().await;
        let heal = || async {
            harness.fix().await;
            harness.client.get(&id(&run)).await.is_ok_and(|summary| summary.status == Status::Completed)
        };
        eventually("the run ends", heal).await;
        engine.shutdown().await;
    }
}

/// C1: a dry run shows what a fix would do.
pub async fn c1_dry_run_shows_the_rows_that_a_fix_rewrites(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    for run in ["lost", "garbled", "well"] {
        harness.at_rest(run, "\"signal\"", Status::Waiting).await;
    }
    harness.damage().lose_row(&id("lost")).await;
    garble_row(&harness, "garbled", Garble::Torn).await;
    let found = harness.look().await;
    assert!(!found.is_healthy());
    let mut rows: Vec<&str> = found
        .findings
        .iter()
        .filter(|finding| finding.code.as_str() == "C1")
        .map(|finding| finding.subject.name())
        .collect();
    rows.sort_unstable();
    assert_eq!(rows, ["garbled", "lost"], "{found:?}");
    assert!(harness.fix().await.rows_rewritten >= 2);
    assert!(!harness.codes().await.contains(&"C1".to_owned()));
}

/// C1: a row with an inactive status hides its run from lists of active runs; only the log shows it.
pub async fn c1_deep_doctor_finds_wrong_row_of_inactive_run(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    for (run, status) in [("over", Status::Completed), ("still", Status::Paused)] {
        harness.at_rest(run, "\"signal\"", Status::Waiting).await;
        harness.lie(run, |summary| summary.status = status).await;
    }
    let deep = DoctorOptions { deep: true, ..DoctorOptions::default() };
    let found = harness.client.doctor(deep.clone()).await.unwrap();
    let false_rows = found.findings.iter().filter(|finding| finding.code.as_str() == "C1").count();
    assert_eq!(false_rows, 2, "{found:?}");
    harness.client.doctor(DoctorOptions { fix: true, ..deep }).await.unwrap();
    for run in ["over", "still"] {
        assert_eq!(harness.row(run).await.summary.status, Status::Waiting, "{run}");
    }
}

/// The walk of an engine finds the same.
pub async fn walk_finds_wrong_row_of_inactive_run(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    for run in ["a", "b", "c"] {
        harness.at_rest(run, "\"signal\"", Status::Waiting).await;
        harness.lie(run, |summary| summary.status = Status::Failed).await;
    }
    let builder = harness.builder_walking(1, Duration::from_millis(20));
    let engine = harness.waiting_on(builder).await;
    for run in ["a", "b", "c"] {
        let is_true = || async { harness.row(run).await.summary.status == Status::Waiting };
        eventually(&format!("the row of {run} is true"), is_true).await;
    }
    engine.shutdown().await;
}

/// K1: commands that cannot take effect are refused with the reason.
pub async fn k1_commands_to_a_damaged_run_are_refused(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.at_the_question("r").await;
    let body = harness.store().read(&id("r"), Seq(1), 1).await.unwrap().remove(0).body;
    harness.damage().corrupt(&id("r"), Seq(2), "{\"half").await;
    harness.fix().await;
    assert_eq!(harness.row("r").await.summary.status, Status::Parked);
    let client = &harness.client;
    let run = id("r");
    let end = harness.row("r").await.summary.as_of;
    let by = By::default;
    let refused = [
        client.pause(&run, by()).await,
        client.resume(&run, by()).await.map(|resumed| resumed.end),
        client.signal(&run, "go", Payload::null(), None).await,
        client.cancel(&run, by()).await,
    ];
    for refused in refused {
        assert!(
            matches!(&refused, Err(error @ EngineError::Corrupt { .. }) if error.code() == "GS0224"),
            "{refused:?}"
        );
    }
    assert_eq!(harness.row("r").await.summary.as_of, end, "nothing was appended");
    assert!(!harness.look().await.is_healthy(), "it stays a finding");
    // A repaired log accepts commands again.
    harness.damage().corrupt(&run, Seq(2), &body).await;
    client.pause(&run, by()).await.unwrap();
}

/// Appends an event of an unknown type, as a newer release would.
async fn write_as_a_newer_release(harness: &Harness<'_>, run: &str) {
    let run = id(run);
    let summary = harness.client.state(&run).await.unwrap().summary;
    let now = harness.store().now().await.unwrap();
    let write = WriteId(77);
    let after = summary.as_of;
    let prev = summary.head;
    let branch = summary.branch;
    let note = Note { id: "later".to_owned(), by: None, reason: String::new() };
    let event = Stamped { at: now, event: Event::NoteAdded(note) };
    let mut sealed = seal(Place { after, prev, branch, epoch: None, write }, vec![event]);
    let mut row = row_after(&summary, &sealed).unwrap();
    sealed.bodies[0] = sealed.bodies[0].replacen("\"type\":\"", "\"type\":\"later.", 1);
    row.head = chain(&sealed.bodies[0]);
    let bodies = sealed.bodies;
    let row = Some(Box::new(row));
    let tasks = Vec::new();
    harness.store().append(Append { run, after, bodies, row, tasks }).await.unwrap();
}

/// K2: a node leaves an unreadable run to the release that wrote it.
pub async fn k2_an_event_of_a_newer_release_harms_nothing(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.between_steps("r").await;
    write_as_a_newer_release(&harness, "r").await;
    let found = harness.fix().await.findings;
    let k2 = found.iter().find(|finding| finding.code.as_str() == "K2").unwrap();
    assert!(k2.evidence.contains("newer release wrote it: event type `later."), "{k2:?}");
    let engine = harness.two_steps_open().await;
    harness.start("two", "other", "true").await;
    assert_eq!(harness.result::<u32>("other").await, 2, "others go on");
    // It was claimed at most once, and handed back at once.
    let handed_back = || async { harness.row("r").await.summary.owner.is_none() };
    eventually("the run is handed back", handed_back).await;
    assert_ne!(harness.row("r").await.summary.status, Status::Parked);
    engine.shutdown().await;
    let log = harness.client.log(&id("r")).await.unwrap();
    assert_eq!((log.damage.len(), log.damage[0].is_newer), (1, true), "{:?}", log.damage);
    let claims = log.events.iter().filter(|recorded| matches!(recorded.event, Event::RunClaimed(_))).count();
    assert!(claims <= 2, "it is not claimed again and again: {claims}");
    assert!(harness.rules("r").await.is_empty());
}

/// A damaged log is shown as far as it is readable, with its damage.
pub async fn a_damaged_log_is_shown_with_its_damage(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.at_the_question("torn").await;
    harness.at_the_question("gap").await;
    let whole = harness.client.log(&id("gap")).await.unwrap();
    assert!(whole.damage.is_empty() && whole.end == harness.row("gap").await.summary.as_of);
    harness.damage().corrupt(&id("torn"), Seq(3), "garbage").await;
    harness.damage().lose_event(&id("gap"), Seq(3)).await;
    for run in ["torn", "gap"] {
        let log = harness.client.log(&id(run)).await.unwrap();
        assert_eq!(log.events.len() + 1, whole.events.len(), "{run}");
        assert_eq!((log.damage.len(), log.damage[0].seq), (1, Seq(3)), "{run}: {:?}", log.damage);
        assert_eq!(log.whole().len(), 2, "{run}");
        assert!(log.state(&id(run)).is_some(), "{run}");
    }
}

/// The sweeps of an engine continue past unreadable records.
pub async fn engines_sweep_past_unreadable_records(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    for run in ["a-bad", "b-lost", "c-bad"] {
        harness.at_rest(run, "\"signal\"", Status::Waiting).await;
    }
    let task = harness.row("b-lost").await.task.unwrap();
    harness.damage().lose_task(&task).await;
    garble_row(&harness, "a-bad", Garble::Torn).await;
    garble_row(&harness, "c-bad", Garble::Later).await;
    let recovery = Recovery { stale_after: Duration::ZERO, ..Recovery::default() };
    let builder = harness.builder_like(recovery, Some(Duration::from_millis(20)));
    let engine = harness.waiting_on(builder).await;
    for run in ["a-bad", "b-lost", "c-bad"] {
        harness.client.signal(&id(run), "go", number(5), None).await.unwrap();
        assert_eq!(harness.result::<u32>(run).await, 5, "{run}");
    }
    engine.shutdown().await;
}
