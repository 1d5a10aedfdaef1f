//! Crash blame: who is charged, how suspects are admitted, and what P1 does.

use super::*;
use crate::command::{Claim, Lost, Starter};
use crate::event::{Cause, StepStarted, WaitStarted};
use crate::testing::{claim, signal};

const PARK: Bounds = Bounds { attempts_max: 3, park: true };
const FAIL: Bounds = Bounds { attempts_max: 3, park: false };

pub(super) fn take_over(by: &str, from: &str, lived: Lived, alone: bool) -> Command {
    let lost = Lost { node: node(from), proven: true, evidence: "its process is gone".into(), lived };
    Command::Claim(Claim { lost: Some(lost), alone, ..Claim::by(node(by)) })
}

pub(super) fn span(ms: u64) -> Lived {
    let least = Duration::from_millis(ms);
    let most = Duration::from_millis(ms + 1);
    Lived { least, most, ..Lived::default() }
}

/// Lets the owner die as often as `alone` has entries; each entry says how the next owner admits the run.
fn dies(mut log: Log, alone: &[bool]) -> Log {
    for alone in alone {
        let owner = log.state().summary.owner.clone().unwrap();
        let next = format!("{owner}x");
        log = log.act(take_over(&next, owner.as_str(), span(100), *alone));
    }
    log
}

fn paces(log: &Log, attempts_max: u32) -> Pace {
    pace(&log.state().summary, span(100), Bounds { attempts_max, park: true })
}

fn waits() -> Log {
    let wanted = WaitStarted { signals: vec![crate::SignalName::new("go").unwrap()], ..a_wait("go") };
    Log::running().owned(vec![Owned::Wait { wanted, ask: None }])
}

fn a_wait(name: &str) -> WaitStarted {
    let signals = Vec::new();
    let inputs = Vec::new();
    let children = Vec::new();
    WaitStarted {
        path: path(name),
        ord: 0,
        signals,
        inputs,
        children,
        due: None,
        schemas: Default::default(),
    }
}

fn starts(name: &str, ord: u32) -> Owned {
    Owned::StepStarted(StepStarted { path: path(name), ord, attempt: 1, input: None, remote: None })
}

#[test]
fn a_run_is_stopped_after_exactly_as_many_recoveries_as_allowed() {
    for (most, expected) in [
        (1, vec![Pace::Alone, Pace::Never]),
        (2, vec![Pace::Crowd, Pace::Alone, Pace::Never]),
        (3, vec![Pace::Crowd, Pace::Cohort, Pace::Alone, Pace::Never]),
        (4, vec![Pace::Crowd, Pace::Cohort, Pace::Cohort, Pace::Alone, Pace::Never]),
    ] {
        let policy = Policy { attempts_max: most, ..Policy::default() };
        let claimed = Starter { node: node("n"), recovery: Some(policy) };
        let mut log = Log::new("r1").act(Command::Start { queued: order("{}"), claim: Some(claimed) });
        let mut seen = Vec::new();
        for _ in 0..=most {
            seen.push(paces(&log, most));
            if seen.last() != Some(&Pace::Never) {
                let alone = seen.last() == Some(&Pace::Alone);
                log = dies(log, &[alone]);
            }
        }
        assert_eq!((seen, log.state().summary.attempt), (expected, most), "{most}");
    }
}

#[test]
fn crashes_beside_other_runs_are_not_decisive() {
    let log = dies(Log::running(), &[false; 9]);
    let summary = &log.state().summary;
    assert_eq!((summary.attempt, paces(&log, 3)), (2, Pace::Alone));
    let alone = dies(log, &[true]);
    assert_eq!((alone.state().summary.attempt, paces(&alone, 3)), (3, Pace::Never));
    let in_company_again = dies(alone, &[false]);
    assert_eq!(paces(&in_company_again, 3), Pace::Alone);
}

#[test]
fn a_run_that_only_waits_is_never_charged() {
    let asleep =
        Log::running().owned(vec![Owned::Sleep { path: path("nap"), ord: 0, due: Millis(9_000_000) }]);
    for log in [waits(), asleep] {
        assert!(!was_executing(&log.state().summary));
        let log = dies(log, &[false]);
        assert_eq!((log.state().summary.attempt, log.state().summary.recoveries), (0, 1));
        let lingers = log.released(Release::Unload).claimed("n-7");
        let log = dies(lingers, &[false]);
        assert_eq!((log.state().summary.attempt, paces(&log, 1)), (0, Pace::Alone), "its new owner keeps it");
    }
}

