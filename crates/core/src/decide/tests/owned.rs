//! Actions of an owner, alone and several in one append.

use crate::command::{Command, Doing, Owned};
use crate::decide::{Refusal, TaskMove, TooLong};
use crate::event::{By, Event, Release, StepStarted, WaitStarted};
use crate::form::Form;
use crate::state::{Found, Mail, OpKind};
use crate::summary::Status;
use crate::testing::*;
use crate::time::{Millis, Seq};

fn refused(log: &Log, doings: Vec<Owned>) -> Refusal {
    log.ask(&log.by_owner(doings)).unwrap_err()
}

fn resolved_by(log: &Log) -> Vec<(String, By)> {
    let found = log.records.iter().filter_map(|recorded| match &recorded.event {
        Event::WaitResolved { path, by } => Some((path.to_string(), *by)),
        _ => None,
    });
    found.collect()
}

#[test]
fn an_old_owner_is_fenced_on_every_retry() {
    let mut log = Log::running();
    let zombie = log.by_owner(vec![Owned::StepCompleted(log.completion("charge"))]);
    let takeovers = [
        take_over("n-2", "n-1", true),
        signal("go", "s1"),
        Command::Pause(note("p1")),
        Command::Resume(note("r1")),
        take_over("n-1", "n-2", true),
    ];
    for command in takeovers {
        log = log.act(command);
        assert_eq!(log.ask(&zombie), Err(Refusal::Fenced), "the same node under an old epoch, too");
    }
    let released = Log::running().released(Release::HandOver);
    assert_eq!(released.ask(&zombie), Err(Refusal::Fenced), "a released run has no owner");
    let log = Log::running().completed("reserve").act(Command::Jump(jump_to("j1", "reserve")));
    assert_eq!(log.ask(&zombie), Err(Refusal::Fenced), "its branch was left");
}

#[test]
fn an_owner_cannot_record_a_completed_step_again() {
    let log = Log::running().completed("charge").failed("ship", None);
    let again = |step: &str| {
        let started = StepStarted { path: path(step), ord: 0, attempt: 9, input: None, remote: None };
        let failed = Owned::StepFailed { failed: log.failure(step), retry_at: None, timeout: None };
        [Owned::StepCompleted(log.completion(step)), Owned::StepStarted(started), failed]
    };
    for doing in again("charge").into_iter().chain(again("ship")) {
        assert_eq!(refused(&log, vec![doing.clone()]), Refusal::Fenced, "{doing:?}");
    }
}

#[test]
fn one_append_cannot_record_a_step_twice_either() {
    let log = Log::running();
    let done = || Owned::StepCompleted(log.completion("charge"));
    assert_eq!(refused(&log, vec![done(), done()]), Refusal::Fenced);
}

#[test]
fn an_abandoned_attempt_cannot_report() {
    let log = Log::running().started("charge", 1).started("charge", 2);
    assert_eq!(refused(&log, vec![Owned::StepCompleted(log.completion("charge"))]), Refusal::Fenced);
    let log = Log::running().failed("charge", Some(Millis(9_000)));
    assert_eq!(log.status(), Status::Sleeping);
    assert_eq!(refused(&log, vec![Owned::StepCompleted(log.completion("charge"))]), Refusal::Fenced);
    let second = crate::event::StepCompleted { attempt: 2, ..log.completion("charge") };
    assert_eq!(log.owned(vec![Owned::StepCompleted(second)]).status(), Status::Running);
}

#[test]
fn a_signal_before_the_wait_is_buffered() {
    let log = Log::running().signalled("go", "s1").completed("reserve").waits("w", &["go"]);
    assert_eq!(log.names()[5..], ["wait.started", "wait.resolved"]);
    assert_eq!((log.status(), log.state().unread.len()), (Status::Running, 0));
}

#[test]
fn signals_are_delivered_in_order_once() {
    let mut log = Log::running().signalled("go", "s1").signalled("other", "s2").signalled("go", "s3");
    for wait in ["w", "w#2", "w#3"] {
        log = log.waits(wait, &["go"]);
    }
    assert_eq!(resolved_by(&log), [("w".to_owned(), By::Mail(Seq(4))), ("w#2".to_owned(), By::Mail(Seq(6)))]);
    let OpKind::Wait(wait) = &log.state().ops[&path("w#2")].kind else { panic!("not a wait") };
    let Some(Found::Mail(Mail::Signal { payload, .. })) = &wait.found else { panic!("nothing found") };
    assert_eq!(payload.as_str(), "\"s3\"");
    assert_eq!(log.status(), Status::Waiting);
    let log = log.signalled("go", "s4").checks("w#3").checks("w#3");
    assert_eq!(resolved_by(&log).len(), 3, "a second check finds nothing");
}

