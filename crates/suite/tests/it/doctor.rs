//! The doctor of a whole store: what it reports, what it heals, and what it leaves to another rule.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use goldseam_conformance::Fixture;
use goldseam_core::recovery::Code;
use goldseam_core::task::{NewTask, TaskState};
use goldseam_core::{LockName, Millis, Payload, QueueName, TaskId};
use goldseam_engine::client::doctor::{Checkup, DoctorOptions, Finding};
use goldseam_engine::heal::sweeper::Fate;
use goldseam_engine::queue::Want;
use goldseam_engine::{Clock, SystemClock};
use goldseam_suite::eventually;
use goldseam_suite::harness::Harness;

fn fresh() -> Fixture {
    Fixture::memory_on(Arc::new(|| SystemClock.now()))
}

fn fix(rule: Option<Code>) -> DoctorOptions {
    DoctorOptions { fix: true, rule, ..DoctorOptions::default() }
}

/// All findings: code, kind, name and fate.
fn fates(checkup: &Checkup) -> Vec<(&str, &str, &str, &str)> {
    let mut lines: Vec<_> = Vec::new();
    for Finding { code, subject, fate, .. } in &checkup.findings {
        lines.push((code.as_str(), subject.kind(), subject.name(), fate.as_str()));
    }
    lines.sort_unstable();
    lines
}

/// A lock and a task without a live holder.
async fn stale_claims(harness: &Harness<'_>) {
    let locks = harness.client.locks();
    let queue = harness.client.queue();
    let name = QueueName::new("jobs").unwrap();
    let new = NewTask {
        id: TaskId::new("job").unwrap(),
        kind: "mail".to_owned(),
        queue: name.clone(),
        lane: None,
        priority: 0,
        key: None,
        run_at: Millis(0),
        payload: Payload::null(),
        attempts_max: 1,
        silence_max: Some(Duration::ZERO),
    };
    queue.submit(new).await.unwrap();
    let want = Want { owner: "worker".to_owned(), queue: name, kind: None, limit: 1 };
    queue.claim(want).await.unwrap();
    locks.acquire(&LockName::new("deploy").unwrap(), "ada", Duration::ZERO).await.unwrap();
    eventually("both are stale", || async { harness.codes().await == ["L1", "L2"] }).await;
}

async fn job(harness: &Harness<'_>) -> TaskState {
    harness.client.queue().get(&TaskId::new("job").unwrap()).await.unwrap().state
}

/// A run whose task is lost, and one without a node for its workflow.
async fn lost_and_waiting(harness: &Harness<'_>) {
    harness.between_steps("lost").await;
    let task = harness.task("lost").await.unwrap();
    harness.damage().lose_task(&task.id).await;
    harness.start("two", "waits", "true").await;
}

#[tokio::test]
async fn findings_hidden_by_healed_ones_are_found() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    lost_and_waiting(&harness).await;
    let dry = harness.look().await;
    assert_eq!(fates(&dry), [("N1", "run", "waits", "needs_help"), ("O1", "run", "lost", "told")]);
    assert_eq!((dry.scanned, dry.healed, dry.is_healthy()), (2, 0, false));
    let mut progress = Vec::new();
    let checkup = harness.client.doctor_telling(fix(None), &mut |count| progress.push(count)).await.unwrap();
    let expected = [
        ("N1", "run", "lost", "needs_help"),
        ("N1", "run", "waits", "needs_help"),
        ("O1", "run", "lost", "healed"),
    ];
    assert_eq!(fates(&checkup), expected);
    assert_eq!((checkup.scanned, checkup.healed, checkup.rows_rewritten), (2, 1, 0));
    assert_eq!(progress, [2, 2], "a second pass, because the first has healed something");
    let finding = checkup.findings.iter().find(|finding| finding.fate == Fate::Healed).unwrap();
    assert!(!finding.evidence.is_empty() && !finding.remedy.is_empty(), "{finding:?}");
}

#[tokio::test]
async fn only_the_requested_rule_is_reported_and_healed() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    lost_and_waiting(&harness).await;
    let by = |rule| DoctorOptions { rule: Some(rule), ..DoctorOptions::default() };
    let waits = harness.client.doctor(by(Code::N1)).await.unwrap();
    assert_eq!(fates(&waits), [("N1", "run", "lost", "needs_help"), ("N1", "run", "waits", "needs_help")]);
    let other = harness.client.doctor(fix(Some(Code::A2))).await.unwrap();
    assert_eq!((fates(&other), other.healed, other.is_healthy()), (vec![], 0, true));
    assert!(harness.rules("lost").await.is_empty());
    let lost = harness.client.doctor(fix(Some(Code::O1))).await.unwrap();
    assert_eq!((fates(&lost), lost.healed), (vec![("O1", "run", "lost", "healed")], 1));
    assert_eq!(harness.rules("lost").await, ["O1"]);
}

#[tokio::test]
async fn stale_locks_and_tasks_have_separate_rules() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    stale_claims(&harness).await;
    let dry = harness.look().await;
    assert_eq!(fates(&dry), [("L1", "lock", "deploy", "told"), ("L2", "task", "job", "told")]);
    assert_eq!((dry.healed, dry.is_healthy(), job(&harness).await), (0, false, TaskState::Claimed));
    let remedies: Vec<&str> = dry.findings.iter().map(|finding| finding.remedy.as_str()).collect();
    assert_eq!(remedies, ["free it", "put it back into its queue"]);

    let none = harness.client.doctor(fix(Some(Code::O1))).await.unwrap();
    assert_eq!((fates(&none), harness.codes().await.len()), (vec![], 2));
    let locks = harness.client.doctor(fix(Some(Code::L1))).await.unwrap();
    assert_eq!((fates(&locks), locks.healed), (vec![("L1", "lock", "deploy", "healed")], 1));
    assert_eq!(job(&harness).await, TaskState::Claimed, "the rule for tasks was not asked for");
    assert_eq!(harness.codes().await, ["L2"]);

    harness.client.locks().acquire(&LockName::new("deploy").unwrap(), "ada", Duration::ZERO).await.unwrap();
    eventually("the lock is stale again", || async { harness.codes().await == ["L1", "L2"] }).await;
    let tasks = harness.client.doctor(fix(Some(Code::L2))).await.unwrap();
    assert_eq!((fates(&tasks), tasks.healed), (vec![("L2", "task", "job", "healed")], 1));
    assert_eq!((job(&harness).await, harness.codes().await), (TaskState::Ready, vec!["L1".to_owned()]));
}
