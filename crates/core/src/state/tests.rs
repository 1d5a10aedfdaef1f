//! What `derive` computes, and that folding and loading from a base compute the same.

use crate::command::{Command, Owned};
use crate::corrupt::Corrupt;
use crate::event::{Event, JumpRequested, Release};
use crate::fingerprint::Symptom;
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

/// A run with every kind of mail, steps, waits and children, on one branch.
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
fn folding_a_late_row_equals_derive() {
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
fn applying_events_equals_derive() {
    let log = a_life();
    let mut live = derived(&log, 1);
    for at in 1..log.records.len() {
        let head = crate::codec::chain(&log.bodies[at]);
        assert_eq!(live.apply(&log.records[at], head), Ok(Applied::Yes));
        assert_eq!(live, derived(&log, at + 1));
    }
}

#[test]
fn written_events_read_back_the_same() {
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
    let symptom = Symptom { run: log.run.as_str(), step: None, code: Some("stock"), message: "no stock" };
    assert_eq!((trouble.cause, trouble.code), (symptom.fingerprint(), failure.code));
    assert_eq!(Log::running().finishes().state().outcome, Some(Outcome::Completed(json("\"bye\""))));
}

/// Asserts that events before a `continue_as_new` are not needed.
fn same_from_base(log: &Log) {
    let from_base = derive(&log.run, &log.since_base(), log.head).unwrap();
    assert_eq!(&from_base, log.state());
}

#[test]
fn continue_as_new_derives_the_same_from_its_base() {
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
        let jump = Command::DropCancel(Box::new(Command::Jump(jump_to("j9", "next"))));
        let log = log.act(jump).claimed("n-9").completed("next");
        same_from_base(&log);
        same_from_base(&log.act(Command::Annotate(note("last"))));
    }
}

