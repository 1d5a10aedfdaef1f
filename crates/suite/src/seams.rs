//! Rules that cut the log: the row and the log disagree, or a writer wrote only half of a change.

use std::time::Duration;

use goldseam_core::event::{JumpRequested, Note, StepFailed};
use goldseam_core::{Event, Failure, Payload, Status};

use super::Fixture;
use super::harness::{EffectCounter, Harness, id, path};
use goldseam_engine::Error;
use goldseam_engine::client::By;
use goldseam_engine::ledger::config::Recovery;
use goldseam_engine::run::context::Context;

/// A1
pub async fn a1_wait_missing_in_the_log_is_cut_off(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.between_steps("r").await;
    harness.lie("r", |row| row.status = Status::Waiting).await;
    assert_eq!(harness.look().await.findings[0].code.to_string(), "A1");
    let checkup = harness.fix().await;
    assert_eq!(checkup.healed, 1, "{checkup:?}");
    assert!(harness.names("r").await.ends_with(&["branch.opened".to_owned(), "run.recovered".to_owned()]));
    let engine = harness.two_steps_open().await;
    assert_eq!(harness.result::<u32>("r").await, 2);
    assert_eq!(harness.witness.count("a"), 1, "a completed step never runs again");
    engine.shutdown().await;
}

/// A1 while a node starts: the task of the dead owner and the task that the seam creates lead to one execution.
pub async fn a1_at_start_up_begins_the_open_step_once(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let runs: Vec<String> = (0..4).map(|n| format!("r{n}")).collect();
    let engine = harness.two_steps().await;
    for run in &runs {
        engine.start("two", run, &false).await.unwrap();
    }
    for run in &runs {
        harness.has_event(run, "step.completed").await;
    }
    engine.crash();
    for run in &runs {
        harness.lie(run, |row| row.status = Status::Waiting).await;
    }
    let begun = EffectCounter::default();
    let seen = begun.clone();
    let work = move |ctx: Context, _: bool| {
        let seen = seen.clone();
        async move {
            let run = ctx.run_id().to_string();
            ctx.step("a", || async { Ok::<u32, Error>(seen.saw("a")) }).await?;
            ctx.step("b", || async {
                seen.saw(&run);
                tokio::time::sleep(Duration::from_millis(200)).await;
                Ok::<u32, Error>(1)
            })
            .await
        }
    };
    let sweeps = harness.builder_like(Recovery::default(), Some(Duration::from_secs(1)));
    let engine = sweeps.workflow("two", work).plan("two", ["a", "b"]).start().await.unwrap();
    for run in &runs {
        assert_eq!(harness.result::<u32>(run).await, 1);
        assert_eq!(begun.count(run), 1, "{run}: {:?}", harness.names(run).await);
    }
    assert_eq!(begun.count("a"), 0, "a completed step never runs again");
    engine.shutdown().await;
}

/// A1 without a stable event.
pub async fn a1_without_a_stable_event_the_run_is_parked(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.at_rest("r", "\"60000\"", Status::Sleeping).await;
    // The sleep has ended in the log, and no step was ever completed.
    harness.forge("r", vec![Event::TimerFired { path: path("nap") }]).await;
    harness.lie("r", |row| row.status = Status::Waiting).await;
    harness.fix().await;
    let summary = harness.client.get(&id("r")).await.unwrap();
    assert_eq!(summary.status, Status::Parked);
    assert_eq!(summary.trouble.unwrap().message, "no stable event found");
}

/// A2
pub async fn a2_a_hidden_question_is_asked_again_and_the_old_answer_counts(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.at_the_question("r").await;
    harness.lie("r", |row| row.status = Status::Running).await;
    let checkup = harness.fix().await;
    assert_eq!((checkup.findings[0].code.to_string().as_str(), checkup.healed), ("A2", 1));
    let answer = Payload::parse("\"yes\"", &goldseam_core::Limits::default()).unwrap();
    harness.client.answer(&id("r"), &path("approve"), answer, By::default()).await.unwrap();
    let engine = harness.asking().await;
    assert_eq!(harness.result::<String>("r").await, "yes");
    assert_eq!((harness.witness.count("a"), harness.witness.count("c")), (1, 1));
    engine.shutdown().await;
}

/// A3
pub async fn a3_run_with_all_steps_done_ends(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.between_steps("r").await;
    let state = harness.client.state(&id("r")).await.unwrap();
    let done = goldseam_core::event::StepCompleted {
        path: path("b"),
        ord: 1,
        attempt: 1,
        began: state.summary.last_event_at,
        output: Payload::parse("1", &goldseam_core::Limits::default()).unwrap(),
        input: None,
        undo: false,
        group: false,
        fence: None,
    };
    harness.forge("r", vec![Event::StepCompleted(done)]).await;
    harness.lie("r", |row| row.status = Status::Running).await;
    let seen = harness.witness.count("b");
    let checkup = harness.fix().await;
    assert_eq!((checkup.findings[0].code.to_string().as_str(), checkup.healed), ("A3", 1));
    let engine = harness.two_steps_open().await;
    assert_eq!(harness.result::<u32>("r").await, 2);
    assert_eq!((harness.witness.count("a"), harness.witness.count("b")), (1, seen), "no step runs again");
    engine.shutdown().await;
}

