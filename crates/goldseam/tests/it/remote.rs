//! Remote steps: workers claim them from a queue; their results go to the run's log.

use std::time::Duration;

use goldseam::prelude::*;
use goldseam::unstable::core::task::{Task, TaskState};
use goldseam::unstable::core::{Event, QueueName};
use goldseam::unstable::engine::queue::Want;
use goldseam::{EngineError, Failure, Limits, Path, Payload, Status};

use crate::support::{Counter, Scratch, eventually, ok, reaches, run_id};

fn payload(value: &impl serde::Serialize) -> Payload {
    Payload::of(value, &Limits::default()).unwrap()
}

async fn claim(client: &Client, owner: &str, limit: u32) -> Vec<Task> {
    let queue = QueueName::new("gpu").unwrap();
    client.queue().claim(Want { owner: owner.to_owned(), queue, kind: None, limit }).await.unwrap()
}

/// Waits for the next task and claims it.
async fn next_task(client: &Client, owner: &str) -> Task {
    let mut found = None;
    let slot = &mut found;
    let wait = async {
        while slot.is_none() {
            *slot = claim(client, owner, 1).await.pop();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(20), wait).await.is_ok(), "timed out: no task");
    found.unwrap()
}

async fn complete(client: &Client, task: &Task, value: &impl serde::Serialize) -> Result<Task, EngineError> {
    client.queue().complete(&task.id, task.fence, payload(value)).await
}

/// Returns the names of the step events of run `r`.
async fn names(client: &Client) -> Vec<&'static str> {
    let history = client.history(&run_id("r")).await.unwrap();
    history.iter().map(|recorded| recorded.event.name()).filter(|name| name.starts_with("step.")).collect()
}

async fn resize(ctx: Context, width: u32) -> goldseam::Result<u32> {
    ctx.remote("resize", &width).queue("gpu").priority(5).await
}

async fn engine(scratch: &Scratch) -> Engine {
    scratch.engine("resize", resize).await
}

/// Starts an engine with `resize`, a run of it, and claims the task of its remote step.
async fn claimed_resize() -> (Scratch, Engine, Client, Task) {
    let scratch = Scratch::new();
    let engine = engine(&scratch).await;
    engine.start("resize", "r", &200u32).await.unwrap();
    let worker = scratch.client().await;
    let task = next_task(&worker, "w1").await;
    (scratch, engine, worker, task)
}

#[tokio::test]
async fn worker_that_claims_the_task_completes_a_remote_step() {
    let (_scratch, engine, worker, task) = claimed_resize().await;
    let run = engine.handle(run_id("r"));
    assert_eq!((task.kind.as_str(), task.payload.as_str(), task.priority), ("resize", "200", 5));
    assert_eq!(task.silence_max, Some(Duration::from_secs(60)));
    let step = task.step.clone().unwrap();
    assert_eq!((step.path.as_str(), step.attempt, step.key.is_empty()), ("resize", 1, false));
    assert_eq!(run.status().await.unwrap(), Status::Waiting);
    worker.queue().heartbeat(&task.id, task.fence).await.unwrap();
    let over = complete(&worker, &task, &100u32).await.unwrap();
    assert_eq!(over.state, TaskState::Completed);
    assert_eq!(run.result::<u32>().await.unwrap(), 100);
    let history = engine.client().history(run.id()).await.unwrap();
    let fence = history.iter().find_map(|recorded| match &recorded.event {
        Event::StepCompleted(step) => step.fence,
        _ => None,
    });
    assert_eq!((names(&worker).await, fence), (vec!["step.started", "step.completed"], Some(task.fence)));
    engine.shutdown().await;
}

#[tokio::test]
async fn run_leaves_memory_during_a_remote_step() {
    let (_scratch, engine, worker, task) = claimed_resize().await;
    let run = engine.handle(run_id("r"));
    eventually("the run leaves memory", || async { engine.live_runs() == 0 }).await;
    assert_eq!(run.status().await.unwrap(), Status::Waiting);
    complete(&worker, &task, &1u32).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 1);
    engine.shutdown().await;
}

async fn resize_with_retry(ctx: Context, (): ()) -> goldseam::Result<u32> {
    let retry = Retry::fixed(Duration::from_millis(20)).attempts_max(2);
    ctx.remote("resize", &()).queue("gpu").retry(retry).await
}

