//! What `derive` believes, and that folding on and loading from a base believe the same.

use crate::codec::Corrupt;
use crate::command::{Command, Owned};
use crate::event::{Event, JumpRequested, Release};
use crate::form::Form;
use crate::hash::Hash;
use crate::seal::{changes_row, place, seal};
use crate::state::{Applied, Outcome, State, derive};
use crate::summary::{Status, Stuck, Summary};
use crate::testing::*;
use crate::time::{Millis, Seq};
use crate::{Failure, WriteId};

fn derived(log: &Log, until: usize) -> State {
    let head = crate::codec::chain(&log.bodies[until - 1]);
    derive(&log.run, &log.records[..until], head).unwrap()
}

/// A life with every sort of mail, steps, waits and children, on one branch.
fn a_life() -> Log {
    Log::new("r1")
        .queued()
        .signalled("go", "early")
        .claimed("n-1")
        .completed_with_undo("reserve")
        .failed("charge", Some(Millis(9_000)))
        .act(take_over("n-2", "n-1", true))
        .asks("approve", Form::Text)
        .act(answer("approve", "a1", "\"yes\""))
        .checks("approve")
        .starts_child("pick", "c1")
        .child_ended("c1", Err(Failure::terminal("none left")))
        .act(Command::Pause(note("p1")))
        .released(Release::Paused)
        .act(Command::Resume(note("r1")))
        .claimed("n-3")
        .sleeps("nap", Millis(99_000))
        .waits("w", &["go", "stop"])
        .act(Command::Annotate(note("n1")))
        .act(Command::Cancel(note("c1")))
        .undone("reserve")
        .owned(vec![Owned::EndCancelled])
}

#[test]
fn a_late_row_folds_on_to_the_same_as_derive() {
    let log = a_life();
    for from in 1..log.records.len() {
        let mut row = derived(&log, from).summary;
        for at in from..log.records.len() {
            row.fold(&log.records[at], crate::codec::chain(&log.bodies[at])).unwrap();
            assert_eq!(row, derived(&log, at + 1).summary, "from {from} to {}", at + 1);
        }
    }
}

#[test]
fn a_live_state_applies_to_the_same_as_derive() {
    let log = a_life();
    let mut live = derived(&log, 1);
    for at in 1..log.records.len() {
        let head = crate::codec::chain(&log.bodies[at]);
        assert_eq!(live.apply(&log.records[at], head), Ok(Applied::Yes));
        assert_eq!(live, derived(&log, at + 1));
    }
}

#[test]
fn what_was_written_reads_back_the_same() {
    let log = a_life();
    assert_eq!(log.read_back(), log.records);
    let row = serde_json::to_string(&log.state().summary).unwrap();
    assert_eq!(serde_json::from_str::<Summary>(&row).unwrap(), log.state().summary);
}

#[test]
fn statuses_follow_the_log() {
    let pause = |log: Log| log.act(Command::Pause(note("p")));
    let park = |log: Log| log.owned(vec![Owned::Park { code: "V1", reason: "differs".into() }]);
    let resume = |log: Log| log.act(Command::Resume(note("r")));
    let waiting = || Log::running().waits("w", &["go"]);
    for (log, status) in [
        (Log::new("r1").queued(), Status::Queued),
        (Log::running(), Status::Running),
        (Log::running().released(Release::HandOver), Status::Queued),
        (waiting(), Status::Waiting),
        (waiting().released(Release::Unload), Status::Waiting),
        (Log::running().sleeps("nap", Millis(9_000)), Status::Sleeping),
        (Log::running().failed("a", Some(Millis(9_000))), Status::Sleeping),
        (pause(waiting()), Status::Paused),
        (resume(pause(waiting())), Status::Waiting),
        (park(waiting()), Status::Parked),
        (pause(park(waiting())), Status::Parked),
        (resume(pause(park(waiting()))), Status::Waiting),
        (Log::running().completed_with_undo("a").undone("a"), Status::Compensating),
        (Log::running().finishes(), Status::Completed),
        (Log::running().owned(vec![Owned::Fail(Failure::terminal("x"))]), Status::Failed),
        (Log::running().owned(vec![Owned::EndCancelled]), Status::Cancelled),
    ] {
        assert_eq!(log.status(), status, "{:?}", log.names());
    }
}

#[test]
fn parking_says_why_until_resumed() {
    let log = Log::running().owned(vec![Owned::Park { code: "V1", reason: "step 3 differs".into() }]);
    let trouble = log.state().summary.trouble.clone().unwrap();
    assert_eq!((trouble.code.as_deref(), trouble.message.as_str()), (Some("V1"), "step 3 differs"));
    let log = log.act(Command::Resume(note("r1")));
    assert_eq!((log.state().summary.trouble.clone(), log.status()), (None, Status::Queued));
}

