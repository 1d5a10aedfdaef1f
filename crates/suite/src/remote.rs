//! Rules for remote steps: silent workers, lost tasks, unnoticed results.

use std::time::Duration;

use goldseam_core::event::StepCompleted;
use goldseam_core::task::{Task, TaskState};
use goldseam_core::{Event, Payload, QueueName, Retry, Status};
use goldseam_store::{Expect, TaskFilter, Written};

use super::harness::{Harness, id, path};
use super::{Fixture, eventually};
use goldseam_engine::client::queue::Want;
use goldseam_engine::heal::sweeper::Fate;
use goldseam_engine::run::context::Context;
use goldseam_engine::{Engine, EngineError};

/// Silence limit of a worker.
const SILENCE: Duration = Duration::from_millis(50);

/// An engine whose run has one remote step with two attempts; `silence` limits its worker.
async fn hands_out(harness: &Harness<'_>, silence: Duration) -> Engine {
    let work = move |ctx: Context, (): ()| async move {
        let retry = Retry::fixed(Duration::from_millis(1)).attempts_max(2);
        let step = ctx.remote::<u32>("resize", &7).queue("gpu").retry(retry);
        step.heartbeat_timeout(silence).await
    };
    let engine = harness.builder().workflow("remote", work).start().await.unwrap();
    harness.start("remote", "r", "null").await;
    engine
}

/// Claims the next task of the run; waits until there is one.
async fn claimed(harness: &Harness<'_>) -> Task {
    let want = || Want {
        owner: "worker".to_owned(),
        queue: QueueName::new("gpu").unwrap(),
        kind: Some("resize".to_owned()),
        limit: 1,
    };
    let found = std::sync::Mutex::new(None);
    eventually("there is a task", || async {
        let task = harness.client.queue().claim(want()).await.unwrap().pop();
        *found.lock().unwrap() = task;
        found.lock().unwrap().is_some()
    })
    .await;
    found.into_inner().unwrap().unwrap()
}

fn seven() -> Payload {
    Payload::parse("7", &goldseam_core::Limits::default()).unwrap()
}

async fn task(harness: &Harness<'_>, task: &Task) -> Task {
    let filter = TaskFilter { id: Some(task.id.clone()), limit: 1, ..TaskFilter::default() };
    harness.store().tasks(filter).await.unwrap().remove(0)
}

/// Heals by this rule, once it applies and its run has no owner.
async fn heals(harness: &Harness<'_>, rule: &str) {
    let healed = || async {
        let findings = harness.fix().await.findings;
        findings.iter().any(|finding| finding.code.as_str() == rule && finding.fate == Fate::Healed)
    };
    eventually(&format!("{rule} heals"), healed).await;
}

/// H1 with attempts left: the worker loses the task, and the step gets another one.
pub async fn h1_step_of_a_silent_worker_is_retried(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = hands_out(&harness, SILENCE).await;
    let silent = claimed(&harness).await;
    heals(&harness, "H1").await;
    let queue = harness.client.queue();
    assert!(queue.heartbeat(&silent.id, silent.fence).await.is_err());
    assert!(queue.complete(&silent.id, silent.fence, seven()).await.is_err());
    let again = claimed(&harness).await;
    assert_eq!(again.step.as_ref().map(|step| step.attempt), Some(2));
    queue.complete(&again.id, again.fence, seven()).await.unwrap();
    assert_eq!(harness.result::<u32>("r").await, 7);
    assert_eq!(harness.rules("r").await, ["H1"]);
    engine.shutdown().await;
}

/// Heartbeat details of a worker reach the next claimant of the task, and of the next attempt's task.
pub async fn details_reach_the_next_claim_and_the_next_attempt(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = hands_out(&harness, SILENCE).await;
    let queue = harness.client.queue();
    let first = claimed(&harness).await;
    assert_eq!(queue.last_heartbeat(&first).await.unwrap(), None);
    queue.heartbeat_with(&first.id, first.fence, seven()).await.unwrap();
    queue.release(&first.id, first.fence).await.unwrap();
    let again = claimed(&harness).await;
    assert_eq!((again.id.clone(), queue.last_heartbeat(&again).await.unwrap()), (first.id, Some(seven())));
    heals(&harness, "H1").await;
    let next = claimed(&harness).await;
    assert_eq!(next.step.as_ref().map(|step| step.attempt), Some(2));
    assert_eq!(queue.last_heartbeat(&next).await.unwrap(), Some(seven()));
    queue.complete(&next.id, next.fence, seven()).await.unwrap();
    assert_eq!(harness.result::<u32>("r").await, 7);
    engine.shutdown().await;
}

