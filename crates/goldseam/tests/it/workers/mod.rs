//! Workflows that run in another process: a small client, written against the documents only, on the real engine.

pub(crate) mod client;
mod vectors;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use goldseam::client::By;
use goldseam::prelude::*;
use goldseam::{Limits, Payload, RunId, Status};
use serde_json::{Value, json};

use crate::place::Place;
use crate::support::{Scratch, eventually, reaches};
use client::{Death, Effects, Execution, Left, Op, Server, Worker};

/// How long a worker may be silent here: longer than many tests on one machine keep anybody from the processor.
const LEASE: Duration = Duration::from_secs(10);
/// The same where a test waits for it to be over.
const SHORT_LEASE: Duration = Duration::from_secs(1);

fn id(run: &str) -> RunId {
    RunId::new(run).unwrap()
}

async fn start(server: &Place, workflow: &str, run: &str) {
    let input = Payload::of(&1, &Limits::default()).unwrap();
    server.client.start(workflow, &id(run), input, StartOptions::default()).await.unwrap();
}

async fn signal(server: &Place, run: &str) {
    let payload = Payload::of(&json!("yes"), &Limits::default()).unwrap();
    server.client.signal(&id(run), "go", payload, Some("s-1".to_owned())).await.unwrap();
}

/// The types of a run's events, in order.
async fn types(server: &Place, run: &str) -> Vec<String> {
    let history = server.client.history(&id(run)).await.unwrap();
    history.iter().map(|recorded| recorded.event.name().to_owned()).collect()
}

/// The run as people see it.
async fn shown(server: &Place, run: &str) -> Value {
    let summary = server.client.get(&id(run)).await.unwrap();
    json!({ "status": summary.status, "attempt": summary.attempt, "recoveries": summary.recoveries })
}

/// The workers that are nodes now.
async fn worker_nodes(server: &Place) -> Vec<goldseam::store::NodeRecord> {
    let nodes = server.client.store().nodes().await.unwrap();
    nodes.into_iter().map(|seen| seen.record).filter(|node| !node.workflows.is_empty()).collect()
}

fn everything() -> Vec<Op> {
    vec![
        Op::Undoable("reserve"),
        Op::Flaky("charge", 1),
        Op::Signal("go"),
        Op::Sleep("rest", 5),
        Op::Step("ship"),
    ]
}

/// Everything in turn, until the run is over.
async fn work(worker: &mut Worker<Place>, run: &str) {
    loop {
        let execution = worker.next().await;
        assert_eq!(execution.run, run);
        let left = worker.execute(execution).await;
        assert_eq!(left, Left::Over);
        let status = worker.server.client.get(&id(run)).await.unwrap().status;
        if status.is_terminal() {
            return;
        }
    }
}

#[tokio::test]
async fn a_workflow_in_another_process_runs_to_its_end() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let mut worker = Worker::register(&server, "python:17", &[("order", everything())], LEASE).await;
    start(&server, "order", "o-1").await;
    signal(&server, "o-1").await;
    work(&mut worker, "o-1").await;
    assert_eq!(shown(&server, "o-1").await, json!({ "status": "completed", "attempt": 0, "recoveries": 0 }));
    let effects = worker.effects.all();
    let done = |what: &str| effects.get(&format!("o-1:{what}")).copied().unwrap_or(0);
    assert_eq!([done("reserve"), done("charge"), done("ship")], [1, 2, 1]);
    assert!(done("go=\"yes\"") > 0, "the signal came with what it carries");
    let nodes = worker_nodes(&server).await;
    assert_eq!(nodes.len(), 1);
    assert_eq!((nodes[0].name.as_str(), nodes[0].slots), ("python:17", 4));
    assert_eq!(nodes[0].workflows, ["order@1"]);
}