#[test]
fn two_arms_never_take_the_same_mail() {
    let log = Log::running().waits("a/w", &["go"]).waits("b/w", &["go"]).signalled("go", "s1");
    let both = || vec![Owned::Check(path("a/w")), Owned::Check(path("b/w"))];
    let log = log.owned(both());
    assert_eq!(resolved_by(&log), [("a/w".to_owned(), By::Mail(Seq(6)))]);
    let log = log.signalled("go", "s2").owned(both());
    assert_eq!(resolved_by(&log)[1..], [("b/w".to_owned(), By::Mail(Seq(8)))]);
}

#[test]
fn a_wait_takes_no_second_message() {
    let log = Log::running().waits("w", &["go"]).signalled("go", "s1").signalled("go", "s2");
    let log = log.owned(vec![Owned::Check(path("w")), Owned::Check(path("w"))]);
    assert_eq!(resolved_by(&log).len(), 1);
    let wanted = log.wanted("w", &["go"]);
    assert_eq!(refused(&log, vec![Owned::Wait { wanted, ask: None }]), Refusal::Fenced);
}

#[test]
fn the_earliest_of_several_things_wins() {
    let log = Log::running().starts_child("pick", "c1").signalled("go", "s1");
    let log = log.child_ended("c1", Ok(json("1")));
    let children = vec![crate::RunId::new("c1").unwrap()];
    let wanted = WaitStarted { children, due: Some(Millis(0)), ..log.wanted("w", &["go"]) };
    let log = log.owned(vec![Owned::Wait { wanted, ask: None }]);
    assert_eq!(resolved_by(&log)[0].1, By::Mail(Seq(5)), "mail before the timer, older mail first");
}

#[test]
fn waiting_is_for_mail_and_sleeping_is_for_a_time() {
    let timed = |log: &Log| WaitStarted { due: Some(Millis(9_000)), ..log.wanted("w", &["go"]) };
    let log = Log::running();
    let wanted = timed(&log);
    let waiting = log.owned(vec![Owned::Wait { wanted, ask: None }]);
    assert_eq!((waiting.status(), waiting.state().summary.due()), (Status::Waiting, Some(Millis(9_000))));
    let mut sleeping = Log::running().sleeps("nap", Millis(9_000));
    assert_eq!(sleeping.status(), Status::Sleeping);
    assert_eq!(sleeping.clone().waits("w", &["go"]).status(), Status::Waiting);
    sleeping = sleeping.checks("nap");
    assert_eq!(sleeping.status(), Status::Sleeping, "not before its time");
    sleeping.now = Millis(9_000);
    let awake = sleeping.checks("nap");
    assert_eq!((awake.status(), awake.names().last()), (Status::Running, Some(&"timer.fired")));
    assert_eq!(
        refused(&awake, vec![Owned::Sleep { path: path("nap"), ord: 0, due: Millis(1) }]),
        Refusal::Fenced
    );
}

#[test]
fn an_elapsed_sleep_fires_at_once() {
    let log = Log::running().sleeps("nap", Millis(5));
    assert_eq!(
        (log.names()[3..].to_vec(), log.status()),
        (vec!["timer.set", "timer.fired"], Status::Running)
    );
}

#[test]
fn unloading_rests_until_the_earliest_time() {
    let log = Log::running().sleeps("a/nap", Millis(9_000));
    let sleep = Owned::Sleep { path: path("b/nap"), ord: 0, due: Millis(7_000) };
    let decision = log.ask(&log.by_owner(vec![sleep, Owned::Release(Release::Unload)])).unwrap();
    assert_eq!(decision.task, TaskMove::Rest(Millis(7_000)));
    let waits = Log::running().waits("w", &["go"]);
    let decision = waits.ask(&waits.by_owner(vec![Owned::Release(Release::Unload)])).unwrap();
    assert_eq!(decision.task, TaskMove::Rest(Millis::NEVER));
}

#[test]
fn a_release_after_a_resolved_wait_is_ignored() {
    let log = Log::running().waits("w", &["go"]).signalled("go", "s1");
    let log = log.owned(vec![Owned::Check(path("w")), Owned::Release(Release::Unload)]);
    assert_eq!((log.names().last(), log.status()), (Some(&"wait.resolved"), Status::Running));
}

