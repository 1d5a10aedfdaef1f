//! Changes of tasks, and refusals.

use super::*;
use crate::id::WorkState;

fn ready() -> Task {
    let new = NewTask {
        id: TaskId::new("t1").unwrap(),
        kind: "mail".into(),
        queue: QueueName::new("default").unwrap(),
        lane: None,
        priority: 5,
        key: Some("k".into()),
        run_at: Millis(10),
        payload: Payload::null(),
        attempts_max: 3,
        silence_max: None,
    };
    new.into_task(Millis(10))
}

fn fenced(result: Result<Task, TaskRefusal>) -> bool {
    matches!(result, Err(TaskRefusal::Fenced { .. }))
}

#[test]
fn a_claim_raises_the_fence_and_an_older_one_is_refused() {
    let first = ready().claimed("n-1", Millis(20));
    let second = first.clone().reclaimed("n-1 is gone", 3, Millis(30)).claimed("n-2", Millis(40));
    assert_eq!((first.fence, second.fence, second.owner.as_deref()), (1, 2, Some("n-2")));
    assert!(fenced(second.clone().beaten(1, Millis(50))));
    assert!(fenced(second.clone().completed(1, Payload::null(), Millis(50))));
    assert!(fenced(second.clone().failed(1, Failure::retryable("x"), Millis(50))));
    assert!(fenced(second.clone().released(1, Millis(50))));
    assert!(second.completed(2, Payload::null(), Millis(50)).is_ok());
}

#[test]
fn completing_twice_under_one_fence_is_harmless() {
    let done = ready().claimed("n-1", Millis(20)).completed(1, Payload::null(), Millis(30)).unwrap();
    assert_eq!(done.clone().completed(1, Payload::null(), Millis(40)), Ok(done.clone()));
    assert!(fenced(done.completed(2, Payload::null(), Millis(40))));
}

#[test]
fn failures_are_retried_with_growing_pauses() {
    let mut task = ready();
    let mut pauses = vec![];
    for fence in 1..=3 {
        let now = Millis(1_000 * fence);
        task = task.claimed("n-1", now).failed(fence.unsigned_abs(), Failure::retryable("x"), now).unwrap();
        pauses.push(task.run_at.0 - now.0);
    }
    assert_eq!((task.state, task.attempts, &pauses[..2]), (TaskState::Failed, 3, &[100, 200][..]));
    let terminal = ready().claimed("n-1", Millis(20)).failed(1, Failure::terminal("x"), Millis(30)).unwrap();
    assert_eq!((terminal.state, terminal.attempts), (TaskState::Failed, 1));
}

#[test]
fn a_lost_claimant_costs_a_delivery_and_no_attempt() {
    let mut task = ready();
    for n in 1..=3 {
        task = task.claimed("n-1", Millis(20)).reclaimed("gone", 2, Millis(30));
        let expected = if n > 2 { TaskState::Dead } else { TaskState::Ready };
        assert_eq!((task.state, task.deliveries, task.attempts), (expected, n, 0));
    }
    assert_eq!((task.priority, task.key.as_deref(), task.audit.len()), (5, Some("k"), 3));
}

#[test]
fn an_advance_task_is_never_dead() {
    let mut task = Task { kind: Task::advance_kind("checkout", 1), ..ready() };
    for _ in 0..9 {
        task = task.claimed("n-1", Millis(20)).reclaimed("gone", 2, Millis(30));
    }
    assert_eq!((task.state, task.audit.len()), (TaskState::Ready, 8));
    assert_eq!(task.pool(), "default/advance:checkout@1");
}

#[test]
fn a_task_handed_back_is_offered_to_the_right_version_only() {
    let undecided = Task { kind: Task::advance_kind("checkout", UNDECIDED), ..ready() };
    assert_eq!(undecided.pool(), "default/advance:checkout");
    assert!(undecided.is_offered_to("checkout", 1) && undecided.is_offered_to("checkout", 2));
    let claimed = undecided.claimed("n-1", Millis(20));
    let back = claimed.clone().handed_back(Task::advance_kind("checkout", 2), Millis(30));
    assert_eq!((back.state, back.deliveries, back.attempts), (TaskState::Ready, 0, 0));
    assert_eq!((back.priority, &back.id, back.version), (claimed.priority, &claimed.id, claimed.version + 1));
    assert!(back.run_at <= Millis(30) && back.flaw().is_none());
    assert!(back.is_offered_to("checkout", 2) && !back.is_offered_to("checkout", 1));
}

