//! Jumps, retries and keys.

use crate::branch::{BranchId, Why};
use crate::command::{Command, Owned};
use crate::decide::{Decision, Refusal, Stamped, TaskMove, child_id, idempotency_key};
use crate::event::{BranchOpened, Event, JumpRequested, StepFailed, WaitStarted};
use crate::id::RunId;
use crate::state::{Mail, OpKind, StepProgress};
use crate::summary::Status;
use crate::testing::*;
use crate::time::Seq;

fn jump(log: Log, jump: JumpRequested) -> Log {
    log.act(Command::Jump(jump))
}

fn completed(log: &Log) -> Vec<String> {
    let is_done =
        |kind: &OpKind| matches!(kind, OpKind::Step(s) if matches!(s.progress, StepProgress::Completed(_)));
    let done = log.state().ops.iter().filter(|(_, op)| is_done(&op.kind));
    let mut done: Vec<_> = done.map(|(path, op)| (op.first, path.to_string())).collect();
    done.sort();
    done.into_iter().map(|(_, path)| path).collect()
}

#[test]
fn jump_opens_a_branch_in_one_append() {
    let log = Log::running().completed("a").completed("b").completed("c");
    let decision = log.ask(&Command::Jump(jump_to("j1", "b"))).unwrap();
    let names: Vec<_> = decision.events.iter().map(|stamped| stamped.event.name()).collect();
    assert_eq!((names, decision.task), (vec!["jump.requested", "branch.opened"], TaskMove::Ready));
    let log = jump(log, jump_to("j1", "b"));
    assert_eq!((completed(&log), log.status()), (vec!["a".to_owned()], Status::Queued));
    let log = log.claimed("n-2").completed("b").completed("c").finishes();
    assert_eq!(completed(&log), ["a", "b", "c"]);
}

#[test]
fn jump_to_unknown_step_refused() {
    let log = Log::running().completed("a");
    assert_eq!(log.ask(&Command::Jump(jump_to("j1", "z"))), Err(Refusal::NoSuchStep { step: path("z") }));
    let log = jump(log.completed("b"), jump_to("j1", "b"));
    let gone = log.ask(&Command::Jump(jump_to("j2", "b")));
    assert_eq!(gone, Err(Refusal::NoSuchStep { step: path("b") }), "this branch has not reached it yet");
}

#[test]
fn a_repeated_jump_or_retry_is_answered_with_no_events() {
    let log = jump(Log::running().completed("a"), jump_to("j1", "a")).claimed("n-1").completed("a");
    assert_eq!(log.ask(&Command::Jump(jump_to("j1", "a"))), Ok(Decision::default()));
    let log = log.owned(vec![Owned::Fail(failure("x"))]).act(Command::Retry(note("t1")));
    assert_eq!(log.ask(&Command::Retry(note("t1"))), Ok(Decision::default()));
}

#[test]
fn a_finished_run_can_jump_back() {
    let log = jump(Log::running().completed("a").finishes(), jump_to("j1", "a"));
    assert_eq!((log.status(), log.state().outcome.clone()), (Status::Queued, None));
    assert_eq!(log.state().summary.finished_at, None);
}

#[test]
fn the_parent_of_a_branch_contains_its_cutoff() {
    let log = jump(Log::running().completed("a").completed("b"), jump_to("j1", "b"));
    let log = log.claimed("n-1").completed("b").completed("c");
    let parents = |log: &Log| log.state().branches.iter().map(|b| b.parent.map(|p| p.0)).collect::<Vec<_>>();
    assert_eq!(parents(&jump(log.clone(), jump_to("j2", "c"))), [None, Some(1), Some(2)]);
    assert_eq!(parents(&jump(log.clone(), jump_to("j2", "b"))), [None, Some(1), Some(2)]);
    let back = jump(log, jump_to("j2", "a"));
    assert_eq!((parents(&back), completed(&back).len()), (vec![None, Some(1), Some(1)], 0));
}

#[test]
fn mail_consumed_in_an_abandoned_suffix_is_delivered_again() {
    let log = Log::running().signalled("go", "s1").waits("first", &["go"]).completed("a");
    let log = log.signalled("go", "s2").waits("second", &["go"]);
    let unread = |log: &Log| log.state().unread.keys().map(|seq| seq.0).collect::<Vec<_>>();
    assert_eq!(unread(&log), [] as [u64; 0]);
    let log = jump(log, jump_to("j1", "a"));
    assert_eq!(unread(&log), [8], "the first was consumed before the cut");
    let log = log.claimed("n-2").completed("a").waits("second", &["go"]);
    assert_eq!((unread(&log).len(), log.status()), (0, Status::Running));
}

