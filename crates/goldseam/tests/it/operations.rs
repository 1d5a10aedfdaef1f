//! Bulk operations: each action once, canaries, and groups of failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use goldseam::admin::retention::{Pruner, Retention, open_archive};
use goldseam::client::By;
use goldseam::prelude::*;
use goldseam::unstable::core::operation::{OperationEnd, OperationPhase, Progress, Spec, Verb, action_id};
use goldseam::unstable::core::summary::command_id;
use goldseam::unstable::core::task::TaskState;
use goldseam::unstable::engine::client::doctor::{DoctorOptions, Subject};
use goldseam::unstable::engine::operation::Operation;
use goldseam::unstable::store::{RunFilter, TaskFilter};
use goldseam::{Client, EngineError, RunId, Status};

use crate::support::{Scratch, eventually, run_id};

/// A workflow that fails until it is repaired. Its input decides what it does then.
#[derive(Clone, Default)]
struct Shop {
    repaired: Arc<AtomicBool>,
}

impl Shop {
    fn repair(&self) {
        self.repaired.store(true, Ordering::SeqCst);
    }

    async fn engine(&self, scratch: &Scratch) -> Engine {
        self.build(scratch.builder().await).await
    }

    /// An engine of a release without operations.
    async fn older_engine(&self, scratch: &Scratch) -> Engine {
        self.build(scratch.builder().await.without_operations()).await
    }

    async fn build(&self, builder: goldseam::Builder) -> Engine {
        let repaired = Arc::clone(&self.repaired);
        let order = move |ctx: Context, what: String| {
            let repaired = Arc::clone(&repaired);
            async move {
                ctx.step("price", || async { Ok(()) }).await?;
                let charge = ctx.step("charge", || async {
                    let is_repaired = repaired.load(Ordering::SeqCst);
                    match what.as_str() {
                        "hang" if is_repaired => std::future::pending().await,
                        "broken" => Err(Error::terminal(format!("{}: no such card", ctx.run_id()))),
                        _ if is_repaired => Ok(()),
                        _ => Err(Error::terminal(format!("bank refused order {}", ctx.run_id()))),
                    }
                });
                charge.await?;
                ctx.signal::<()>("ship").await
            }
        };
        builder.workflow("order", order).start().await.unwrap()
    }
}

async fn start(engine: &Engine, count: usize, what: &str) -> Vec<RunId> {
    let mut runs = Vec::new();
    for number in 0..count {
        let run = run_id(&format!("{what}-{number:03}"));
        engine.start("order", run.as_str(), &what.to_owned()).await.unwrap();
        runs.push(run);
    }
    for run in &runs {
        reaches(engine.client(), run, Status::Failed).await;
    }
    runs
}

async fn reaches(client: &Client, run: &RunId, status: Status) {
    eventually("the condition", || async { client.get(run).await.unwrap().status == status }).await;
}

fn retry(condition: &str) -> Spec {
    Spec {
        verb: Verb::Retry,
        condition: condition.to_owned(),
        rate: None,
        canary: None,
        canary_timeout_ms: None,
        signal: None,
        reason: "repaired".to_owned(),
        by: Some("ada".to_owned()),
    }
}

async fn ended(client: &Client, id: &RunId) -> Operation {
    eventually("the condition", || async {
        client.operation(id).await.unwrap().summary.status.is_terminal()
    })
    .await;
    client.operation(id).await.unwrap()
}

/// Number of times that the log of a run records the action of an operation.
async fn actions(client: &Client, run: &RunId, operation: &RunId) -> usize {
    let id = action_id(operation);
    let history = client.history(run).await.unwrap();
    history.iter().filter(|recorded| command_id(&recorded.event).as_ref() == Some(&id)).count()
}

#[tokio::test]
async fn operation_cannot_have_a_reserved_id() {
    let scratch = Scratch::new();
    let client = scratch.client().await;
    let id = run_id("goldseam.x");
    let refused = client.begin_operation(&id, retry("status = failed")).await.unwrap_err();
    assert_eq!(refused.code(), "GS0101");
    assert_eq!(client.get(&id).await.unwrap_err().code(), "GS0104", "nothing was started");
}

