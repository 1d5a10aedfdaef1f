//! Ending runs on request, and withdrawing requests.

use crate::command::{Command, Owned, Withdraw};
use crate::decide::{Decision, Refusal, TaskMove, View, decide};
use crate::event::{Event, JumpRequested, Release, Request, Terminated};
use crate::limits::Limits;
use crate::summary::Status;
use crate::testing::*;
use crate::time::{Millis, Seq};
use crate::{Failure, RunId};

fn cancel(id: &str) -> Command {
    Command::Cancel(note(id))
}

fn unmanned(id: &str, lost: Option<&str>) -> Command {
    Command::CancelUnmanned { note: note(id), lost: lost.map(node) }
}

fn terminate(id: &str) -> Command {
    Command::Terminate(note(id))
}

fn withdraw(id: &str, what: Request) -> Command {
    Command::Withdraw(Withdraw { note: note(id), what, lost: None })
}

fn undoing_jump(id: &str, to: &str) -> Command {
    Command::Jump(JumpRequested { compensate: true, ..jump_to(id, to) })
}

fn parked(log: Log) -> Log {
    log.owned(vec![Owned::Park { code: "V1", reason: "x".into() }])
}

/// Two steps with a compensation, and no owner.
fn at_rest() -> Log {
    let log = Log::running().completed_with_undo("a").completed_with_undo("b");
    log.waits("w", &["go"]).released(Release::Unload)
}

fn left(log: &Log) -> Terminated {
    (**log.state().terminated.as_ref().unwrap()).clone()
}

fn ends(decision: &Decision) -> bool {
    let names: Vec<&str> = decision.events.iter().map(|stamped| stamped.event.name()).collect();
    assert_eq!(names.first(), Some(&"run.cancel_requested"));
    let ended = names == ["run.cancel_requested", "run.cancelled"];
    assert_eq!(decision.task, if ended { TaskMove::Remove } else { TaskMove::Wake });
    ended
}

#[test]
fn cancel_ends_an_unstarted_run_at_once() {
    let log = Log::new("r1").queued();
    let row = decide(View::Row(&log.state().summary), &cancel("c"), Millis(9), &Limits::default());
    assert!(ends(&row.unwrap()), "the row is enough");
    let log = log.act(cancel("c"));
    assert_eq!((log.status(), log.state().summary.terminated), (Status::Cancelled, false));
    assert_eq!(log.ask(&cancel("c")), Ok(Decision::default()), "a repeat changes nothing");
    let paused = Log::new("r1").queued().act(Command::Pause(note("p")));
    assert!(ends(&paused.ask(&cancel("c")).unwrap()));
}

#[test]
fn cancel_waits_for_a_worker_if_code_must_run() {
    let rests = Log::running().completed("a").waits("w", &["go"]).released(Release::Unload);
    assert!(!ends(&rests.ask(&cancel("c")).unwrap()), "its code may handle the request");
    assert!(ends(&rests.ask(&unmanned("c", None)).unwrap()));
    assert!(ends(&parked(Log::running().completed("a")).ask(&cancel("c")).unwrap()));
    for log in [
        Log::running().completed_with_undo("a"),
        Log::running().starts_child("k", "c1"),
        Log::running().hands_out("s"),
        Log::running()
            .completed_with_undo("a")
            .owned(vec![Owned::UndoStarted { path: path("a"), failure: Some(Failure::terminal("x")) }]),
    ] {
        assert!(!ends(&parked(log.clone()).ask(&cancel("c")).unwrap()));
        assert!(!ends(&log.released(Release::HandOver).ask(&unmanned("c", None)).unwrap()));
    }
    let undone = Log::running().completed_with_undo("a").undone("a");
    assert!(ends(&parked(undone).ask(&cancel("c")).unwrap()), "nothing is left to undo");
}

#[test]
fn cancel_never_ends_a_run_of_a_live_owner() {
    let log = Log::running().completed("a");
    assert!(!ends(&log.ask(&unmanned("c", None)).unwrap()));
    assert!(!ends(&log.ask(&unmanned("c", Some("n-7"))).unwrap()), "another node owns it now");
    let ended = log.clone().act(unmanned("c", Some("n-1")));
    assert_eq!(ended.status(), Status::Cancelled);
    let late = ended.ask(&log.by_owner(vec![Owned::Complete(json("1"))]));
    assert_eq!(late, Err(Refusal::Fenced));
}