#[tokio::test]
async fn a_signal_that_comes_later_wakes_the_run_for_any_worker() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let mut first = Worker::register(&server, "first", &[("order", everything())], LEASE).await;
    start(&server, "order", "o-1").await;
    let execution = first.next().await;
    assert_eq!(first.execute(execution).await, Left::Over);
    reaches(&server.client, "o-1", Status::Waiting).await;
    first.leave().await;
    let mut second = Worker::register(&server, "second", &[("order", everything())], LEASE).await;
    signal(&server, "o-1").await;
    work(&mut second, "o-1").await;
    assert_eq!(second.effects.all().get("o-1:reserve"), None);
    assert_eq!(shown(&server, "o-1").await["recoveries"], 0);
}

/// One run whose first worker dies as told, and which another goes on with.
async fn survives(death: Death) -> (u32, Effects, Arc<Place>, Scratch) {
    // Many of them share one machine.
    let (scratch, lease) = (Scratch::new(), Duration::from_secs(3));
    let server = Place::open(&scratch).await;
    let mut first = Worker::register(&server, "first", &[("order", everything())], lease).await;
    first.death = death;
    start(&server, "order", "o-1").await;
    signal(&server, "o-1").await;
    let effects = first.effects.clone();
    loop {
        let execution = first.next().await;
        match first.execute(execution).await {
            Left::Dead => break,
            left => assert_eq!(left, Left::Over),
        }
        if server.client.get(&id("o-1")).await.unwrap().status.is_terminal() {
            return (first.appends, effects, server, scratch);
        }
    }
    let mut second = Worker::register(&server, "second", &[("order", everything())], lease).await;
    second.effects = effects.clone();
    second.appends = 1_000;
    // The last append may have ended the run, and only its answer was lost.
    if !server.client.get(&id("o-1")).await.unwrap().status.is_terminal() {
        work(&mut second, "o-1").await;
    }
    (first.appends, effects, server, scratch)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_may_die_between_any_two_appends_and_no_step_is_done_twice() {
    let (appends, ..) = survives(Death::Never).await;
    assert!(appends >= 6, "{appends}");
    let deaths = (0..appends).map(Death::AfterAppends).chain((1..=appends).map(Death::BeforeAnswer));
    let told = join_all(deaths.map(|death| async move { (death, survives(death).await) })).await;
    for (death, (_, effects, server, _scratch)) in told {
        let effects = effects.all();
        let done = |what: &str| effects.get(&format!("o-1:{what}")).copied().unwrap_or(0);
        let shown = shown(&server, "o-1").await;
        assert_eq!(shown["status"], "completed", "{death:?}");
        let steps = [done("reserve"), done("charge"), done("ship")];
        match death {
            // What it did last is not in the log: it is done again.
            Death::AfterAppends(n) => {
                let cut = [n == 0, n == 2, n + 2 == appends].map(u32::from);
                assert_eq!(steps, [1 + cut[0], 2 + cut[1], 1 + cut[2]], "{death:?}");
            }
            _ => assert_eq!(steps, [1, 2, 1], "{death:?}"),
        }
    }
}

#[tokio::test]
async fn a_failed_workflow_undoes_what_it_did_latest_first() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let ops = vec![Op::Undoable("one"), Op::Undoable("two"), Op::Fail];
    let mut worker = Worker::register(&server, "w", &[("saga", ops)], LEASE).await;
    start(&server, "saga", "s-1").await;
    work(&mut worker, "s-1").await;
    let types = types(&server, "s-1").await;
    let undo = ["compensation.started", "compensation.completed"];
    assert_eq!(types[5..9], [undo, undo].concat());
    assert_eq!(types.last().unwrap(), "run.failed");
    assert_eq!(worker.effects.all().get("s-1:undo one"), Some(&1));
}

#[tokio::test]
async fn a_run_does_not_end_before_everything_is_undone() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let mut worker =
        Worker::register(&server, "w", &[("saga", vec![Op::Undoable("one"), Op::Fail])], LEASE).await;
    start(&server, "saga", "s-1").await;
    worker.death = Death::AfterAppends(1);
    let execution = worker.next().await;
    assert_eq!(worker.execute(execution.clone()).await, Left::Dead);
    let fail = json!({ "fail": { "failure": { "class": "terminal", "message": "no" } } });
    let body = json!({ "token": execution.token, "id": "x", "after": 4, "doings": [fail] });
    let told = server.call("POST", "/v1/executions/append", body).await.unwrap();
    assert_eq!((&told["outcome"], &told["why"]), (&json!("again"), &json!("step one must be undone first")));
}