/// A run with unread and consumed mail, open and ended children, forty command ids, and a changed version.
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
fn continue_as_new_carries_changes_of_its_own_append() {
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
fn continue_as_new_keeps_owner_mail_and_pause() {
    let log = Log::running().completed("a").signalled("go", "s1").signalled("go", "s2").waits("w", &["go"]);
    let log = log.act(Command::Pause(note("p1"))).owned(vec![Owned::ContinueAsNew(json("[1]"))]);
    let state = log.state();
    assert_eq!((state.ops.len(), state.unread.len(), state.summary.mail_unread), (0, 1, 1));
    assert_eq!((state.summary.steps, &state.queued.input, log.status()), (0, &json("[1]"), Status::Paused));
    assert_eq!(state.summary.owner, Some(node("n-1")));
    assert_eq!(state.summary.epoch, log.end());
    let input_hash = order("{}").input.hash();
    assert_eq!(state.summary.input_hash, input_hash, "it is still the same run");
    assert_eq!(log.ask(&signal("go", "s1")), Ok(crate::Decision::default()), "a repeat is recognised");
}

#[test]
fn the_row_keeps_the_time_of_the_last_recovery() {
    let log = Log::running();
    assert_eq!(log.state().summary.recovered_at, None);
    let first = log.now;
    let log = log.act(take_over("n-2", "n-1", true)).completed("a");
    assert_eq!(log.state().summary.recovered_at, Some(first), "progress resets attempts, not recoveries");
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
fn damage_is_reported_and_never_guessed() {
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
fn only_searchable_changes_write_the_row() {
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
fn an_inconsistent_row_is_not_coherent() {
    let row = Log::running().state().summary.clone();
    assert!(row.is_coherent());
    assert!(!Summary { status: Status::Paused, ..row.clone() }.is_coherent());
    assert!(!Summary { finished_at: Some(Millis(1)), ..row }.is_coherent());
}

#[test]
fn only_a_pure_time_wait_is_sleeping() {
    let wait = |wanted: fn(&Log) -> crate::event::WaitStarted| {
        let log = Log::running();
        let wanted = wanted(&log);
        log.owned(vec![Owned::Wait { wanted, ask: None }])
    };
    let child = |log: &Log| crate::event::WaitStarted {
        children: vec![crate::RunId::new("c1").unwrap()],
        ..log.wanted("w", &[])
    };
    let time = |log: &Log| crate::event::WaitStarted { due: Some(Millis(9_000)), ..log.wanted("w", &[]) };
    for (log, status) in [
        (wait(child), Status::Waiting),
        (wait(time), Status::Sleeping),
        (Log::running().asks("q", Form::Text), Status::Waiting),
        (Log::running().waits("w", &["go"]), Status::Waiting),
        (Log::running().hands_out("resize"), Status::Waiting),
    ] {
        assert_eq!(log.status(), status, "{:?}", log.state().summary.waits);
    }
}

#[test]
fn the_row_lists_each_open_wait_once() {
    let waits =
        |log: &Log| log.state().summary.waits.iter().map(|wait| wait.path.to_string()).collect::<Vec<_>>();
    let log = Log::running().waits("a/w", &["go"]).waits("b/w", &["go"]).waits("a/w", &["go", "stop"]);
    assert_eq!(waits(&log), ["b/w", "a/w"], "a wait that begins again comes last");
    assert_eq!(log.state().summary.waits[1].signals.len(), 2);
    let log = log.signalled("stop", "s1").checks("a/w");
    assert_eq!(waits(&log), ["b/w"]);
}

#[test]
fn a_question_stays_open_while_another_wait_looks_for_it() {
    let log = Log::running().asks("p", Form::Text);
    let inputs = vec![path("p")];
    let due = Some(Millis(5_000));
    let wanted = crate::event::WaitStarted { inputs, due, ..log.wanted("reminder", &[]) };
    let mut log = log.owned(vec![Owned::Wait { wanted, ask: None }]);
    log.now = Millis(5_000);
    let log = log.checks("reminder");
    assert_eq!(log.names().last(), Some(&"wait.resolved"));
    let open: Vec<_> = log.state().summary.inputs.iter().map(|input| input.path.to_string()).collect();
    assert_eq!(open, ["p"]);
}

/// Opens a branch at the first completed step, as a recovery does.
fn cut_at_a(log: Log) -> Log {
    let cutoff = log.state().ops[&path("a")].last;
    let cut = log.heal(crate::recovery::Code::A2, "seen", crate::recovery::Remedy::Branch { cutoff });
    log.act(cut)
}

#[test]
fn cut_off_questions_stay_open_until_answered_or_repeated() {
    let cut_off = |log: &Log| {
        log.state().summary.cut_off.iter().map(|input| input.path.to_string()).collect::<Vec<_>>()
    };
    let mut log = Log::running().completed("a").asks("p", Form::Text).asks("q", Form::Text);
    let ask = log.question("r", Form::Text, Some(Millis(5_000)));
    log = log.owned(vec![ask]);
    log.now = Millis(5_000);
    let log = cut_at_a(log.checks("r").released(Release::HandOver));
    assert_eq!(cut_off(&log), ["p", "q"], "the third one had timed out");
    let answered = log.clone().act(answer("p", "a1", "\"yes\""));
    assert_eq!(cut_off(&answered), ["q"]);
    let again = log.claimed("n-2").asks("p", Form::Text);
    assert_eq!(cut_off(&again), ["q"]);
    let twice = cut_at_a(again.released(Release::HandOver));
    assert_eq!(cut_off(&twice), ["q", "p"], "each one once");
}

#[test]
fn the_row_keeps_recent_command_ids_and_knows_if_some_are_lost() {
    let signalled =
        |many: u32| (0..many).fold(Log::running(), |log, n| log.signalled("go", &format!("s{n}")));
    let row = signalled(32).state().summary.clone();
    assert_eq!((row.has_seen("s0"), row.has_seen("x"), row.mail_count), (Some(true), Some(false), 32));
    let row = signalled(33).state().summary.clone();
    assert_eq!((row.has_seen("s1"), row.has_seen("s0"), row.has_seen("x")), (Some(true), None, None));
}

#[test]
fn a_state_from_a_base_is_unsure_of_older_commands() {
    let signalled =
        |many: u32| (0..many).fold(Log::running(), |log, n| log.signalled("go", &format!("s{n}")));
    let note_of = |id: &str| Command::Annotate(note(id));
    let state = signalled(40).state().clone();
    assert_eq!(state.unsure_of(&note_of("x")), None, "the state begins at the first event");
    let continued = |many: u32| signalled(many).owned(vec![Owned::ContinueAsNew(json("1"))]).state().clone();
    assert_eq!(continued(32).unsure_of(&note_of("x")), None, "nothing is forgotten");
    let mut state = continued(40);
    assert_eq!((state.unsure_of(&note_of("s39")), state.has_seen("s39")), (None, true));
    assert_eq!((state.unsure_of(&note_of("s0")), state.has_seen("s0")), (Some("s0"), false));
    state.recall("s0");
    assert_eq!((state.unsure_of(&note_of("s0")), state.has_seen("s0")), (None, true));
    let name = crate::SignalName::new("go").unwrap();
    let id = "x".to_owned();
    let payload = json("1");
    let fresh =
        |fresh| Command::Signal { name: name.clone(), id: id.clone(), fresh, payload: payload.clone() };
    assert_eq!(state.unsure_of(&fresh(true)), None, "the id is fresh");
    assert_eq!(state.unsure_of(&fresh(false)), Some("x"));
}

#[test]
fn a_row_ignores_branch_facts_of_left_branches() {
    let log = Log::running().completed("a").signalled("go", "s1").act(Command::Annotate(note("n1")));
    let folded = |at: usize| {
        let mut row = derived(&log, at).summary;
        let stray = crate::Recorded { branch: crate::BranchId(9), ..log.records[at].clone() };
        row.fold(&stray, Hash::ZERO).unwrap();
        assert_eq!((row.as_of, row.last_event_at), (stray.seq, stray.at));
        row
    };
    assert_eq!(folded(1).owner, Some(node("n-1")), "ownership");
    assert_eq!((folded(3).steps, folded(3).step), (0, None), "not what a step did");
    assert_eq!(folded(4).mail_unread, 1, "mail");
    assert_eq!(folded(5).has_seen("n1"), Some(true), "notes");
}

#[test]
fn a_row_does_not_jump_over_an_event() {
    let log = a_life();
    let mut row = derived(&log, 3).summary;
    let stuck = row.fold(&log.records[4], Hash::ZERO).unwrap_err();
    assert!(matches!(stuck, Stuck::Corrupt(Corrupt { seq: Seq(5), .. })), "{stuck:?}");
    let mut live = derived(&log, 3);
    assert_eq!(live.apply(&log.records[4], Hash::ZERO).unwrap_err().seq, Seq(5));
}

#[test]
fn facts_about_an_operation_accumulate() {
    use crate::state::{OpKind, WaitOp};
    let log = Log::running().asks("q", Form::Text).starts_child("k", "c1");
    let children = vec![crate::RunId::new("c1").unwrap()];
    let wanted = crate::event::WaitStarted { children, ..log.wanted("k", &[]) };
    let log = log.owned(vec![Owned::Wait { wanted, ask: None }]);
    let wait = |step: &str| match &log.state().ops[&path(step)].kind {
        OpKind::Wait(wait) => wait.clone(),
        _ => panic!("{step} is not a wait"),
    };
    let WaitOp { asked, wanted, .. } = wait("q");
    assert!(asked && wanted.is_some());
    let WaitOp { child, wanted, .. } = wait("k");
    assert!(child.is_some() && wanted.is_some());
}

#[test]
fn the_latest_event_decides_the_kind_of_an_operation() {
    use crate::state::OpKind;
    let log = Log::running().completed("x").waits("x", &["go"]);
    assert!(matches!(log.state().ops[&path("x")].kind, OpKind::Wait(_)));
    assert_eq!((log.state().ops.len(), log.state().ops[&path("x")].ord), (1, 0));
    let log = log.started("x", 1);
    assert!(matches!(log.state().ops[&path("x")].kind, OpKind::Step(_)));
}

#[test]
fn steps_up_to_the_cutoff_are_not_compensated() {
    let log = Log::running().completed_with_undo("a").completed_with_undo("b");
    let a = log.state().ops[&path("a")].last;
    let b = log.state().ops[&path("b")].last;
    let left = |cut: Seq| log.state().to_undo(cut);
    assert_eq!(left(a.before()), [path("b"), path("a")], "latest first");
    assert_eq!((left(a), left(b)), (vec![path("b")], vec![]));
}

#[test]
fn a_long_message_is_shortened_in_the_row() {
    let log = Log::running().owned(vec![Owned::Fail(Failure::terminal("ä".repeat(300)).with_code("x"))]);
    let trouble = log.state().summary.trouble.clone().unwrap();
    assert_eq!((trouble.message, trouble.code.as_deref()), ("ä".repeat(200), Some("x")));
}

#[test]
fn events_that_change_the_row_write_it() {
    let log = Log::running().completed_with_undo("a").completed_with_undo("b");
    let undoing = log.clone().owned(vec![Owned::UndoStarted { path: path("b"), failure: None }]);
    let writes = |log: &Log, doing: Owned| {
        let decision = log.ask(&log.by_owner(vec![doing])).unwrap();
        changes_row(&log.state().summary, &seal(place(log.state(), None, WriteId(7)), decision.events))
    };
    let started = crate::event::StepStarted { remote: None, ..log.remote("c") };
    let failed = Owned::StepFailed { failed: log.failure("c"), retry_at: None, timeout: Some("timeout") };
    let progress = Owned::Progress { path: path("p"), ord: 2, message: "half".into() };
    let undo = |step: &str| Owned::UndoStarted { path: path(step), failure: None };
    for (log, doing, expected) in [
        (&log, Owned::StepStarted(log.remote("c")), true),
        (&log, Owned::StepStarted(started), false),
        (&log, failed, false),
        (&log, progress, false),
        (&log, Owned::Child(log.child("k", "c1")), false),
        (&log, Owned::Wait { wanted: log.wanted("w", &["go"]), ask: None }, true),
        (&log, undo("b"), true),
        (&undoing, undo("a"), false),
        (&undoing, Owned::UndoCompleted(path("b")), false),
    ] {
        assert_eq!(writes(log, doing.clone()), expected, "{doing:?}");
    }
}
