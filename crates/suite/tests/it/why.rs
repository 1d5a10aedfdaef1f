//! `why`: every cause of a run that does not move.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use goldseam_conformance::Fixture;
use goldseam_core::task::Task;
use goldseam_core::{Event, QueueName, Retry, Seq, Status};
use goldseam_engine::client::By;
use goldseam_engine::client::why::Explanation;
use goldseam_engine::queue::Want;
use goldseam_engine::{Clock, Context, Engine, Error, SystemClock};
use goldseam_suite::eventually;
use goldseam_suite::harness::{Harness, id};

fn fresh() -> Fixture {
    Fixture::memory_on(Arc::new(|| SystemClock.now()))
}

async fn why(harness: &Harness<'_>, run: &str) -> Explanation {
    harness.client.why(&id(run)).await.unwrap()
}

/// The links of an explanation.
fn links(why: &Explanation) -> Vec<(u32, &str)> {
    why.links.iter().map(|link| (link.depth, link.what.as_str())).collect()
}

fn can(why: &Explanation) -> Vec<&str> {
    why.you_can.iter().map(|hint| hint.as_str()).collect()
}

/// An engine whose run ends as its input says.
async fn ends(harness: &Harness<'_>) -> Engine {
    let work = |ctx: Context, how: String| async move {
        let retry = Retry::fixed(Duration::from_secs(3600)).attempts_max(3);
        match how.as_str() {
            "fails" => Err(Error::terminal("card declined")),
            "tries" => {
                ctx.step("pay", || async { Err::<(), _>(Error::retryable("busy")) }).retry(retry).await
            }
            "works" => ctx.step("pay", || async { std::future::pending::<Result<(), Error>>().await }).await,
            _ => Ok(()),
        }
    };
    harness.builder().workflow("ends", work).start().await.unwrap()
}

#[tokio::test]
async fn ended_run_is_explained_by_its_end() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    let engine = ends(&harness).await;
    harness.start("ends", "done", "\"\"").await;
    harness.start("ends", "failed", "\"fails\"").await;
    harness.start("ends", "cancelled", "\"works\"").await;
    harness.client.cancel(&id("cancelled"), By::default()).await.unwrap();
    let cases = [
        ("done", Status::Completed, "it ended completed", vec![], "fine: it is completed"),
        (
            "failed",
            Status::Failed,
            "it ended failed: card declined",
            vec!["`retry failed`"],
            "failed because card declined",
        ),
        ("cancelled", Status::Cancelled, "it ended cancelled", vec![], "ended: it was cancelled"),
    ];
    for (run, status, what, help, verdict) in cases {
        harness.reaches(run, status).await;
        let why = why(&harness, run).await;
        assert!(why.links[0].what.starts_with(what), "{why:?}");
        assert_eq!(why.verdict, verdict);
        assert_eq!((why.status, why.links.len(), can(&why), why.moves_at), (status, 1, help, None));
        let finished = harness.client.get(&id(run)).await.unwrap().finished_at;
        assert!(finished.is_some() && why.links[0].since == finished, "{why:?}");
    }
    engine.shutdown().await;
}

#[tokio::test]
async fn waits_are_explained_with_commands() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    let asking = harness.asking().await;
    let waiting = harness.waiting().await;
    harness.start("asking", "asks", "null").await;
    harness.start("waits", "listens", "\"signal\"").await;
    harness.start("waits", "naps", "\"600000\"").await;
    for (run, status) in [("asks", Status::Waiting), ("listens", Status::Waiting), ("naps", Status::Sleeping)]
    {
        harness.reaches(run, status).await;
        harness.rests(run).await;
    }
    let asks = why(&harness, "asks").await;
    assert_eq!(links(&asks), [(0, "it waits for an answer to approve (Ship it?)")]);
    assert_eq!(can(&asks), [r#"`answer asks approve "text"`"#]);
    assert_eq!((asks.found.len(), asks.moves_at), (0, None));
    assert_eq!(asks.verdict, "waits for an answer to approve (Ship it?)");
    let since = harness.client.get(&id("asks")).await.unwrap().waits[0].since;
    assert_eq!((asks.links[0].since, asks.links[0].until), (Some(since), None));

    let listens = why(&harness, "listens").await;
    assert_eq!(
        (links(&listens), can(&listens)),
        (vec![(0, "it waits for signal go")], vec!["`signal listens go 1`"])
    );
    let naps = why(&harness, "naps").await;
    assert_eq!((links(&naps), can(&naps)), (vec![(0, "it sleeps (nap)")], vec![]));
    let due = harness.client.get(&id("naps")).await.unwrap().due();
    assert!(due.is_some() && naps.moves_at == due && naps.links[0].until == due, "{naps:?}");

    harness.client.pause(&id("naps"), By::default()).await.unwrap();
    let paused = why(&harness, "naps").await;
    assert_eq!(links(&paused), [(0, "an operator paused it")]);
    assert_eq!(paused.verdict, "needs you: an operator paused it");
    assert_eq!((can(&paused), paused.moves_at), (vec!["`resume naps`"], None));
    asking.shutdown().await;
    waiting.shutdown().await;
}

#[tokio::test]
async fn parked_run_needs_a_decision_not_its_signal() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    harness.at_the_question("r").await;
    harness
        .forge("r", vec![Event::RunParked { code: "V1".to_owned(), reason: "other steps".to_owned() }])
        .await;
    let why = why(&harness, "r").await;
    assert_eq!((why.status, links(&why)), (Status::Parked, vec![(0, "it is parked: other steps")]));
    assert_eq!(why.verdict, "needs you: parked because other steps");
    assert_eq!(can(&why), ["resolve the problem, then: `resume r`", "`explain V1`"]);
}

