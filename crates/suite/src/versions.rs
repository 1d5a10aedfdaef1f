//! Several versions of one workflow in one fleet: claims, starts, deploys, plans and rule E2.

use std::time::Duration;

use goldseam_core::recovery::Code;
use goldseam_core::task::{Task, TaskState};
use goldseam_core::version::UNDECIDED;
use goldseam_core::{Event, NodeId, Payload, QueueName, Recorded, Status};

use super::harness::{Harness, id};
use super::{Fixture, eventually};
use goldseam_engine::client::By;
use goldseam_engine::client::doctor::{Checkup, DoctorOptions};
use goldseam_engine::heal::sweeper::{Fate, SweepOptions};
use goldseam_engine::ledger::config::Recovery;
use goldseam_engine::{Builder, Client, Context, Engine, Error, StartOptions};

/// An engine with these versions of `v`: a step, a signal, then it returns its version.
async fn has(harness: &Harness<'_>, versions: &[u32]) -> Engine {
    has_on(harness, harness.builder(), versions).await
}

async fn has_on(harness: &Harness<'_>, mut builder: Builder, versions: &[u32]) -> Engine {
    for version in versions.iter().copied() {
        let witness = harness.witness.clone();
        let work = move |ctx: Context, (): ()| {
            let witness = witness.clone();
            async move {
                ctx.step("a", || async {
                    witness.saw(&format!("a@{version}"));
                    Ok(())
                })
                .await?;
                ctx.signal::<()>("go").await?;
                Ok::<u32, Error>(version)
            }
        };
        builder = builder.workflow_version("v", version, work);
    }
    builder.start().await.unwrap()
}

async fn start(client: &Client, run: &str, options: StartOptions) {
    client.start_with("v", &id(run), &Payload::null(), options).await.unwrap();
}

async fn go(harness: &Harness<'_>, run: &str) {
    harness.client.handle(id(run)).signal("go", &()).await.unwrap();
}

/// The nodes that claimed the run.
async fn claimants(harness: &Harness<'_>, run: &str) -> Vec<NodeId> {
    let claimant = |recorded: Recorded| match recorded.event {
        Event::RunClaimed(claim) => Some(claim.node),
        _ => None,
    };
    harness.client.history(&id(run)).await.unwrap().into_iter().filter_map(claimant).collect()
}

async fn is_untouched_by_e2(harness: &Harness<'_>, run: &str) {
    let names = harness.names(run).await;
    let harm = |name: &&String| ["run.parked", "version.changed"].contains(&name.as_str());
    assert_eq!(names.iter().find(harm), None, "{run}: {names:?}");
}

async fn fix_by(harness: &Harness<'_>, rule: Code) -> Checkup {
    let options = DoctorOptions { fix: true, rule: Some(rule), ..DoctorOptions::default() };
    harness.client.doctor(options).await.unwrap()
}

/// T1: an old node is not offered runs of a version that it lacks, and parks none.
pub async fn old_node_beside_a_new_one_parks_no_run(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let old = has(&harness, &[1]).await;
    let new = has(&harness, &[1, 2]).await;
    let runs: Vec<String> = (0..20).map(|n| format!("r{n}")).collect();
    for run in &runs {
        start(&harness.client, run, StartOptions::default().version(2)).await;
    }
    for run in &runs {
        harness.reaches(run, Status::Waiting).await;
        harness.rests(run).await;
        go(&harness, run).await;
    }
    for run in &runs {
        assert_eq!(harness.result::<u32>(run).await, 2);
        is_untouched_by_e2(&harness, run).await;
        assert!(claimants(&harness, run).await.iter().all(|node| node == new.node_id()), "{run}");
    }
    assert_eq!((harness.witness.count("a@1"), harness.witness.count("a@2")), (0, 20));
    old.shutdown().await;
    new.shutdown().await;
}

