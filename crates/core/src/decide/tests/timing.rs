//! Deadlines, delayed starts and lanes.

use crate::command::{Claim, Command, Owned, Withdraw};
use crate::decide::{Decision, Refusal, TaskMove, View, decide};
use crate::event::{Event, JumpRequested, Release, Request, RunQueued};
use crate::hash::WriteId;
use crate::id::LaneName;
use crate::limits::Limits;
use crate::plan::{PlanBasis, TaskChange, plan_tasks};
use crate::recovery::{Code, Remedy};
use crate::seal::{place, seal};
use crate::summary::Status;
use crate::task::Task;
use crate::testing::*;
use crate::time::Millis;
use crate::{Failure, Summary};

const DEADLINE: Millis = Millis(50_000);

fn queued() -> RunQueued {
    RunQueued { deadline: Some(DEADLINE), ..order("{}") }
}

fn start(queued: RunQueued) -> Log {
    Log::new("r1").act(Command::Start { queued, claim: None })
}

/// A run with a deadline that `n-1` owns.
fn running() -> Log {
    start(queued()).claimed("n-1")
}

fn late(mut log: Log) -> Log {
    log.now = DEADLINE;
    log
}

fn names(decision: &Decision) -> Vec<&'static str> {
    decision.events.iter().map(|stamped| stamped.event.name()).collect()
}

fn decided(log: &Log, command: &Command) -> Result<Decision, Refusal> {
    decide(View::Full(log.state()), command, log.now, &Limits::default())
}

fn failure(log: &Log) -> Failure {
    match log.records.last().map(|recorded| &recorded.event) {
        Some(Event::RunFailed { failure }) => failure.clone(),
        other => panic!("not failed: {other:?}"),
    }
}

#[test]
fn a_deadline_that_has_passed_is_refused() {
    for (deadline, start_at) in [(999, None), (1_000, None), (5_000, Some(5_000)), (4_000, Some(5_000))] {
        let deadline = Some(Millis(deadline));
        let start_at = start_at.map(Millis);
        let queued = RunQueued { deadline, start_at, ..order("{}") };
        let command = Command::Start { queued, claim: None };
        let refused = decide(View::Absent, &command, Millis(1_000), &Limits::default()).unwrap_err();
        assert_eq!(refused.code(), "GS0160", "{refused}");
        assert!(decided(&running(), &command).unwrap().events.is_empty(), "a repeated start is the same run");
    }
}

#[test]
fn nothing_times_out_before_the_deadline() {
    let mut log = running();
    log.now = Millis(DEADLINE.0 - 1);
    assert!(matches!(decided(&log, &Command::TimeOut), Err(Refusal::NothingToDo { .. })));
    assert!(matches!(decided(&late(Log::running()), &Command::TimeOut), Err(Refusal::NothingToDo { .. })));
}

#[test]
fn an_unstarted_run_fails_at_once_without_its_code() {
    let log = late(start(queued()));
    let row =
        decide(View::Row(&log.state().summary), &Command::TimeOut, log.now, &Limits::default()).unwrap();
    assert_eq!(names(&row), ["run.cancel_requested", "run.failed"], "the row is enough");
    let claimed = decided(&log, &claim("n-1")).unwrap();
    assert_eq!(
        (names(&claimed), claimed.task),
        (vec!["run.cancel_requested", "run.failed"], TaskMove::Remove)
    );
    let log = log.act(Command::TimeOut);
    assert_eq!(log.status(), Status::Failed);
    let failure = failure(&log);
    assert_eq!((failure.class.as_str(), failure.code.as_deref()), ("terminal", Some("timeout")));
    assert!(failure.message.contains("its deadline 1970-01-01T00:00:50.000Z has passed"), "{failure:?}");
}

#[test]
fn a_claim_after_the_deadline_requests_the_end_first() {
    for log in [
        running().waits("w", &["go"]).released(Release::Unload),
        running().completed_with_undo("a").released(Release::HandOver).act(Command::Pause(note("p"))),
        running().completed_with_undo("a").owned(vec![Owned::Park { code: "V1", reason: "x".into() }]),
    ] {
        let log = late(log);
        assert_eq!(names(&decided(&log, &claim("n-2")).unwrap()), ["run.cancel_requested", "run.claimed"]);
        let log = log.act(claim("n-2"));
        let summary = &log.state().summary;
        assert!(summary.timed_out && !summary.paused && !summary.parked && summary.owner.is_some());
        assert!(matches!(decided(&log, &Command::TimeOut), Err(Refusal::NothingToDo { .. })), "once");
    }
}