#[test]
fn a_step_beside_a_wait_is_charged() {
    let log = waits().owned(vec![starts("work", 1)]);
    assert!(was_executing(&log.state().summary));
    let log = dies(log, &[false]);
    assert_eq!(log.state().summary.attempt, 1);
    assert!(log.state().summary.under_way.is_empty(), "the new owner has begun nothing yet");
}

#[test]
fn a_waiting_run_that_its_new_owner_keeps_is_charged() {
    // Workflow code in another arm leaves no event: the log shows only the wait.
    let log = dies(waits(), &[false]);
    assert!(was_executing(&log.state().summary));
    let moved = log.clone().act(signal("go", "s1")).owned(vec![Owned::Check(path("go"))]);
    assert_eq!(moved.state().summary.lived_ms, None, "a wait that ended is progress");
}

#[test]
fn every_append_of_the_owner_except_a_start_is_progress() {
    let due = Millis(9_000_000);
    let none = None;
    let retry =
        |log: &Log| Owned::StepFailed { failed: log.failure("a"), retry_at: Some(due), timeout: none };
    let log = dies(Log::running(), &[false, false]);
    let appended = [
        retry(&log),
        Owned::Sleep { path: path("nap"), ord: 0, due },
        Owned::Wait { wanted: a_wait("go"), ask: None },
        Owned::Progress { path: path("p"), ord: 0, message: "half".into() },
    ];
    for doing in appended {
        let summary = log.clone().owned(vec![doing.clone()]).state().summary.clone();
        assert_eq!((summary.attempt, summary.alone, summary.lived_ms), (0, false, None), "{doing:?}");
    }
    let started = log.owned(vec![starts("a", 0)]);
    assert_eq!(started.state().summary.attempt, 2, "an attempt that crashes begins again and again");
}

#[test]
fn events_of_a_healer_are_not_progress() {
    let case = Case::resting(failed_with(2), Queue::Ready);
    let retry = case.heal(0);
    let log = case.log.clone().claimed("n-1");
    assert_eq!(log.state().summary.attempt, 0);
    let charged = dies(log, &[false]).released(Release::HandOver);
    let at = charged.end();
    let Command::Heal(heal) = retry else { panic!("a heal") };
    let healed = charged.act(Command::Heal(Heal { at, ..heal }));
    assert_eq!(healed.state().summary.attempt, 1);
}

#[test]
fn a_run_that_outlives_its_last_crash_twice_is_not_counted() {
    let log = dies(Log::running(), &[false]);
    let summary = &log.state().summary;
    assert_eq!((summary.attempt, summary.lived_ms), (1, Some(101)));
    let next = |lived| next_attempt(summary, lived, PARK, false);
    assert_eq!(next(span(202)), 2, "exactly twice proves nothing");
    assert_eq!(next(span(203)), 1);
    let doubted = |ms| Lived { doubt: Duration::from_millis(50), ..span(ms) };
    assert_eq!((next(doubted(250)), next(doubted(253))), (2, 1));
    assert_eq!(probation(doubted(101)), Duration::from_millis(254));
}

#[test]
fn a_control_outlasts_the_crash_and_the_lost_process() {
    let doubt = Duration::from_millis(1_000);
    let lived = |process_s| Lived { doubt, process: Duration::from_secs(process_s), ..span(499) };
    let wait = |pace, process_s| control(lived(process_s), pace).as_millis();
    assert_eq!((wait(Pace::Crowd, 9), wait(Pace::Cohort, 9)), (0, 2_000));
    assert_eq!(
        [0, 4, 5, 15, 30, 9_999].map(|s| wait(Pace::Alone, s)),
        [16_000, 16_000, 20_000, 60_000, 60_000, 60_000]
    );
}

#[test]
fn p1_parks_with_the_step_that_was_under_way() {
    let log = dies(Log::running().completed("a"), &[false, false, true]).owned(vec![starts("charge", 1)]);
    let gone = Owner::Lost { proven: true, evidence: "its process is gone".into(), lived: span(100) };
    let case = Case { owner: gone, ..Case::healthy(log) };
    assert_eq!(case.codes()[0], Code::P1);
    let parked = case.log.clone().act(case.heal(0));
    assert_eq!(parked.status(), Status::Parked);
    let trouble = parked.state().summary.trouble.clone().unwrap();
    assert_eq!(trouble.code.as_deref(), Some("P1"));
    assert!(trouble.message.starts_with("recovery failed after 3 attempts: the worker died"), "{trouble:?}");
    assert!(trouble.message.ends_with("executing only this run, in step charge"), "{trouble:?}");
}

