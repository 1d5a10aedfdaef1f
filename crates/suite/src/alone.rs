//! Healthy runs are left alone, and healing is bounded, repeatable and visible.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::recovery::Code;
use goldseam_core::task::{Task, TaskState};
use goldseam_core::{Limits, Status};
use goldseam_store::faulty::{CallFault, FaultPlan};
use goldseam_store::{FaultyStore, Row, RunFilter, TaskFilter};

use super::harness::{Harness, id};
use super::{Fixture, eventually};
use goldseam_engine::client::By;
use goldseam_engine::client::feed::{HealedSubject, Healing, HealingFilter};
use goldseam_engine::client::queue::Want;
use goldseam_engine::client::recover::RecoverOptions;
use goldseam_engine::heal::sweeper::{Fate, SweepOptions};
use goldseam_engine::{Client, OsEntropy, SystemClock};

fn at_once() -> SweepOptions {
    SweepOptions { stale_after: Some(Duration::ZERO), ..SweepOptions::default() }
}

/// Sweeps of a healthy store write nothing.
pub async fn a_healthy_store_is_left_alone(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = harness.asking().await;
    let two = harness.two_steps().await;
    harness.start("asking", "asks", "null").await;
    harness.start("two", "works", "false").await;
    harness.reaches("asks", Status::Waiting).await;
    harness.sees("b", 1).await;
    harness.client.pause(&id("asks"), By::default()).await.unwrap();
    harness.start("asking", "asks-too", "null").await;
    harness.reaches("asks-too", Status::Waiting).await;
    let before = everything(&harness).await;
    let mut sweeper = harness.client.sweeper(at_once());
    for _ in 0..3 {
        let report = sweeper.sweep().await.unwrap();
        assert_eq!((report.healed, report.rows_rewritten, report.stalled.len()), (0, 0, 0), "{report:?}");
    }
    assert_eq!(everything(&harness).await, before);
    engine.shutdown().await;
    two.shutdown().await;
}

/// All rows and tasks with their versions, to detect any write.
async fn everything(harness: &Harness<'_>) -> (Vec<Row>, Vec<Task>) {
    let rows = harness.store().runs(RunFilter { limit: 100, ..RunFilter::default() }).await.unwrap().items;
    let tasks = harness.store().tasks(TaskFilter { limit: 100, ..TaskFilter::default() }).await.unwrap();
    (rows, tasks)
}

/// B1, B2, C1, D1, F2, a paused run.
pub async fn run_that_only_looks_stalled_is_left_alone(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.at_the_question("b1").await;
    harness.at_rest("sleeps", "\"600000\"", Status::Sleeping).await;
    harness.at_rest("waits", "\"signal\"", Status::Waiting).await;
    harness.between_steps("paused").await;
    harness.client.pause(&id("paused"), By::default()).await.unwrap();
    let task = harness.task("paused").await.unwrap();
    harness.damage().lose_task(&task.id).await;
    let engine = harness.two_steps().await;
    harness.start("two", "c1", "false").await;
    let seen = harness.witness.count("b");
    harness.sees("b", seen.max(2)).await;
    harness.has_event("c1", "step.completed").await;
    let mut names = Vec::new();
    for run in ["b1", "sleeps", "waits", "paused", "c1"] {
        names.push(harness.names(run).await);
    }
    let report = harness.client.sweeper(at_once()).sweep().await.unwrap();
    assert_eq!(report.stalled, vec![]);
    for (run, before) in ["b1", "sleeps", "waits", "paused", "c1"].iter().zip(names) {
        assert_eq!(harness.names(run).await, before, "{run}");
    }
    engine.shutdown().await;
}

/// A dry run reports the same and changes nothing.
pub async fn a_dry_run_changes_nothing(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.between_steps("r").await;
    let task = harness.task("r").await.unwrap();
    harness.damage().lose_task(&task.id).await;
    let before = harness.names("r").await;
    let row = harness.row("r").await;
    let dry = harness
        .client
        .recover(&id("r"), RecoverOptions { dry_run: true, ..Default::default() })
        .await
        .unwrap();
    assert_eq!(dry.found.as_ref().map(|found| found.diagnosis.rule), Some(Code::O1));
    assert_eq!(dry.healed, None);
    let report = harness.client.sweeper(SweepOptions { dry_run: true, ..at_once() }).sweep().await.unwrap();
    assert_eq!(report.stalled.iter().map(|s| s.fate.clone()).collect::<Vec<_>>(), [Fate::Reported]);
    assert_eq!((harness.names("r").await, harness.row("r").await), (before, row));
}