#[test]
fn a_second_cancel_ends_a_run_that_needs_no_worker() {
    let log = Log::running().completed("a").waits("w", &["go"]).released(Release::Unload).act(cancel("c1"));
    assert!(matches!(log.ask(&cancel("c2")), Err(Refusal::NothingToDo { .. })));
    assert_eq!(log.act(unmanned("c2", None)).status(), Status::Cancelled);
}

#[test]
fn a_pending_request_records_time_and_operator() {
    let log = Log::running().completed_with_undo("a").act(cancel("c1"));
    let summary = &log.state().summary;
    assert!(summary.is_cancel_pending());
    let asked = summary.cancel_asked.clone().unwrap();
    assert_eq!((asked.by.as_deref(), asked.at), (Some("ada"), log.records.last().unwrap().at));
    let ended = log.undone("a").owned(vec![Owned::EndCancelled]);
    assert!(!ended.state().summary.is_cancel_pending());
    assert_eq!(ended.state().summary.cancel_asked, None);
}

#[test]
fn terminate_ends_every_open_run() {
    let running = Log::running().completed_with_undo("a");
    let started = Owned::UndoStarted { path: path("a"), failure: Some(Failure::terminal("x")) };
    let logs = [
        Log::new("r1").queued(),
        running.clone(),
        running.clone().waits("w", &["go"]),
        running.clone().sleeps("z", Millis(99_000)),
        running.clone().act(Command::Pause(note("p"))),
        parked(running.clone()),
        running.clone().owned(vec![started]),
        running.clone().act(undoing_jump("j", "a")),
        running.act(cancel("c")),
    ];
    for log in logs {
        let before = log.status();
        let log = log.act(terminate("t"));
        assert_eq!(
            (log.status(), log.names().last()),
            (Status::Cancelled, Some(&"run.cancelled")),
            "{before}"
        );
        let summary = &log.state().summary;
        assert!(summary.terminated && summary.owner.is_none() && summary.jump.is_none(), "{before}");
        assert_eq!(log.ask(&terminate("t")), Ok(Decision::default()), "a repeat changes nothing");
        let status = Status::Cancelled;
        assert_eq!(log.ask(&terminate("t2")), Err(Refusal::Finished { status }));
    }
}

#[test]
fn terminate_records_remaining_effects() {
    let log = Log::running().completed_with_undo("a").completed_with_undo("b").completed_with_undo("c");
    let log = log.starts_child("k", "c1").hands_out("s");
    let decision = log.ask(&terminate("t")).unwrap();
    assert_eq!((decision.task, decision.dropped.len()), (TaskMove::Remove, 1));
    let log = log.act(terminate("t"));
    let terminated = left(&log);
    assert_eq!(terminated.standing, [path("c"), path("b"), path("a")]);
    assert_eq!((terminated.remote.as_slice(), terminated.unknown.as_ref()), ([path("s")].as_slice(), None));
    assert_eq!(terminated.children, [RunId::new("c1").unwrap()]);
    assert!(!terminated.is_clean());
    let started = Owned::UndoStarted { path: path("b"), failure: Some(Failure::terminal("x")) };
    let undoing = Log::running().completed_with_undo("a").completed_with_undo("b").owned(vec![started]);
    let terminated = left(&undoing.act(terminate("t")));
    assert_eq!((terminated.standing, terminated.undoing), (vec![path("a")], vec![path("b")]));
    assert!(left(&Log::running().completed("a").act(terminate("t"))).is_clean());
}

#[test]
fn only_a_note_or_a_tombstone_follows_a_termination() {
    let log = Log::running().completed("a").act(terminate("t"));
    let fenced = log.ask(&Log::running().completed("a").by_owner(vec![Owned::Complete(json("1"))]));
    assert_eq!(fenced, Err(Refusal::Fenced));
    assert_eq!(log.ask(&Command::Jump(jump_to("j", "a"))), Err(Refusal::Terminated));
    for command in [signal("go", "s"), cancel("c"), Command::Reset(note("r")), claim("n-2")] {
        assert!(log.ask(&command).is_err(), "{command:?}");
    }
    assert!(log.ask(&Command::Retry(note("r"))).is_err());
    let noted = log.act(Command::Annotate(note("n")));
    let at = noted.end();
    let pruned = noted.act(prune(at));
    assert!(pruned.state().summary.terminated && pruned.state().terminated.is_some());
}