#[test]
fn a_release_never_ignores_unread_mail() {
    let log = Log::running().waits("w", &["go"]).signalled("go", "s1").released(Release::Unload);
    assert_eq!(log.names().last(), Some(&"signal.received"), "nothing would wake the run");
    let log = Log::running().waits("w", &["go"]).act(Command::Cancel(note("c"))).released(Release::Unload);
    assert_eq!(log.names().last(), Some(&"run.cancel_requested"));
    let log = Log::running().waits("w", &["go"]).signalled("other", "s1").released(Release::Unload);
    assert_eq!((log.names().last(), log.status()), (Some(&"run.released"), Status::Waiting));
}

#[test]
fn the_reason_of_a_release_decides_its_due_time() {
    let now = Log::running().now;
    let pause = || Log::running().act(Command::Pause(note("p1")));
    for (log, reason, expected) in [
        (Log::running(), Release::HandOver, TaskMove::Rest(now)),
        (pause(), Release::HandOver, TaskMove::Rest(Millis::NEVER)),
        (pause(), Release::Paused, TaskMove::Rest(Millis::NEVER)),
        (Log::running(), Release::Paused, TaskMove::Keep),
        (Log::running(), Release::Unfit, TaskMove::Rest(Millis(now.0 + 5_000))),
    ] {
        let decision = log.ask(&log.by_owner(vec![Owned::Release(reason)])).unwrap();
        assert_eq!(decision.task, expected, "{reason:?}");
    }
}

#[test]
fn a_run_that_was_paused_keeps_its_last_step_and_does_not_end() {
    let failure = crate::Failure::terminal("x");
    for end in [Owned::Complete(json("1")), Owned::Fail(failure)] {
        let log = Log::running().act(Command::Pause(note("p1")));
        let last = Owned::StepCompleted(log.completion("last"));
        let log = log.owned(vec![last, end]);
        assert_eq!(log.names()[4..], ["step.completed", "run.released"]);
        assert_eq!(log.status(), Status::Paused);
    }
}

#[test]
fn nothing_follows_the_end_in_one_append() {
    let log = Log::running();
    let ends = [
        Owned::Complete(json("1")),
        Owned::Fail(crate::Failure::terminal("x")),
        Owned::EndCancelled,
        Owned::Park { code: "V1", reason: "x".into() },
        Owned::ContinueAsNew(json("2")),
        Owned::Release(Release::HandOver),
    ];
    for end in ends {
        let done = Owned::StepCompleted(log.completion("late"));
        assert_eq!(refused(&log, vec![end.clone(), done]), Refusal::Fenced, "{end:?}");
        assert_eq!(refused(&log, vec![end.clone(), Owned::Complete(json("3"))]), Refusal::Fenced);
        let alone = log.ask(&log.by_owner(vec![end.clone()]));
        assert_eq!(log.ask(&log.by_owner(vec![end, Owned::Release(Release::HandOver)])), alone);
    }
}

#[test]
fn a_history_past_its_limit_may_only_end() {
    let mut log = Log::running().completed_with_undo("reserve");
    log.limits.history_events_max = 2;
    let done = || Owned::StepCompleted(log.completion("charge"));
    assert_eq!(
        refused(&log, vec![done()]),
        Refusal::HistoryTooLong(TooLong { what: "events", has: 3, max: 2 })
    );
    assert_eq!(refused(&log, vec![done(), Owned::Release(Release::HandOver)]).code(), "GS0112");
    let undo = Owned::UndoStarted { path: path("reserve"), failure: None };
    for doings in [
        vec![done(), Owned::Complete(json("1"))],
        vec![Owned::ContinueAsNew(json("1"))],
        vec![undo, Owned::UndoCompleted(path("reserve"))],
        vec![Owned::Release(Release::HandOver)],
    ] {
        assert!(log.ask(&log.by_owner(doings.clone())).is_ok(), "{doings:?}");
    }
    assert!(log.ask(&signal("go", "s1")).is_ok(), "mail has its own limit");
}

#[test]
fn a_step_is_undone_once() {
    let log = Log::running().completed_with_undo("reserve").undone("reserve");
    assert_eq!(
        refused(&log, vec![Owned::UndoStarted { path: path("reserve"), failure: None }]),
        Refusal::Fenced
    );
    assert_eq!(refused(&log, vec![Owned::UndoCompleted(path("reserve"))]), Refusal::Fenced);
    assert_eq!(log.state().to_undo(Seq::ZERO), []);
}