/// A finding is healed only after it has held.
pub async fn a_finding_must_have_held(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.between_steps("r").await;
    let task = harness.task("r").await.unwrap();
    harness.damage().lose_task(&task.id).await;
    let hour = SweepOptions { stale_after: Some(Duration::from_secs(3600)), ..at_once() };
    let mut patient = harness.client.sweeper(hour);
    for _ in 0..2 {
        let report = patient.sweep().await.unwrap();
        assert_eq!((report.healed, report.stalled[0].fate.clone()), (0, Fate::Young));
    }
    let short = SweepOptions { stale_after: Some(Duration::from_millis(20)), ..at_once() };
    let mut sweeper = harness.client.sweeper(short);
    assert_eq!(sweeper.sweep().await.unwrap().healed, 0, "the first look only notes it");
    let sweeper = tokio::sync::Mutex::new(sweeper);
    eventually("it is healed once it has held", || async {
        sweeper.lock().await.sweep().await.unwrap();
        harness.row("r").await.summary.recoveries == 1
    })
    .await;
}

/// Writes of others to a run do not count as its progress.
pub async fn mail_does_not_hide_a_stall(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.between_steps("r").await;
    let task = harness.task("r").await.unwrap();
    harness.damage().lose_task(&task.id).await;
    let short = SweepOptions { stale_after: Some(Duration::from_millis(20)), ..at_once() };
    let sweeper = tokio::sync::Mutex::new(harness.client.sweeper(short));
    eventually("it is healed while mail comes", || async {
        harness.client.handle(id("r")).signal("go", &1).await.unwrap();
        sweeper.lock().await.sweep().await.unwrap();
        harness.row("r").await.summary.recoveries > 0
    })
    .await;
}

/// Concurrent sweepers heal each run once.
pub async fn many_sweepers_heal_each_run_once(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let runs = ["r1", "r2", "r3", "r4"];
    for run in runs {
        harness.between_steps(run).await;
        let task = harness.task(run).await.unwrap();
        harness.damage().lose_task(&task.id).await;
    }
    let sweeps = (0..8).map(|_| {
        let mut sweeper = harness.client.sweeper(at_once());
        async move { sweeper.sweep().await }
    });
    let reports = futures_util::future::join_all(sweeps).await;
    let healed: u64 = reports.into_iter().map(|report| report.unwrap().healed).sum();
    assert_eq!(healed, 4);
    for run in runs {
        assert_eq!(harness.rules(run).await, ["O1"]);
    }
}

/// A rule that does not apply is refused, and the error lists the rules that apply.
pub async fn a_rule_that_does_not_apply_is_refused(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.between_steps("r").await;
    let task = harness.task("r").await.unwrap();
    harness.damage().lose_task(&task.id).await;
    let before = harness.names("r").await;
    let options = RecoverOptions { rule: Some(Code::A2), ..Default::default() };
    let error = harness.client.recover(&id("r"), options).await.unwrap_err();
    assert_eq!(error.code(), "GS0118");
    assert!(error.to_string().contains("O1"), "{error}");
    assert_eq!(harness.names("r").await, before);
}

/// The recovery of a healthy or ended run reports that nothing was found.
pub async fn recovering_a_healthy_or_ended_run_changes_nothing(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.at_the_question("well").await;
    let engine = harness.two_steps_open().await;
    harness.start("two", "over", "true").await;
    harness.reaches("over", Status::Completed).await;
    for run in ["well", "over"] {
        let before = harness.names(run).await;
        let recovery = harness.client.recover(&id(run), RecoverOptions::default()).await.unwrap();
        assert!(!recovery.was_needed() && recovery.healed.is_none(), "{recovery:?}");
        assert_eq!(harness.names(run).await, before);
    }
    engine.shutdown().await;
}

/// The feed lists recoveries, newest first, with rule and duration of the stall.
pub async fn every_recovery_is_in_the_feed(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.between_steps("r1").await;
    harness.at_the_question("r2").await;
    let task = harness.task("r1").await.unwrap();
    harness.damage().lose_task(&task.id).await;
    harness.fix().await;
    harness.lie("r2", |row| row.status = Status::Running).await;
    harness.fix().await;
    let feed = harness.client.recoveries(None, 10).await.unwrap();
    let rules: Vec<&str> = feed.iter().map(|healing| healing.recovered.rule.as_str()).collect();
    assert_eq!(rules, ["A2", "O1"]);
    assert!(feed.iter().all(|healing| healing.moved_at.is_none()));
    let engine = harness.two_steps_open().await;
    harness.reaches("r1", Status::Completed).await;
    let feed = harness.client.recoveries(None, 10).await.unwrap();
    assert!(feed.iter().any(|healing| healing.run() == Some(&id("r1")) && healing.moved_at.is_some()));
    assert_eq!(harness.client.recoveries(None, 1).await.unwrap().len(), 1);
    engine.shutdown().await;
}

