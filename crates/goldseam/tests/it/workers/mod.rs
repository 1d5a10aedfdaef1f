//! Remote workflows: a small client, written against the protocol documents only, with the real engine.

pub(crate) mod client;
mod vectors;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use goldseam::client::By;
use goldseam::{Limits, Payload, Status};
use serde_json::{Value, json};

use crate::place::Place;
use crate::support::{Scratch, eventually, reaches, run_id};
use client::{Death, Effects, Execution, Left, Op, Server, Worker};

/// Lease of a worker, long enough for a machine that runs many tests at once.
const LEASE: Duration = Duration::from_secs(10);
/// Lease in tests that wait for its expiry.
const SHORT_LEASE: Duration = Duration::from_secs(1);

async fn start(server: &Place, workflow: &str, run: &str) {
    let input = Payload::of(&1, &Limits::default()).unwrap();
    server.client.start(workflow, &run_id(run), &input).await.unwrap();
}

async fn signal(server: &Place, run: &str) {
    let payload = Payload::of(&json!("yes"), &Limits::default()).unwrap();
    server.client.signal(&run_id(run), "go", payload, Some("s-1".to_owned())).await.unwrap();
}

/// Returns the types of a run's events, in order.
async fn types(server: &Place, run: &str) -> Vec<String> {
    let history = server.client.history(&run_id(run)).await.unwrap();
    history.iter().map(|recorded| recorded.event.name().to_owned()).collect()
}

/// Returns the status, attempt and recoveries of a run.
async fn summary_of(server: &Place, run: &str) -> Value {
    let summary = server.client.get(&run_id(run)).await.unwrap();
    json!({ "status": summary.status, "attempt": summary.attempt, "recoveries": summary.recoveries })
}

/// Returns the records of the workers.
async fn worker_nodes(server: &Place) -> Vec<goldseam::unstable::store::NodeRecord> {
    let nodes = server.client.store().nodes().await.unwrap();
    // The server's own node has the workflow of operations.
    let is_worker = |node: &goldseam::unstable::store::NodeRecord| {
        node.workflows.iter().any(|workflow| !workflow.starts_with("goldseam."))
    };
    nodes.into_iter().map(|seen| seen.record).filter(is_worker).collect()
}

fn order_ops() -> Vec<Op> {
    vec![
        Op::Undoable("reserve"),
        Op::Flaky("charge", 1),
        Op::Signal("go"),
        Op::Sleep("rest", 5),
        Op::Step("ship"),
    ]
}

/// Opens a server, registers a worker with the workflow `order`, and starts the run `o-1`.
async fn one_order(ops: Vec<Op>) -> (Scratch, Arc<Place>, Worker<Place>) {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let worker = Worker::register(&server, "w", &[("order", ops)], LEASE).await;
    start(&server, "order", "o-1").await;
    (scratch, server, worker)
}

/// Claims the run, executes its first step, and returns the unfinished execution.
async fn execute_first_step(worker: &mut Worker<Place>) -> Execution {
    let execution = worker.next().await;
    worker.death = Death::AfterAppends(1);
    assert_eq!(worker.execute(execution.clone()).await, Left::Dead);
    worker.death = Death::Never;
    execution
}

/// Executes the run until it ends.
async fn work(worker: &mut Worker<Place>, run: &str) {
    loop {
        let execution = worker.next().await;
        assert_eq!(execution.run, run);
        let left = worker.execute(execution).await;
        assert_eq!(left, Left::Over);
        let status = worker.server.client.get(&run_id(run)).await.unwrap().status;
        if status.is_terminal() {
            return;
        }
    }
}

#[tokio::test]
async fn remote_workflow_completes() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let mut worker = Worker::register(&server, "python:17", &[("order", order_ops())], LEASE).await;
    start(&server, "order", "o-1").await;
    signal(&server, "o-1").await;
    work(&mut worker, "o-1").await;
    assert_eq!(
        summary_of(&server, "o-1").await,
        json!({ "status": "completed", "attempt": 0, "recoveries": 0 })
    );
    let effects = worker.effects.all();
    let done = |what: &str| effects.get(&format!("o-1:{what}")).copied().unwrap_or(0);
    assert_eq!([done("reserve"), done("charge"), done("ship")], [1, 2, 1]);
    assert!(done("go=\"yes\"") > 0, "the signal carries its payload");
    let nodes = worker_nodes(&server).await;
    assert_eq!(nodes.len(), 1);
    assert_eq!((nodes[0].name.as_str(), nodes[0].slots), ("python:17", 4));
    assert_eq!((nodes[0].workflows[0].as_str(), nodes[0].release().is_some()), ("order@1", true));
}