/// A run in a queue that no live node takes: the doctor, `why` and the counts of queues say so until a node takes it.
pub async fn n1_names_a_queue_that_no_live_node_takes(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let queue = |name: &str| QueueName::new(name).unwrap();
    let elsewhere = has(&harness, &[1]).await;
    start(&harness.client, "r", StartOptions::default().queue("images")).await;
    eventually("the run is due", || async {
        let why = harness.client.why(&id("r")).await.unwrap();
        why.links
            .iter()
            .any(|link| link.what.as_str() == "it waits for a worker with v@1 that takes queue images")
    })
    .await;
    assert_eq!(harness.codes().await, ["N1"]);
    let liveness = harness.client.healer().liveness().await.unwrap();
    let stats = harness.client.queue().stats_served(&liveness).await.unwrap();
    let unserved = stats.unserved.unwrap();
    assert_eq!((unserved.len(), unserved[0].queued), (1, 1), "{unserved:?}");
    assert_eq!((unserved[0].needs.as_str(), &unserved[0].queues), ("v@1", &vec![queue("images")]));
    assert_eq!(unserved[0].waits_for, "a worker with v@1 that takes queue images; live ones take default");
    let nodes: Vec<Option<u32>> = stats.queues.iter().map(|queue| queue.nodes).collect();
    assert_eq!(nodes, [Some(0)]);
    let taking = has_on(&harness, harness.builder_taking(vec![queue("images")]), &[1]).await;
    harness.reaches("r", Status::Waiting).await;
    assert!(harness.codes().await.is_empty());
    elsewhere.shutdown().await;
    taking.shutdown().await;
}

/// Tasks of releases before versioned kinds: the node that lacks the version changes only the kind.
pub async fn a_task_without_a_version_is_handed_back_unharmed(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    start(&harness.client, "r", StartOptions::default().version(2)).await;
    harness.tamper("r", |task| Task { kind: "advance:v".to_owned(), ..task }).await;
    let before = (harness.names("r").await, harness.task("r").await.unwrap());
    let old = has(&harness, &[1]).await;
    let handed_back = || async {
        let task = harness.task("r").await.unwrap();
        task.kind == "advance:v@2" && task.state == TaskState::Ready
    };
    eventually("the old node hands the task back", handed_back).await;
    let task = harness.task("r").await.unwrap();
    assert_eq!((harness.names("r").await, &task.id, task.deliveries), (before.0, &before.1.id, 0));
    let new = has(&harness, &[2]).await;
    harness.reaches("r", Status::Waiting).await;
    go(&harness, "r").await;
    assert_eq!(harness.result::<u32>("r").await, 2);
    old.shutdown().await;
    new.shutdown().await;
}

/// A task whose kind names another version is offered to nodes that cannot use it.
pub async fn o1_task_of_another_version_is_recreated(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    start(&harness.client, "r", StartOptions::default().version(2)).await;
    harness.tamper("r", |task| Task { kind: Task::advance_kind("v", 1), ..task }).await;
    let engine = has(&harness, &[2]).await;
    assert_eq!(harness.fix().await.healed, 1);
    assert_eq!(harness.rules("r").await, ["O1"]);
    harness.reaches("r", Status::Waiting).await;
    assert_eq!(harness.row("r").await.summary.version, 2);
    engine.shutdown().await;
}

/// T2: the version of a run that is started without an engine.
pub async fn start_uses_newest_live_version_or_leaves_it_undecided(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    start(&harness.client, "early", StartOptions::default()).await;
    let early = harness.client.get(&id("early")).await.unwrap();
    assert_eq!((early.version, early.needs().as_str()), (UNDECIDED, "v"));
    assert_eq!(harness.task("early").await.unwrap().kind, "advance:v");
    let why = harness.client.why(&id("early")).await.unwrap();
    assert!(why.links.iter().any(|link| link.what == "it waits for a worker with v"), "{why:?}");
    let engine = has(&harness, &[1, 3]).await;
    harness.reaches("early", Status::Waiting).await;
    let early = harness.client.get(&id("early")).await.unwrap();
    assert_eq!((early.version, early.initial_version), (3, 3), "the first claim decided");
    // Another process: one that read the nodes a moment ago need not read them again yet.
    let client = Client::new(harness.store().clone());
    start(&client, "late", StartOptions::default()).await;
    start(&client, "one", StartOptions::default().version(1)).await;
    for (run, version) in [("late", 3), ("one", 1)] {
        let first = client.first(&id(run)).await.unwrap().unwrap();
        let Event::RunQueued(queued) = first.event else { panic!("{first:?}") };
        assert_eq!(queued.version, version, "{run}");
    }
    let none =
        client.start_with("v", &id("zero"), &Payload::null(), StartOptions::default().version(0)).await;
    assert_eq!(none.unwrap_err().code(), "GS0134");
    for (run, version) in [("early", 3), ("late", 3), ("one", 1)] {
        harness.reaches(run, Status::Waiting).await;
        go(&harness, run).await;
        assert_eq!(harness.result::<u32>(run).await, version, "{run}");
    }
    engine.shutdown().await;
}