#[test]
fn a_pending_jump_can_be_withdrawn() {
    let log = at_rest();
    let before = (log.status(), log.state().summary.waits.clone());
    let log = log.act(undoing_jump("j", "b"));
    let pending = log.state().summary.jump.clone().unwrap();
    assert_eq!((pending.to, pending.by.as_deref()), (path("b"), Some("ada")));
    assert_eq!(log.status(), Status::Compensating);
    let decision = log.ask(&withdraw("w1", Request::Jump)).unwrap();
    assert_eq!(decision.task, TaskMove::Wake);
    let log = log.act(withdraw("w1", Request::Jump));
    assert_eq!((log.status(), log.state().summary.waits.clone()), before);
    assert_eq!((log.state().jump.as_ref(), log.state().summary.jump.as_ref()), (None, None));
    assert_eq!(log.ask(&withdraw("w1", Request::Jump)), Ok(Decision::default()));
    assert!(matches!(log.ask(&withdraw("w2", Request::Jump)), Err(Refusal::NothingToDo { .. })));
    assert!(log.ask(&undoing_jump("j2", "a")).is_ok());
}

#[test]
fn a_pending_cancel_can_be_withdrawn() {
    let log = at_rest().act(cancel("c"));
    let log = log.act(withdraw("w1", Request::Cancel));
    assert_eq!((log.state().summary.cancel.as_ref(), log.status()), (None, Status::Waiting));
    let log = log.act(cancel("c2"));
    assert!(log.state().summary.is_cancel_pending(), "it can be requested again");
}

#[test]
fn a_request_in_progress_cannot_be_withdrawn() {
    let jumping = Log::running().completed_with_undo("a").act(undoing_jump("j", "a"));
    let refused = jumping.ask(&withdraw("w", Request::Jump));
    assert_eq!(refused, Err(Refusal::ActedOn { owner: node("n-1"), what: "jump" }));
    let lost = Command::Withdraw(Withdraw { note: note("w"), what: Request::Jump, lost: Some(node("n-1")) });
    let taken = jumping.clone().act(lost);
    assert_eq!((taken.status(), taken.state().summary.owner.as_ref()), (Status::Queued, None));
    let undone = jumping.owned(vec![Owned::UndoStarted { path: path("a"), failure: None }]);
    for command in [withdraw("w", Request::Jump), undoing_jump("j2", "a"), Command::Jump(jump_to("j3", "a"))]
    {
        assert!(matches!(undone.ask(&command), Err(Refusal::UndoBegun { .. })), "{command:?}");
    }
    let failure = Failure::terminal("the run is being cancelled").with_code("cancelled");
    let cancelling = Log::running().completed_with_undo("a").act(cancel("c"));
    let cancelling = cancelling.owned(vec![Owned::UndoStarted { path: path("a"), failure: Some(failure) }]);
    let refused = cancelling.ask(&withdraw("w", Request::Cancel));
    assert!(matches!(refused, Err(Refusal::UndoBegun { .. })), "{refused:?}");
}

#[test]
fn a_withdrawal_counts_on_every_branch() {
    let log = at_rest().act(undoing_jump("j", "b"));
    let cut = log.end();
    let log = log.act(withdraw("w1", Request::Jump)).act(cancel("c")).act(withdraw("w2", Request::Cancel));
    let heal = log.heal(crate::recovery::Code::A1, "x", crate::recovery::Remedy::Branch { cutoff: cut });
    let log = log.act(heal);
    assert_eq!((log.state().jump.as_ref(), log.state().summary.cancel.as_ref()), (None, None));
    assert_ne!(log.status(), Status::Compensating);
}

#[test]
fn a_new_jump_replaces_a_pending_one() {
    let log = at_rest().act(undoing_jump("j1", "a"));
    let other = log.clone().act(undoing_jump("j2", "b"));
    assert_eq!(other.state().jump.as_ref().unwrap().to, path("b"));
    let plain = log.act(Command::Jump(jump_to("j3", "a")));
    assert_eq!((plain.state().jump.as_ref(), plain.status()), (None, Status::Queued));
}