#[test]
fn a_failed_compensation_parks_the_run() {
    let failure = crate::Failure::terminal("no refund");
    let log = Log::running().completed_with_undo("charge");
    let log = log.owned(vec![Owned::UndoFailed { path: path("charge"), failure }]);
    assert_eq!((log.status(), log.state().summary.owner.clone()), (Status::Parked, None));
    assert_eq!(log.state().to_undo(Seq::ZERO), [path("charge")]);
}

#[test]
fn refuses_an_invalid_question() {
    let log = Log::running();
    let refusal = refused(&log, vec![log.question("q", Form::Choice(vec![]), None)]);
    assert!(matches!(refusal, Refusal::InvalidForm { .. }), "{refusal}");
}

#[test]
fn events_carry_the_time_of_their_action() {
    let log = Log::running();
    let doings = vec![Doing { at: Millis(77), what: Owned::StepCompleted(log.completion("a")) }];
    let log = log.clone().act(Command::Owned(log.fence(), doings));
    assert_eq!(log.records.last().map(|r| (r.at, r.epoch)), Some((Millis(77), Some(Seq(2)))));
}

#[test]
fn a_history_at_the_limit_may_continue() {
    let mut log = Log::running().completed("a");
    log.limits.history_events_max = 3;
    assert!(log.ask(&log.by_owner(vec![Owned::StepCompleted(log.completion("b"))])).is_ok());
}

#[test]
fn waits_opened_by_an_append_count_for_its_due_time() {
    let log = Log::running();
    let due = Some(Millis(8_000));
    let wait = Owned::Wait { wanted: WaitStarted { due, ..log.wanted("w", &["go"]) }, ask: None };
    let failed = Owned::StepFailed { failed: log.failure("a"), retry_at: due, timeout: None };
    let sleep = Owned::Sleep { path: path("nap"), ord: 0, due: Millis(8_000) };
    for opened in [wait, failed, sleep] {
        let decision = log.ask(&log.by_owner(vec![opened, Owned::Release(Release::Unload)])).unwrap();
        assert_eq!(decision.task, TaskMove::Rest(Millis(8_000)));
    }
}

#[test]
fn mail_taken_by_the_last_append_is_not_carried() {
    let log = Log::running().waits("w", &["go"]).signalled("go", "s1").signalled("go", "s2");
    let log = log.owned(vec![Owned::Check(path("w")), Owned::ContinueAsNew(json("1"))]);
    assert_eq!(log.state().unread.keys().copied().collect::<Vec<_>>(), [Seq(6)]);
}

#[test]
fn a_pending_jump_prevents_end_and_full_compensation() {
    let jump = crate::event::JumpRequested { compensate: true, ..jump_to("j1", "a") };
    let log = Log::running().completed_with_undo("a").act(Command::Jump(jump));
    let failure = || crate::Failure::terminal("x");
    let undo = |failure| Owned::UndoStarted { path: path("a"), failure };
    for doing in [
        Owned::Complete(json("1")),
        Owned::Fail(failure()),
        Owned::EndCancelled,
        Owned::ContinueAsNew(json("1")),
        undo(Some(failure())),
    ] {
        assert_eq!(refused(&log, vec![doing.clone()]), Refusal::Fenced, "{doing:?}");
    }
    assert!(log.ask(&log.by_owner(vec![undo(None)])).is_ok());
    let idle = Log::running();
    assert!(matches!(refused(&idle, vec![Owned::FinishJump]), Refusal::NothingToDo { .. }));
}

#[test]
fn a_run_with_a_pending_jump_does_not_rest() {
    let jump = crate::event::JumpRequested { compensate: true, ..jump_to("j1", "a") };
    let log = Log::running().completed_with_undo("a").waits("w", &["go"]).act(Command::Jump(jump));
    assert_eq!(log.released(Release::Unload).names().last(), Some(&"jump.requested"));
}

#[test]
fn a_timed_out_attempt_records_timeout_and_retry() {
    let log = Log::running();
    let retry_at = Some(Millis(9_000));
    let timeout = Some("timeout");
    let failed = Owned::StepFailed { failed: log.failure("a"), retry_at, timeout };
    let log = log.owned(vec![failed]);
    assert_eq!(log.names()[3..], ["step.timeout", "step.failed", "step.retry_scheduled"]);
    let Event::StepRetryScheduled { attempt, due, .. } = &log.records[5].event else { panic!("no retry") };
    assert_eq!((*attempt, *due), (2, Millis(9_000)));
}