#[tokio::test]
async fn remote_workflow_times_out_and_is_undone() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let mut worker = Worker::register(&server, "w", &[("order", order_ops())], LEASE).await;
    let input = Payload::of(&1, &Limits::default()).unwrap();
    let options = goldseam::client::StartOptions::default().timeout(Duration::from_secs(3));
    server.client.start_with("order", run_id("o-1").as_str(), &input, options).await.unwrap();
    // It waits for a signal that never comes; the deadline makes it due.
    work(&mut worker, "o-1").await;
    let summary = server.client.get(&run_id("o-1")).await.unwrap();
    let trouble = summary.trouble.unwrap();
    assert_eq!((summary.status, trouble.code.as_deref()), (Status::Failed, Some("timeout")), "{trouble:?}");
    let names = types(&server, "o-1").await;
    let last = ["compensation.started", "compensation.completed", "run.failed"];
    assert!(names.ends_with(&last.map(str::to_owned)), "{names:?}");
}

#[tokio::test]
async fn later_signal_wakes_the_run_for_any_worker() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let mut first = Worker::register(&server, "first", &[("order", order_ops())], LEASE).await;
    start(&server, "order", "o-1").await;
    let execution = first.next().await;
    assert_eq!(first.execute(execution).await, Left::Over);
    reaches(&server.client, "o-1", Status::Waiting).await;
    first.leave().await;
    let mut second = Worker::register(&server, "second", &[("order", order_ops())], LEASE).await;
    signal(&server, "o-1").await;
    work(&mut second, "o-1").await;
    assert_eq!(second.effects.all().get("o-1:reserve"), None);
    assert_eq!(summary_of(&server, "o-1").await["recoveries"], 0);
}

/// Executes a run whose first worker dies by `death`; a second worker continues it.
async fn run_with_death(death: Death) -> (u32, Effects, Arc<Place>, Scratch) {
    // Many of these runs share one machine.
    let lease = Duration::from_secs(3);
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let mut first = Worker::register(&server, "first", &[("order", order_ops())], lease).await;
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
        if server.client.get(&run_id("o-1")).await.unwrap().status.is_terminal() {
            return (first.appends, effects, server, scratch);
        }
    }
    let mut second = Worker::register(&server, "second", &[("order", order_ops())], lease).await;
    second.effects = effects.clone();
    second.appends = 1_000;
    // The last append may have ended the run although its response was lost.
    if !server.client.get(&run_id("o-1")).await.unwrap().status.is_terminal() {
        work(&mut second, "o-1").await;
    }
    (first.appends, effects, server, scratch)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_death_between_appends_repeats_no_recorded_step() {
    let (appends, ..) = run_with_death(Death::Never).await;
    assert!(appends >= 6, "{appends}");
    let deaths = (0..appends).map(Death::AfterAppends).chain((1..=appends).map(Death::BeforeAnswer));
    let results = join_all(deaths.map(|death| async move { (death, run_with_death(death).await) })).await;
    for (death, (_, effects, server, _scratch)) in results {
        let effects = effects.all();
        let done = |what: &str| effects.get(&format!("o-1:{what}")).copied().unwrap_or(0);
        let summary = summary_of(&server, "o-1").await;
        assert_eq!(summary["status"], "completed", "{death:?}");
        let steps = [done("reserve"), done("charge"), done("ship")];
        match death {
            // The last effect is not in the log, so it is repeated.
            Death::AfterAppends(n) => {
                let cut = [n == 0, n == 2, n + 2 == appends].map(u32::from);
                assert_eq!(steps, [1 + cut[0], 2 + cut[1], 1 + cut[2]], "{death:?}");
            }
            _ => assert_eq!(steps, [1, 2, 1], "{death:?}"),
        }
    }
}

#[tokio::test]
async fn failed_remote_workflow_is_compensated_in_reverse_order() {
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
async fn run_does_not_fail_before_all_compensations() {
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
    let response = server.call("POST", "/v1/executions/append", body).await.unwrap();
    assert_eq!(
        (&response["outcome"], &response["why"]),
        (&json!("again"), &json!("step one must be undone first"))
    );
}

#[tokio::test]
async fn repeated_appends_take_effect_once() {
    let (_scratch, server, mut worker) = one_order(order_ops()).await;
    worker.repeats_appends = true;
    signal(&server, "o-1").await;
    work(&mut worker, "o-1").await;
    let types = types(&server, "o-1").await;
    let count = |name: &str| types.iter().filter(|found| *found == name).count();
    assert_eq!([count("step.completed"), count("step.failed"), count("run.completed")], [3, 1, 1]);
    assert_eq!([count("signal.received"), count("timer.set"), count("timer.fired")], [1, 1, 1]);
}

#[tokio::test]
async fn superseded_worker_is_refused() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let ops = [("order", vec![Op::Step("a"), Op::Step("b")])];
    let mut first = Worker::register(&server, "first", &ops, SHORT_LEASE).await;
    start(&server, "order", "o-1").await;
    let execution = first.next().await;
    // The first worker is silent for longer than its lease, and a second one gets the run.
    let mut second = Worker::register(&server, "second", &ops, LEASE).await;
    let taken = second.next().await;
    assert_eq!(first.execute(execution.clone()).await, Left::Refused("GS0114".to_owned()));
    assert_eq!(first.heartbeat(&[&execution], 0).await, Err("GS0311".to_owned()));
    assert_eq!(second.execute(taken).await, Left::Over);
    assert_eq!(
        summary_of(&server, "o-1").await,
        json!({ "status": "completed", "attempt": 0, "recoveries": 1 })
    );
    let history = server.client.history(&run_id("o-1")).await.unwrap();
    let recovered = history.iter().find(|recorded| recorded.event.name() == "run.recovered");
    assert!(recovered.is_some(), "the takeover is in the log");
}

