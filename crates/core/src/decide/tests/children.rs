//! Options of children: chosen ids, detached children, and children with a compensation.

use crate::command::{Command, Owned};
use crate::decide::{Refusal, chosen_child_id, other_call};
use crate::event::{ChildStarted, RunQueued};
use crate::state::Undo;
use crate::testing::*;
use crate::time::Seq;
use crate::{Failure, RunId};

fn run(id: &str) -> RunId {
    RunId::new(id).unwrap()
}

fn with_undo(log: Log, call: &str, id: &str) -> Log {
    let child = ChildStarted { undo: true, ..log.child(call, id) };
    log.owned(vec![Owned::Child(child)])
}

#[test]
fn a_start_with_a_parent_adopts_no_stranger() {
    let mine = Some(run("p1"));
    let start =
        |parent: Option<RunId>| Command::Start { queued: RunQueued { parent, ..order("1") }, claim: None };
    for stranger in [None, Some(run("p2"))] {
        let log = Log::new("c1").act(start(stranger));
        let refusal = log.ask(&start(mine.clone())).unwrap_err();
        assert_eq!(refusal, Refusal::NotOurChild { run: run("c1"), parent: run("p1") });
        assert_eq!(refusal.code(), "GS0172");
    }
    let log = Log::new("c1").act(start(mine.clone()));
    assert_eq!(log.ask(&start(mine)).unwrap().events, [], "after a crash it is the same child");
}

#[test]
fn a_chosen_id_gets_the_generation() {
    let chosen = |log: &Log| chosen_child_id(log.state(), &run("o-1-pack")).unwrap();
    let log = Log::running().completed("a");
    assert_eq!(chosen(&log), run("o-1-pack"));
    let jumped = log.act(Command::Jump(jump_to("j1", "a"))).claimed("n-2");
    assert_eq!(chosen(&jumped), run("o-1-pack.b2"));
    let restarted = jumped.owned(vec![Owned::ContinueAsNew(json("1"))]);
    assert_eq!(chosen(&restarted), run("o-1-pack.b3"));
    assert!(chosen_child_id(restarted.state(), &run(&"x".repeat(127))).is_err());
}

#[test]
fn another_call_with_the_same_child_id_is_found() {
    let log = Log::running().starts_child("pick", "c1");
    assert_eq!(other_call(log.state(), &run("c1"), &path("pick")), None);
    assert_eq!(other_call(log.state(), &run("c1"), &path("pack")), Some(&path("pick")));
}

#[test]
fn a_detached_child_is_neither_open_nor_delivered() {
    let log = Log::running().completed("a");
    let child = ChildStarted { detached: true, ..log.child("survey", "c1") };
    let log = log.owned(vec![Owned::Child(child)]).starts_child("pick", "c2");
    assert_eq!(log.state().open_children(), [run("c2")]);
    let ended = Command::ChildEnded { child: run("c1"), result: Ok(json("1")) };
    assert!(matches!(log.ask(&ended).unwrap_err(), Refusal::NothingToDo { .. }));
    let log = log.act(Command::Jump(jump_to("j1", "a"))).claimed("n-2");
    assert_eq!(log.state().stray_children(), [run("c2")], "it outlives its branch");
}

#[test]
fn a_completed_child_with_undo_is_compensated() {
    let log =
        with_undo(Log::running().completed_with_undo("a"), "pack", "c1").child_ended("c1", Ok(json("7")));
    assert_eq!(
        log.state().to_undo(Seq::ZERO),
        [path("pack"), path("a")],
        "also if no wait has read its result"
    );
    let undo = |step: &str, first: bool| Owned::UndoStarted {
        path: path(step),
        failure: first.then(|| Failure::terminal("x")),
    };
    let log = log.owned(vec![undo("pack", true)]).owned(vec![Owned::UndoCompleted(path("pack"))]);
    assert_eq!(log.state().undone[&path("pack")], Undo::Completed);
    assert_eq!(
        log.ask(&log.by_owner(vec![Owned::UndoCompleted(path("pack"))])).unwrap_err(),
        Refusal::Fenced
    );
    assert_eq!(log.state().to_undo(Seq::ZERO), [path("a")]);
}

#[test]
fn a_failed_child_is_not_compensated() {
    let log = with_undo(Log::running(), "pack", "c1").child_ended("c1", Err(Failure::terminal("no box")));
    assert!(log.state().to_undo(Seq::ZERO).is_empty());
}

#[test]
fn a_child_that_completes_at_the_end_is_compensated_first() {
    let log = with_undo(Log::running(), "pack", "c1");
    let fail = log.by_owner(vec![Owned::Fail(Failure::terminal("x"))]);
    assert!(log.ask(&fail).is_ok());
    let log = log.child_ended("c1", Ok(json("7")));
    assert_eq!(log.ask(&fail).unwrap_err(), Refusal::LeftToUndo);
}

#[test]
fn a_child_requested_again_after_a_recovery_is_compensated() {
    let log = with_undo(Log::running().completed("a"), "pack", "c1").child_ended("c1", Ok(json("7")));
    let cut = log.state().ops[&path("a")].last;
    let log = log.released(crate::event::Release::HandOver);
    let remedy = crate::recovery::Remedy::Branch { cutoff: cut };
    let recover = log.heal(crate::recovery::Code::A1, "cut", remedy);
    let log = with_undo(log.act(recover).claimed("n-2"), "pack", "c1");
    assert_eq!(log.state().to_undo(Seq::ZERO), [path("pack")]);
    assert!(log.state().open_children().is_empty());
}

#[test]
fn a_refused_child_is_recorded_once_and_stays_refused() {
    let refused = |child: &str| Command::ChildRefused {
        child: run(child),
        failure: Failure::terminal("taken").with_code("GS0172"),
    };
    let log = Log::running().completed("a");
    let detached = ChildStarted { detached: true, ..log.child("survey", "c2") };
    let log = log.starts_child("pack", "c1").owned(vec![Owned::Child(detached)]);
    assert!(matches!(log.ask(&refused("x")).unwrap_err(), Refusal::NothingToDo { .. }));
    let log = log.act(refused("c1")).act(refused("c2"));
    for child in ["c1", "c2"] {
        let code =
            log.state().children[&run(child)].refused.as_ref().and_then(|failure| failure.code.clone());
        assert_eq!(code.as_deref(), Some("GS0172"), "{child}");
        assert!(log.ask(&refused(child)).unwrap().events.is_empty(), "once");
    }
    assert!(log.state().open_children().is_empty(), "nothing to cancel");
    // A recovery cuts the call off and requests the same child again.
    let cut = log.state().ops[&path("a")].last;
    let log = log.released(crate::event::Release::HandOver);
    let recover = log.heal(crate::recovery::Code::A1, "cut", crate::recovery::Remedy::Branch { cutoff: cut });
    let log = log.act(recover).claimed("n-2").starts_child("pack", "c1");
    assert!(log.state().children[&run("c1")].refused.is_some());
    assert!(log.state().open_children().is_empty());
}