async fn failed_step(harness: &Harness<'_>, failure: Failure, left: u32) {
    harness.between_steps("r").await;
    let began = harness.client.get(&id("r")).await.unwrap().last_event_at;
    let input = None;
    let group = false;
    let fence = None;
    let retry = None;
    let failed =
        StepFailed { path: path("b"), ord: 1, attempt: 1, began, failure, left, input, group, fence, retry };
    harness.forge("r", vec![Event::StepFailed(failed)]).await;
}

/// A4
pub async fn a4_failed_step_with_attempts_left_is_retried(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    failed_step(&harness, Failure::retryable("no luck"), 2).await;
    let checkup = harness.fix().await;
    assert_eq!((checkup.findings[0].code.to_string().as_str(), checkup.healed), ("A4", 1));
    let engine = harness.two_steps_open().await;
    assert_eq!(harness.result::<u32>("r").await, 2);
    engine.shutdown().await;
}

/// A4 without attempts left: the run handles the failure as usual.
pub async fn a4_failed_step_without_attempts_fails_the_run(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    failed_step(&harness, Failure::terminal("card declined"), 0).await;
    let task = harness.task("r").await.unwrap();
    harness.damage().lose_task(&task.id).await;
    let checkup = harness.fix().await;
    assert_eq!((checkup.findings[0].code.to_string().as_str(), checkup.healed), ("A4", 1));
    let engine = harness.two_steps_open().await;
    harness.reaches("r", Status::Failed).await;
    let trouble = harness.client.get(&id("r")).await.unwrap().trouble.unwrap();
    assert_eq!(trouble.message, "step b failed: card declined");
    engine.shutdown().await;
}

fn half_a_jump() -> Event {
    let note = Note { id: "j1".to_owned(), by: None, reason: String::new() };
    Event::JumpRequested(JumpRequested {
        note,
        to: path("a"),
        input: None,
        drop_mail: false,
        compensate: false,
    })
}

/// D2
pub async fn d2_half_a_jump_is_cut_off(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.between_steps("r").await;
    harness.forge("r", vec![half_a_jump()]).await;
    let checkup = harness.fix().await;
    assert_eq!((checkup.findings[0].code.to_string().as_str(), checkup.healed), ("D2", 1));
    assert!(harness.look().await.findings.is_empty() || !harness.codes().await.contains(&"D2".to_owned()));
    let engine = harness.two_steps_open().await;
    assert_eq!(harness.result::<u32>("r").await, 2);
    assert_eq!(harness.witness.count("a"), 1);
    engine.shutdown().await;
}

/// D2 at the claim: no sweep is needed.
pub async fn d2_is_healed_by_the_claimant(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.between_steps("r").await;
    harness.forge("r", vec![half_a_jump()]).await;
    let engine = harness.two_steps_open().await;
    assert_eq!(harness.result::<u32>("r").await, 2);
    assert_eq!((harness.rules("r").await, harness.witness.count("a")), (vec!["D2".to_owned()], 1));
    engine.shutdown().await;
}

/// An operator can return to both sides of a seam.
pub async fn a_seam_can_be_undone(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.at_the_question("r").await;
    harness.lie("r", |row| row.status = Status::Running).await;
    harness.fix().await;
    let before = harness.names("r").await.len();
    harness.client.undo_recovery(&id("r"), By::default()).await.unwrap();
    let summary = harness.client.get(&id("r")).await.unwrap();
    assert_eq!((summary.status, summary.branch.0), (Status::Waiting, 3));
    assert_eq!(harness.names("r").await.len(), before + 2, "nothing is deleted");
    let answer = Payload::parse("\"yes\"", &goldseam_core::Limits::default()).unwrap();
    harness.client.answer(&id("r"), &path("approve"), answer, By::default()).await.unwrap();
    let engine = harness.asking().await;
    assert_eq!(harness.result::<String>("r").await, "yes");
    engine.shutdown().await;
}

/// A reset repeats unsettled work, keeps settled work, and records a note with author and reason.
pub async fn a_reset_runs_the_open_step_again(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.between_steps("r").await;
    let by = By { who: Some("ada".into()), reason: "it hung".into(), ..By::default() };
    harness.client.reset(&id("r"), by).await.unwrap();
    assert!(harness.names("r").await.contains(&"note.added".to_owned()));
    let summary = harness.client.get(&id("r")).await.unwrap();
    assert_eq!((summary.branch.0, summary.owner), (2, None));
    let engine = harness.two_steps_open().await;
    assert_eq!(harness.result::<u32>("r").await, 2);
    assert_eq!(harness.witness.count("a"), 1);
    engine.shutdown().await;
}
