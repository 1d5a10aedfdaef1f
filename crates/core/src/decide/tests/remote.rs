//! Remote steps: when they are handed out, when a result is accepted, when they are dropped.

use std::time::Duration;

use crate::branch::Why;
use crate::command::{Command, Owned, StepEnded};
use crate::decide::{Decision, Refusal, Stamped, TaskMove, idempotency_key};
use crate::event::{BranchOpened, Event, JumpRequested, Release};
use crate::recovery::{Code, Remedy};
use crate::state::{OpKind, StepOp, StepProgress};
use crate::summary::Status;
use crate::task::{Task, TaskState};
use crate::testing::*;
use crate::time::Millis;
use crate::{Failure, TaskId};

fn step<'a>(log: &'a Log, name: &str) -> &'a StepOp {
    match &log.state().ops[&path(name)].kind {
        OpKind::Step(step) => step,
        other => panic!("{name} is {other:?}"),
    }
}

fn open(log: &Log) -> Vec<(String, u32)> {
    let open = log.state().open_remote();
    open.into_iter().map(|open| (open.path.to_string(), open.attempt)).collect()
}

fn task_of(log: &Log, name: &str) -> TaskId {
    step(log, name).remote.as_ref().unwrap().sent.task.clone()
}

fn refused(log: &Log, ended: StepEnded) -> &'static str {
    log.ask(&Command::StepEnded(ended)).unwrap_err().code()
}

/// Returns the task that handing out this step creates.
fn made(log: &Log, name: &str) -> Task {
    let handed = log.ask(&log.by_owner(vec![Owned::StepStarted(log.remote(name))])).unwrap().handed;
    handed.into_iter().next().unwrap()
}

fn names(decision: &Decision) -> Vec<&'static str> {
    decision.events.iter().map(|stamped| stamped.event.name()).collect()
}