#[test]
fn falls_back_to_an_older_version_by_rule_e2() {
    let log = Log::running().owned(vec![Owned::ChangeVersion { to: 3, reason: "2 is not known".into() }]);
    let [.., changed, recovered] = &log.records[..] else { panic!("too short") };
    assert!(matches!(&changed.event, Event::VersionChanged { from: 1, to: 3, .. }));
    let Event::RunRecovered(said) = &recovered.event else { panic!("no recovery") };
    assert_eq!((said.rule.as_str(), said.evidence.as_str()), ("E2", "2 is not known"));
    assert_eq!((&said.node, said.attempt), (&Some(node("n-1")), 1));
}

/// Returns a run that failed and whose first compensation has begun.
fn undoing() -> Log {
    let log = Log::running().completed_with_undo("reserve").started("pack", 1).waits("w", &["go"]);
    let failure = Some(crate::Failure::terminal("no"));
    log.owned(vec![Owned::UndoStarted { path: path("reserve"), failure }])
}

#[test]
fn nothing_begins_while_a_run_is_undone() {
    let log = undoing();
    let started =
        |step: &str| StepStarted { path: path(step), ord: 5, attempt: 2, input: None, remote: None };
    let failed = Owned::StepFailed { failed: log.failure("ship"), retry_at: None, timeout: None };
    let forward = [
        Owned::StepStarted(started("ship")),
        Owned::StepStarted(started("pack")),
        Owned::StepCompleted(log.completion("ship")),
        failed,
        Owned::Wait { wanted: log.wanted("later", &["go"]), ask: None },
        log.question("q", Form::Any, None),
        Owned::Child(log.child("c", "child")),
        Owned::Sleep { path: path("z"), ord: 6, due: Millis(1) },
        Owned::Progress { path: path("progress"), ord: 6, message: "x".into() },
        Owned::ContinueAsNew(json("1")),
        Owned::Complete(json("1")),
    ];
    for doing in forward {
        assert_eq!(refused(&log, vec![doing.clone()]), Refusal::BeingUndone, "{doing:?}");
    }
    let ended =
        log.owned(vec![Owned::UndoCompleted(path("reserve")), Owned::Fail(crate::Failure::terminal("no"))]);
    assert_eq!(ended.status(), Status::Failed);
}

#[test]
fn an_append_cannot_compensate_and_continue() {
    let log = Log::running().completed_with_undo("reserve");
    let begins = Owned::UndoStarted { path: path("reserve"), failure: Some(crate::Failure::terminal("no")) };
    let done = Owned::StepCompleted(log.completion("ship"));
    assert_eq!(refused(&log, vec![begins.clone(), done.clone()]), Refusal::BeingUndone);
    assert!(log.ask(&log.by_owner(vec![done, begins])).is_ok(), "an earlier completion is kept");
}

#[test]
fn an_attempt_that_had_begun_may_still_report_while_undoing() {
    let log = undoing().completed("pack");
    assert!(matches!(&log.state().ops[&path("pack")].kind, OpKind::Step(step) if step.attempts == 1));
}

#[test]
fn a_wait_finds_nothing_while_a_run_is_undone() {
    let log = undoing().signalled("go", "s1").checks("w");
    assert_eq!((resolved_by(&log), log.state().unread.len()), (vec![], 1));
}

#[test]
fn a_compensation_without_a_cause_stops_the_run() {
    let log = Log::running().completed_with_undo("reserve").undone("reserve");
    assert_eq!(refused(&log, vec![Owned::Complete(json("1"))]), Refusal::BeingUndone);
    let cancelled = Log::running().completed_with_undo("reserve").act(Command::Cancel(note("c1")));
    let cancelled = cancelled.undone("reserve");
    assert_eq!(
        cancelled.state().failure.as_ref().and_then(|failure| failure.code.as_deref()),
        Some("cancelled")
    );
}

#[test]
fn a_reset_keeps_a_run_compensating() {
    let log = undoing().act(Command::Reset(note("r1"))).claimed("n-2");
    assert!(log.state().is_being_undone());
    assert_eq!(refused(&log, vec![Owned::StepCompleted(log.completion("ship"))]), Refusal::BeingUndone);
}
