//! Workers that crash during a run.

use goldseam::unstable::core::Event;
use goldseam::unstable::core::event::{Cause, RunClaimed};
use rustix::process::Signal;

use super::points;
use super::story::{RUN, Story, each};
use crate::support::eventually;

fn claims(story: &Story, run: &str) -> Vec<RunClaimed> {
    let claim = |event| match event {
        Event::RunClaimed(claimed) => Some(claimed),
        _ => None,
    };
    story.history(run).into_iter().filter_map(|recorded| claim(recorded.event)).collect()
}

/// A worker crashes at each point of a row, and another one continues.
fn survived(row: &str) {
    each(points(row), |story, point| {
        story.begin();
        let moment = story.dies_at(point);
        story.goes_on_after(&moment);
    });
}

#[test]
fn c02_another_worker_claims_the_run_and_counts_the_attempt() {
    each(points("C2"), |story, point| {
        story.begin();
        let moment = story.dies_at(point);
        let before = claims(story, RUN).len();
        assert_eq!(before, usize::from(point == "append:run.claimed:after"), "{point}");
        story.goes_on_after(&moment);
        let claims = claims(story, RUN);
        if before == 1 {
            assert_eq!((claims[0].attempt, claims[1].attempt), (0, 1), "{point}");
            assert_eq!(claims[1].cause, Cause::Recovery);
        } else {
            assert_eq!(claims[0].cause, Cause::Start, "{point}: no worker claimed it before");
        }
    });
}

#[test]
fn c03_a_started_step_begins_again_and_counts_an_attempt() {
    each(points("C3"), |story, point| {
        // Only the start of a long step is appended separately.
        story.begin_as(RUN, 1_200);
        story.dies_at(point);
        assert_eq!(story.count(RUN, "step.started"), usize::from(point.contains(":after")), "{point}");
        let _worker = story.worker();
        eventually("the step begins again", || (story.begins("reserve") == 2).then_some(()));
        let lines = story.witnessed();
        assert!(lines.iter().all(|line| line.key == lines[0].key), "with the same key");
        assert_eq!(claims(story, RUN).last().unwrap().attempt, 1, "{point}");
    });
}

#[test]
fn c04_an_interrupted_step_begins_again_with_the_same_key() {
    each(points("C4"), |story, _| {
        story.begin_as(RUN, 150);
        let mut worker = story.worker();
        eventually("the step begins", || (story.begins("reserve") == 1).then_some(()));
        story.kill(&mut worker.0, Signal::KILL);
        let moment = story.moment();
        story.goes_on_after(&moment);
        assert_eq!(story.begins("reserve"), 2);
    });
}

#[test]
fn c05_an_unrecorded_step_runs_again_with_the_same_key() {
    each(points("C5"), |story, point| {
        story.begin();
        let moment = story.dies_at(point);
        story.goes_on_after(&moment);
        let begun = story.witnessed().iter().filter(|line| !line.ended).count();
        assert!(begun > 6, "{point}: a step runs again");
    });
}

#[test]
fn c06_a_recorded_step_never_runs_again() {
    survived("C6");
}

#[test]
fn c07_retries_and_timers_continue_from_the_log() {
    survived("C7");
}

#[test]
fn c08_the_end_is_appended_with_the_last_step() {
    each(points("C8"), |story, point| {
        story.begin();
        let moment = story.dies_at(point);
        let is_done = story.count(RUN, "run.completed") == 1;
        assert_eq!(is_done, point.ends_with("after"));
        story.goes_on_after(&moment);
        assert_eq!(story.begins("ship"), if is_done { 1 } else { 2 }, "{point}");
    });
}

#[test]
fn c09_a_question_is_asked_once() {
    each(&[points("C9"), points("C9 resumed")].concat(), |story, point| {
        story.begin();
        let moment = story.dies_at(point);
        story.goes_on_after(&moment);
        for name in ["input.requested", "input.answered"] {
            assert_eq!(story.count(RUN, name), 1, "{point}: {name}");
        }
    });
}

#[test]
fn c12_a_timer_fires_once_and_not_early() {
    each(points("C12"), |story, point| {
        story.begin();
        let moment = story.dies_at(point);
        story.goes_on_after(&moment);
        let history = story.history(RUN);
        let fired: Vec<_> =
            history.iter().filter(|recorded| matches!(recorded.event, Event::TimerFired { .. })).collect();
        assert_eq!(fired.len(), 1, "{point}");
        let due = history.iter().find_map(|recorded| match recorded.event {
            Event::TimerSet { due, .. } => Some(due),
            _ => None,
        });
        assert!(fired[0].at >= due.unwrap(), "{point}");
    });
}

#[test]
fn c13_compensation_continues_where_it_stopped() {
    each(points("C13"), |story, point| {
        story.declines();
        story.begin();
        let moment = story.dies_at(point);
        story.goes_on_after(&moment);
    });
}

#[test]
fn c14_runs_of_a_node_that_crashes_at_its_beat_are_taken_over() {
    each(points("C14"), |story, point| {
        story.begin_as(RUN, 60);
        let moment = story.dies_at(point);
        story.goes_on_after(&moment);
    });
}

#[test]
fn c16_recovery_survives_repeated_crashes() {
    each(points("C16"), |story, point| {
        for number in 1..=4 {
            story.begin_as(&format!("r-{number}"), 40);
        }
        story.dies_at("append:step.completed:after:1");
        story.dies_at(point);
        for _ in 0..3 {
            story.dies_at("append:run.claimed:after:1");
        }
        let moment = story.moment();
        story.goes_on_after(&moment);
        let most = (1..=4).map(|number| claims(story, &format!("r-{number}")).len()).max();
        assert!(most >= Some(3), "{point}: claims are counted");
    });
}

#[test]
fn c20_a_killed_shutdown_strands_no_run() {
    each(points("C20"), |story, point| {
        story.begin_as(RUN, 100);
        let mut worker = story.doomed(point);
        eventually("the step begins", || (story.begins("reserve") == 1).then_some(()));
        story.kill(&mut worker.0, Signal::TERM);
        story.death(&mut worker.0, point);
        let moment = story.moment();
        story.goes_on_after(&moment);
    });
}
