use super::*;

fn id(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

fn foreign(text: &str) -> Foreign {
    Foreign::parse(&id("wf-1"), text).unwrap()
}

fn in_status(status: &str) -> Foreign {
    foreign(&format!(r#"{{"id":"wf-1","status":"{status}","orchestrator_task_id":"t-1","updated_at":7}}"#))
}

fn task(state: TaskState) -> Task {
    let new = in_status("running").new_task(QueueName::new("default").unwrap(), ORCHESTRATE, Millis(1));
    Task { state, ..new.into_task(Millis(1)) }
}

#[test]
fn only_active_states_that_name_a_task_are_looked_at() {
    let cases = [
        (r#"{"status":"running","orchestrator_task_id":"t","updated_at":1}"#, true),
        (r#"{"status":"waiting_signal","orchestrator_task_id":"t","updated_at":1}"#, true),
        (r#"{"status":"compensating","orchestrator_task_id":"t","updated_at":1}"#, true),
        (r#"{"status":"completed","orchestrator_task_id":"t","updated_at":1}"#, false),
        (r#"{"status":"failed","orchestrator_task_id":"t","updated_at":1}"#, false),
        (r#"{"status":"cancelled","orchestrator_task_id":"t","updated_at":1}"#, false),
        (r#"{"status":"paused","orchestrator_task_id":"t","updated_at":1}"#, false),
        (r#"{"status":"whatever","orchestrator_task_id":"t","updated_at":1}"#, false),
        (r#"{"status":"running","updated_at":1}"#, false),
        (r#"{"status":"running","orchestrator_task_id":null,"updated_at":1}"#, false),
        (r#"{"status":"running","orchestrator_task_id":"","updated_at":1}"#, false),
    ];
    for (text, active) in cases {
        let state = foreign(text);
        assert_eq!(state.is_active(), active, "{text}");
        assert_eq!(state.standing(None, None) != Standing::Skipped, active, "{text}");
    }
}

#[test]
fn unparsable_states_are_reported_and_left_alone() {
    let long = format!(r#"{{"status":"running","updated_at":"{}"}}"#, "x".repeat(200));
    let cases = [
        "",
        "no JSON",
        "[]",
        "{}",
        r#"{"status":7,"updated_at":1}"#,
        r#"{"status":"running"}"#,
        r#"{"status":"running","orchestrator_task_id":7,"updated_at":1}"#,
        r#"{"status":"running","status":"failed","updated_at":1}"#,
        r#"{"id":"wf-2","status":"running","updated_at":1}"#,
        long.as_str(),
    ];
    for text in cases {
        assert!(Foreign::parse(&id("wf-1"), text).is_err(), "{text}");
    }
    let longest = format!(r#"{{"status":"running","updated_at":"{}"}}"#, "x".repeat(128));
    assert_eq!(foreign(&longest).id(), &id("wf-1"));
}

#[test]
fn the_state_of_the_task_decides_whether_a_workflow_is_stalled() {
    let state = in_status("running");
    let stalled = |evidence: &str| Standing::Stalled { evidence: evidence.to_owned() };
    let cases = [
        (None, None, stalled("its task t-1 is missing")),
        (Some(TaskState::Ready), None, Standing::Well),
        (Some(TaskState::Claimed), None, Standing::Well),
        (
            Some(TaskState::Claimed),
            Some("silent"),
            stalled("its task t-1 is held by a dead claimant: silent"),
        ),
        (Some(TaskState::Completed), None, stalled("its task t-1 is completed")),
        (Some(TaskState::Failed), None, stalled("its task t-1 is failed")),
        (Some(TaskState::Cancelled), None, stalled("its task t-1 is cancelled")),
        (Some(TaskState::Dead), None, Standing::NeedsHelp { evidence: "its task t-1 is dead".to_owned() }),
    ];
    for (task_state, lapsed, expected) in cases {
        let task = task_state.map(task);
        assert_eq!(state.standing(task.as_ref(), lapsed), expected, "{task_state:?}");
    }
}

#[test]
fn an_invalid_task_name_counts_as_missing() {
    let state = foreign(r#"{"status":"running","orchestrator_task_id":"a/b","updated_at":1}"#);
    assert_eq!((state.task(), state.task_id()), (Some("a/b"), None));
    assert_eq!(in_status("running").task_id(), Some(TaskId::new("t-1").unwrap()));
    let none = foreign(r#"{"status":"running","updated_at":1}"#);
    assert_eq!(none.with_task(&TaskId::new("t-9").unwrap()), r#"{"status":"running","updated_at":1}"#);
}

#[test]
fn the_healing_task_matches_the_foreign_workflow() {
    let cases = [
        (r#""2026-01-02T03:04:05Z""#, "wf-1:orchestrate:2026-01-02T03:04:05Z"),
        ("1700000000.25", "wf-1:orchestrate:1700000000.25"),
        ("17", "wf-1:orchestrate:17"),
    ];
    for (updated_at, key) in cases {
        let text = format!(r#"{{"status":"running","orchestrator_task_id":"t","updated_at":{updated_at}}}"#);
        let new = foreign(&text).new_task(QueueName::new("default").unwrap(), ORCHESTRATE, Millis(5));
        assert_eq!(new.key.as_deref(), Some(key));
        assert_eq!((new.kind.as_str(), new.run_at), ("workflow.orchestrate", Millis(5)));
        assert_eq!(new.payload.as_str(), r#"{"workflow_id":"wf-1"}"#);
    }
}

#[test]
fn each_lost_task_has_one_successor() {
    let new = |task: &str, updated_at: u32| {
        let text =
            format!(r#"{{"status":"running","orchestrator_task_id":"{task}","updated_at":{updated_at}}}"#);
        foreign(&text).new_task(QueueName::new("default").unwrap(), ORCHESTRATE, Millis(1)).id
    };
    assert_eq!(new("t-1", 7), new("t-1", 7));
    assert_ne!(new("t-1", 7), new("t-2", 7));
    assert_ne!(new("t-1", 7), new("t-1", 8));
}

#[test]
fn nothing_but_the_task_changes() {
    let text = "{ \"big\" : 123456789012345678901234567890,\n \"orchestrator_task_id\" :  \"a\\u0062\" , \
                \"status\":\"running\",\"z\":1.10,\"a\":{\"orchestrator_task_id\":\"x\"}, \"updated_at\": 1e2 }";
    let state = foreign(text);
    assert_eq!(state.task(), Some("ab"));
    let swapped = state.with_task(&TaskId::new("t-9").unwrap());
    assert_eq!(swapped, text.replace("\"a\\u0062\"", "\"t-9\""));
    assert_eq!(foreign(&swapped).task(), Some("t-9"));
    assert_eq!(
        state.new_task(QueueName::new("default").unwrap(), ORCHESTRATE, Millis(1)).key.unwrap(),
        "wf-1:orchestrate:1e2"
    );
}