#[tokio::test]
async fn worker_drops_a_run_before_it_receives_it_again() {
    let (_scratch, server, mut worker) = one_order(vec![Op::Step("a"), Op::Step("b")]).await;
    let first = worker.next().await;
    // The run moves to another branch, and its node claims it again.
    server.client.reset(&run_id("o-1"), By::default()).await.unwrap();
    eventually("the run is claimed again", || async {
        assert_eq!(
            worker.claim(1, &[&first.token]).await.unwrap().len(),
            0,
            "the worker still has the first execution"
        );
        types(&server, "o-1").await.iter().filter(|event| *event == "run.claimed").count() == 2
    })
    .await;
    let response = worker.heartbeat(&[&first], 0).await.unwrap();
    assert_eq!(response["lost"], json!([first.token]));
    let second = worker.next().await;
    assert_ne!(second.token, first.token);
    assert_eq!(worker.execute(second).await, Left::Over);
    assert_eq!(summary_of(&server, "o-1").await["status"], "completed");
}

#[tokio::test]
async fn heartbeats_keep_a_run_longer_than_the_lease() {
    let scratch = Scratch::new();
    let lease = Duration::from_secs(2);
    let server = Place::open(&scratch).await;
    let ops = [("order", vec![Op::Step("a")])];
    let mut first = Worker::register(&server, "first", &ops, lease).await;
    let second = Worker::register(&server, "second", &ops, lease).await;
    start(&server, "order", "o-1").await;
    let execution = first.next().await;
    for _ in 0..30 {
        let response = first.heartbeat(&[&execution], 100).await.unwrap();
        assert_eq!(response["lost"], json!([]));
        assert_eq!(second.claim(0, &[]).await.unwrap().len(), 0);
    }
    assert_eq!(first.execute(execution).await, Left::Over);
}

#[tokio::test]
async fn p1_parks_a_run_that_crashes_its_worker_repeatedly() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let ops = [("order", vec![Op::Step("a")])];
    let lease = Duration::from_millis(500);
    start(&server, "order", "o-1").await;
    for attempt in 0..4 {
        let worker = Worker::register(&server, "w", &ops, lease).await;
        let execution = worker.next().await;
        let summary = summary_of(&server, "o-1").await;
        assert_eq!(summary["attempt"], attempt, "{}", execution.run);
    }
    let last = Worker::register(&server, "w", &ops, lease).await;
    eventually("rule P1 parks the run", || async {
        let _ = last.claim(1, &[]).await;
        server.client.get(&run_id("o-1")).await.unwrap().status == Status::Parked
    })
    .await;
}

#[tokio::test]
async fn cancel_reaches_the_worker_of_the_run() {
    let (_scratch, server, mut worker) = one_order(vec![Op::Undoable("a"), Op::Step("b")]).await;
    let execution = worker.next().await;
    let held = [&execution];
    let run = run_id("o-1");
    let (response, cancelled) =
        tokio::join!(worker.heartbeat(&held, 5_000), server.client.cancel(&run, By::default()));
    cancelled.unwrap();
    let response = response.unwrap();
    assert_eq!(response["news"][0]["events"][0]["event"]["type"], "run.cancel_requested");
    assert_eq!(worker.execute(execution).await, Left::Over);
    assert_eq!(summary_of(&server, "o-1").await["status"], "cancelled");
    // The worker receives the request with its first append, and compensates that step.
    assert_eq!(worker.effects.all().get("o-1:undo a"), Some(&1));
    assert_eq!(worker.effects.all().get("o-1:b"), None);
}

#[tokio::test]
async fn execution_lost_in_a_reply_is_offered_again() {
    let (_scratch, _server, worker) = one_order(vec![Op::Step("a")]).await;
    let lost = worker.next().await;
    let again = worker.next().await;
    assert_eq!(lost.token, again.token);
    assert_eq!(worker.claim(0, &[&again.token]).await.unwrap().len(), 0);
}