#[tokio::test]
async fn retries_every_selected_run_once() {
    let scratch = Scratch::new();
    let shop = Shop::default();
    let engine = shop.engine(&scratch).await;
    let client = engine.client();
    let runs = start(&engine, 12, "a").await;
    shop.repair();
    let id = run_id("op-1");
    client.begin_operation(&id, retry("status = failed")).await.unwrap();
    let operation = ended(client, &id).await;
    let Progress { planned, handled, acted, outcome, .. } = operation.progress;
    assert_eq!((planned, handled, acted, outcome), (12, 12, 12, Some(OperationEnd::Done)));
    for run in &runs {
        reaches(client, run, Status::Waiting).await;
        assert_eq!(actions(client, run, &id).await, 1, "{run}");
    }
    // A repeat of the request is the same operation.
    client.begin_operation(&id, retry("status = failed")).await.unwrap();
    let listed = client.list(RunFilter { limit: 100, ..RunFilter::default() }).await.unwrap();
    assert_eq!(listed.items.len(), 12, "operations are hidden");
    assert_eq!(client.operations(None, 10).await.unwrap().items.len(), 1);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_crash_repeats_no_action() {
    let scratch = Scratch::new();
    let shop = Shop::default();
    let engine = shop.engine(&scratch).await;
    let runs = start(&engine, 30, "a").await;
    shop.repair();
    let id = run_id("op-1");
    let spec = Spec { rate: Some("40/s".parse().unwrap()), ..retry("status = failed") };
    engine.client().begin_operation(&id, spec).await.unwrap();
    let client = scratch.client().await;
    // A batch takes longer than this, so the crash hits the middle of one.
    eventually("enough actions", || async {
        let mut acted = 0;
        for run in &runs {
            acted += actions(&client, run, &id).await;
        }
        acted >= 7
    })
    .await;
    engine.crash();
    let engine = shop.engine(&scratch).await;
    let operation = ended(&client, &id).await;
    assert_eq!((operation.progress.acted, operation.progress.outcome), (30, Some(OperationEnd::Done)));
    for run in &runs {
        assert_eq!(actions(&client, run, &id).await, 1, "{run}");
    }
    engine.shutdown().await;
}

#[tokio::test]
async fn an_older_node_leaves_operations_to_newer_ones() {
    let scratch = Scratch::new();
    let shop = Shop::default();
    let older = shop.older_engine(&scratch).await;
    let client = older.client();
    let runs = start(&older, 5, "a").await;
    shop.repair();
    let id = run_id("op-1");
    client.begin_operation(&id, retry("status = failed")).await.unwrap();
    // The older node executes a run that was started later, and examines the whole store.
    let next = run_id("next");
    older.start("order", next.as_str(), &"a".to_owned()).await.unwrap();
    reaches(client, &next, Status::Waiting).await;
    let checkup = client.doctor(DoctorOptions { fix: true, ..DoctorOptions::default() }).await.unwrap();
    assert!(
        checkup.findings.iter().all(|found| found.subject == Subject::Run(id.to_string())),
        "{checkup:?}"
    );
    let operation = client.operation(&id).await.unwrap();
    assert_eq!((operation.summary.status, operation.summary.as_of.0), (Status::Queued, 1));
    // A newer node carries it out, and both execute the retried runs.
    let newer = shop.engine(&scratch).await;
    assert_eq!(ended(client, &id).await.progress.outcome, Some(OperationEnd::Done));
    for run in &runs {
        reaches(client, run, Status::Waiting).await;
        assert_eq!(actions(client, run, &id).await, 1, "{run}");
    }
    newer.shutdown().await;
    older.shutdown().await;
}

#[tokio::test]
async fn an_older_node_returns_the_operation_of_a_dead_newer_one() {
    let scratch = Scratch::new();
    let shop = Shop::default();
    let older = shop.older_engine(&scratch).await;
    let client = older.client();
    let runs = start(&older, 30, "a").await;
    shop.repair();
    let newer = shop.engine(&scratch).await;
    let id = run_id("op-1");
    let spec = Spec { rate: Some("40/s".parse().unwrap()), ..retry("status = failed") };
    client.begin_operation(&id, spec).await.unwrap();
    eventually("the first actions", || async {
        let mut acted = 0;
        for run in &runs {
            acted += actions(client, run, &id).await;
        }
        acted >= 5
    })
    .await;
    newer.crash();
    // The older node takes the task from the dead one, and does not execute it.
    let filter = TaskFilter { run: Some(id.clone()), limit: 1, ..TaskFilter::default() };
    eventually("a free task", || async {
        let tasks = client.store().tasks(filter.clone()).await.unwrap();
        tasks.first().is_some_and(|task| task.state == TaskState::Ready)
    })
    .await;
    assert!(client.get(&id).await.unwrap().status.is_active());
    let newer = shop.engine(&scratch).await;
    let Progress { acted, outcome, .. } = ended(client, &id).await.progress;
    assert_eq!((acted, outcome), (30, Some(OperationEnd::Done)));
    for run in &runs {
        assert_eq!(actions(client, run, &id).await, 1, "{run}");
    }
    newer.shutdown().await;
    older.shutdown().await;
}

#[tokio::test]
async fn a_stopped_operation_counts_the_batch_that_a_crash_cut() {
    let scratch = Scratch::new();
    let shop = Shop::default();
    let engine = shop.engine(&scratch).await;
    let runs = start(&engine, 30, "a").await;
    shop.repair();
    let id = run_id("op-1");
    let spec = Spec { rate: Some("40/s".parse().unwrap()), ..retry("status = failed") };
    engine.client().begin_operation(&id, spec).await.unwrap();
    let client = scratch.client().await;
    let in_logs = || async {
        let mut acted = 0;
        for run in &runs {
            acted += actions(&client, run, &id).await as u64;
        }
        acted
    };
    // The batch takes longer than this, so the crash hits the middle of it.
    eventually("enough actions", || async { in_logs().await >= 7 }).await;
    engine.crash();
    client.cancel(&id, "enough".into()).await.unwrap();
    let engine = shop.engine(&scratch).await;
    let Progress { acted, handled, .. } = ended(&client, &id).await.progress;
    assert!(acted >= 7, "{acted}");
    assert_eq!((acted, handled), (in_logs().await, acted));
    engine.shutdown().await;
}

#[tokio::test]
async fn runs_that_moved_on_are_skipped_and_never_forced() {
    let scratch = Scratch::new();
    let shop = Shop::default();
    let engine = shop.engine(&scratch).await;
    let client = engine.client();
    let runs = start(&engine, 6, "a").await;
    shop.repair();
    let one = run_id("op-1");
    let two = run_id("op-2");
    // The second operation plans its targets, and acts on them only after the first.
    let slow = Spec { rate: Some("4/s".parse().unwrap()), ..retry("workflow = order and status = failed") };
    client.begin_operation(&two, slow).await.unwrap();
    eventually("the condition", || async { client.operation(&two).await.unwrap().progress.planned == 6 })
        .await;
    client.begin_operation(&one, retry("status = failed")).await.unwrap();
    let first = ended(client, &one).await.progress;
    let second = ended(client, &two).await.progress;
    assert_eq!(first.acted + second.acted, 6, "{first:?} {second:?}");
    let skipped: u64 = second.skipped.values().map(|examples| examples.count).sum();
    assert_eq!(second.acted + skipped, 6);
    for run in &runs {
        assert_eq!(actions(client, run, &one).await + actions(client, run, &two).await, 1, "{run}");
    }
    engine.shutdown().await;
}

#[tokio::test]
async fn a_canary_goes_on_after_its_runs_passed() {
    let scratch = Scratch::new();
    let shop = Shop::default();
    let engine = shop.engine(&scratch).await;
    let client = engine.client();
    start(&engine, 20, "a").await;
    shop.repair();
    let id = run_id("op-1");
    let spec = Spec { canary: Some("1,10%,all".parse().unwrap()), ..retry("status = failed") };
    client.begin_operation(&id, spec).await.unwrap();
    let progress = ended(client, &id).await.progress;
    assert_eq!(
        (progress.acted, progress.outcome, progress.stages),
        (20, Some(OperationEnd::Done), vec![1, 2, 20])
    );
    engine.shutdown().await;
}

#[tokio::test]
async fn a_relapse_stops_the_canary_and_is_named() {
    let scratch = Scratch::new();
    let shop = Shop::default();
    let engine = shop.engine(&scratch).await;
    let client = engine.client();
    let runs = start(&engine, 10, "broken").await;
    let cause = client.get(&runs[0]).await.unwrap().trouble.unwrap().cause;
    let id = run_id("op-1");
    let spec = Spec { canary: Some("1,50%,all".parse().unwrap()), ..retry("status = failed") };
    client.begin_operation(&id, spec).await.unwrap();
    let progress = ended(client, &id).await.progress;
    assert_eq!((progress.acted, progress.outcome), (1, Some(OperationEnd::Relapsed)), "{progress:?}");
    let relapse = progress.relapse.unwrap();
    assert_eq!(relapse.run, runs[0]);
    assert_eq!((relapse.cause_before.as_ref(), relapse.cause.as_ref()), (Some(&cause), Some(&cause)));
    for run in &runs[1..] {
        assert_eq!(actions(client, run, &id).await, 0, "{run}");
    }
    engine.shutdown().await;
}

#[tokio::test]
async fn a_run_that_does_not_pass_in_time_stops_the_canary() {
    let scratch = Scratch::new();
    let shop = Shop::default();
    let engine = shop.engine(&scratch).await;
    let client = engine.client();
    let runs = start(&engine, 3, "hang").await;
    shop.repair();
    let id = run_id("op-1");
    let canary = Some("1,all".parse().unwrap());
    let spec = Spec { canary, canary_timeout_ms: Some(300), ..retry("status = failed") };
    client.begin_operation(&id, spec).await.unwrap();
    let progress = ended(client, &id).await.progress;
    assert_eq!((progress.acted, progress.outcome), (1, Some(OperationEnd::TimedOut)), "{progress:?}");
    assert_eq!(progress.relapse.unwrap().run, runs[0]);
    engine.crash();
}

#[tokio::test]
async fn a_paused_operation_waits_and_a_stopped_one_ends() {
    let scratch = Scratch::new();
    let shop = Shop::default();
    let engine = shop.engine(&scratch).await;
    let client = engine.client();
    let runs = start(&engine, 8, "a").await;
    shop.repair();
    let id = run_id("op-1");
    // One run in an hour: between two, the operation sleeps.
    let spec = Spec { rate: Some("1/h".parse().unwrap()), ..retry("status = failed") };
    client.begin_operation(&id, spec).await.unwrap();
    eventually("the condition", || async { client.operation(&id).await.unwrap().progress.acted == 1 }).await;
    client.pause(&id, "wait".into()).await.unwrap();
    reaches(client, &id, Status::Paused).await;
    client.resume(&id, "go on".into()).await.unwrap();
    client.cancel(&id, "enough".into()).await.unwrap();
    let operation = ended(client, &id).await;
    assert_eq!(
        (operation.summary.status, operation.progress.phase),
        (Status::Cancelled, OperationPhase::Ended)
    );
    let mut acted = 0;
    for run in &runs {
        acted += actions(client, run, &id).await;
    }
    assert_eq!(acted, 1);
    engine.shutdown().await;
}

#[tokio::test]
async fn other_verbs_act_once_each() {
    let scratch = Scratch::new();
    let shop = Shop::default();
    shop.repair();
    let engine = shop.engine(&scratch).await;
    let client = engine.client();
    let run = run_id("a-1");
    engine.start("order", run.as_str(), &"a".to_owned()).await.unwrap();
    reaches(client, &run, Status::Waiting).await;
    for (at, verb, status) in [
        (1, Verb::Pause, Status::Paused),
        (2, Verb::Resume, Status::Waiting),
        (3, Verb::Cancel, Status::Cancelled),
    ] {
        let id = run_id(&format!("op-{at}"));
        let spec = Spec { verb, ..retry("workflow = order") };
        client.begin_operation(&id, spec).await.unwrap();
        assert_eq!(ended(client, &id).await.progress.acted, 1, "{verb}");
        reaches(client, &run, status).await;
        assert_eq!(actions(client, &run, &id).await, 1, "{verb}");
    }
    let id = run_id("op-4");
    client.begin_operation(&id, Spec { verb: Verb::Pause, ..retry("workflow = order") }).await.unwrap();
    let skipped = ended(client, &id).await.progress.skipped;
    assert_eq!(skipped["it is cancelled"].runs, [run]);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_plan_of_several_pages_reaches_every_run_once() {
    let scratch = Scratch::new();
    let shop = Shop::default();
    let engine = shop.engine(&scratch).await;
    let client = engine.client();
    // A page of the plan has 500 runs.
    let runs = start(&engine, 1_050, "a").await;
    shop.repair();
    let id = run_id("op-1");
    client.begin_operation(&id, retry("status = failed")).await.unwrap();
    let Progress { planned, handled, acted, outcome, .. } = ended(client, &id).await.progress;
    assert_eq!((planned, handled, acted, outcome), (1_050, 1_050, 1_050, Some(OperationEnd::Done)));
    for run in &runs {
        assert_eq!(actions(client, run, &id).await, 1, "{run}");
    }
    engine.shutdown().await;
}

#[tokio::test]
async fn a_target_that_was_pruned_since_the_plan_is_skipped() {
    let scratch = Scratch::new();
    let shop = Shop::default();
    let engine = shop.engine(&scratch).await;
    let client = engine.client();
    let runs = start(&engine, 2, "a").await;
    shop.repair();
    let id = run_id("op-1");
    // The operation sleeps for six seconds between two runs.
    let spec = Spec { rate: Some("10/m".parse().unwrap()), ..retry("status = failed") };
    client.begin_operation(&id, spec).await.unwrap();
    eventually("the first run", || async { client.operation(&id).await.unwrap().progress.acted == 1 }).await;
    let archive = open_archive(scratch.folder().join("archive").to_str().unwrap()).unwrap();
    let all =
        Retention { older_than: std::time::Duration::ZERO, statuses: vec![], workflow: None, limit: None };
    let plan = Pruner::new(client).plan(&all).await.unwrap();
    let pruned = Pruner::new(client).prune(&plan, &*archive, &By::default(), &mut |_| ()).await.unwrap();
    assert_eq!(pruned.pruned[0].run, runs[1], "{pruned:?}");
    let operation = ended(client, &id).await;
    let Progress { handled, acted, outcome, skipped, .. } = &operation.progress;
    assert_eq!((*handled, *acted, *outcome), (2, 1, Some(OperationEnd::Done)), "{operation:?}");
    assert_eq!(skipped.len(), 1, "{skipped:?}");
    assert_eq!((actions(client, &runs[0], &id).await, actions(client, &runs[1], &id).await), (1, 0));
    assert!(client.get(&runs[1]).await.unwrap().pruned.is_some());
    engine.shutdown().await;
}

#[tokio::test]
async fn failures_are_grouped_by_cause() {
    let scratch = Scratch::new();
    let shop = Shop::default();
    let engine = shop.engine(&scratch).await;
    let client = engine.client();
    start(&engine, 3, "a").await;
    start(&engine, 2, "broken").await;
    let found = client.failures(None).await.unwrap();
    let counts: Vec<u64> = found.groups.iter().map(|group| group.count).collect();
    assert_eq!((found.total, counts), (5, vec![3, 2]));
    let first = &found.groups[0];
    assert!(first.message.contains("bank refused order a-"), "{}", first.message);
    assert_eq!(first.step.as_ref().map(goldseam::Path::as_str), Some("charge"));
    assert!(first.workflows.contains("order@1") && first.first <= first.last);
    let condition = format!("cause = \"{}\"", first.cause.as_ref().unwrap());
    let spec = retry(&condition);
    let preview = client.preview_operation(&spec).await.unwrap();
    assert_eq!((preview.matched, preview.would_act), (3, 3));
    engine.shutdown().await;
}

#[tokio::test]
async fn bad_requests_begin_nothing() {
    let scratch = Scratch::new();
    let engine = Shop::default().engine(&scratch).await;
    let client = engine.client();
    for (spec, code) in [
        (retry("  "), "GS0145"),
        (retry("status ="), "GS0139"),
        (Spec { verb: Verb::Signal, ..retry("status = failed") }, "GS0145"),
        (
            Spec { verb: Verb::Cancel, canary: Some("1,all".parse().unwrap()), ..retry("status = failed") },
            "GS0148",
        ),
        (Spec { canary_timeout_ms: Some(5), ..retry("status = failed") }, "GS0148"),
    ] {
        let refused = client.begin_operation(&run_id("op-1"), spec.clone()).await.unwrap_err();
        assert_eq!(refused.code(), code, "{spec:?}");
    }
    assert!(client.get(&run_id("op-1")).await.is_err());
    let refused = scratch
        .builder()
        .await
        .workflow("goldseam.operation", |_: Context, (): ()| async { Ok::<_, Error>(()) });
    assert!(matches!(refused.start().await, Err(EngineError::Id(_))), "the name is reserved");
    engine.start("order", "a", &"a".to_owned()).await.unwrap();
    assert_eq!(client.operation(&run_id("a")).await.unwrap_err().code(), "GS0149");
    assert!(client.parse_condition("created > -2h").await.unwrap().to_string().contains("created > "));
    engine.shutdown().await;
}