/// A deploy that replaces every node, one after another.
pub async fn a_rolling_deploy_moves_no_run_to_another_version(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let first = has(&harness, &[1]).await;
    for run in ["old-0", "old-1", "old-2"] {
        start(&harness.client, run, StartOptions::default()).await;
        harness.reaches(run, Status::Waiting).await;
    }
    let second = has(&harness, &[1, 2]).await;
    let client = Client::new(harness.store().clone());
    for run in ["new-0", "new-1", "new-2"] {
        start(&client, run, StartOptions::default()).await;
        harness.reaches(run, Status::Waiting).await;
    }
    first.shutdown().await;
    let third = has(&harness, &[2]).await;
    second.shutdown().await;
    for run in ["old-0", "old-1", "old-2", "new-0", "new-1", "new-2"] {
        go(&harness, run).await;
    }
    for run in ["new-0", "new-1", "new-2"] {
        assert_eq!(harness.result::<u32>(run).await, 2);
    }
    assert_eq!(harness.fix().await.healed, 0, "a deploy may bring the version back");
    let fourth = has(&harness, &[1, 2]).await;
    for (run, version) in [("old-0", 1), ("old-1", 1), ("old-2", 1), ("new-0", 2), ("new-1", 2), ("new-2", 2)]
    {
        assert_eq!(harness.result::<u32>(run).await, version, "{run}");
        is_untouched_by_e2(&harness, run).await;
    }
    third.shutdown().await;
    fourth.shutdown().await;
}

/// E2 if a live node has the initial version of the run.
pub async fn e2_unknown_version_falls_back_to_the_initial_one(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.between_steps("r").await;
    harness
        .forge("r", vec![Event::VersionChanged { from: 1, to: 9, reason: "a deploy".to_owned(), note: None }])
        .await;
    let engine = harness.two_steps_open().await;
    eventually("the node leaves it alone", || async {
        let why = harness.client.why(&id("r")).await.unwrap();
        why.found.iter().any(|found| found.diagnosis.rule == Code::E2)
    })
    .await;
    assert_eq!(fix_by(&harness, Code::E2).await.healed, 1);
    assert_eq!(harness.result::<u32>("r").await, 2);
    assert_eq!(harness.rules("r").await, ["E2"]);
    assert_eq!(harness.client.get(&id("r")).await.unwrap().version, 1);
    engine.shutdown().await;
}

