//! Rules for hints: everything except the log can be lost and is rebuilt.

use std::time::Duration;

use goldseam_core::task::{Task, TaskState};
use goldseam_core::{Event, Payload, SignalName, Status};
use goldseam_store::Expect;

use super::harness::{Harness, NEVER, id};
use super::{Fixture, eventually};
use goldseam_engine::client::By;

/// O1
pub async fn o1_lost_task_is_recreated(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.between_steps("r").await;
    let before = harness.client.get(&id("r")).await.unwrap();
    let row = harness.row("r").await;
    harness.damage().lose_task(&row.task.clone().unwrap()).await;
    let checkup = harness.fix().await;
    assert_eq!((checkup.findings[0].code.to_string().as_str(), checkup.healed), ("O1", 1));
    let task = harness.task("r").await.unwrap();
    assert_eq!(task.key, Some(format!("r:advance:{}", row.updated_at.0)));
    let after = harness.client.get(&id("r")).await.unwrap();
    let row_after = harness.row("r").await;
    assert!(row_after.updated_at > row.updated_at && row_after.task != row.task);
    assert_eq!((after.status, after.branch, after.waits), (before.status, before.branch, before.waits));
    assert!(harness.look().await.findings.iter().all(|finding| finding.code.to_string() == "N1"));
    let engine = harness.two_steps_open().await;
    assert_eq!(harness.result::<u32>("r").await, 2);
    engine.shutdown().await;
}

/// O1, however the task ended.
pub async fn o1_finished_task_is_recreated(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    for (index, state) in
        [TaskState::Completed, TaskState::Failed, TaskState::Cancelled].into_iter().enumerate()
    {
        let run = format!("r{index}");
        harness.between_steps(&run).await;
        harness.tamper(&run, |task| Task { state, ..task }).await;
        let checkup = harness.fix().await;
        // The node that brought this run here may have had an earlier one when it died.
        assert!(checkup.healed >= 1, "{state:?}: {checkup:?}");
        assert_eq!(harness.rules(&run).await, ["O1"], "{state:?}");
    }
}

/// O1 of a sleeping run: its new task is due when the run is due.
pub async fn o1_a_sleeping_run_keeps_its_time(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.at_rest("r", "\"60000\"", Status::Sleeping).await;
    let due = harness.client.get(&id("r")).await.unwrap().due().unwrap();
    let task = harness.task("r").await.unwrap();
    harness.damage().lose_task(&task.id).await;
    assert_eq!(harness.fix().await.healed, 1);
    assert_eq!(harness.task("r").await.unwrap().run_at, due);
    harness.at_rest("s", "\"signal\"", Status::Waiting).await;
    let task = harness.task("s").await.unwrap();
    harness.damage().lose_task(&task.id).await;
    assert_eq!(harness.fix().await.healed, 1);
    assert_eq!(harness.task("s").await.unwrap().run_at, NEVER);
}

/// A key matches only tasks that can still run, so a healed task that dies is healed again.
pub async fn o1_a_healed_task_that_dies_is_healed_again(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.between_steps("r").await;
    for times in 1..=3 {
        harness.tamper("r", |task| Task { state: TaskState::Completed, ..task }).await;
        assert_eq!(harness.fix().await.healed, 1);
        assert_eq!(harness.rules("r").await.len(), times);
    }
}

/// O2
pub async fn o2_runs_of_a_dead_node_continue(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = harness.two_steps().await;
    harness.start("two", "r", "false").await;
    harness.sees("b", 1).await;
    let node = engine.node_id().clone();
    engine.crash();
    let gone = || async {
        let nodes = harness.store().nodes().await.unwrap();
        nodes.iter().all(|seen| seen.record.id != node || seen.pulse != goldseam_store::Pulse::Held)
    };
    eventually("the node's lock is let go", gone).await;
    let engine = harness.two_steps_open().await;
    assert_eq!(harness.result::<u32>("r").await, 2);
    assert_eq!((harness.rules("r").await, harness.witness.count("a")), (vec!["O2".to_owned()], 1));
    let history = harness.client.history(&id("r")).await.unwrap();
    let started = history.iter().filter(|recorded| matches!(recorded.event, Event::RunStarted)).count();
    assert_eq!(started, 1, "run.started is not repeated");
    engine.shutdown().await;
}

/// W1
pub async fn w1_due_timer_without_a_wakeup(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.at_rest("r", "\"2000\"", Status::Sleeping).await;
    harness.tamper("r", |task| Task { run_at: NEVER, ..task }).await;
    let found = || async { harness.codes().await.contains(&"W1".to_owned()) };
    eventually("the timer is due and no task wakes the run", found).await;
    assert_eq!(harness.fix().await.healed, 1);
    let engine = harness.waiting().await;
    assert_eq!(harness.result::<u32>("r").await, 7);
    engine.shutdown().await;
}