#[tokio::test]
async fn leaving_worker_releases_its_runs_without_an_attempt() {
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
    assert_eq!(summary_of(&server, "o-1").await["recoveries"], 0);
    assert!(types(&server, "o-1").await.contains(&"run.released".to_owned()));
}

#[tokio::test]
async fn server_shutdown_releases_all_runs() {
    let scratch = Scratch::new();
    let old = Place::open(&scratch).await;
    let ops = [("order", vec![Op::Step("a")])];
    let first = Worker::register(&old, "first", &ops, LEASE).await;
    start(&old, "order", "o-1").await;
    let execution = first.next().await;
    let held = [&execution];
    let (response, ()) = tokio::join!(first.heartbeat(&held, 5_000), old.stop());
    // Over HTTP, the server may stop before it receives the heartbeat.
    assert!(response.is_err() || response.unwrap()["leaving"] == true);
    let new = Place::open(&scratch).await;
    let mut second = Worker::register(&new, "second", &ops, LEASE).await;
    let taken = second.next().await;
    assert_eq!(second.execute(taken).await, Left::Over);
    assert_eq!(summary_of(&new, "o-1").await["recoveries"], 0);
}

#[tokio::test]
async fn remote_workflow_may_have_children_and_remote_steps() {
    let scratch = Scratch::new();
    let server = Place::open(&scratch).await;
    let parent = vec![Op::Child("pack", "packing"), Op::Remote("resize"), Op::Step("ship")];
    let ops = [("order", parent), ("packing", vec![Op::Step("fold")])];
    let mut worker = Worker::register(&server, "w", &ops, LEASE).await;
    start(&server, "order", "o-1").await;
    let queue = server.client.queue();
    let mut done = false;
    while !server.client.get(&run_id("o-1")).await.unwrap().status.is_terminal() {
        for execution in worker.claim(1, &[]).await.unwrap() {
            assert_eq!(worker.execute(execution).await, Left::Over);
        }
        let want = goldseam::unstable::engine::queue::Want {
            owner: "gpu-1".to_owned(),
            queue: goldseam::unstable::core::QueueName::new("default").unwrap(),
            kind: Some("resize".into()),
            limit: 1,
        };
        for task in queue.claim(want).await.unwrap() {
            let result = Payload::of(&"small", &Limits::default()).unwrap();
            queue.complete(&task.id, task.fence, result).await.unwrap();
            done = true;
        }
    }
    assert!(done && summary_of(&server, "o-1").await["status"] == "completed");
    let types = types(&server, "o-1").await;
    assert!(types.contains(&"child.completed".to_owned()), "{types:?}");
}

#[tokio::test]
async fn continue_as_new_keeps_the_worker() {
    let (_scratch, server, mut worker) =
        one_order(vec![Op::Step("a"), Op::ContinueAsNew(2), Op::Step("b")]).await;
    worker.repeats_appends = true;
    let execution = worker.next().await;
    assert_eq!(worker.execute(execution).await, Left::Over);
    assert_eq!(worker.effects.all().get("o-1:a"), Some(&2));
    assert_eq!(summary_of(&server, "o-1").await["status"], "completed");
}

#[tokio::test]
async fn different_operation_order_parks_the_run() {
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
    assert_eq!(summary_of(&server, "o-1").await["status"], "parked");
}

#[tokio::test]
async fn jump_takes_the_run_from_its_worker() {
    let (_scratch, server, mut worker) = one_order(vec![Op::Step("a"), Op::Step("b")]).await;
    let execution = execute_first_step(&mut worker).await;
    let to = goldseam::Path::new("a").unwrap();
    server.client.jump(&run_id("o-1"), &to, goldseam::client::Jump::default()).await.unwrap();
    assert_eq!(worker.execute(execution).await, Left::Refused("GS0114".to_owned()));
    let again = worker.next().await;
    assert_eq!(worker.execute(again).await, Left::Over);
    assert_eq!(summary_of(&server, "o-1").await["status"], "completed");
}

#[tokio::test]
async fn terminate_takes_the_run_from_its_worker() {
    let (_scratch, server, mut worker) = one_order(vec![Op::Step("a"), Op::Step("b")]).await;
    let execution = execute_first_step(&mut worker).await;
    server.client.terminate(&run_id("o-1"), goldseam::client::By::default()).await.unwrap();
    assert_eq!(worker.execute(execution.clone()).await, Left::Refused("GS0114".to_owned()));
    let response = worker.heartbeat(&[&execution], 0).await.unwrap();
    assert_eq!(response["lost"], json!([execution.token]));
    assert_eq!(summary_of(&server, "o-1").await["status"], "cancelled");
    let types = types(&server, "o-1").await;
    assert_eq!(types.last().map(String::as_str), Some("run.cancelled"));
}