/// E2 if no live node has either version: only an operator who names the rule acts before the grace ends.
pub async fn e2_version_without_a_node_is_parked(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    start(&harness.client, "r", StartOptions::default().version(2)).await;
    let engine = has(&harness, &[1, 7]).await;
    let checkup = harness.fix().await;
    let found = &checkup.findings[0];
    assert_eq!((found.code, &found.fate), (Code::E2, &Fate::NeedsHelp), "{checkup:?}");
    let missing = "no live node has version 2 of v (live nodes have 1, 7)";
    assert_eq!(found.evidence, format!("{missing}: the run waits for a worker with v@2"));
    let why = harness.client.why(&id("r")).await.unwrap();
    assert!(why.links.iter().any(|link| link.what == "it waits for a worker with v@2"), "{why:?}");
    let hint =
        "start a worker with v@2; otherwise a sweep will park the run; to do so now: `recover r rule=E2`";
    assert!(why.you_can.iter().any(|can| *can == hint), "{why:?}");
    assert_eq!(found.remedy, hint);
    let recovered = harness.client.recover(&id("r"), Default::default()).await.unwrap();
    assert!(recovered.was_needed() && !recovered.has_healed(), "{recovered:?}");
    assert_eq!(harness.client.get(&id("r")).await.unwrap().status, Status::Queued);
    fix_by(&harness, Code::E2).await;
    let trouble = harness.client.get(&id("r")).await.unwrap().trouble.unwrap();
    assert_eq!((trouble.code.as_deref(), trouble.message.as_str()), (Some("E2"), missing));
    let why = harness.client.why(&id("r")).await.unwrap();
    assert!(why.you_can.iter().any(|can| *can == "start a worker with v@2, then: `resume r`"), "{why:?}");
    let new = has(&harness, &[2]).await;
    harness.client.resume(&id("r"), By::default()).await.unwrap();
    harness.reaches("r", Status::Waiting).await;
    go(&harness, "r").await;
    assert_eq!(harness.result::<u32>("r").await, 2);
    engine.shutdown().await;
    new.shutdown().await;
}

/// E2 by the sweeps of an engine: not before the version has been missing for the grace.
pub async fn e2_acts_once_the_version_was_missing_for_the_grace(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    start(&harness.client, "r", StartOptions::default().version(2)).await;
    let grace = Duration::from_millis(600);
    let recovery = Recovery { stale_after: Duration::ZERO, version_grace: grace, ..Recovery::default() };
    let began = harness.store().now().await.unwrap();
    let builder = harness.builder_like(recovery, Some(Duration::from_millis(30)));
    let engine = has_on(&harness, builder, &[1]).await;
    harness.reaches("r", Status::Parked).await;
    let log = harness.client.history(&id("r")).await.unwrap();
    let parked = log.iter().find(|recorded| matches!(recorded.event, Event::RunParked { .. })).unwrap();
    // The engine's clock may differ from the store's by a moment.
    assert!(parked.at.since(began) + Duration::from_millis(200) >= grace, "{began:?} {parked:?}");
    engine.shutdown().await;
}

/// A short-lived sweeper never reaches the grace: it counts from its own first sight.
pub async fn e2_grace_counts_from_the_first_sight_of_a_sweeper(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    start(&harness.client, "r", StartOptions::default().version(2)).await;
    let engine = has(&harness, &[1]).await;
    for _ in 0..3 {
        let options = SweepOptions { stale_after: Some(Duration::ZERO), ..SweepOptions::default() };
        let report = harness.client.sweeper(options).sweep().await.unwrap();
        assert_eq!((report.healed, &report.stalled[0].fate), (0, &Fate::NeedsHelp), "{report:?}");
    }
    is_untouched_by_e2(&harness, "r").await;
    engine.shutdown().await;
}

/// T22: a run started by a process without the engine gets the plan of the node that claims it first.
pub async fn the_first_claim_brings_the_plan(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    start(&harness.client, "r", StartOptions::default()).await;
    assert!(harness.client.state(&id("r")).await.unwrap().queued.plan.is_empty());
    let engine = has_on(&harness, harness.builder().plan("v", ["a"]), &[1]).await;
    harness.reaches("r", Status::Waiting).await;
    harness.rests("r").await;
    go(&harness, "r").await;
    assert_eq!(harness.result::<u32>("r").await, 1);
    let plan = harness.client.state(&id("r")).await.unwrap().queued.plan;
    assert_eq!(plan.iter().map(|step| step.as_str()).collect::<Vec<_>>(), ["a"]);
    let log = harness.client.history(&id("r")).await.unwrap();
    let planned = |recorded: &Recorded| match &recorded.event {
        Event::RunClaimed(claim) => Some(claim.plan.len()),
        _ => None,
    };
    assert_eq!(log.iter().filter_map(planned).collect::<Vec<_>>()[..2], [1, 0], "only the first claim");
    engine.shutdown().await;
}