#[test]
fn drop_mail_drops_consumed_mail() {
    let log = Log::running().completed("a").signalled("go", "s1").waits("w", &["go"]).signalled("go", "s2");
    let log = jump(log, JumpRequested { drop_mail: true, ..jump_to("j1", "a") });
    let unread: Vec<_> = log.state().unread.keys().copied().collect();
    assert_eq!(unread, [Seq(8)], "unread mail is not dropped");
}

#[test]
fn drop_mail_keeps_ends_of_children() {
    let log = Log::running().starts_child("pick", "c1").completed("a").child_ended("c1", Ok(json("7")));
    let child = RunId::new("c1").unwrap();
    let wanted = WaitStarted { children: vec![child.clone()], ..log.wanted("picked", &[]) };
    let log = log.owned(vec![Owned::Wait { wanted, ask: None }]);
    assert!(log.state().unread.is_empty());
    let log = jump(log, JumpRequested { drop_mail: true, ..jump_to("j1", "a") });
    let unread: Vec<_> = log.state().unread.values().cloned().collect();
    assert_eq!(unread, [Mail::Child { run: child, result: Ok(json("7")) }], "the child does not end again");
}

#[test]
fn a_jump_may_bring_other_input() {
    let log = Log::running().completed("a");
    let log = jump(log, JumpRequested { input: Some(json("[7]")), ..jump_to("j1", "a") });
    assert_eq!(log.state().queued.input, json("[7]"));
    assert_eq!(log.state().other_input_until, log.end());
    let same = Command::Start { queued: order("{}"), claim: None };
    assert_eq!(log.ask(&same), Ok(Decision::default()), "it is still the same run");
}

#[test]
fn a_jump_with_compensation_waits_until_all_is_undone() {
    let log = Log::running().completed_with_undo("a").completed_with_undo("b").completed("c");
    let wish = JumpRequested { compensate: true, ..jump_to("j1", "b") };
    let log = jump(log, wish.clone());
    assert_eq!((log.status(), log.names().last()), (Status::Compensating, Some(&"jump.requested")));
    assert_eq!(log.state().to_undo(Seq(4)), [path("b")]);
    assert_eq!(log.ask(&Command::Jump(wish.clone())), Ok(Decision::default()));
    let log = log.undone("b").owned(vec![Owned::FinishJump]);
    assert_eq!((completed(&log), log.status()), (vec!["a".to_owned()], Status::Queued));
    assert_eq!(log.ask(&Command::Jump(wish)), Ok(Decision::default()));
}

#[test]
fn a_finished_run_does_not_silently_skip_compensation() {
    let log = Log::running().completed_with_undo("a").finishes();
    let wish = JumpRequested { compensate: true, ..jump_to("j1", "a") };
    assert_eq!(log.ask(&Command::Jump(wish)), Err(Refusal::Finished { status: Status::Completed }));
}

#[test]
fn steps_completed_after_the_cutoff_are_compensated() {
    let log = Log::running().started("a/slow", 1).completed("b/x");
    let done = crate::event::StepCompleted { undo: true, ..log.completion("a/slow") };
    let log = log.owned(vec![Owned::StepCompleted(done)]);
    let cut = log.state().ops[&path("b/x")].first.before();
    assert_eq!(log.state().to_undo(cut), [path("a/slow")]);
}

#[test]
fn retry_tries_the_failed_step_again() {
    let log = Log::running().completed("a").failed("b", None);
    let early = log.ask(&Command::Retry(note("t1")));
    assert!(matches!(early, Err(Refusal::NothingToDo { .. })), "it has not failed yet");
    let log = log.owned(vec![Owned::Fail(failure("b failed"))]).act(Command::Retry(note("t1")));
    assert_eq!((completed(&log), log.status()), (vec!["a".to_owned()], Status::Queued));
    assert!(!log.state().ops.contains_key(&path("b")));
    assert_eq!(log.state().summary.trouble, None);
    let why = log.state().branches.active().why.clone();
    assert_eq!(why, Some(Why::Retry { from: Some(path("b")) }));
}