#[test]
fn a_parked_run_that_jumps_back_can_be_claimed() {
    let log = parked(Log::running().completed_with_undo("a")).act(undoing_jump("j", "a"));
    assert_eq!(log.status(), Status::Compensating);
    let again = parked(log.clone().claimed("n-2"));
    assert!(again.state().jump.is_some(), "it diverged again, and the jump is still pending");
    for command in [
        Command::Resume(note("x")),
        Command::Jump(jump_to("x", "a")),
        Command::Retry(note("x")),
        Command::Reset(note("x")),
        withdraw("x", Request::Jump),
    ] {
        let after = again.clone().act(command.clone());
        let keeps = matches!(command, Command::Resume(_));
        assert_eq!(after.state().jump.is_some(), keeps, "{command:?}");
    }
}

#[test]
fn going_back_drops_a_cancel_only_on_request() {
    let log = parked(Log::running().completed("a").completed_with_undo("b").act(cancel("c")));
    for command in [Command::Jump(jump_to("x", "a")), undoing_jump("x", "b"), Command::Retry(note("x"))] {
        assert_eq!(log.ask(&command), Err(Refusal::CancelPending), "{command:?}");
        let dropped = log.clone().act(Command::DropCancel(Box::new(command.clone())));
        assert!(!dropped.state().summary.is_cancel_pending(), "{command:?}");
        assert!(dropped.names().contains(&"request.withdrawn"), "not in the log: {command:?}");
        assert_eq!(dropped.ask(&command), Ok(Decision::default()), "a repeat changes nothing");
    }
    let reset = log.act(Command::Reset(note("x")));
    assert!(reset.state().summary.is_cancel_pending(), "a reset keeps the request");
    let without = Log::running().completed("a");
    let jump = Command::Jump(jump_to("x", "a"));
    assert_eq!(without.ask(&Command::DropCancel(Box::new(jump.clone()))), without.ask(&jump));
}

#[test]
fn a_cancel_during_a_compensating_jump_is_kept() {
    let log = Log::running().completed_with_undo("a").completed("b").act(undoing_jump("j", "a"));
    let log = log.act(cancel("c")).undone("a").owned(vec![Owned::FinishJump]);
    assert_eq!(log.names().last(), Some(&"run.cancel_requested"));
    let summary = &log.state().summary;
    assert_eq!((summary.is_cancel_pending(), summary.owner.as_ref()), (true, None));
    assert_eq!(summary.cancel_asked.as_ref().unwrap().by.as_deref(), Some("ada"));
}

#[test]
fn a_reset_does_not_keep_compensated_steps() {
    let log = Log::running().completed_with_undo("a").completed_with_undo("b");
    let undo = Owned::UndoStarted { path: path("b"), failure: Some(Failure::terminal("x")) };
    let log = log.owned(vec![undo, Owned::UndoCompleted(path("b"))]);
    let log = log.act(Command::Reset(note("r")));
    assert!(log.state().is_being_undone());
    assert_eq!(log.state().to_undo(Seq::ZERO), [path("a")], "it continues compensating");
}

#[test]
fn rows_of_older_releases_agree_without_newer_fields() {
    let log = at_rest().act(undoing_jump("j", "a")).act(cancel("c"));
    let derived = log.state().summary.clone();
    let mut older = derived.clone();
    (older.cancel_asked, older.jump) = (None, None);
    assert!(older.agrees_with(&derived) && derived.agrees_with(&derived));
    older.steps += 1;
    assert!(!older.agrees_with(&derived));
    assert!(!derived.agrees_with(&log.act(withdraw("w", Request::Jump)).state().summary));
}

#[test]
fn an_event_with_and_without_a_termination_reads_back() {
    let log = Log::running().completed_with_undo("a").act(cancel("c")).act(terminate("t"));
    assert_eq!(log.read_back(), log.records);
    let Event::RunCancelled { terminated, .. } = &log.records[log.end().0 as usize - 1].event else {
        panic!("no end")
    };
    assert!(terminated.is_some() && log.end() > Seq(1));
}
