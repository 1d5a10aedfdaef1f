use goldseam_core::event::{StepCompleted, StepFailed};
use goldseam_core::task::{NewTask, TaskStep};
use goldseam_core::{
    BranchId, Failure, Hash, Payload, QueueName, Retry, RunId, Seq, Status, StepName, TaskId, WriteId,
};
use goldseam_store::faulty::{CallFault, FaultPlan, FaultyStore, StoreMethod};
use goldseam_store::{MemoryStore, Store};

use super::*;
use crate::engine::Engine;
use crate::ledger::clock::{Clock, SystemClock};
use crate::ledger::meter::tests::SumRecorder;
use crate::ledger::meter::{ATTEMPTS_EXCEEDED, Meter, NAMES_MAX, PAIRS_MAX, RECOVERIES};
use crate::ledger::workflow_error::{Error, Result};
use crate::run::attempt::Attempt;
use crate::run::context::Context;

fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(Arc::new(|| SystemClock.now())))
}

fn record(event: Event) -> Recorded {
    Recorded {
        seq: Seq(1),
        at: Millis(2_500),
        branch: BranchId::ROOT,
        epoch: None,
        write: WriteId::default(),
        prev: Hash::ZERO,
        bytes: 0,
        event,
    }
}

fn path(step: &str, key: Option<&str>) -> Path {
    let key = key.map(|key| StepName::new(key).unwrap());
    Path::root().child(&StepName::new(step).unwrap(), key.as_ref(), 1)
}

fn completed(path: Path) -> Recorded {
    record(Event::StepCompleted(StepCompleted {
        path,
        ord: 0,
        attempt: 1,
        began: Millis(1_000),
        output: Payload::null(),
        input: None,
        undo: false,
        group: false,
        fence: None,
    }))
}

fn failed(path: Path) -> Recorded {
    record(Event::StepFailed(StepFailed {
        path,
        ord: 0,
        attempt: 1,
        began: Millis(1_000),
        failure: Failure::retryable("x"),
        left: 0,
        input: None,
        group: false,
        fence: None,
        retry: None,
    }))
}

async fn checkout(ctx: Context, good: bool) -> Result<u32> {
    let charge = move |attempt: Attempt| async move {
        match attempt.number() {
            1 if good => Err(Error::retryable("busy")),
            _ => Ok(7),
        }
    };
    ctx.step_with("charge", charge).retry(Retry::fixed(Duration::ZERO)).await?;
    ctx.sleep("rest", Duration::from_millis(1)).await?;
    let () = ctx.signal("go").await?;
    match good {
        true => Ok(7),
        false => Err(Error::terminal("no")),
    }
}

/// Plays one run that completes and one that fails, and returns what was counted.
async fn played(store: Arc<dyn Store>) -> SumRecorder {
    let book = SumRecorder::default();
    let _guard = metrics::set_default_local_recorder(&book);
    let engine = Engine::builder(store).workflow("checkout", checkout).start().await.unwrap();
    for (id, good) in [("good", true), ("bad", false)] {
        let run = engine.start(checkout, id, &good).await.unwrap();
        run.wait_until(|run| run.status == Status::Waiting).await.unwrap();
        run.signal("go", &()).await.unwrap();
        assert_eq!(run.result().await.is_ok(), good);
    }
    engine.shutdown().await;
    book.clone()
}

const PLAYED: [(&str, f64); 12] = [
    ("goldseam_runs_started_total{workflow=checkout}", 2.0),
    ("goldseam_runs_ended_total{workflow=checkout,outcome=completed}", 1.0),
    ("goldseam_runs_ended_total{workflow=checkout,outcome=failed}", 1.0),
    ("goldseam_runs_ended_total{workflow=checkout,outcome=cancelled}", 0.0),
    ("goldseam_runs_parked_total{workflow=checkout}", 0.0),
    ("goldseam_step_attempts_total{workflow=checkout,step=charge,outcome=completed}", 2.0),
    ("goldseam_step_attempts_total{workflow=checkout,step=charge,outcome=failed}", 1.0),
    ("goldseam_step_attempts_total{workflow=checkout,step=charge,outcome=timed_out}", 0.0),
    ("goldseam_step_retries_total{workflow=checkout,step=charge}", 1.0),
    ("goldseam_waits_started_total{workflow=checkout,kind=signal}", 2.0),
    ("goldseam_waits_started_total{workflow=checkout,kind=timer}", 2.0),
    ("goldseam_live_waits{workflow=checkout,kind=signal}", 0.0),
];