#[test]
fn an_unclaimed_task_is_not_reclaimed() {
    let done = ready().claimed("n-1", Millis(20)).completed(1, Payload::null(), Millis(30)).unwrap();
    for task in [ready(), done] {
        assert_eq!(task.clone().reclaimed("gone", 0, Millis(40)), task, "a finished task would run again");
    }
}

#[test]
fn an_ended_task_cannot_be_cancelled() {
    let cancelled = ready().cancelled(Millis(20)).unwrap();
    assert_eq!(cancelled.state, TaskState::Cancelled);
    assert!(matches!(cancelled.cancelled(Millis(30)), Err(TaskRefusal::Over { .. })));
    let claimed = ready().claimed("n-1", Millis(20)).cancelled(Millis(30)).unwrap();
    assert!(fenced(claimed.completed(1, Payload::null(), Millis(40))));
}

#[test]
fn every_change_leaves_a_sound_record_and_a_new_version() {
    let claimed = ready().claimed("n-1", Millis(5));
    let changes = [
        claimed.clone().beaten(1, Millis(1)).unwrap(),
        claimed.clone().completed(1, Payload::null(), Millis(1)).unwrap(),
        claimed.clone().failed(1, Failure::retryable("x"), Millis(1)).unwrap(),
        claimed.clone().released(1, Millis(1)).unwrap(),
        claimed.clone().cancelled(Millis(1)).unwrap(),
        claimed.clone().reclaimed("gone", 1, Millis(1)),
    ];
    for task in changes {
        assert_eq!((task.flaw(), task.version), (None, claimed.version + 1), "{task:?}");
        assert!(task.changed_at >= claimed.changed_at, "even if the clock went back");
        let text = serde_json::to_string(&task).unwrap();
        assert_eq!(serde_json::from_str::<Task>(&text).unwrap(), task);
    }
    assert!(Task { owner: None, ..claimed.clone() }.flaw().is_some());
    assert!(Task { started_at: None, ..claimed.clone() }.flaw().is_some());
    assert!(Task { started_at: Some(Millis(99)), ..claimed }.flaw().is_some());
}

#[test]
fn states_have_one_word_each() {
    for word in ["ready", "claimed", "completed", "failed", "cancelled", "dead"] {
        assert_eq!(TaskState::parse(word).map(TaskState::as_str), Some(word));
    }
    assert_eq!(TaskState::parse("lost"), None);
}

#[test]
fn claims_and_beats_set_times_and_new_versions() {
    let claimed = ready().claimed("n-1", Millis(20));
    assert_eq!((claimed.version, claimed.started_at, claimed.flaw()), (2, Some(Millis(20)), None));
    let beaten = claimed.beaten(1, Millis(30)).unwrap();
    assert_eq!((beaten.version, beaten.last_sign(), beaten.changed_at), (3, Millis(30), Millis(30)));
    let unheard = Task { heartbeat_at: None, ..beaten };
    assert_eq!(unheard.last_sign(), Millis(20));
    assert_eq!(Task { started_at: None, ..unheard }.last_sign(), Millis(30));
}

#[test]
fn a_failed_task_keeps_its_failure_and_waits() {
    let failed = ready().claimed("n-1", Millis(20)).failed(1, Failure::retryable("x"), Millis(30)).unwrap();
    assert_eq!((failed.state, failed.run_at, failed.owner), (TaskState::Ready, Millis(130), None));
    assert_eq!(failed.failure, Some(Failure::retryable("x")));
}

#[test]
fn a_settled_task_ends_regardless_of_its_claimant() {
    let claimed = ready().claimed("n-1", Millis(20));
    let done = claimed.clone().settled(Ok(Payload::null()), Millis(30));
    assert_eq!(
        (done.state, done.result.clone(), done.attempts),
        (TaskState::Completed, Some(Payload::null()), 0)
    );
    let failed = claimed.settled(Err(Failure::terminal("x")), Millis(30));
    assert_eq!((failed.state, failed.attempts, failed.owner.clone()), (TaskState::Failed, 1, None));
    assert_eq!(failed.failure, Some(Failure::terminal("x")));
    for over in [done, failed] {
        assert_eq!(over.clone().settled(Ok(Payload::null()), Millis(40)), over, "an ended task is unchanged");
    }
}