/// W1 for mail.
pub async fn w1_unnoticed_signal(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.at_rest("r", "\"signal\"", Status::Waiting).await;
    let payload = Payload::parse("5", &goldseam_core::Limits::default()).unwrap();
    let name = SignalName::new("go").unwrap();
    harness.forge("r", vec![Event::SignalReceived { name, id: "s1".to_owned(), payload }]).await;
    let checkup = harness.fix().await;
    assert_eq!((checkup.findings[0].code.to_string().as_str(), checkup.healed), ("W1", 1));
    let engine = harness.waiting().await;
    assert_eq!(harness.result::<u32>("r").await, 5);
    engine.shutdown().await;
}

/// W1 for a parent: the child's log is read, and its end delivered.
pub async fn w1_undelivered_end_of_a_child(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = harness.waiting().await;
    harness.start("waits", "r", "\"child\"").await;
    harness.reaches("r", Status::Waiting).await;
    let child = harness.client.get(&id("r")).await.unwrap().waits[0].children[0].clone();
    harness.reaches(child.as_str(), Status::Waiting).await;
    engine.shutdown().await;
    let output = Payload::parse("9", &goldseam_core::Limits::default()).unwrap();
    harness.forge(child.as_str(), vec![Event::RunCompleted { output }]).await;
    let checkup = harness.fix().await;
    assert_eq!((checkup.findings[0].code.to_string().as_str(), checkup.healed), ("W1", 1), "{checkup:?}");
    let engine = harness.waiting().await;
    assert_eq!(harness.result::<u32>("r").await, 9);
    engine.shutdown().await;
}

/// A lost row causes no branch and no event: only the row is rewritten.
pub async fn lost_row_is_rewritten(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.between_steps("r").await;
    let events = harness.names("r").await;
    let before = harness.row("r").await;
    harness.damage().lose_row(&id("r")).await;
    let checkup = harness.fix().await;
    assert_eq!(checkup.rows_rewritten, 1);
    let after = harness.row("r").await;
    assert_eq!((after.summary, after.task), (before.summary, before.task));
    assert_eq!(harness.names("r").await, events);
    let engine = harness.two_steps_open().await;
    assert_eq!(harness.result::<u32>("r").await, 2);
    engine.shutdown().await;
}

/// All rows and tasks are lost at once; an engine that starts completes every run.
pub async fn all_hints_can_be_lost(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    for run in ["r1", "r2", "r3"] {
        harness.between_steps(run).await;
    }
    harness.damage().lose_hints().await;
    let recovery =
        goldseam_engine::ledger::config::Recovery { stale_after: Duration::ZERO, ..Default::default() };
    let engine = harness.two_steps_on(harness.builder_like(recovery, Some(Duration::from_millis(50)))).await;
    for run in ["r1", "r2", "r3"] {
        harness.has_event(run, "run.recovered").await;
        assert_eq!(harness.rules(run).await, ["O1"]);
    }
    harness.sees("b", 6).await;
    assert_eq!(harness.witness.count("a"), 3, "completed steps are skipped");
    engine.shutdown().await;
}

/// A late row is rewritten, never branched.
pub async fn a_late_row_is_rewritten_without_a_branch(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.between_steps("r").await;
    let events = harness.names("r").await;
    harness
        .lie("r", |row| {
            row.status = Status::Waiting;
            row.as_of = row.as_of.before();
        })
        .await;
    let checkup = harness.fix().await;
    assert_eq!((checkup.healed, checkup.rows_rewritten), (0, 1), "{checkup:?}");
    assert_eq!((harness.names("r").await, harness.row("r").await.summary.status), (events, Status::Queued));
}

/// The runbook's requeue.
pub async fn a_requeue_moves_a_run_and_leaves_a_note(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.between_steps("r").await;
    let old = harness.task("r").await.unwrap();
    let put = harness.store().put_task(
        Task { run_at: NEVER, version: old.version + 1, ..old.clone() },
        Expect::Version(old.version),
    );
    put.await.unwrap();
    let by = By { who: Some("ada".into()), reason: "stuck".into(), ..By::default() };
    harness.client.requeue(&id("r"), by).await.unwrap();
    assert!(harness.names("r").await.ends_with(&["note.added".to_owned()]));
    let engine = harness.two_steps_open().await;
    assert_eq!(harness.result::<u32>("r").await, 2);
    let error = harness.client.requeue(&id("r"), By::default()).await.unwrap_err();
    assert_eq!(error.code(), "GS0105");
    engine.shutdown().await;
    let engine = harness.two_steps().await;
    harness.start("two", "live", "false").await;
    harness.has_event("live", "step.completed").await;
    assert_eq!(harness.client.requeue(&id("live"), By::default()).await.unwrap_err().code(), "GS0114");
    engine.shutdown().await;
}