#[tokio::test]
async fn waits_of_children_are_explained() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    let work = |ctx: Context, depth: u32| async move {
        match depth {
            0 => ctx.signal::<u32>("go").await,
            _ => ctx.child::<u32>("kid", "tree", &(depth - 1)).await,
        }
    };
    let engine = harness.builder().workflow("tree", work).start().await.unwrap();
    harness.start("tree", "r", "2").await;
    let deep = || async { harness.client.why(&id("r")).await.unwrap().links.len() == 3 };
    eventually("the grandchild waits", deep).await;
    let waits = |run: &str| {
        let run = run.to_owned();
        let client = harness.client.clone();
        async move { client.get(&id(&run)).await.unwrap().waits.first().map(|wait| wait.children.clone()) }
    };
    let child = waits("r").await.unwrap()[0].clone();
    let grandchild = waits(child.as_str()).await.unwrap()[0].clone();
    let settled = || async {
        links(&why(&harness, "r").await)
            == [
                (0, format!("it waits for child run {child}").as_str()),
                (1, format!("{child}: it waits for child run {grandchild}").as_str()),
                (2, format!("{grandchild}: it waits for signal go").as_str()),
            ]
    };
    eventually("the chain is explained", settled).await;
    let verdict = format!("waits for child run {child}; {child}: it waits for child run {grandchild}");
    assert_eq!(why(&harness, "r").await.verdict, verdict);
    engine.shutdown().await;
}

#[tokio::test]
async fn retried_step_shows_attempt_and_time() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    let engine = ends(&harness).await;
    harness.start("ends", "r", "\"tries\"").await;
    let rests =
        || async { harness.client.get(&id("r")).await.is_ok_and(|summary| !summary.waits.is_empty()) };
    eventually("it waits to try again", rests).await;
    let why = why(&harness, "r").await;
    assert_eq!(links(&why), [(0, "step pay is being retried, attempt 2; last error: busy")]);
    assert_eq!(why.verdict, "step pay is being retried, attempt 2; last error: busy");
    let due = harness.client.get(&id("r")).await.unwrap().due();
    assert!(due.is_some() && why.links[0].until == due && why.moves_at == due, "{why:?}");
    engine.shutdown().await;
}

#[tokio::test]
async fn remote_step_shows_worker_and_deadline() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    let silence = Duration::from_secs(60);
    let work = move |ctx: Context, (): ()| async move {
        ctx.remote::<u32>("resize", &7).queue("gpu").heartbeat_timeout(silence).await
    };
    let engine = harness.builder().workflow("remote", work).start().await.unwrap();
    harness.start("remote", "r", "null").await;
    harness.reaches("r", Status::Waiting).await;
    harness.rests("r").await;
    let wait = harness.client.get(&id("r")).await.unwrap().waits.remove(0);
    let task = wait.tasks[0].clone();
    let queued = why(&harness, "r").await;
    assert_eq!(
        links(&queued),
        [(0, format!("step resize waits in queue gpu for a worker (task {task})").as_str())]
    );
    assert_eq!(queued.links[0].since, Some(wait.since));

    let queue = QueueName::new("gpu").unwrap();
    let want = Want { owner: "ada".to_owned(), queue, kind: None, limit: 1 };
    let claimed = harness.client.queue().claim(want).await.unwrap().remove(0);
    let held = why(&harness, "r").await;
    assert_eq!(links(&held), [(0, format!("ada executes step resize (task {task})").as_str())]);
    assert_eq!(held.links[0].since, claimed.started_at);
    assert_eq!(held.links[0].until, Some(claimed.last_sign() + silence));

    let now = harness.store().now().await.unwrap();
    let expect = goldseam_store::Expect::Version(claimed.version);
    harness.store().put_task(claimed.cancelled(now).unwrap(), expect).await.unwrap();
    assert_eq!(links(&why(&harness, "r").await), [(0, "the task of step resize is cancelled")]);
    harness.damage().lose_task(&task).await;
    assert_eq!(links(&why(&harness, "r").await), [(0, "remote step resize: its task is missing")]);
    engine.shutdown().await;
}