#[tokio::test]
async fn retry_uses_a_new_task_and_the_same_key() {
    let scratch = Scratch::new();
    let engine = scratch.engine("retrying", resize_with_retry).await;
    let worker = scratch.client().await;
    let run = engine.start("retrying", "r", &()).await.unwrap();
    let first = next_task(&worker, "w1").await;
    let over = worker.queue().fail(&first.id, first.fence, Failure::retryable("no memory")).await.unwrap();
    assert_eq!(over.state, TaskState::Failed);
    let second = next_task(&worker, "w1").await;
    assert_ne!(second.id, first.id);
    let one = first.step.unwrap();
    let two = second.step.clone().unwrap();
    assert_eq!((two.attempt, &two.key), (2, &one.key));
    complete(&worker, &second, &7u32).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 7);
    let expected = ["step.started", "step.failed", "step.retry_scheduled", "step.started", "step.completed"];
    assert_eq!(names(&worker).await, expected);
    engine.shutdown().await;
}

#[tokio::test]
async fn last_failure_is_returned_to_the_workflow() {
    let (_scratch, engine, worker, task) = claimed_resize().await;
    let run = engine.handle(run_id("r"));
    let failure = Failure::terminal("not an image").with_code("bad-input");
    worker.queue().fail(&task.id, task.fence, failure).await.unwrap();
    let EngineError::Ended { status, failure, .. } = run.result::<u32>().await.unwrap_err() else {
        panic!("the run did not fail")
    };
    assert_eq!((status, failure.code.as_deref()), (Status::Failed, Some("bad-input")));
    assert_eq!(failure.message, "step resize failed: not an image");
    engine.shutdown().await;
}

#[tokio::test]
async fn restarted_owner_waits_for_the_same_task() {
    let scratch = Scratch::new();
    let first = engine(&scratch).await;
    let run = first.start("resize", "r", &200u32).await.unwrap().id().clone();
    let worker = scratch.client().await;
    let task = next_task(&worker, "w1").await;
    first.crash();
    let second = engine(&scratch).await;
    eventually("the second engine takes over", || async {
        second
            .client()
            .history(&run)
            .await
            .unwrap()
            .iter()
            .any(|recorded| recorded.event.name() == "run.recovered")
    })
    .await;
    assert!(claim(&worker, "w2", 1).await.is_empty(), "no second task for the same attempt");
    complete(&worker, &task, &3u32).await.unwrap();
    assert_eq!(second.handle(run).result::<u32>().await.unwrap(), 3);
    assert_eq!(names(&worker).await, ["step.started", "step.completed"]);
    second.shutdown().await;
}

#[tokio::test]
async fn result_for_an_unowned_run_is_found_later() {
    let scratch = Scratch::new();
    let first = engine(&scratch).await;
    let run = first.start("resize", "r", &200u32).await.unwrap().id().clone();
    let worker = scratch.client().await;
    let task = next_task(&worker, "w1").await;
    first.shutdown().await;
    complete(&worker, &task, &3u32).await.unwrap();
    let second = engine(&scratch).await;
    assert_eq!(second.handle(run).result::<u32>().await.unwrap(), 3);
    second.shutdown().await;
}

#[tokio::test]
async fn completing_twice_is_harmless_and_old_claims_are_refused() {
    let (_scratch, engine, worker, first) = claimed_resize().await;
    let run = engine.handle(run_id("r"));
    worker.queue().release(&first.id, first.fence).await.unwrap();
    let second = next_task(&worker, "w2").await;
    assert_eq!((&second.id, second.fence), (&first.id, first.fence + 1));
    assert_eq!(complete(&worker, &first, &1u32).await.unwrap_err().code(), "GS0301");
    for _ in 0..2 {
        complete(&worker, &second, &2u32).await.unwrap();
    }
    assert_eq!(run.result::<u32>().await.unwrap(), 2);
    complete(&worker, &second, &2u32).await.unwrap();
    assert_eq!(complete(&worker, &first, &1u32).await.unwrap_err().code(), "GS0301");
    assert_eq!(names(&worker).await, ["step.started", "step.completed"]);
    engine.shutdown().await;
}