#[tokio::test]
async fn every_append_may_be_sent_twice_and_is_done_once() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let mut worker = Worker::register(&server, "w", &[("order", everything())], LEASE).await;
    worker.stutters = true;
    start(&server, "order", "o-1").await;
    signal(&server, "o-1").await;
    work(&mut worker, "o-1").await;
    let types = types(&server, "o-1").await;
    let count = |name: &str| types.iter().filter(|found| *found == name).count();
    assert_eq!([count("step.completed"), count("step.failed"), count("run.completed")], [3, 1, 1]);
    assert_eq!([count("signal.received"), count("timer.set"), count("timer.fired")], [1, 1, 1]);
}

#[tokio::test]
async fn a_superseded_worker_is_refused() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let ops = [("order", vec![Op::Step("a"), Op::Step("b")])];
    let mut first = Worker::register(&server, "first", &ops, SHORT_LEASE).await;
    start(&server, "order", "o-1").await;
    let execution = first.next().await;
    // Silent for longer than its lease: another worker has the run.
    let mut second = Worker::register(&server, "second", &ops, LEASE).await;
    let taken = second.next().await;
    assert_eq!(first.execute(execution.clone()).await, Left::Refused("GS0114".to_owned()));
    assert_eq!(first.heartbeat(&[&execution], 0).await, Err("GS0311".to_owned()));
    assert_eq!(second.execute(taken).await, Left::Over);
    assert_eq!(shown(&server, "o-1").await, json!({ "status": "completed", "attempt": 0, "recoveries": 1 }));
    let history = server.client.history(&id("o-1")).await.unwrap();
    let recovered = history.iter().find(|recorded| recorded.event.name() == "run.recovered");
    assert!(recovered.is_some(), "the takeover is in the log");
}

#[tokio::test]
async fn a_worker_drops_a_run_before_it_is_given_the_run_again() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let ops = [("order", vec![Op::Step("a"), Op::Step("b")])];
    let mut worker = Worker::register(&server, "w", &ops, LEASE).await;
    start(&server, "order", "o-1").await;
    let first = worker.next().await;
    // Its run goes to another branch, and its node claims it again.
    server.client.reset(&id("o-1"), By::default()).await.unwrap();
    eventually("it is claimed again", || async {
        assert_eq!(
            worker.claim(1, &[&first.token]).await.unwrap().len(),
            0,
            "the worker still has the first one"
        );
        types(&server, "o-1").await.iter().filter(|event| *event == "run.claimed").count() == 2
    })
    .await;
    let told = worker.heartbeat(&[&first], 0).await.unwrap();
    assert_eq!(told["lost"], json!([first.token]));
    let second = worker.next().await;
    assert_ne!(second.token, first.token);
    assert_eq!(worker.execute(second).await, Left::Over);
    assert_eq!(shown(&server, "o-1").await["status"], "completed");
}

#[tokio::test]
async fn a_worker_that_beats_keeps_its_run_for_longer_than_its_lease() {
    let (scratch, lease) = (Scratch::new(), Duration::from_secs(2));
    let server = Place::open(&scratch).await;
    let ops = [("order", vec![Op::Step("a")])];
    let mut first = Worker::register(&server, "first", &ops, lease).await;
    let second = Worker::register(&server, "second", &ops, lease).await;
    start(&server, "order", "o-1").await;
    let execution = first.next().await;
    for _ in 0..30 {
        let told = first.heartbeat(&[&execution], 100).await.unwrap();
        assert_eq!(told["lost"], json!([]));
        assert_eq!(second.claim(0, &[]).await.unwrap().len(), 0);
    }
    assert_eq!(first.execute(execution).await, Left::Over);
}