#[test]
fn the_log_tells_where_a_suspect_died() {
    let started = |steps: &[&str]| {
        let doings = steps.iter().enumerate().map(|(n, step)| starts(step, u32::try_from(n).unwrap()));
        Log::running().owned(doings.collect())
    };
    let undoing = undoable().owned(vec![Owned::UndoStarted { path: path("a"), failure: None }]);
    for (log, words) in [
        (Log::running(), "in workflow code before its first step"),
        (Log::running().completed("a"), "in workflow code after step a"),
        (started(&["b"]), "in step b"),
        (started(&["b", "c"]), "in one of the steps b, c"),
        (undoing, "while undoing step a"),
    ] {
        assert_eq!(suspected(&log.state().summary), words);
    }
}

/// Returns a run with a step that has a compensation.
fn undoable() -> Log {
    let log = Log::running();
    let completed = crate::event::StepCompleted { undo: true, ..log.completion("a") };
    log.owned(vec![Owned::StepCompleted(completed)])
}

fn stopped(log: &Log, bounds: Bounds) -> Command {
    let summary = &log.state().summary;
    let remedy = used_up(summary, bounds);
    let healer = Healer { node: Some(node("n-9")), reason: Reason::InfrastructureRestart };
    let evidence = seen_of(summary);
    Command::Heal(Heal { rule: Code::P1, evidence, remedy, at: log.end(), healer, note: None })
}

#[test]
fn a_fail_policy_fails_a_run_without_compensations() {
    let log = dies(Log::running(), &[false, false, true]);
    let ended = log.clone().act(stopped(&log, FAIL));
    assert_eq!(ended.status(), Status::Failed);
    assert_eq!(ended.state().summary.trouble.as_ref().unwrap().message, "recovery failed after 3 attempts");
}

#[test]
fn a_fail_policy_compensates_first_and_alone() {
    let log = dies(undoable(), &[false, false, true]);
    let command = stopped(&log, FAIL);
    assert_eq!(log.ask(&command).unwrap().task, TaskMove::Renew(log.now));
    let log = log.act(command);
    assert_eq!(
        (log.status(), log.names().last().copied()),
        (Status::Compensating, Some("compensation.started"))
    );
    assert_eq!(log.state().failure.as_ref().unwrap().code.as_deref(), Some("P1"));
    assert_eq!(paces(&log, 3), Pace::Alone, "the lost owner still owns it, so it is admitted alone");
    let undoing = dies(log, &[true]);
    assert_eq!((undoing.state().summary.attempt, paces(&undoing, 3)), (3, Pace::Never));
    assert!(
        matches!(used_up(&undoing.state().summary, FAIL), Remedy::Park { .. }),
        "compensating crashes, too"
    );
    let undone = undoing.owned(vec![Owned::UndoCompleted(path("a"))]);
    assert_eq!(undone.state().summary.attempt, 0);
}

#[test]
fn a_claim_records_a_policy_that_differs() {
    let own = Policy { attempts_max: 9, ..Policy::default() };
    let by = |by: &str, recovery| match claim(by) {
        Command::Claim(claim) => Command::Claim(Claim { recovery, ..claim }),
        other => other,
    };
    let says = |log: &Log| {
        let mut claims = log.records.iter().filter_map(|recorded| match &recorded.event {
            Event::RunClaimed(claim) if claim.cause != Cause::Recovery => Some(claim.recovery),
            _ => None,
        });
        claims.next_back().flatten()
    };
    let queued = || Log::new("r1").act(Command::Start { queued: order("{}"), claim: None });
    let default = queued().act(by("n-1", Some(Policy::default())));
    assert_eq!((says(&default), default.state().summary.recovery), (None, None));
    let other = queued().act(by("n-1", Some(own)));
    assert_eq!((says(&other), other.state().summary.recovery), (Some(own), Some(own)));
    let same = other.clone().released(Release::HandOver).act(by("n-2", Some(own)));
    assert_eq!((says(&same), same.state().summary.recovery), (None, Some(own)));
    let silent = other.clone().released(Release::HandOver).act(by("n-2", None));
    assert_eq!(silent.state().summary.recovery, Some(own));
    let back = other.released(Release::HandOver).act(by("n-2", Some(Policy::default())));
    assert_eq!(back.state().summary.recovery, Some(Policy::default()));
    assert_eq!(Policy::of(&back.state().summary, own), Policy::default());
}