/// Restores a claimed task, as after a crash between the write to the log and the write to the queue.
async fn restore_claim(client: &Client, claimed: &Task) {
    let over = client.queue().get(&claimed.id).await.unwrap();
    let back = Task { version: over.version + 1, ..claimed.clone() };
    let expect = goldseam::unstable::store::Expect::Version(over.version);
    client.store().put_task(back, expect).await.unwrap();
}

#[tokio::test]
async fn task_with_a_recorded_result_is_not_claimable_again() {
    let (_scratch, engine, worker, task) = claimed_resize().await;
    let run = engine.handle(run_id("r"));
    complete(&worker, &task, &1u32).await.unwrap();
    run.result::<u32>().await.unwrap();
    restore_claim(&worker, &task).await;
    let queue = worker.queue();
    queue.release(&task.id, task.fence).await.unwrap();
    complete(&worker, &task, &1u32).await.unwrap();
    assert_eq!(
        queue.get(&task.id).await.unwrap().state,
        TaskState::Completed,
        "the log has the result of this claim"
    );
    restore_claim(&worker, &task).await;
    queue.release(&task.id, task.fence).await.unwrap();
    assert!(claim(&worker, "w2", 5).await.is_empty());
    assert_eq!(queue.get(&task.id).await.unwrap().state, TaskState::Cancelled);
    engine.shutdown().await;
}

#[tokio::test]
async fn cancelling_a_run_cancels_its_task_and_refuses_its_result() {
    let (_scratch, engine, worker, task) = claimed_resize().await;
    let run = engine.handle(run_id("r"));
    run.cancel("no longer wanted").await.unwrap();
    assert!(run.result::<u32>().await.is_err());
    assert_eq!(run.status().await.unwrap(), Status::Cancelled);
    assert_eq!(worker.queue().get(&task.id).await.unwrap().state, TaskState::Cancelled);
    assert_eq!(worker.queue().heartbeat(&task.id, task.fence).await.unwrap_err().code(), "GS0301");
    assert_eq!(complete(&worker, &task, &1u32).await.unwrap_err().code(), "GS0301");
    engine.shutdown().await;
}

#[tokio::test]
async fn jump_cancels_the_task_and_creates_a_new_one() {
    let (_scratch, engine, worker, old) = claimed_resize().await;
    let run = engine.handle(run_id("r"));
    engine.client().jump(run.id(), &Path::new("resize").unwrap(), Default::default()).await.unwrap();
    let new = next_task(&worker, "w2").await;
    assert_ne!(new.step.as_ref().unwrap().key, old.step.as_ref().unwrap().key);
    assert_eq!(worker.queue().get(&old.id).await.unwrap().state, TaskState::Cancelled);
    // The log decides even if the cancellation of the task was lost.
    restore_claim(&worker, &old).await;
    assert_eq!(complete(&worker, &old, &1u32).await.unwrap_err().code(), "GS0119");
    assert_eq!(worker.queue().get(&old.id).await.unwrap().state, TaskState::Cancelled);
    complete(&worker, &new, &2u32).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 2);
    engine.shutdown().await;
}

#[tokio::test]
async fn remote_steps_of_a_join_run_in_parallel() {
    let scratch = Scratch::new();
    let engine = scratch
        .engine("both", |ctx: Context, (): ()| async move {
            ctx.join((0..2u32).map(|n| ctx.remote::<u32>(("part", n), &n).queue("gpu"))).await
        })
        .await;
    let worker = scratch.client().await;
    let run = engine.start("both", "r", &()).await.unwrap();
    let tasks = [next_task(&worker, "w1").await, next_task(&worker, "w2").await];
    assert!(tasks.iter().all(|task| task.kind == "part"));
    eventually("the run leaves memory", || async { engine.live_runs() == 0 }).await;
    for task in tasks.iter().rev() {
        let n: u32 = task.payload.read().unwrap();
        complete(&worker, task, &(n + 10)).await.unwrap();
    }
    assert_eq!(run.result::<Vec<u32>>().await.unwrap(), [10, 11]);
    engine.shutdown().await;
}