#[tokio::test]
async fn runs_steps_and_waits_are_counted_once() {
    let book = played(store()).await;
    for (line, expected) in PLAYED {
        assert_eq!(book.get(line), Some(expected), "{line} in {book:#?}");
    }
    assert!(book.get("goldseam_step_seconds{workflow=checkout,step=charge}").is_some());
    let claimed = "goldseam_schedule_to_start_seconds{kind=run,workflow=checkout,queue=default}";
    assert!(book.get(claimed).is_some(), "{book:#?}");
}

#[tokio::test]
async fn appends_whose_replies_are_lost_are_counted_once() {
    let plan = FaultPlan::pass().every(StoreMethod::Append, CallFault::LoseReply);
    let book = played(Arc::new(FaultyStore::new(store(), plan))).await;
    for (line, expected) in PLAYED {
        assert_eq!(book.get(line), Some(expected), "{line} in {book:#?}");
    }
}

#[tokio::test]
async fn registered_workflows_have_zeros_from_the_start() {
    let book = SumRecorder::default();
    let _guard = metrics::set_default_local_recorder(&book);
    let builder = Engine::builder(store()).workflow("checkout", checkout).plan("checkout", ["charge"]);
    let engine = builder.start().await.unwrap();
    for line in [
        "goldseam_runs_started_total{workflow=checkout}",
        "goldseam_runs_ended_total{workflow=checkout,outcome=failed}",
        "goldseam_runs_parked_total{workflow=checkout}",
        "goldseam_step_attempts_total{workflow=checkout,step=charge,outcome=timed_out}",
        "goldseam_step_retries_total{workflow=checkout,step=charge}",
        "goldseam_waits_started_total{workflow=checkout,kind=question}",
        "goldseam_live_waits{workflow=checkout,kind=child}",
        "goldseam_recoveries_total{rule=O2,workflow=checkout,reason=infrastructure_restart}",
        "goldseam_recoveries_total{rule=L2,workflow=,reason=silent}",
        "goldseam_recovery_failed_total{rule=W1}",
        "goldseam_recovery_attempts_exceeded_total{workflow=checkout}",
        "goldseam_recovery_attempts_exceeded_total{workflow=}",
        "goldseam_entries_reclaimed_total{}",
        "goldseam_findings{rule=N1}",
    ] {
        assert_eq!(book.get(line), Some(0.0), "{line} in {book:#?}");
    }
    engine.shutdown().await;
}

#[test]
fn two_engines_of_a_process_add_up() {
    let book = SumRecorder::default();
    metrics::with_local_recorder(&book, || {
        let started = || record(Event::RunParked { code: "V1".to_owned(), reason: String::new() });
        let one = Meter::default();
        let two = Meter::default();
        one.work("w").committed(&[started()]);
        // The second engine starts later: its zeros reset nothing.
        two.announce();
        two.work("w").committed(&[started()]);
    });
    assert_eq!(book.get("goldseam_runs_parked_total{workflow=w}"), Some(2.0));
}

#[test]
fn a_recorder_installed_later_gets_zeros_and_later_events() {
    let book = SumRecorder::default();
    let meter = Meter::default();
    let work = meter.work("w");
    meter.announce();
    work.committed(&[completed(path("a", None))]);
    metrics::with_local_recorder(&book, || {
        meter.beaten();
        assert_eq!(book.get("goldseam_runs_started_total{workflow=w}"), Some(0.0), "{book:#?}");
        assert_eq!(book.get("goldseam_locks_cleaned_total{}"), Some(0.0));
        work.committed(&[completed(path("a", None))]);
    });
    let done = "goldseam_step_attempts_total{workflow=w,step=a,outcome=completed}";
    assert_eq!(book.get(done), Some(1.0), "{book:#?}");
    assert_eq!(book.get("goldseam_step_seconds{workflow=w,step=a}"), Some(1.5));
}