/// Three graceful deploys during one long step count no attempt.
pub async fn three_deploys_cost_a_long_step_nothing(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    for times in 1..=4 {
        let engine = harness.two_steps().await;
        if times == 1 {
            harness.start("two", "r", "false").await;
        }
        harness.sees("b", times).await;
        engine.shutdown().await;
    }
    let summary = harness.client.get(&id("r")).await.unwrap();
    assert_eq!((summary.attempt, summary.recoveries, summary.status), (0, 0, Status::Queued));
    let engine = harness.two_steps_open().await;
    assert_eq!(harness.result::<u32>("r").await, 2);
    engine.shutdown().await;
}

/// A store that fails in the middle of healing leaves each run either healed or untouched.
pub async fn failing_store_leaves_each_run_healed_or_untouched(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    for fault in [CallFault::FailBefore, CallFault::LoseReply] {
        for number in 0..40 {
            let run = format!("r-{number}-{}", fault == CallFault::LoseReply);
            harness.start("two", &run, "true").await;
            let task = harness.task(&run).await.unwrap();
            harness.damage().lose_task(&task.id).await;
            let before = harness.names(&run).await;
            let plan = FaultPlan::pass().at(number, fault);
            let store = FaultyStore::new(Arc::clone(harness.store()), plan);
            let limits = Limits { store_patience: Duration::ZERO, ..Limits::default() };
            let clock = Arc::new(SystemClock);
            let entropy = Arc::new(OsEntropy);
            let client = Client::with(Arc::new(store), clock, entropy, limits);
            let _ = client.recover(&id(&run), RecoverOptions::default()).await;
            let after = harness.names(&run).await;
            let healed = [before.as_slice(), &["run.recovered".to_owned()]].concat();
            assert!(after == before || after == healed, "{fault:?} {number}: {after:?}");
            harness.client.recover(&id(&run), RecoverOptions::default()).await.unwrap();
            assert_eq!(harness.names(&run).await, healed, "{fault:?} {number}");
            assert!(harness.task(&run).await.is_some_and(|task| task.state.is_live()));
        }
    }
}

/// The doctor also finds locks and tasks without a live holder.
pub async fn the_doctor_finds_stale_locks_and_claims(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let locks = harness.client.locks();
    let queue = harness.client.queue();
    let name = goldseam_core::QueueName::new("jobs").unwrap();
    let new = goldseam_core::task::NewTask {
        id: goldseam_core::TaskId::new("job").unwrap(),
        kind: "mail".to_owned(),
        queue: name.clone(),
        lane: None,
        priority: 7,
        key: None,
        run_at: goldseam_core::Millis(0),
        payload: goldseam_core::Payload::null(),
        attempts_max: 1,
        silence_max: Some(Duration::ZERO),
    };
    queue.submit(new).await.unwrap();
    let want = Want { owner: "worker-9".to_owned(), queue: name, kind: None, limit: 1 };
    let claimed = queue.claim(want).await.unwrap().remove(0);
    let lock = goldseam_core::LockName::new("deploy").unwrap();
    locks.acquire(&lock, "ada", Duration::ZERO).await.unwrap();
    let found = || async { harness.codes().await == ["L1", "L2"] };
    eventually("both are stale", found).await;
    let checkup = harness.fix().await;
    assert_eq!((checkup.healed, checkup.is_healthy()), (2, true));
    let task = queue.get(&claimed.id).await.unwrap();
    assert_eq!((task.state, task.owner, task.priority), (TaskState::Ready, None, 7));
    assert!(harness.look().await.findings.is_empty());
    let late = queue.complete(&claimed.id, claimed.fence, goldseam_core::Payload::null()).await;
    assert_eq!(late.unwrap_err().code(), "GS0301", "an old claimant is refused by its fence");
    let healed = heals(&harness, HealingFilter::default()).await;
    assert_eq!(healed.len(), 2, "{healed:?}");
    for expected in [("L1", "lock deploy", "ada", 1, false), ("L2", "task job", "worker-9", 1, false)] {
        assert!(healed.contains(&HealedRecord::new(expected)), "{expected:?} in {healed:?}");
    }
}

/// A heal of a record: rule, subject, previous holder, attempt, and whether it ended the record.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HealedRecord {
    rule: String,
    subject: String,
    holder: String,
    attempt: u32,
    ended: bool,
}

impl HealedRecord {
    fn new((rule, subject, holder, attempt, ended): (&str, &str, &str, u32, bool)) -> Self {
        let [rule, subject, holder] = [rule, subject, holder].map(str::to_owned);
        Self { rule, subject, holder, attempt, ended }
    }
}