#[test]
fn retry_cuts_before_compensated_steps() {
    let log = Log::running().completed("a").completed_with_undo("b").completed("c").failed("d", None);
    let log = log.undone("b").owned(vec![Owned::Fail(failure("d"))]).act(Command::Retry(note("t1")));
    assert_eq!(completed(&log), ["a"]);
    assert!(log.state().undone.is_empty());
}

#[test]
fn retry_of_a_failed_group_tries_its_failed_leaf_again() {
    let log = Log::running().started("g", 1).completed("g/a").failed("g/b", None);
    let failed = StepFailed { group: true, ..log.failure("g") };
    let log = log.owned(vec![Owned::StepFailed { failed, retry_at: None, timeout: None }]);
    let log = log.owned(vec![Owned::Fail(failure("g"))]).act(Command::Retry(note("t1")));
    assert_eq!(completed(&log), ["g/a"], "what the group had reached is kept");
    assert!(!log.state().ops.contains_key(&path("g/b")));
    let OpKind::Step(group) = &log.state().ops[&path("g")].kind else { panic!("not a step") };
    assert_eq!(group.progress, StepProgress::Started);
}

#[test]
fn retry_leaves_a_failure_that_was_handled() {
    let log = Log::running().failed("a", None).completed("instead").failed("z", None);
    let log = log.owned(vec![Owned::Fail(failure("z"))]).act(Command::Retry(note("t1")));
    assert!(log.state().ops.contains_key(&path("a")), "its fallback ran already");
    assert!(!log.state().ops.contains_key(&path("z")));
}

#[test]
fn retry_of_two_arms_that_failed_tries_both_again() {
    let log = Log::running().failed("j/0/x", None).failed("j/1/x", None);
    let log = log.owned(vec![Owned::Fail(failure("x"))]).act(Command::Retry(note("t1")));
    assert!(log.state().ops.is_empty());
}

#[test]
fn retry_of_a_failure_outside_steps_keeps_the_steps() {
    let log = Log::running().completed("a").owned(vec![Owned::Fail(failure("bug"))]);
    assert_eq!(completed(&log.act(Command::Retry(note("t1")))), ["a"]);
}

fn recover_at(mut log: Log, parent: u32, cutoff: Seq) -> Log {
    let why = Why::Recovery { rule: "A1".into(), evidence: "no open question".into() };
    let branch = log.state().branches.next_id();
    let parent = Some(BranchId(parent));
    let input = None;
    let dropped_mail = vec![];
    let carried = None;
    let opened = BranchOpened { branch, parent, cutoff, why, input, dropped_mail, carried };
    log.write(None, vec![Stamped { at: log.now, event: Event::BranchOpened(opened) }]);
    log
}

#[test]
fn keys_renewed_by_jump_kept_by_recovery() {
    let step = path("charge");
    let log = Log::running().completed("a").completed("b");
    let first = idempotency_key(log.state(), &step);
    let recovered = recover_at(log.clone(), 1, Seq(4));
    let cut = log.end();
    assert_eq!(idempotency_key(recovered.state(), &step), first);
    let jumped = jump(log, jump_to("j1", "b"));
    let second = idempotency_key(jumped.state(), &step);
    assert_ne!(second, first);
    let child = child_id(jumped.state(), &path("pick"));
    let recovered = recover_at(jumped, 1, Seq(4));
    assert!(cut > Seq(4));
    assert_eq!(
        idempotency_key(recovered.state(), &step),
        second,
        "a compensation may have used the first key"
    );
    assert_eq!(child_id(recovered.state(), &path("pick")), child);
}

#[test]
fn cancel_survives_recovery_and_drop_cancel_drops_it() {
    let log = Log::running().completed("a").act(Command::Cancel(note("c1")));
    assert!(recover_at(log.clone(), 1, Seq(4)).state().summary.cancel.is_some());
    let jump = Command::DropCancel(Box::new(Command::Jump(jump_to("j1", "a"))));
    assert_eq!(log.act(jump).state().summary.cancel, None);
}

#[test]
fn null_is_an_input_like_any_other() {
    let log = jump(
        Log::running().completed("a"),
        JumpRequested { input: Some(json("null")), ..jump_to("j1", "a") },
    );
    assert_eq!(log.read_back(), log.records);
}