#[test]
fn an_attempt_that_timed_out_is_not_counted_as_failed() {
    let book = SumRecorder::default();
    let meter = Meter::default();
    let timeout = |path| record(Event::StepTimeout { path, attempt: 1, reason: "timeout".to_owned() });
    metrics::with_local_recorder(&book, || {
        let work = meter.work("w");
        work.committed(&[timeout(path("a", None)), failed(path("a", None)), failed(path("b", None))]);
    });
    let attempts = |step, outcome| {
        book.get(&format!("goldseam_step_attempts_total{{workflow=w,step={step},outcome={outcome}}}"))
    };
    assert_eq!((attempts("a", "timed_out"), attempts("a", "failed")), (Some(1.0), Some(0.0)));
    assert_eq!((attempts("b", "timed_out"), attempts("b", "failed")), (Some(0.0), Some(1.0)));
}

#[test]
fn ten_thousand_names_of_workflows_and_steps_make_few_labels() {
    let book = SumRecorder::default();
    let meter = Meter::default();
    metrics::with_local_recorder(&book, || {
        for n in 0..10_000 {
            meter.work(&format!("w-{n}")).committed(&[completed(path(&format!("s-{n}"), None))]);
            // Keys and counts are not part of a step's name.
            meter.work("w-0").committed(&[completed(path("keyed", Some(&format!("k-{n}"))))]);
        }
        for n in 0..10_000 {
            meter.work("w-1").committed(&[completed(path(&format!("t-{n}"), None))]);
        }
    });
    assert_eq!(book.all(RUNS_STARTED).len(), NAMES_MAX + 1);
    assert_eq!(book.all(ATTEMPTS_EXCEEDED).len(), NAMES_MAX + 1);
    assert_eq!(book.all(RECOVERIES).len(), 2 * (NAMES_MAX + 1));
    let steps = book.all(STEP_SECONDS);
    assert!(steps.len() <= PAIRS_MAX + NAMES_MAX + 1, "{}", steps.len());
    assert_eq!(steps.iter().map(|(_, sum)| sum).sum::<f64>(), 45_000.0, "no step is left out");
    assert_eq!(book.get("goldseam_step_seconds{workflow=w-0,step=keyed}"), Some(15_000.0));
}

#[test]
fn the_delay_of_a_task_begins_when_it_is_due_or_reclaimed() {
    let new = NewTask {
        id: TaskId::new("t").unwrap(),
        kind: "mail".to_owned(),
        queue: QueueName::new("post").unwrap(),
        lane: None,
        priority: 0,
        key: None,
        run_at: Millis(3_000),
        payload: Payload::null(),
        attempts_max: 1,
        silence_max: None,
    };
    let task = new.into_task(Millis(1_000)).claimed("w", Millis(5_000));
    assert_eq!(waited(&task), Duration::from_secs(2));
    let again = task.reclaimed("gone", 3, Millis(60_000)).claimed("w", Millis(61_000));
    assert_eq!(waited(&again), Duration::from_secs(1));
    let book = SumRecorder::default();
    metrics::with_local_recorder(&book, || {
        let meter = Meter::of(Some("shop".to_owned()));
        meter.task_claimed(&again);
        let step = TaskStep { path: path("a", None), attempt: 1, key: "k".to_owned(), trace: None };
        let run = Some(RunId::new("r").unwrap());
        meter.task_claimed(&Task { step: Some(step), run, ..again.clone() });
    });
    for kind in ["task", "remote_step"] {
        let line =
            format!("goldseam_schedule_to_start_seconds{{kind={kind},workflow=,queue=post,namespace=shop}}");
        assert_eq!(book.get(&line), Some(1.0), "{book:#?}");
    }
}
