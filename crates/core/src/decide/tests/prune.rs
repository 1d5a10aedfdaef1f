//! Pruning archived runs.

use crate::codec::decode_all;
use crate::command::Command;
use crate::decide::{Decision, Refusal, TaskMove};
use crate::error::Failure;
use crate::event::{Event, Note};
use crate::state::{Outcome, derive};
use crate::summary::Status;
use crate::testing::*;
use crate::time::Seq;
use crate::{Hash, Owned};

fn archived() -> Log {
    let log = Log::running().completed("a").signalled("go", "s1").finishes();
    let at = log.end();
    log.act(prune(at))
}

#[test]
fn an_open_run_is_not_pruned() {
    let running = Log::running().completed("a");
    let refused = Err(Refusal::NotPrunable { why: "it has not ended" });
    assert_eq!(running.ask(&prune(running.end())), refused);
    let parked = running.owned(vec![Owned::Park { code: "V1", reason: "x".into() }]);
    assert_eq!(parked.ask(&prune(parked.end())), refused);
    let retried = Log::running().owned(vec![Owned::Fail(Failure::terminal("x"))]);
    let at = retried.end();
    assert_eq!(retried.act(Command::Retry(note("t1"))).ask(&prune(at)), refused);
}

#[test]
fn a_run_that_changed_after_archiving_is_not_pruned() {
    let log = Log::running().finishes();
    let at = log.end();
    let noted = log.act(Command::Annotate(note("n1")));
    assert!(matches!(noted.ask(&prune(at)), Err(Refusal::NotPrunable { .. })));
    assert!(noted.ask(&prune(noted.end())).is_ok());
}

#[test]
fn a_tombstone_keeps_status_outcome_and_search_fields() {
    let log = archived();
    let tombstone = log.records.last().unwrap();
    let alone = derive(&log.run, std::slice::from_ref(tombstone), log.head).unwrap();
    assert_eq!(alone.summary, log.state().summary);
    assert_eq!((alone.summary.status, alone.summary.base), (Status::Completed, tombstone.seq));
    assert!(matches!(alone.outcome, Some(Outcome::Completed(_))));
    let pruned = alone.summary.pruned.unwrap();
    assert_eq!((pruned.at, pruned.archive.as_str()), (tombstone.at, "/archive/1.jsonl"));
}

#[test]
fn a_row_without_its_log_folds_a_tombstone() {
    let log = archived();
    let (history, _) = decode_all(Seq::ZERO, Hash::ZERO, [(Seq(1), log.bodies[0].as_str())]).unwrap();
    let mut row = crate::Summary::first(&log.run, &history[0], Hash::of(log.bodies[0].as_bytes())).unwrap();
    row.fold(log.records.last().unwrap(), log.head).unwrap();
    assert_eq!(row, log.state().summary);
}

#[test]
fn pruning_again_does_nothing() {
    let log = archived();
    assert_eq!(log.ask(&prune(log.end())), Ok(Decision::default()));
    assert_eq!(log.ask(&prune(Seq(1))), Ok(Decision::default()));
}

#[test]
fn the_run_is_still_known_by_its_id_and_input() {
    let log = archived();
    let start = |input: &str| Command::Start { queued: order(input), claim: None };
    assert_eq!(log.ask(&start("{}")), Ok(Decision::default()));
    assert!(matches!(log.ask(&start("[1]")), Err(Refusal::OtherInput { .. })));
}

#[test]
fn nothing_follows_a_tombstone() {
    let log = archived();
    let other = |id: &str| Note { id: id.into(), by: None, reason: String::new() };
    let commands = [
        signal("go", "s9"),
        answer("q", "a1", "1"),
        Command::Cancel(other("x1")),
        Command::Pause(other("x2")),
        Command::Resume(other("x3")),
        Command::Annotate(other("x4")),
        Command::Retry(other("x5")),
        Command::Jump(jump_to("x6", "a")),
        Command::Requeue(other("x7")),
        Command::Reset(other("x8")),
        Command::UndoSeam(other("x9")),
    ];
    for command in commands {
        let refused = Refusal::Archived { archive: "/archive/1.jsonl".into() };
        assert_eq!(log.ask(&command), Err(refused), "{command:?}");
    }
    assert!(matches!(log.ask(&claim("n-9")), Err(Refusal::NotClaimable { .. })));
    assert_eq!(log.ask(&signal("go", "s1")), Ok(Decision::default()), "a command taken before is a repeat");
}

#[test]
fn a_tombstone_removes_the_task() {
    let log = Log::running().finishes();
    let decision = log.ask(&prune(log.end())).unwrap();
    assert_eq!(decision.task, TaskMove::Remove);
    assert!(matches!(&decision.events[0].event, Event::RunPruned(pruned) if pruned.events == log.end().0));
}

#[test]
fn a_tombstone_is_on_the_branch_that_ended() {
    let log = Log::running().completed("a").act(Command::Jump(jump_to("j1", "a"))).claimed("n-1").finishes();
    let at = log.end();
    let log = log.act(prune(at));
    let tombstone = log.records.last().unwrap();
    let alone = derive(&log.run, std::slice::from_ref(tombstone), log.head).unwrap();
    let active = alone.branches.active();
    assert_eq!(
        (active.id, active.opened, alone.branches.iter().count()),
        (alone.summary.branch, tombstone.seq, 1)
    );
    assert_eq!(active.id.0, 2);
    let other = crate::RunId::new("r2").unwrap();
    let elsewhere = derive(&other, std::slice::from_ref(tombstone), log.head).unwrap();
    assert_eq!(elsewhere.summary.run, other, "the row names the run of its log");
}

#[test]
fn a_row_takes_a_tombstone_once() {
    let log = archived();
    let mut row = log.state().summary.clone();
    assert!(row.fold(log.records.last().unwrap(), log.head).is_err());
}

#[test]
fn every_end_is_kept_in_its_tombstone() {
    let ends = [Owned::Complete(json("1")), Owned::Fail(Failure::terminal("x")), Owned::EndCancelled];
    for end in ends {
        let log = Log::running().owned(vec![end]);
        let at = log.end();
        let outcome = log.state().outcome.clone();
        let log = log.act(prune(at));
        let alone = derive(&log.run, &log.records[at.0 as usize..], log.head).unwrap();
        assert!(outcome.is_some());
        assert_eq!((alone.outcome, alone.summary.status), (outcome, log.status()));
    }
}