#[test]
fn taking_a_task_from_a_silent_claimant_costs_nothing() {
    let claimed = Task { run_at: Millis(10), ..ready().claimed("n-1", Millis(20)) };
    let back = claimed.taken_back("silent", Millis(30));
    assert_eq!((back.state, back.deliveries, back.run_at), (TaskState::Ready, 0, Millis(10)));
    assert_eq!(back.audit, [Audit::new(Millis(30), "taken back from n-1: silent")]);
    assert_eq!(back.clone().taken_back("again", Millis(40)), back, "it is not claimed");
}

#[test]
fn a_superseded_task_is_cancelled_with_an_audit_entry() {
    let over = ready().superseded(Millis(20)).unwrap();
    let said = Audit::new(Millis(20), "superseded");
    assert_eq!((over.state, &over.audit[..]), (TaskState::Cancelled, &[said][..]));
    assert_eq!(over.superseded(Millis(30)).unwrap_err().to_string(), "task t1 is already cancelled");
}

#[test]
fn a_record_keeps_its_latest_entries() {
    let mut audit = Vec::new();
    for at in 1..=20 {
        note(&mut audit, Millis(at), format!("{at}"));
        assert_eq!(i64::try_from(audit.len()).unwrap(), at.min(8));
    }
    assert_eq!((audit[0].what.as_str(), audit[7].what.as_str()), ("13", "20"));
}

#[test]
fn tasks_of_a_queue_share_a_pool_and_run_at_least_once() {
    let task = ready();
    assert_eq!((task.pool().as_str(), task.is_advance()), ("default", false));
    let mut text: serde_json::Value = serde_json::to_value(&task).unwrap();
    text.as_object_mut().unwrap().remove("attempts_max");
    assert_eq!(
        serde_json::from_value::<Task>(text).unwrap().attempts_max,
        1,
        "records of older releases have no limit"
    );
    let run = RunId::new("r1").unwrap();
    assert_ne!(Task::advance_id(&run, 1), Task::advance_id(&run, 2));
}

#[test]
fn a_claim_has_one_result() {
    let other = |result: Result<Task, TaskRefusal>| matches!(result, Err(TaskRefusal::OtherResult { .. }));
    let no = Failure::retryable("no");
    let null = Payload::null();
    let claimed = ready().claimed("n-1", Millis(20));
    let done = claimed.clone().completed(1, null.clone(), Millis(30)).unwrap();
    assert!(other(done.clone().failed(1, no.clone(), Millis(40))));
    let failed = claimed.clone().failed(1, no.clone(), Millis(30)).unwrap();
    assert_eq!(failed.state, TaskState::Ready, "attempts are left");
    assert_eq!(failed.clone().failed(1, no.clone(), Millis(40)), Ok(failed.clone()));
    assert!(other(failed.clone().failed(1, Failure::terminal("no"), Millis(40))));
    assert!(other(failed.clone().completed(1, null, Millis(40))));
    let back = claimed.released(1, Millis(30)).unwrap();
    assert!(back.was_released_under(1) && !failed.was_released_under(1));
    assert!(fenced(back.failed(1, no, Millis(40))), "it was released");
}

#[test]
fn a_claimant_reports_the_state_of_its_work() {
    let state = |text: &str| WorkState::new(text).unwrap();
    let task = ready().claimed("w1", Millis(10));
    assert_eq!(task.work_state(), None);
    let task = task.beaten_in(1, &state("building"), Millis(20)).unwrap();
    let task = task.beaten_in(1, &state("building"), Millis(30)).unwrap();
    assert_eq!((task.work_state(), task.audit.len()), (Some(&state("building")), 1), "only a change is kept");
    let task = task.beaten_in(1, &state("testing"), Millis(40)).unwrap().beaten(1, Millis(50)).unwrap();
    assert_eq!((task.work_state(), task.last_sign()), (Some(&state("testing")), Millis(50)));
    assert!(task.clone().beaten_in(2, &state("testing"), Millis(60)).is_err(), "another claim");
    let back = task.reclaimed("it is silent", 3, Millis(70));
    assert!(back.audit.last().unwrap().what.ends_with("in state testing"), "{:?}", back.audit);
    let again = back.claimed("w2", Millis(80));
    assert_eq!(again.work_state(), None, "a new claim begins without a state");
}