#[tokio::test]
async fn a_worker_that_takes_its_process_down_again_and_again_is_ended_by_p1() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let (ops, lease) = ([("order", vec![Op::Step("a")])], Duration::from_millis(500));
    start(&server, "order", "o-1").await;
    for attempt in 0..4 {
        let worker = Worker::register(&server, "w", &ops, lease).await;
        let execution = worker.next().await;
        let shown = shown(&server, "o-1").await;
        assert_eq!(shown["attempt"], attempt, "{}", execution.run);
    }
    let ended = Worker::register(&server, "w", &ops, lease).await;
    eventually("rule P1 ends it", || async {
        let _ = ended.claim(1, &[]).await;
        server.client.get(&id("o-1")).await.unwrap().status == Status::Parked
    })
    .await;
}

#[tokio::test]
async fn a_cancel_reaches_a_worker_that_has_the_run() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let ops = [("order", vec![Op::Undoable("a"), Op::Step("b")])];
    let mut worker = Worker::register(&server, "w", &ops, LEASE).await;
    start(&server, "order", "o-1").await;
    let execution = worker.next().await;
    let (held, run) = ([&execution], id("o-1"));
    let (told, asked) =
        tokio::join!(worker.heartbeat(&held, 5_000), server.client.cancel(&run, By::default()));
    asked.unwrap();
    let told = told.unwrap();
    assert_eq!(told["news"][0]["events"][0]["event"]["type"], "run.cancel_requested");
    assert_eq!(worker.execute(execution).await, Left::Over);
    assert_eq!(shown(&server, "o-1").await["status"], "cancelled");
    // It learnt of it with its first append, and undid that step.
    assert_eq!(worker.effects.all().get("o-1:undo a"), Some(&1));
    assert_eq!(worker.effects.all().get("o-1:b"), None);
}

#[tokio::test]
async fn what_a_worker_was_given_and_does_not_know_of_is_given_again() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let ops = [("order", vec![Op::Step("a")])];
    let worker = Worker::register(&server, "w", &ops, LEASE).await;
    start(&server, "order", "o-1").await;
    let lost = worker.next().await;
    let again = worker.next().await;
    assert_eq!(lost.token, again.token);
    assert_eq!(worker.claim(0, &[&again.token]).await.unwrap().len(), 0);
}

#[tokio::test]
async fn a_worker_that_leaves_gives_its_runs_back_without_an_attempt() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let ops = [("order", vec![Op::Step("a")])];
    let first = Worker::register(&server, "first", &ops, LEASE).await;
    start(&server, "order", "o-1").await;
    let execution = first.next().await;
    first.leave().await;
    let mut second = Worker::register(&server, "second", &ops, LEASE).await;
    let taken = second.next().await;
    assert_ne!(taken.token, execution.token);
    assert_eq!(second.execute(taken).await, Left::Over);
    assert_eq!(shown(&server, "o-1").await["recoveries"], 0);
    assert!(types(&server, "o-1").await.contains(&"run.released".to_owned()));
}

#[tokio::test]
async fn a_server_that_shuts_down_gives_everything_back() {
    let scratch = Scratch::new();
    let old = Place::open(&scratch).await;
    let ops = [("order", vec![Op::Step("a")])];
    let first = Worker::register(&old, "first", &ops, LEASE).await;
    start(&old, "order", "o-1").await;
    let execution = first.next().await;
    let held = [&execution];
    let (told, ()) = tokio::join!(first.heartbeat(&held, 5_000), old.stop());
    // Over HTTP, a server that is quick to go may not have heard it.
    assert!(told.is_err() || told.unwrap()["leaving"] == true);
    let new = Place::open(&scratch).await;
    let mut second = Worker::register(&new, "second", &ops, LEASE).await;
    let taken = second.next().await;
    assert_eq!(second.execute(taken).await, Left::Over);
    assert_eq!(shown(&new, "o-1").await["recoveries"], 0);
}