#[tokio::test]
async fn paused_run_accepts_a_result_and_continues_when_resumed() {
    let (_scratch, engine, worker, task) = claimed_resize().await;
    let run = engine.handle(run_id("r"));
    engine.client().pause(run.id(), Default::default()).await.unwrap();
    complete(&worker, &task, &5u32).await.unwrap();
    assert_eq!(run.status().await.unwrap(), Status::Paused);
    engine.client().resume(run.id(), Default::default()).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 5);
    engine.shutdown().await;
}

#[tokio::test]
async fn cancelling_the_task_fails_the_step() {
    let (_scratch, engine, worker, task) = claimed_resize().await;
    let run = engine.handle(run_id("r"));
    assert_eq!(worker.queue().cancel(&task.id).await.unwrap().state, TaskState::Cancelled);
    let error = run.result::<u32>().await.unwrap_err();
    assert!(error.to_string().contains("its task was cancelled"), "{error}");
    assert_eq!(complete(&worker, &task, &1u32).await.unwrap_err().code(), "GS0301");
    assert_eq!(worker.queue().cancel(&task.id).await.unwrap_err().code(), "GS0301");
    engine.shutdown().await;
}

/// A remote charge with a compensation, then a failure.
fn saga(counter: Counter) -> impl Fn(Context, ()) -> BoxedResult + Send + Sync {
    move |ctx, ()| {
        let counter = counter.clone();
        Box::pin(async move {
            let undo = move |cents: u32| counter.step(format!("refunded {cents}"));
            let charged: u32 = ctx.remote("charge", &()).queue("gpu").compensate(undo).await?;
            Err(Error::terminal(format!("no more than {charged}")))
        })
    }
}

type BoxedResult = std::pin::Pin<Box<dyn Future<Output = goldseam::Result<()>> + Send>>;

#[tokio::test]
async fn remote_step_is_compensated() {
    let scratch = Scratch::new();
    let counter = Counter::default();
    let engine = scratch.engine("saga", saga(counter.clone())).await;
    let worker = scratch.client().await;
    let run = engine.start("saga", "r", &()).await.unwrap();
    let task = next_task(&worker, "w1").await;
    complete(&worker, &task, &42u32).await.unwrap();
    assert!(run.result::<()>().await.is_err());
    assert_eq!((run.status().await.unwrap(), counter.count("refunded 42")), (Status::Failed, 1));
    engine.shutdown().await;
}

#[tokio::test]
async fn abandoned_remote_step_is_cancelled_when_the_run_ends() {
    let scratch = Scratch::new();
    let engine = scratch
        .engine("race", |ctx: Context, (): ()| async move {
            let remote = ctx.remote::<u32>("slow", &()).queue("gpu").into_future();
            let signal = ctx.signal::<u32>("go").into_future();
            tokio::select! {
                biased;
                got = remote => got,
                got = signal => got,
            }
        })
        .await;
    let worker = scratch.client().await;
    let run = engine.start("race", "r", &()).await.unwrap();
    let task = next_task(&worker, "w1").await;
    run.signal("go", &9u32).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 9);
    assert_eq!(worker.queue().get(&task.id).await.unwrap().state, TaskState::Cancelled);
    engine.shutdown().await;
}

#[tokio::test]
async fn remote_step_cannot_become_local_while_in_progress() {
    let scratch = Scratch::new();
    let first = engine(&scratch).await;
    first.start("resize", "r", &200u32).await.unwrap();
    next_task(&scratch.client().await, "w1").await;
    first.shutdown().await;
    let local = |ctx: Context, width: u32| async move { ctx.step("resize", || ok(width)).await };
    scratch.client().await.requeue(&run_id("r"), Default::default()).await.unwrap();
    let second = scratch.engine("resize", local).await;
    reaches(second.client(), "r", Status::Parked).await;
    second.shutdown().await;
}

#[tokio::test]
async fn invalid_queue_name_fails_the_step_without_a_task() {
    let scratch = Scratch::new();
    let flow =
        |ctx: Context, (): ()| async move { ctx.remote::<()>("resize", &()).queue("no spaces here").await };
    let engine = scratch.engine("w", flow).await;
    let run = engine.start("w", "r", &()).await.unwrap();
    assert!(run.result::<()>().await.unwrap_err().to_string().contains("is not a valid queue id"));
    assert_eq!(names(engine.client()).await, Vec::<&str>::new());
    engine.shutdown().await;
}
