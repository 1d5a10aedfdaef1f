//! Moving runs to another version.

use crate::Owned;
use crate::command::{Command, Migrate};
use crate::decide::{Decision, Refusal, TaskMove};
use crate::event::{Event, Release};
use crate::summary::Status;
use crate::testing::*;
use crate::time::Millis;

fn to(version: u32, id: &str) -> Migrate {
    Migrate { note: note(id), to: version, lost: None }
}

fn resting() -> Log {
    Log::running().completed("a").waits("w", &["go"]).released(Release::Unload)
}

#[test]
fn a_run_without_owner_is_moved_and_gets_a_new_task() {
    let log = resting();
    let decision = log.ask(&Command::Migrate(to(2, "m1"))).unwrap();
    assert_eq!(decision.task, TaskMove::Ready);
    let log = log.act(Command::Migrate(to(2, "m1")));
    let summary = &log.state().summary;
    assert_eq!((summary.version, summary.initial_version, summary.status), (2, 1, Status::Waiting));
    assert_eq!(log.ask(&Command::Migrate(to(2, "m1"))).unwrap(), Decision::default());
}

#[test]
fn a_parked_run_is_unparked_and_a_paused_one_stays() {
    let parked = Log::running().completed("a").owned(vec![Owned::Park { code: "E2", reason: "x".into() }]);
    let parked = parked.act(Command::Migrate(to(2, "m1")));
    assert_eq!((parked.status(), parked.state().summary.trouble.is_none()), (Status::Queued, true));
    let paused = resting().act(Command::Pause(note("p1")));
    assert_eq!(paused.ask(&Command::Migrate(to(2, "m1"))).unwrap().task, TaskMove::Renew(Millis::NEVER));
    assert_eq!(paused.act(Command::Migrate(to(2, "m1"))).status(), Status::Paused);
}

#[test]
fn only_a_lost_owner_loses_the_run() {
    let log = Log::running().completed("a");
    let owner = log.state().summary.owner.clone().unwrap();
    assert_eq!(log.ask(&Command::Migrate(to(2, "m1"))), Err(Refusal::Owned { owner: owner.clone() }));
    let other = Migrate { lost: Some(node("n-9")), ..to(2, "m1") };
    assert!(matches!(log.ask(&Command::Migrate(other)), Err(Refusal::Owned { .. })));
    let fenced = log.by_owner(vec![Owned::Complete(json("1"))]);
    let log = log.act(Command::Migrate(Migrate { lost: Some(owner), ..to(2, "m1") }));
    assert_eq!(log.state().summary.owner, None);
    assert_eq!(log.ask(&fenced), Err(Refusal::Fenced));
}

#[test]
fn refuses_invalid_migrations() {
    let log = resting();
    assert!(matches!(log.ask(&Command::Migrate(to(0, "m1"))), Err(Refusal::NothingToDo { .. })));
    assert!(matches!(log.ask(&Command::Migrate(to(1, "m1"))), Err(Refusal::NothingToDo { .. })));
    let over = Log::running().finishes();
    assert!(matches!(over.ask(&Command::Migrate(to(2, "m1"))), Err(Refusal::Finished { .. })));
}

#[test]
fn a_change_is_marked_once_and_has_no_ordinal() {
    let change = Owned::Change { path: path("fraud-check"), ord: 1 };
    let log = Log::running().completed("a").owned(vec![change.clone(), change.clone()]);
    assert_eq!(log.names().iter().filter(|name| **name == "change.marked").count(), 1);
    assert_eq!(log.ask(&log.by_owner(vec![change])).unwrap().events, []);
    let state = log.state();
    assert!(state.changes.contains("fraud-check") && state.nth("", 1).is_none());
    assert!(state.goes_on("", 0) && !state.goes_on("", 1) && !state.goes_on("arm~", 0));
}

#[test]
fn a_branch_without_the_marker_decides_again() {
    let change = Owned::Change { path: path("fraud-check"), ord: 1 };
    let log = Log::running().completed("a").owned(vec![change]).completed("b");
    let back = log.act(Command::Jump(jump_to("j1", "a")));
    assert!(back.state().changes.is_empty());
    assert!(back.names().contains(&Event::ChangeMarked { path: path("x"), ord: 0 }.name()));
}