#[test]
fn how_it_ended_is_kept() {
    let failure = Failure::terminal("no stock").with_code("stock");
    let log = Log::running().owned(vec![Owned::Fail(failure.clone())]);
    assert_eq!(log.state().outcome, Some(Outcome::Failed(failure.clone())));
    let trouble = log.state().summary.trouble.clone().unwrap();
    assert_eq!((trouble.cause, trouble.code), (failure.cause(), failure.code));
    assert_eq!(Log::running().finishes().state().outcome, Some(Outcome::Completed(json("\"bye\""))));
}

/// The heart of `continue_as_new`: what comes before may be forgotten.
fn same_from_base(log: &Log) {
    let from_base = derive(&log.run, &log.since_base(), log.head).unwrap();
    assert_eq!(&from_base, log.state());
}

#[test]
fn continue_as_new_derives_the_same_from_its_base_as_from_the_start() {
    let again = |log: Log, input: &str| log.owned(vec![Owned::ContinueAsNew(json(input))]);
    let busy = a_life_until_cancelled();
    let mut logs = vec![again(Log::running(), "1"), again(again(busy.clone(), "1"), "2"), again(busy, "1")];
    let jumped =
        Log::running().completed("a").signalled("go", "s1").waits("w", &["go"]).starts_child("k", "c9");
    let jump = JumpRequested { input: Some(json("[3]")), ..jump_to("j1", "a") };
    logs.push(again(jumped.act(Command::Jump(jump)).claimed("n-2"), "4"));
    logs.push(again(Log::running().act(Command::Cancel(note("c1"))), "5"));
    logs.push(again(Log::running().act(take_over("n-2", "n-1", true)), "6"));
    for log in logs {
        same_from_base(&log);
        let log = log.signalled("go", "after").completed("next").waits("w2", &["go"]);
        same_from_base(&log);
        let log = log.act(Command::Jump(jump_to("j9", "next"))).claimed("n-9").completed("next");
        same_from_base(&log);
        same_from_base(&log.act(Command::Annotate(note("last"))));
    }
}

/// With unread and consumed mail, open and ended children, forty command ids, a changed version.
fn a_life_until_cancelled() -> Log {
    let mut log = Log::running().completed_with_undo("reserve").starts_child("pick", "c1");
    log = log.starts_child("pack", "c2").child_ended("c1", Ok(json("1"))).asks("approve", Form::Text);
    for n in 0..40 {
        log = log.signalled("go", &format!("s{n}"));
    }
    log = log.waits("w", &["go"]).failed("charge", Some(Millis(50_000)));
    log.owned(vec![Owned::ChangeVersion { to: 3, reason: "E2".into() }])
}

#[test]
fn a_base_alone_derives_like_every_prefix() {
    let log = Log::running().signalled("go", "s1").owned(vec![Owned::ContinueAsNew(json("1"))]);
    let base = log.state().summary.base.0 as usize;
    let history = &log.since_base()[..2];
    assert!(matches!(history[1].event, Event::BranchOpened(_)));
    let head = crate::codec::chain(&log.bodies[base - 1]);
    assert_eq!(derive(&log.run, history, head).unwrap(), derived(&log, base));
}

#[test]
fn continue_as_new_carries_what_its_own_append_did() {
    let log = Log::running();
    let child = Owned::Child(log.child("pick", "c7"));
    let version = Owned::ChangeVersion { to: 2, reason: "newer".into() };
    let log = log.owned(vec![child, version, Owned::ContinueAsNew(json("1"))]);
    same_from_base(&log);
    assert_eq!((log.state().summary.version, log.state().queued.version), (2, 2));
    assert_eq!(log.state().open_children(), log.state().stray_children());
    assert_eq!(log.state().stray_children(), [crate::RunId::new("c7").unwrap()]);
}

#[test]
fn continue_as_new_keeps_owner_mail_and_pause_and_begins_anew() {
    let log = Log::running().completed("a").signalled("go", "s1").signalled("go", "s2").waits("w", &["go"]);
    let log = log.act(Command::Pause(note("p1"))).owned(vec![Owned::ContinueAsNew(json("[1]"))]);
    let state = log.state();
    assert_eq!((state.ops.len(), state.unread.len(), state.summary.mail_unread), (0, 1, 1));
    assert_eq!((state.summary.steps, &state.queued.input, log.status()), (0, &json("[1]"), Status::Paused));
    assert_eq!(state.summary.owner, Some(node("n-1")));
    assert_eq!(state.summary.epoch, log.end());
    let input_hash = order("{}").input.hash();
    assert_eq!(state.summary.input_hash, input_hash, "the run is still the one that was started");
    assert_eq!(log.ask(&signal("go", "s1")), Ok(crate::Decision::default()), "and knows what it was told");
}