fn failure(message: &str) -> crate::Failure {
    crate::Failure::terminal(message)
}

#[test]
fn a_jump_does_not_skip_compensated_steps() {
    let log = Log::running().completed_with_undo("a").completed("b").undone("a");
    let refusal = log.ask(&Command::Jump(jump_to("j1", "b"))).unwrap_err();
    assert!(refusal.to_string().contains("an earlier step was undone"), "{refusal}");
    assert!(log.ask(&Command::Jump(jump_to("j1", "a"))).is_ok(), "the step runs again");
    let begun = Log::running().completed_with_undo("a").completed("b");
    let begun = begun.owned(vec![Owned::UndoStarted { path: path("a"), failure: None }]);
    assert!(begun.ask(&Command::Jump(jump_to("j1", "b"))).is_ok(), "the outcome is not known yet");
}

#[test]
fn a_compensating_run_finishes_compensating_first() {
    let log = Log::running().completed_with_undo("a").completed_with_undo("b");
    let wish = JumpRequested { compensate: true, ..jump_to("j1", "a") };
    let undo = |failure| vec![Owned::UndoStarted { path: path("b"), failure }];
    let undoing = log.clone().owned(undo(Some(failure("x"))));
    let refusal = undoing.ask(&Command::Jump(wish.clone())).unwrap_err();
    assert!(refusal.to_string().contains("the run is compensating"), "{refusal}");
    assert!(undoing.ask(&Command::Jump(jump_to("j1", "a"))).is_ok(), "without compensation it may jump");
    let undoing = log.owned(undo(None));
    assert_eq!(undoing.ask(&Command::Jump(wish)), Err(refusal), "also without a recorded failure");
}

#[test]
fn a_jump_without_compensations_happens_at_once() {
    let log = Log::running().completed("a");
    let wish = JumpRequested { compensate: true, ..jump_to("j1", "a") };
    let log = jump(log, wish);
    assert_eq!((log.status(), log.state().jump.clone()), (Status::Queued, None));
    let Event::JumpRequested(asked) = &log.records[4].event else { panic!("no jump") };
    assert!(!asked.compensate, "nothing has to be compensated first");
}

#[test]
fn only_mail_consumed_after_the_cut_is_dropped() {
    let log = Log::running().signalled("go", "s1").waits("w", &["go"]).completed("a");
    let log = log.signalled("go", "s2").waits("x", &["go"]).signalled("go", "s3").waits("y", &["go"]);
    let log = jump(log, JumpRequested { drop_mail: true, ..jump_to("j1", "a") });
    let Event::BranchOpened(opened) = &log.records.last().unwrap().event else { panic!("no branch") };
    assert_eq!((opened.cutoff, &opened.dropped_mail[..]), (Seq(6), &[Seq(8), Seq(11)][..]));
}

#[test]
fn a_failure_is_handled_if_its_arm_or_an_outer_one_continued() {
    let retried = |log: Log| log.owned(vec![Owned::Fail(failure("z"))]).act(Command::Retry(note("t1")));
    let keeps = |log: Log, step: &str| retried(log.failed("z", None)).state().ops.contains_key(&path(step));
    assert!(keeps(Log::running().failed("g/b", None).completed("g/c"), "g/b"), "in its own arm");
    assert!(keeps(Log::running().failed("g/b", None).completed("x"), "g/b"), "in the arm around it");
    let beside = Log::running().failed("g/b", None).failed("h/b", None).completed("h/c");
    assert!(!retried(beside).state().ops.contains_key(&path("g/b")), "not in the one beside it");
    let alike = Log::running().failed("gh/b", None).completed("g/c");
    assert!(!retried(alike).state().ops.contains_key(&path("gh/b")), "a common prefix is not the same arm");
}

#[test]
fn a_group_that_fails_with_its_leaf_did_not_handle_the_failure() {
    let log = Log::running().completed("g/a").failed("g/b", None);
    let failed = StepFailed { group: true, ..log.failure("g") };
    let log = log.owned(vec![Owned::StepFailed { failed, retry_at: None, timeout: None }]);
    let log = log.owned(vec![Owned::Fail(failure("g"))]).act(Command::Retry(note("t1")));
    assert_eq!(completed(&log), ["g/a"]);
    assert!(!log.state().ops.contains_key(&path("g/b")));
}