#[test]
fn starting_a_remote_step_creates_its_task() {
    let log = Log::running();
    let decision = log.ask(&log.by_owner(vec![Owned::StepStarted(log.remote("resize"))])).unwrap();
    let task = &decision.handed[0];
    assert_eq!((task.kind.as_str(), task.queue.as_str(), task.priority), ("resize", "gpu", 5));
    assert_eq!((task.state, task.payload.as_str()), (TaskState::Ready, r#"{"for":"resize"}"#));
    assert_eq!((task.run.as_ref(), task.silence_max), (Some(&log.run), Some(Duration::from_secs(60))));
    assert_eq!((task.key.as_deref(), task.attempts_max), (None, 1));
    let of = task.step.as_ref().unwrap();
    assert_eq!((of.path.as_str(), of.attempt), ("resize", 1));
    assert_eq!(of.key, idempotency_key(log.state(), &path("resize")));
    let log = log.hands_out("resize");
    assert_eq!(log.status(), Status::Waiting);
    assert_eq!(log.state().summary.waits[0].tasks, std::slice::from_ref(&task.id));
    assert_eq!(open(&log), [("resize".to_owned(), 1)]);
}

#[test]
fn a_result_completes_the_step_and_wakes_the_run() {
    let log = Log::running().hands_out("resize").released(Release::Unload);
    let ended = Command::StepEnded(log.brought("resize", 3, Ok(json("7"))));
    assert_eq!(log.ask(&ended).unwrap().task, TaskMove::Wake);
    let log = log.act(ended);
    assert_eq!(step(&log, "resize").progress, StepProgress::Completed(json("7")));
    let last = log.records.last().unwrap();
    assert_eq!(last.epoch, None);
    assert!(matches!(&last.event, Event::StepCompleted(done) if done.fence == Some(3) && done.attempt == 1));
    assert_eq!((log.status(), open(&log).len()), (Status::Queued, 0));
    assert!(log.state().remote_ended, "the run has no owner and can continue");
    assert!(!log.claimed("n-2").state().remote_ended);
}

#[test]
fn a_repeat_of_the_same_claim_has_no_events_others_are_refused() {
    let log = Log::running().hands_out("resize");
    let first = log.brought("resize", 1, Ok(json("1")));
    let other_claim = StepEnded { fence: 2, ..first.clone() };
    let other_task = StepEnded { task: TaskId::new("s-other").unwrap(), ..first.clone() };
    assert_eq!(refused(&log, other_task.clone()), "GS0119");
    let done = log.act(Command::StepEnded(first.clone()));
    for log in [done.clone(), done.finishes()] {
        assert_eq!(log.ask(&Command::StepEnded(first.clone())), Ok(Decision::default()));
        for other in [Err(Failure::terminal("no")), Ok(json("2"))] {
            assert_eq!(refused(&log, StepEnded { result: other, ..first.clone() }), "GS0603");
        }
        assert_eq!(refused(&log, other_claim.clone()), "GS0119");
        assert_eq!(refused(&log, other_task.clone()), "GS0119");
    }
}

#[test]
fn a_failure_is_retried_by_the_logged_policy() {
    let mut log = Log::running();
    for attempt in 1..=2 {
        log = log.hands_out("resize").brings("resize", 1, Err(Failure::retryable("no luck")));
        let due = Millis(log.records.last().unwrap().at.0 + 500);
        assert_eq!(step(&log, "resize").progress, StepProgress::Retry(due));
        assert_eq!((log.status(), step(&log, "resize").failures), (Status::Sleeping, attempt));
        assert_eq!(log.state().summary.due(), Some(due));
    }
    let last = log.by_owner(vec![Owned::StepStarted(log.remote("resize"))]);
    let handed = log.ask(&last).unwrap();
    assert_eq!(handed.handed[0].payload.as_str(), r#"{"for":"resize"}"#);
    let Event::StepStarted(third) = &handed.events[0].event else { panic!("{handed:?}") };
    assert_eq!(third.remote.as_ref().unwrap().payload, None, "the log has the worker's input once");
    let log = log.act(last).brings("resize", 1, Err(Failure::retryable("no luck")));
    assert_eq!(step(&log, "resize").progress, StepProgress::Failed(Failure::retryable("no luck")));
    let log = Log::running().hands_out("resize").brings("resize", 1, Err(Failure::terminal("never")));
    assert_eq!((log.status(), log.names().last()), (Status::Running, Some(&"step.failed")));
}

#[test]
fn each_attempt_has_its_own_task_and_old_ones_are_refused() {
    let log = Log::running().hands_out("resize");
    let first = log.brought("resize", 1, Ok(json("1")));
    let log = log.brings("resize", 1, Err(Failure::retryable("no luck"))).hands_out("resize");
    assert_ne!(task_of(&log, "resize"), first.task);
    let failed = StepEnded { result: Err(Failure::retryable("no luck")), ..first.clone() };
    assert_eq!(log.ask(&Command::StepEnded(failed)), Ok(Decision::default()), "its failure is recorded");
    assert_eq!(refused(&log, first.clone()), "GS0603", "it failed and did not complete");
    assert_eq!(refused(&log, StepEnded { fence: 2, ..first.clone() }), "GS0119");
    assert_eq!(refused(&log, StepEnded { attempt: 2, ..first.clone() }), "GS0119");
    assert_eq!(refused(&log, StepEnded { path: path("other"), ..first }), "GS0119");
    assert_eq!(open(&log), [("resize".to_owned(), 2)]);
}

#[test]
fn an_owner_cannot_end_a_remote_step_or_hand_it_out_twice() {
    let log = Log::running().hands_out("resize");
    let failed = Owned::StepFailed { failed: log.failure("resize"), retry_at: None, timeout: None };
    let again = log.remote("resize");
    for doing in [Owned::StepCompleted(log.completion("resize")), failed, Owned::StepStarted(again)] {
        assert_eq!(log.ask(&log.by_owner(vec![doing])), Err(Refusal::Fenced));
    }
}

#[test]
fn a_jump_drops_all_tasks_and_renews_the_keys() {
    let log = Log::running().hands_out("left").completed("a").hands_out("b");
    let left = log.brought("left", 1, Ok(json("1")));
    let b = log.brought("b", 1, Ok(json("1")));
    let decision = log.ask(&Command::Jump(jump_to("j1", "b"))).unwrap();
    let mut tasks = [left.task.clone(), b.task.clone()];
    tasks.sort();
    assert_eq!(decision.dropped, tasks);
    let log = log.act(Command::Jump(jump_to("j1", "b")));
    assert_eq!((log.status(), open(&log)), (Status::Queued, vec![]));
    for late in [left.clone(), b] {
        assert_eq!(refused(&log, late), "GS0119");
    }
    let log = log.claimed("n-2").hands_out("left");
    assert_eq!(open(&log), [("left".to_owned(), 2)]);
    assert_ne!(task_of(&log, "left"), left.task);
    assert_eq!(log.status(), Status::Waiting);
}

#[test]
fn a_compensating_jump_accepts_no_results() {
    let log = Log::running().completed_with_undo("a").hands_out("b");
    let late = log.brought("b", 1, Ok(json("1")));
    let jump = JumpRequested { compensate: true, ..jump_to("j1", "a") };
    let decision = log.ask(&Command::Jump(jump.clone())).unwrap();
    assert_eq!((names(&decision), &decision.dropped), (vec!["jump.requested"], &vec![late.task.clone()]));
    let log = log.act(Command::Jump(jump));
    assert_eq!((refused(&log, late), log.state().summary.waits.len()), ("GS0119", 0));
}

#[test]
fn ending_a_run_drops_its_tasks() {
    let log = Log::running().completed_with_undo("a").hands_out("b");
    let late = log.brought("b", 1, Ok(json("1")));
    let ends = [
        Owned::Complete(json("1")),
        Owned::Fail(Failure::terminal("x")),
        Owned::EndCancelled,
        Owned::ContinueAsNew(json("2")),
        Owned::UndoStarted { path: path("a"), failure: Some(Failure::terminal("x")) },
    ];
    for end in ends {
        let command = log.by_owner(vec![end.clone()]);
        assert_eq!(log.ask(&command).unwrap().dropped, std::slice::from_ref(&late.task), "{end:?}");
        let over = log.clone().act(command);
        let code = refused(&over, late.clone());
        assert!(matches!(code, "GS0119" | "GS0105"), "{end:?}: {code}");
        assert!(over.state().handed_out.is_empty());
    }
    let both = log.by_owner(vec![Owned::StepStarted(log.remote("c")), Owned::Complete(json("1"))]);
    let decision = log.ask(&both).unwrap();
    assert_eq!((decision.handed.len(), decision.dropped.len()), (1, 2), "made and dropped in one append");
}

#[test]
fn a_run_cannot_fail_before_a_new_result_is_compensated() {
    let log = Log::running().hands_out_with_undo("charge");
    let ends = || [Owned::Fail(Failure::terminal("x")), Owned::EndCancelled];
    let fails: Vec<Command> = ends().into_iter().map(|end| log.by_owner(vec![end])).collect();
    let log = log.brings("charge", 1, Ok(json("1")));
    assert_eq!(log.state().undo, [path("charge")]);
    for fail in fails {
        assert_eq!(log.ask(&fail), Err(Refusal::LeftToUndo));
    }
    for end in ends() {
        let undo = Owned::UndoStarted { path: path("charge"), failure: None };
        let undone = log.by_owner(vec![undo, Owned::UndoCompleted(path("charge")), end]);
        assert!(log.ask(&undone).is_ok());
    }
}

#[test]
fn a_silent_attempt_is_given_up_and_retried() {
    let mut log = Log::running();
    for attempt in 1..=3 {
        log = log.hands_out("resize");
        let late = log.brought("resize", 1, Ok(json("1")));
        let task = Box::new(a_task(late.task.clone()));
        let given_up =
            log.heal(Code::H1, "it is silent", Remedy::GiveUp { path: path("resize"), attempt, task });
        let decision = log.ask(&given_up).unwrap();
        let mut expected = vec!["run.recovered", "step.timeout", "step.failed"];
        expected.extend((attempt < 3).then_some("step.retry_scheduled"));
        assert_eq!((names(&decision), decision.task), (expected, TaskMove::Wake));
        assert_eq!(decision.dropped, std::slice::from_ref(&late.task));
        log = log.act(given_up.clone());
        assert_eq!(log.ask(&given_up).unwrap_err().code(), "GS0110", "two healers do no more than one");
        assert_eq!(refused(&log, late), "GS0119", "it was given up");
    }
    let StepProgress::Failed(failure) = &step(&log, "resize").progress else { panic!("{:?}", log.names()) };
    assert_eq!(failure.code.as_deref(), Some("heartbeat-timeout"));
    assert_eq!((step(&log, "resize").failures, log.status()), (3, Status::Running));
}

#[test]
fn a_lost_task_is_replaced_without_using_a_retry() {
    let log = Log::running().hands_out("resize");
    let late = log.brought("resize", 1, Ok(json("1")));
    let lost =
        |log: &Log| log.heal(Code::O3, "it is lost", Remedy::SendAgain { path: path("resize"), attempt: 1 });
    let again = lost(&log);
    let decision = log.ask(&again).unwrap();
    assert_eq!(names(&decision), ["run.recovered", "step.started"]);
    assert_eq!((decision.handed[0].payload.as_str(), decision.task), (r#"{"for":"resize"}"#, TaskMove::Keep));
    assert_eq!(decision.dropped, std::slice::from_ref(&late.task));
    let log = log.act(again.clone());
    assert_eq!(log.ask(&again).unwrap_err().code(), "GS0110", "two healers do no more than one");
    assert_ne!(task_of(&log, "resize"), late.task);
    assert_eq!(refused(&log, late), "GS0119");
    assert_eq!((open(&log), log.state().handed_out.len()), (vec![("resize".to_owned(), 1)], 1));
    assert_eq!((step(&log, "resize").failures, log.state().summary.attempt), (0, 0));
    let again = lost(&log);
    let log = log.act(again).brings("resize", 1, Ok(json("1")));
    assert_eq!(step(&log, "resize").progress, StepProgress::Completed(json("1")));
}

#[test]
fn the_result_of_an_ended_task_is_appended() {
    let log = Log::running();
    let claimed = made(&log, "resize").claimed("w", Millis(1));
    let log = log.hands_out("resize");
    let brought = [
        (claimed.clone().completed(1, json("7"), Millis(2)).unwrap(), "step.completed"),
        (claimed.failed(1, Failure::terminal("no"), Millis(2)).unwrap(), "step.failed"),
    ];
    for (task, event) in brought {
        let path = path("resize");
        let attempt = 1;
        let task = Box::new(task);
        let decision =
            log.ask(&log.heal(Code::O3, "it is over", Remedy::TakeResult { path, attempt, task })).unwrap();
        assert_eq!((names(&decision), decision.task), (vec!["run.recovered", event], TaskMove::Wake));
    }
}

#[test]
fn a_reset_drops_tasks_and_hands_out_the_same_attempts() {
    let log = Log::running().hands_out("left").completed("a").hands_out("b");
    let left = task_of(&log, "left");
    let b = task_of(&log, "b");
    let late = log.brought("b", 1, Ok(json("1")));
    let reset = Command::Reset(note("x1"));
    assert_eq!(log.ask(&reset).unwrap().dropped.len(), 2);
    let log = log.act(reset);
    assert_eq!((log.status(), refused(&log, late)), (Status::Queued, "GS0119"));
    let log = log.claimed("n-2").hands_out("left").hands_out("b");
    assert_eq!(open(&log), [("left".to_owned(), 2), ("b".to_owned(), 1)]);
    assert!(task_of(&log, "left") != left && task_of(&log, "b") != b, "a dropped task is not used again");
    let key = idempotency_key(log.state(), &path("b"));
    assert_eq!(key, idempotency_key(Log::running().state(), &path("b")), "a reset keeps the keys");
}

#[test]
fn a_recovery_keeps_keys_and_tasks() {
    let mut log = Log::running().hands_out("left").completed("a").hands_out("right");
    let left = log.brought("left", 1, Ok(json("1")));
    let right = log.brought("right", 1, Ok(json("1")));
    log = log.brings("left", 1, Ok(json("1")));
    let branch = log.state().branches.next_id();
    let parent = Some(log.state().summary.branch);
    let cutoff = log.state().ops[&path("a")].last;
    let why = Why::Recovery { rule: "A1".into(), evidence: "none".into() };
    let input = None;
    let dropped_mail = vec![];
    let carried = None;
    let event =
        Event::BranchOpened(BranchOpened { branch, parent, cutoff, why, input, dropped_mail, carried });
    log.write(None, vec![Stamped { at: Millis(9_000), event }]);
    assert_eq!(open(&log), [("left".to_owned(), 1)], "a step that ended after the cutoff is open again");
    assert_eq!(log.state().handed_out.len(), 2, "a task created after the cutoff is known again");
    let log = log.claimed("n-2").act(Command::StepEnded(left)).hands_out("right");
    assert_eq!(task_of(&log, "right"), right.task, "the same key gives the same task");
    assert_eq!(log.act(Command::StepEnded(right)).status(), Status::Running);
}

#[test]
fn a_paused_run_takes_a_result_and_is_not_woken() {
    let log = Log::running().hands_out("resize").act(Command::Pause(note("p1"))).released(Release::Paused);
    let ended = Command::StepEnded(log.brought("resize", 1, Ok(json("1"))));
    assert_eq!(log.ask(&ended).unwrap().task, TaskMove::Keep);
    let log = log.act(ended).act(Command::Resume(note("r1")));
    assert_eq!(log.status(), Status::Queued);
}

#[test]
fn results_of_steps_side_by_side_come_in_any_order() {
    let log = Log::running().hands_out("one").hands_out("two").released(Release::Unload);
    let log = log.brings("two", 1, Ok(json("2")));
    assert_eq!((log.status(), open(&log)), (Status::Waiting, vec![("one".to_owned(), 1)]));
    assert!(log.state().remote_ended, "the second result wakes it although it waits for the first");
    assert_eq!(log.brings("one", 1, Ok(json("1"))).status(), Status::Queued);
}