/// H1 without attempts left: the workflow gets the failure.
pub async fn h1_without_attempts_left_fails_the_step(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = hands_out(&harness, SILENCE).await;
    for _ in 0..2 {
        claimed(&harness).await;
        heals(&harness, "H1").await;
    }
    let error = harness.client.handle(id("r")).result::<u32>().await.unwrap_err();
    let EngineError::Ended { failure, status: Status::Failed, .. } = error else { panic!("{error}") };
    assert_eq!(failure.code.as_deref(), Some("heartbeat-timeout"));
    engine.shutdown().await;
}

/// A worker that beats is left alone, however long it takes, and so is an unclaimed task.
pub async fn h1_a_long_step_that_beats_is_left_alone(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let silence = Duration::from_secs(5);
    let engine = hands_out(&harness, silence).await;
    harness.reaches("r", Status::Waiting).await;
    assert_eq!(harness.fix().await.healed, 0);
    let busy = claimed(&harness).await;
    // Claimed long ago, with a recent heartbeat.
    let started_at = busy.created_at - silence * 9;
    let expect = Expect::Version(busy.version);
    let long = Task { started_at: Some(started_at), version: busy.version + 1, ..busy.clone() };
    assert_eq!(harness.store().put_task(long, expect).await.unwrap(), Written::Done);
    harness.client.queue().heartbeat(&busy.id, busy.fence).await.unwrap();
    assert_eq!(harness.fix().await.healed, 0);
    harness.client.queue().complete(&busy.id, busy.fence, seven()).await.unwrap();
    assert_eq!(harness.result::<u32>("r").await, 7);
    engine.shutdown().await;
}

/// O3: the same attempt gets another task, without a retry.
pub async fn o3_lost_task_is_recreated_for_the_same_attempt(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = hands_out(&harness, Duration::from_secs(60)).await;
    for times in 1..=3 {
        let lost = claimed(&harness).await;
        assert_eq!(lost.step.as_ref().map(|step| step.attempt), Some(1), "{times}");
        if times < 3 {
            harness.damage().lose_task(&lost.id).await;
            heals(&harness, "O3").await;
        } else {
            harness.client.queue().complete(&lost.id, lost.fence, seven()).await.unwrap();
        }
    }
    assert_eq!(harness.result::<u32>("r").await, 7);
    assert_eq!(harness.rules("r").await, ["O3", "O3"]);
    engine.shutdown().await;
}

/// O3: a finished task has a result that the log lacks.
pub async fn o3_the_result_of_a_finished_task_is_taken(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = hands_out(&harness, Duration::from_secs(60)).await;
    let held = claimed(&harness).await;
    let now = harness.store().now().await.unwrap();
    let expect = Expect::Version(held.version);
    let done = held.clone().completed(held.fence, seven(), now).unwrap();
    assert_eq!(harness.store().put_task(done, expect).await.unwrap(), Written::Done);
    heals(&harness, "O3").await;
    assert_eq!(harness.result::<u32>("r").await, 7);
    assert_eq!(task(&harness, &held).await.state, TaskState::Completed);
    engine.shutdown().await;
}

/// W1: the result is in the log, and the wake-up was lost.
pub async fn w1_unnoticed_result(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = hands_out(&harness, Duration::from_secs(60)).await;
    let held = claimed(&harness).await;
    eventually("the run rests", || async {
        harness.client.get(&id("r")).await.is_ok_and(|summary| summary.owner.is_none())
    })
    .await;
    engine.shutdown().await;
    let began = held.created_at;
    let done = StepCompleted {
        path: path("resize"),
        ord: 0,
        attempt: 1,
        began,
        output: seven(),
        input: None,
        undo: false,
        group: false,
        fence: Some(held.fence),
    };
    harness.forge("r", vec![Event::StepCompleted(done)]).await;
    heals(&harness, "W1").await;
    assert!(harness.client.queue().complete(&held.id, held.fence, seven()).await.is_ok(), "the log has it");
    let engine = hands_out(&harness, Duration::from_secs(60)).await;
    assert_eq!(harness.result::<u32>("r").await, 7);
    engine.shutdown().await;
}

/// The monitor finds only silent tasks, in batches.
pub async fn monitor_gives_up_only_silent_steps(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = hands_out(&harness, SILENCE).await;
    let mut monitor = harness.client.monitor(1);
    assert_eq!(monitor.tick().await.unwrap().silent, 0, "it is not claimed yet");
    claimed(&harness).await;
    let given_up = std::sync::Mutex::new(0);
    let monitor = tokio::sync::Mutex::new(monitor);
    eventually("the step is given up", || async {
        let report = monitor.lock().await.tick().await.unwrap();
        *given_up.lock().unwrap() += report.given_up.len();
        *given_up.lock().unwrap() > 0
    })
    .await;
    harness.has_event("r", "step.timeout").await;
    assert_eq!(harness.rules("r").await, ["H1"]);
    engine.shutdown().await;
}