#[test]
fn a_parked_run_with_nothing_to_undo_fails_at_once() {
    let log = late(running().owned(vec![Owned::Park { code: "V1", reason: "x".into() }]));
    assert_eq!(names(&decided(&log, &Command::TimeOut).unwrap()), ["run.cancel_requested", "run.failed"]);
}

#[test]
fn without_code_only_a_run_with_nothing_to_undo_ends_at_its_deadline() {
    let lost = |owner: Option<&str>| Command::TimeOutUnmanned { lost: owner.map(node) };
    let ends = ["run.cancel_requested", "run.failed"];
    let waits = running().waits("w", &["go"]);
    let resting = waits.clone().released(Release::Unload);
    let paused = resting.clone().act(Command::Pause(note("p")));
    for log in [resting, paused.clone()] {
        assert_eq!(names(&decided(&late(log), &lost(None)).unwrap()), ends);
    }
    assert_eq!(names(&decided(&late(waits.clone()), &lost(Some("n-1"))).unwrap()), ends);
    assert_eq!(names(&decided(&late(waits), &lost(Some("n-9"))).unwrap()), ends[..1], "another node owns it");
    let booked = running().completed_with_undo("a").released(Release::HandOver);
    let parent = running().starts_child("pick", "c1").released(Release::HandOver);
    for log in [booked.act(Command::Pause(note("p"))), parent] {
        let log = late(log);
        let decision = decided(&log, &lost(None)).unwrap();
        assert_eq!((names(&decision), decision.task), (ends[..1].to_vec(), TaskMove::Wake));
        let log = log.act(lost(None));
        assert!(log.status().is_active() && log.state().summary.timed_out, "it waits for a worker");
    }
    assert!(matches!(decided(&paused, &lost(None)), Err(Refusal::NothingToDo { .. })), "not before");
}

#[test]
fn a_stopped_run_is_looked_at_again_at_its_deadline() {
    let rest = |log: &Log, command: &Command| decided(log, command).unwrap().task;
    let waits = running().waits("w", &["go"]);
    let release = |reason| log_owned(&waits, Owned::Release(reason));
    assert_eq!(rest(&waits, &release(Release::Unload)), TaskMove::Rest(DEADLINE));
    let parks = log_owned(&waits, Owned::Park { code: "V1", reason: "x".into() });
    assert_eq!(rest(&waits, &parks), TaskMove::Rest(DEADLINE));
    let released = waits.clone().released(Release::Unload);
    assert_eq!(rest(&released, &Command::Pause(note("p"))), TaskMove::Rest(DEADLINE));
    let paused = waits.act(Command::Pause(note("p")));
    let release = log_owned(&paused, Owned::Release(Release::Paused));
    assert_eq!(rest(&paused, &release), TaskMove::Rest(DEADLINE));
    let heal = released.heal(Code::P1, "it crashed", Remedy::Park { reason: "it crashed".into() });
    assert_eq!(rest(&released, &heal), TaskMove::Rest(DEADLINE));
}

fn log_owned(log: &Log, what: Owned) -> Command {
    Command::Owned(log.fence(), vec![crate::command::Doing { at: log.now, what }])
}

#[test]
fn compensations_and_the_end_name_the_timeout() {
    let log = late(running().completed_with_undo("a")).act(Command::TimeOut);
    let cancelled = Failure::terminal("the run is being cancelled").with_code("cancelled");
    for given in [None, Some(cancelled)] {
        let log = log.clone().owned(vec![Owned::UndoStarted { path: path("a"), failure: given }]);
        assert_eq!(log.state().failure.as_ref().unwrap().code.as_deref(), Some("timeout"));
        let log = log.owned(vec![Owned::UndoCompleted(path("a")), Owned::EndCancelled]);
        assert_eq!((log.status(), failure(&log).code.as_deref()), (Status::Failed, Some("timeout")));
    }
}

#[test]
fn a_failure_of_stopped_code_is_kept_beside_the_timeout() {
    let log = late(running()).act(Command::TimeOut);
    let log = log.owned(vec![Owned::Fail(Failure::terminal("no stock").with_code("stock"))]);
    let failure = failure(&log);
    assert_eq!(failure.code.as_deref(), Some("timeout"));
    assert!(failure.message.ends_with("has passed; its code then failed: no stock"), "{failure:?}");
}

#[test]
fn a_run_that_compensates_or_is_cancelled_does_not_time_out() {
    let undoes = Owned::UndoStarted { path: path("a"), failure: Some(Failure::terminal("no stock")) };
    let undoing = running().completed_with_undo("a").owned(vec![undoes]);
    let cancelled = running().act(Command::Cancel(note("c")));
    let jump = JumpRequested { compensate: true, ..jump_to("j", "a") };
    let jumping = running().completed_with_undo("a").act(Command::Jump(jump));
    for log in [undoing, cancelled, jumping] {
        assert!(!log.state().summary.is_overdue(DEADLINE));
        assert!(matches!(decided(&late(log), &Command::TimeOut), Err(Refusal::NothingToDo { .. })));
    }
}