/// The heals of records in the feed, newest first.
async fn heals(harness: &Harness<'_>, filter: HealingFilter) -> Vec<HealedRecord> {
    let feed = harness.client.recoveries_by(&filter, 100).await.unwrap();
    let record = |healing: Healing| match healing.subject {
        HealedSubject::Run { .. } => None,
        HealedSubject::Record(entry) => Some(HealedRecord {
            rule: healing.recovered.rule,
            subject: format!("{} {}", entry.kind.as_str(), entry.subject),
            holder: entry.heal.holder.unwrap_or_default(),
            attempt: healing.recovered.attempt,
            ended: healing.ended.is_some(),
        }),
    };
    feed.into_iter().filter_map(record).collect()
}

/// Every heal of a task is in the feed, also after the record has dropped its entry; the last one ended the task.
pub async fn every_heal_of_a_task_is_in_the_feed(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let claims = harness.client.claims();
    let queue = harness.client.queue();
    let new = goldseam_core::task::NewTask {
        id: goldseam_core::TaskId::new("job").unwrap(),
        kind: "mail".to_owned(),
        queue: goldseam_core::QueueName::new("jobs").unwrap(),
        lane: None,
        priority: 0,
        key: None,
        run_at: goldseam_core::Millis(0),
        payload: goldseam_core::Payload::null(),
        attempts_max: 1,
        silence_max: None,
    };
    queue.submit(new.clone()).await.unwrap();
    let mut expected = Vec::new();
    for attempt in 1..=4 {
        let owner = format!("worker-{attempt}");
        let want = Want { owner: owner.clone(), queue: new.queue.clone(), kind: None, limit: 1 };
        assert_eq!(queue.claim(want).await.unwrap().len(), 1);
        assert_eq!(claims.reclaim_stale(Duration::ZERO).await.unwrap(), 1);
        expected.insert(0, HealedRecord::new(("L2", "task job", &owner, attempt, attempt == 4)));
    }
    let mut all = heals(&harness, HealingFilter::default()).await;
    all.sort_by_key(|heal| std::cmp::Reverse(heal.attempt));
    assert_eq!(all, expected);
    let ended = |ended| HealingFilter { ended: Some(ended), ..HealingFilter::default() };
    assert_eq!(heals(&harness, ended(true)).await, expected[..1]);
    assert_eq!(heals(&harness, ended(false)).await.len(), 3);
    let rule = |rule: &str| HealingFilter { rule: Some(rule.to_owned()), ..HealingFilter::default() };
    assert_eq!((heals(&harness, rule("L2")).await.len(), heals(&harness, rule("L1")).await.len()), (4, 0));
    let feed = harness.client.recoveries(None, 9).await.unwrap();
    assert!(feed.iter().all(|healing| healing.recovered.reason == "manual"), "{feed:?}");
}

/// Runs and records are one list, newest first, in pages of any size.
pub async fn the_feed_pages_over_runs_and_records(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let locks = harness.client.locks();
    for name in ["a", "b"] {
        harness.at_the_question(name).await;
        locks.acquire(&goldseam_core::LockName::new(name).unwrap(), "ada", Duration::ZERO).await.unwrap();
        let free =
            || async { harness.client.claims().detect_and_recover_stale().await.unwrap().locks_cleaned == 1 };
        eventually("it is stale", free).await;
        harness.lie(name, |row| row.status = Status::Running).await;
        harness.client.resume(&id(name), By::default()).await.unwrap();
    }
    let whole = harness.client.recoveries(None, 100).await.unwrap();
    let rules: Vec<&str> = whole.iter().map(|healing| healing.recovered.rule.as_str()).collect();
    assert_eq!((rules.len(), rules.iter().filter(|rule| **rule == "L1").count()), (4, 2), "{rules:?}");
    assert!(whole.windows(2).all(|pair| pair[0].at >= pair[1].at));
    for limit in 1..=4 {
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let filter = HealingFilter { after, ..HealingFilter::default() };
            let page = harness.client.recoveries_by(&filter, limit).await.unwrap();
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            after = Some(last.place());
            seen.extend(page);
        }
        assert_eq!(seen, whole, "pages of {limit}");
    }
}

/// A resume recovers first, and reports whether that was needed, why, and the new branch.
pub async fn resume_recovers_first_and_reports_it(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.at_the_question("r").await;
    harness.lie("r", |row| row.status = Status::Running).await;
    let resumed = harness.client.resume(&id("r"), By::default()).await.unwrap();
    assert!(!resumed.rested, "it was neither paused nor parked");
    assert_eq!(resumed.recovery.found.as_ref().map(|found| found.diagnosis.rule), Some(Code::A2));
    assert_eq!(resumed.recovery.branch().map(|branch| branch.0), Some(2));
    harness.between_steps("paused").await;
    harness.client.pause(&id("paused"), By::default()).await.unwrap();
    let resumed = harness.client.resume(&id("paused"), By::default()).await.unwrap();
    assert!(resumed.rested && !resumed.recovery.was_needed());
    assert_eq!(harness.client.resume(&id("paused"), By::default()).await.unwrap_err().code(), "GS0110");
}