#[test]
fn the_row_says_when_the_run_was_last_recovered_and_keeps_saying_it() {
    let log = Log::running();
    assert_eq!(log.state().summary.recovered_at, None);
    let first = log.now;
    let log = log.act(take_over("n-2", "n-1", true)).completed("a");
    assert_eq!(log.state().summary.recovered_at, Some(first), "progress forgets attempts, not recoveries");
    let second = log.now;
    let log = log.act(take_over("n-3", "n-2", false)).owned(vec![Owned::ContinueAsNew(json("1"))]);
    let said = &log.state().summary;
    assert_eq!((said.recoveries, said.recovered_at), (2, Some(second)));
    same_from_base(&log);
}

#[test]
fn a_base_without_the_mail_it_carries_is_damage() {
    let log = Log::running().signalled("go", "s1").owned(vec![Owned::ContinueAsNew(json("1"))]);
    let damage = derive(&log.run, &log.since_base()[1..], log.head).unwrap_err();
    assert_eq!(damage.seq, log.state().summary.base);
}

#[test]
fn damage_is_named_and_never_guessed() {
    let log = a_life();
    assert!(derive(&log.run, &[], Hash::ZERO).is_err());
    assert_eq!(derive(&log.run, &log.records[1..], log.head).unwrap_err().seq, Seq(2));
    let mut gap = log.records.clone();
    gap.remove(3);
    assert_eq!(derive(&log.run, &gap, log.head).unwrap_err().seq, Seq(5));
    let mut row = log.state().summary.clone();
    let stuck = row.fold(&log.records[0], Hash::ZERO).unwrap_err();
    assert!(matches!(stuck, Stuck::Corrupt(Corrupt { seq: Seq(1), .. })), "{stuck:?}");
}

#[test]
fn a_row_cannot_follow_the_run_to_another_branch() {
    let log = Log::running().completed("a");
    let mut row = log.state().summary.clone();
    let log = log.act(Command::Jump(jump_to("j1", "a")));
    row.fold(&log.records[4], Hash::ZERO).unwrap();
    assert_eq!(row.fold(&log.records[5], Hash::ZERO), Err(Stuck::NeedsHistory));
}

#[test]
fn children_of_a_left_branch_are_strays() {
    let log = Log::running().completed("a").starts_child("pick", "c1").starts_child("pack", "c2");
    let log = log.child_ended("c2", Ok(json("1")));
    assert!(log.state().stray_children().is_empty());
    let log = log.act(Command::Jump(jump_to("j1", "pick")));
    assert_eq!(log.state().stray_children(), [crate::RunId::new("c1").unwrap()]);
}

#[test]
fn only_what_rows_are_searched_by_writes_the_row() {
    let log = Log::running();
    let sealed = |log: &Log, doing: Owned| {
        let decision = log.ask(&log.by_owner(vec![doing])).unwrap();
        seal(place(log.state(), None, WriteId(7)), decision.events)
    };
    let done = Owned::StepCompleted(log.completion("a"));
    assert!(!changes_row(&log.state().summary, &sealed(&log, done)));
    assert!(changes_row(&log.state().summary, &sealed(&log, Owned::Complete(json("1")))));
    let retried = Log::running().failed("a", Some(Millis(9_000)));
    let second = crate::event::StepCompleted { attempt: 2, ..retried.completion("a") };
    assert!(changes_row(&retried.state().summary, &sealed(&retried, Owned::StepCompleted(second))));
}

#[test]
fn operations_are_found_by_their_place_in_an_arm() {
    let log = Log::running().completed("a").waits("w", &["go"]).completed("arm/x");
    let nth = |arm: &str, ord| log.state().nth(arm, ord).map(|path| path.as_str());
    assert_eq!((nth("", 0), nth("", 1), nth("", 2)), (Some("a"), Some("w"), None));
    assert_eq!((nth("arm", 0), nth("other", 0)), (Some("arm/x"), None));
}

#[test]
fn a_row_that_disagrees_with_itself_in_one_place_is_not_coherent() {
    let row = Log::running().state().summary.clone();
    assert!(row.is_coherent());
    assert!(!Summary { status: Status::Paused, ..row.clone() }.is_coherent());
    assert!(!Summary { finished_at: Some(Millis(1)), ..row }.is_coherent());
}