#[test]
fn a_timeout_can_be_neither_withdrawn_nor_repeated() {
    let log = late(running().waits("w", &["go"])).act(Command::TimeOut).released(Release::HandOver);
    let withdraw = Withdraw { note: note("w"), what: Request::Cancel, lost: None };
    for command in [Command::Withdraw(withdraw), Command::Cancel(note("c"))] {
        let refused = decided(&log, &command).unwrap_err();
        assert!(refused.to_string().contains("has timed out"), "{refused}");
    }
}

#[test]
fn a_cancel_that_needs_no_code_ends_a_timed_out_run_failed() {
    let log = late(running().waits("w", &["go"])).act(Command::TimeOut).released(Release::HandOver);
    let log = log.act(Command::CancelUnmanned { note: note("c"), lost: None });
    assert_eq!((log.status(), failure(&log).code.as_deref()), (Status::Failed, Some("timeout")));
}

#[test]
fn a_retry_or_jump_removes_a_deadline_that_has_passed() {
    let failed = late(running().completed("a")).act(Command::TimeOut).owned(vec![Owned::EndCancelled]);
    for command in [Command::Retry(note("r")), Command::Jump(jump_to("j", "a"))] {
        let log = failed.clone().act(command);
        let summary = &log.state().summary;
        assert_eq!((summary.deadline, summary.timed_out, summary.due()), (None, false, None));
        assert!(!summary.is_overdue(Millis::NEVER) && log.state().failure.is_none());
    }
    let early = running().completed("a").act(Command::Jump(jump_to("j", "a")));
    assert_eq!(early.state().summary.deadline, Some(DEADLINE), "a deadline that is to come stays");
}

#[test]
fn continue_as_new_keeps_the_deadline_and_the_lane() {
    let lane = Some(LaneName::new("tenant-7").unwrap());
    let log = start(RunQueued { lane: lane.clone(), ..queued() }).claimed("n-1");
    let log = log.owned(vec![Owned::ContinueAsNew(json("[2]"))]);
    let Summary { deadline, lane: kept, .. } = &log.state().summary;
    assert_eq!((*deadline, kept), (Some(DEADLINE), &lane));
}

/// The advance task that a command creates.
fn made(log: &Log, command: &Command) -> Task {
    let mut decision = decided(log, command).unwrap();
    let at = place(log.state(), None, WriteId(9));
    let sealed = seal(at, std::mem::take(&mut decision.events));
    let row = &log.state().summary;
    let basis = PlanBasis { task: None, updated_at: log.now, node: None, now: log.now };
    let planned = plan_tasks(&decision, &sealed, row, basis);
    let created = planned.tasks.into_iter().find_map(|change| match change {
        TaskChange::Create(task) => Some(*task),
        _ => None,
    });
    created.expect("a task is created")
}

#[test]
fn a_delayed_run_begins_when_its_start_is_due() {
    let start_at = Some(Millis(9_000));
    let lane = Some(LaneName::new("tenant-7").unwrap());
    let log = start(RunQueued { start_at, lane: lane.clone(), ..queued() });
    let summary = &log.state().summary;
    assert_eq!(
        (summary.status, summary.due(), summary.ready_at(log.now)),
        (Status::Queued, start_at, Millis(9_000))
    );
    // A lost task is made again with its time and its lane.
    let requeue =
        log.heal(Code::O1, "its advance task is missing", Remedy::Requeue { run_at: Millis(9_000) });
    let task = made(&log, &requeue);
    assert_eq!((task.run_at, task.lane), (Millis(9_000), lane));
    let reset = made(&log, &Command::Reset(note("r")));
    assert_eq!(reset.run_at, Millis(9_000), "a reset does not begin it early");
    assert_eq!(made(&log, &Command::Requeue(note("q"))).run_at, log.now, "an operator can begin it now");
    let paused = log.clone().act(Command::Pause(note("p")));
    let resumed = decided(&paused, &Command::Resume(note("r"))).unwrap();
    assert_eq!(resumed.task, TaskMove::Rest(Millis(9_000)), "a resume does not begin it early");
    let mut begun = log;
    begun.now = Millis(9_000);
    let begun = begun.act(Command::Claim(Claim::by(node("n-1"))));
    assert_eq!((begun.state().summary.begins_at(), begun.status()), (None, Status::Running));
}