#[tokio::test]
async fn executed_or_lost_run_names_its_node() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    let bystander = ends(&harness).await;
    let engine = harness.two_steps().await;
    harness.start("two", "r", "false").await;
    harness.has_event("r", "step.completed").await;
    harness.sees("b", 1).await;
    let node = engine.node_id().clone();
    let nodes = harness.store().nodes().await.unwrap();
    let name = nodes.iter().find(|seen| seen.record.id == node).unwrap().record.name.clone();
    let moves = why(&harness, "r").await;
    let owner = format!("node {node} ({name}) executes it");
    assert_eq!(moves.links[0].what, owner);
    assert_eq!(moves.links[0].since, harness.client.get(&id("r")).await.unwrap().claimed_at);
    assert_eq!(
        (moves.links.len(), moves.links[1].what.as_str()),
        (2, "the code after step a is running; the log has no further step")
    );
    assert_eq!(moves.verdict, format!("fine: {owner}; {}", moves.links[1].what));
    engine.crash();
    let lost = format!("its owner is lost: node {node} ({name}) is gone");
    eventually("the node is lost", || async { why(&harness, "r").await.links[0].what == lost }).await;
    let lost = why(&harness, "r").await;
    // The other node returns the task as soon as it knows of the loss; it lacks the code.
    let tasks = [format!("its task is claimed by {node}"), "it waits for a worker with two@1".to_owned()];
    assert_eq!(lost.links.len(), 2, "{lost:?}");
    assert!(tasks.contains(&lost.links[1].what.to_string()), "{lost:?}");
    assert!(can(&lost).starts_with(&["`recover r`", "`explain O2`"]), "{lost:?}");
    assert!(lost.verdict.starts_with("stalled"), "{lost:?}");
    bystander.shutdown().await;
}

#[tokio::test]
async fn started_step_is_shown_as_running() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    let work = |ctx: Context, (): ()| async move {
        ctx.step("once", || async { std::future::pending::<Result<(), Error>>().await }).at_most_once().await
    };
    let engine = harness.builder().workflow("once", work).start().await.unwrap();
    harness.start("once", "r", "null").await;
    harness.has_event("r", "step.started").await;
    let why = why(&harness, "r").await;
    assert_eq!((why.links.len(), why.links[1].what.as_str()), (2, "step once is running"));
    engine.crash();
}

#[tokio::test]
async fn queued_run_is_explained_by_its_task() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    harness.between_steps("r").await;
    let ready = why(&harness, "r").await;
    assert_eq!(links(&ready), [(0, "it waits for a worker with two@1")]);
    let task = harness.task("r").await.unwrap();
    assert_eq!(ready.links[0].since, Some(task.changed_at));
    let later = harness.store().now().await.unwrap() + Duration::from_secs(5);
    harness.tamper("r", |task| Task { run_at: later, ..task }).await;
    let rests = why(&harness, "r").await;
    assert_eq!(
        (links(&rests), rests.links[0].until),
        (vec![(0, "its task is dormant in queue default")], Some(later))
    );
    harness.lie("r", |row| row.status = Status::Waiting).await;
    harness.damage().lose_task(&task.id).await;
    let stalled = why(&harness, "r").await;
    assert_eq!(links(&stalled), []);
    let found: Vec<&str> = stalled.found.iter().map(|found| found.diagnosis.rule.as_str()).collect();
    assert_eq!(found, ["A1", "O1", "N1"]);
    let help = can(&stalled);
    assert_eq!(help[..3], ["`recover r`", "`explain A1`", "`explain O1`"]);
    assert_eq!((help.len(), help[4]), (5, "`explain N1`"), "no line is repeated: {help:?}");
}

#[tokio::test]
async fn unreadable_log_is_explained_by_its_damage() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    harness.between_steps("r").await;
    harness.damage().corrupt(&id("r"), Seq(3), "{\"half").await;
    let why = why(&harness, "r").await;
    let evidence = &why.found[0].diagnosis.evidence;
    assert_eq!(links(&why), [(0, format!("its log is damaged: {evidence}").as_str())]);
    assert_eq!((why.status, why.run.clone(), why.moves_at), (Status::Parked, id("r"), None));
    assert_eq!(why.verdict, format!("needs you: its log is damaged: {evidence}"));
    assert_eq!(can(&why), ["`history r`", "`explain K1`", "`terminate r`"]);
    assert_eq!(harness.client.why(&id("unknown")).await.unwrap_err().code(), "GS0104");
}

#[tokio::test]
async fn pending_request_is_part_of_the_verdict() {
    let fixture = fresh();
    let harness = Harness::on(&fixture);
    let engine = ends(&harness).await;
    harness.start("ends", "r", "\"works\"").await;
    let claimed =
        || async { harness.client.get(&id("r")).await.is_ok_and(|summary| summary.owner.is_some()) };
    eventually("a node has it", claimed).await;
    engine.crash();
    eventually("the node is lost", || async { !why(&harness, "r").await.found.is_empty() }).await;
    let by = By { who: Some("ana".to_owned()), ..By::default() };
    let cancel = goldseam_core::Command::Cancel(harness.client.note(by));
    harness.client.carry_out(&id("r"), &cancel).await.unwrap();
    let pending = why(&harness, "r").await;
    assert!(pending.verdict.starts_with("stalled"), "{pending:?}");
    assert!(pending.verdict.ends_with("; a request to cancel it by ana is pending"), "{pending:?}");
}
