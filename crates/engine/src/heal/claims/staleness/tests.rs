use goldseam_core::delivery::QUEUE_MAIL;
use goldseam_core::lock::Ask;
use goldseam_core::task::NewTask;
use goldseam_core::{LockName, NodeId, Payload, QueueName, RunId, TaskId};
use goldseam_store::{NodeRecord, NodeState, Pulse};

use super::*;

const LEASE: Duration = Duration::from_secs(300);
const LIVES: &str = "n-0000000000000001";
const DEAD: &str = "n-0000000000000002";
const FORGOTTEN: &str = "n-0000000000000003";

fn seen(id: &str, pulse: Pulse) -> NodeSeen {
    let record = NodeRecord {
        id: NodeId::new(id).unwrap(),
        name: "host:1".to_owned(),
        started_at: Millis(0),
        workflows: Vec::new(),
        slots: 1,
        timing: None,
        state: NodeState::Up,
    };
    NodeSeen { record, beats: 1, beat_at: Millis(0), pulse }
}

fn roster() -> Roster {
    Roster::new(&[seen(LIVES, Pulse::Held), seen(DEAD, Pulse::Dropped)], None)
}

/// A user's task, claimed at 0.
fn claimed(owner: &str) -> Task {
    let new = NewTask {
        id: TaskId::new("t").unwrap(),
        kind: "mail".to_owned(),
        queue: QueueName::new("default").unwrap(),
        lane: None,
        priority: 0,
        key: None,
        run_at: Millis(0),
        payload: Payload::null(),
        attempts_max: 1,
        silence_max: None,
    };
    new.into_task(Millis(0)).claimed(owner, Millis(0))
}

fn reason(task: &Task, now: i64) -> Option<&'static str> {
    super::task(task, &roster(), Millis(now), LEASE).map(|stale| stale.reason)
}

#[test]
fn claimant_has_the_lease_and_node_is_judged_by_its_pulse() {
    assert_eq!(reason(&claimed("worker-1"), 299_999), None);
    assert_eq!(reason(&claimed("worker-1"), 300_000), Some("silent"));
    assert_eq!(reason(&claimed(LIVES), i64::MAX / 2), None);
    assert_eq!(reason(&claimed(DEAD), 0), Some("node_gone"));
    assert_eq!(reason(&claimed(FORGOTTEN), 0), Some("node_gone"));
    assert_eq!(reason(&claimed("n-1"), 0), None, "the prefix alone does not make a node id");
}

#[test]
fn limit_of_a_task_applies_to_every_claimant() {
    let strict = |owner| Task { silence_max: Some(Duration::from_secs(1)), ..claimed(owner) };
    for owner in ["worker-1", LIVES] {
        assert_eq!(reason(&strict(owner), 999), None);
        assert_eq!(reason(&strict(owner), 1_000), Some("silent"));
        let beaten = strict(owner).beaten(1, Millis(900)).unwrap();
        assert_eq!(reason(&beaten, 1_899), None, "a heartbeat protects");
        assert_eq!(reason(&beaten, 1_900), Some("silent"));
    }
}

#[test]
fn silent_or_suspect_node_is_not_gone() {
    for pulse in [Pulse::Held, Pulse::Suspect, Pulse::Unknown] {
        let roster = Roster::new(&[seen(LIVES, pulse)], None);
        assert_eq!(super::task(&claimed(LIVES), &roster, Millis(i64::MAX / 2), LEASE), None);
    }
    let own = Roster::new(&[], Some(LIVES));
    assert_eq!(super::task(&claimed(LIVES), &own, Millis(0), LEASE), None, "the own node is alive");
}

#[test]
fn tasks_of_the_engine_itself_are_not_judged() {
    let advance = Task { kind: Task::advance_kind("order", 1), ..claimed(DEAD) };
    let queue = |name| Task { queue: QueueName::new(name).unwrap(), ..claimed(DEAD) };
    for task in [&advance, &queue(QUEUE_MAIL), &queue(QUEUE_DETAILS)] {
        assert_eq!(reason(task, i64::MAX / 2), None);
    }
}

#[test]
fn remote_step_has_its_own_limit_before_the_lease() {
    let remote = Task { run: Some(RunId::new("r").unwrap()), ..claimed("worker-1") };
    let remote = Task { silence_max: Some(Duration::from_secs(60)), ..remote };
    assert_eq!(reason(&remote, 60_000), None);
    assert_eq!(reason(&remote, 360_000), Some("silent"));
    assert_eq!(reason(&Task { owner: Some(DEAD.to_owned()), ..remote }, 0), Some("node_gone"));
}

#[test]
fn only_claimed_tasks_are_stale_and_a_claim_without_owner_is() {
    assert_eq!(reason(&claimed(DEAD).returned(Millis(0), Millis(0)), 0), None);
    let flawed = Task { owner: None, ..claimed("x") };
    assert!(flawed.flaw().is_some());
    assert_eq!(reason(&flawed, 0), Some("no_owner"));
}

#[test]
fn requested_threshold_spares_engine_tasks_of_live_nodes() {
    let requested = |task: &Task, now: i64| {
        silent_past(task, &roster(), Millis(now), Duration::from_secs(10)).map(|stale| stale.reason)
    };
    let patient = |owner| Task { silence_max: Some(LEASE), ..claimed(owner) };
    assert_eq!(requested(&patient("worker-1"), 9_999), None);
    assert_eq!(requested(&patient("worker-1"), 10_000), Some("manual"));
    assert_eq!(requested(&patient(LIVES), 10_000), Some("manual"));
    let advance = |owner| Task { kind: Task::advance_kind("order", 1), ..claimed(owner) };
    assert_eq!(requested(&advance(LIVES), 10_000), None);
    assert_eq!(requested(&advance(DEAD), 10_000), Some("manual"));
    let details = Task { queue: QueueName::new(QUEUE_DETAILS).unwrap(), ..claimed(DEAD) };
    assert_eq!(requested(&details, 10_000), None, "details are never work");
}

#[test]
fn lock_is_stale_when_expired_or_its_node_is_gone() {
    let held = |node: Option<&str>| {
        let name = LockName::new("l").unwrap();
        let ask = Ask { name: &name, holder: "ana", node, ttl: Duration::from_secs(1) };
        Lock::acquired(None, ask, Millis(0)).unwrap()
    };
    let reason = |lock: &Lock, now| super::lock(lock, &roster(), Millis(now)).map(|stale| stale.reason);
    assert_eq!(reason(&held(None), 999), None);
    assert_eq!(reason(&held(None), 1_000), Some("expired"));
    assert_eq!(reason(&held(Some(LIVES)), 999), None);
    assert_eq!(reason(&held(Some(DEAD)), 0), Some("node_gone"));
    assert_eq!(reason(&held(Some(FORGOTTEN)), 0), Some("node_gone"));
    let free = held(Some(DEAD)).released("ana", 1).unwrap();
    assert_eq!(reason(&free, 0), None);
}

#[test]
fn recognizes_node_ids() {
    assert!(is_node_name(&node_name(0)) && is_node_name(&node_name(u64::MAX)));
    for name in ["n-", "n-1", "n-000000000000000g", "n-00000000000000000", "worker", "N-0000000000000001"] {
        assert!(!is_node_name(name), "{name}");
    }
}