#[tokio::test]
async fn a_child_and_a_remote_step_of_a_remote_workflow_are_like_any_other() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let parent = vec![Op::Child("pack", "packing"), Op::Remote("resize"), Op::Step("ship")];
    let ops = [("order", parent), ("packing", vec![Op::Step("fold")])];
    let mut worker = Worker::register(&server, "w", &ops, LEASE).await;
    start(&server, "order", "o-1").await;
    let (queue, mut done) = (server.client.queue(), false);
    while !server.client.get(&id("o-1")).await.unwrap().status.is_terminal() {
        for execution in worker.claim(1, &[]).await.unwrap() {
            assert_eq!(worker.execute(execution).await, Left::Over);
        }
        let (owner, queue_name) = ("gpu-1".to_owned(), goldseam::core::QueueName::new("default").unwrap());
        let want =
            goldseam::engine::queue::Want { owner, queue: queue_name, kind: Some("resize".into()), limit: 1 };
        for task in queue.claim(want).await.unwrap() {
            let result = Payload::of(&"small", &Limits::default()).unwrap();
            queue.complete(&task.id, task.fence, result).await.unwrap();
            done = true;
        }
    }
    assert!(done && shown(&server, "o-1").await["status"] == "completed");
    let types = types(&server, "o-1").await;
    assert!(types.contains(&"child.completed".to_owned()), "{types:?}");
}

#[tokio::test]
async fn a_run_that_begins_anew_stays_with_its_worker() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let ops = [("order", vec![Op::Step("a"), Op::Anew(2), Op::Step("b")])];
    let mut worker = Worker::register(&server, "w", &ops, LEASE).await;
    worker.stutters = true;
    start(&server, "order", "o-1").await;
    let execution = worker.next().await;
    assert_eq!(worker.execute(execution).await, Left::Over);
    assert_eq!(worker.effects.all().get("o-1:a"), Some(&2));
    assert_eq!(shown(&server, "o-1").await["status"], "completed");
}

#[tokio::test]
async fn another_order_than_in_the_log_parks_the_run() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let mut first =
        Worker::register(&server, "w", &[("order", vec![Op::Step("a"), Op::Signal("go")])], LEASE).await;
    start(&server, "order", "o-1").await;
    let execution = first.next().await;
    assert_eq!(first.execute(execution).await, Left::Over);
    let other = [("order", vec![Op::Step("b"), Op::Step("c")])];
    first.leave().await;
    let mut second = Worker::register(&server, "w", &other, LEASE).await;
    signal(&server, "o-1").await;
    let execution: Execution = second.next().await;
    assert_eq!(second.execute(execution).await, Left::Over);
    assert_eq!(shown(&server, "o-1").await["status"], "parked");
}

#[tokio::test]
async fn a_run_that_a_person_sends_back_is_lost_to_its_worker() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let ops = [("order", vec![Op::Step("a"), Op::Step("b")])];
    let mut worker = Worker::register(&server, "w", &ops, LEASE).await;
    start(&server, "order", "o-1").await;
    let execution = worker.next().await;
    worker.death = Death::AfterAppends(1);
    assert_eq!(worker.execute(execution.clone()).await, Left::Dead);
    worker.death = Death::Never;
    let to = goldseam::Path::new("a").unwrap();
    server.client.jump(&id("o-1"), &to, goldseam::client::Jump::default()).await.unwrap();
    assert_eq!(worker.execute(execution).await, Left::Refused("GS0114".to_owned()));
    let again = worker.next().await;
    assert_eq!(worker.execute(again).await, Left::Over);
    assert_eq!(shown(&server, "o-1").await["status"], "completed");
}

#[tokio::test]
async fn a_terminated_run_is_lost_to_its_worker() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let ops = [("order", vec![Op::Step("a"), Op::Step("b")])];
    let mut worker = Worker::register(&server, "w", &ops, LEASE).await;
    start(&server, "order", "o-1").await;
    let execution = worker.next().await;
    worker.death = Death::AfterAppends(1);
    assert_eq!(worker.execute(execution.clone()).await, Left::Dead);
    worker.death = Death::Never;
    server.client.terminate(&id("o-1"), goldseam::client::By::default()).await.unwrap();
    assert_eq!(worker.execute(execution.clone()).await, Left::Refused("GS0114".to_owned()));
    let told = worker.heartbeat(&[&execution], 0).await.unwrap();
    assert_eq!(told["lost"], json!([execution.token]));
    assert_eq!(shown(&server, "o-1").await["status"], "cancelled");
    let types = types(&server, "o-1").await;
    assert_eq!(types.last().map(String::as_str), Some("run.cancelled"));
}
