use goldseam_store::NodeRecord;

use super::*;

const NOW: Millis = Millis(100_000);
const SECOND: Duration = Duration::from_secs(1);

fn node(id: &str, state: NodeState, pulse: Pulse, beat_at: i64) -> NodeSeen {
    let record = NodeRecord {
        id: NodeId::new(id).unwrap(),
        name: format!("host-{id}"),
        started_at: Millis(0),
        workflows: vec!["pay@1".to_owned(), format!("of-{id}@2")],
        slots: 1,
        timing: None,
        state,
    };
    NodeSeen { record, beats: 1, beat_at: Millis(beat_at), pulse }
}

fn seen(nodes: Vec<NodeSeen>) -> Liveness {
    let grace = SECOND / 2;
    let thresholds = Thresholds { silence_max: 10 * SECOND, beat: 3 * SECOND, doubt: SECOND, grace };
    Liveness { nodes, now: NOW, thresholds }
}

fn all_nodes() -> Liveness {
    seen(vec![
        node("well", NodeState::Up, Pulse::Held, 99_000),
        node("leaving", NodeState::Leaving, Pulse::Unknown, 90_001),
        node("suspect", NodeState::Up, Pulse::Suspect, 99_000),
        node("left", NodeState::Left, Pulse::Held, 99_000),
        node("gone", NodeState::Gone, Pulse::Held, 99_000),
        node("dropped", NodeState::Up, Pulse::Dropped, 99_000),
        node("silent", NodeState::Up, Pulse::Unknown, 90_000),
    ])
}

#[test]
fn holder_is_judged_by_state_pulse_and_beats() {
    let all = all_nodes();
    let cases = [
        ("well", None),
        ("leaving", None),
        ("suspect", None),
        ("left", Some((true, "node left (host-left) has left"))),
        ("gone", Some((true, "node gone (host-gone) is gone"))),
        ("dropped", Some((true, "the process of node dropped (host-dropped) is gone"))),
        ("silent", Some((false, "node silent (host-silent) has not beaten for 10 s"))),
        ("unknown", Some((true, "node unknown is gone: the store has no record of it"))),
    ];
    for (holder, lost) in cases {
        let expected = lost.map_or(Owner::Alive, |(proven, evidence)| Owner::Lost {
            proven,
            evidence: evidence.to_owned(),
            lived: all.lived(holder, Millis(50_000)),
        });
        assert_eq!(all.holder(holder, Some(Millis(50_000))), expected, "{holder}");
        let id = NodeId::new(holder).unwrap();
        assert_eq!(all.owner(Some(&id), Some(Millis(50_000))), expected, "{holder}");
    }
    assert_eq!(all.owner(None, Some(Millis(50_000))), Owner::None);
}

#[test]
fn owner_without_a_claim_has_lived_for_no_time() {
    let Owner::Lost { lived, .. } = all_nodes().holder("unknown", None) else { panic!("it lives") };
    assert_eq!((lived.least, lived.most), (Duration::ZERO, Duration::ZERO));
}

#[test]
fn only_a_pulse_can_prove_a_death() {
    let all = all_nodes();
    let can = ["well", "leaving", "suspect", "dropped", "unknown"]
        .map(|node| all.can_prove(&NodeId::new(node).unwrap()));
    assert_eq!(can, [true, false, true, true, true]);
}

#[test]
fn lifetime_ends_within_two_beats_of_the_last_one() {
    let all = all_nodes();
    let lived = |node: &str, since: i64| {
        let Lived { least, most, doubt, .. } = all.lived(node, Millis(since));
        assert_eq!(doubt, SECOND);
        (least.as_millis(), most.as_millis())
    };
    assert_eq!(lived("silent", 80_000), (10_000, 16_000));
    assert_eq!(lived("well", 90_000), (9_000, 10_000), "a lifetime ends now at the latest");
    assert_eq!(lived("silent", 95_000), (0, 5_000), "it claimed after its last beat");
    assert_eq!(lived("unknown", 90_000), (0, 10_000), "no record");
}

#[test]
fn only_nodes_that_are_up_can_execute() {
    let all = all_nodes();
    let has = |name: &str| all.can_execute(&WorkflowName::new(name).unwrap(), UNDECIDED);
    let names = ["of-well", "of-suspect", "of-leaving", "of-left", "of-gone", "of-dropped", "of-silent"];
    assert_eq!(names.map(has), [true, true, false, false, false, false, false]);
    assert!(has("pay") && !has("pa") && !has("ship"));
    assert!(!seen(Vec::new()).can_execute(&WorkflowName::new("pay").unwrap(), UNDECIDED));
}

#[test]
fn versions_come_from_live_nodes_and_last_had_from_dead_ones() {
    let all = all_nodes();
    let name = |name: &str| WorkflowName::new(name).unwrap();
    assert_eq!(all.versions(&name("pay")), [1]);
    assert_eq!(all.versions(&name("of-well")), [2]);
    assert_eq!(all.versions(&name("of-silent")), [0; 0]);
    assert!(all.can_execute(&name("of-well"), 2) && !all.can_execute(&name("of-well"), 1));
    assert!(!all.can_execute(&name("of-gone"), 2));
    assert_eq!(all.last_had(&name("of-silent"), 2), Some(Millis(90_000)));
    assert_eq!((all.last_had(&name("of-silent"), 1), all.last_had(&name("ship"), 1)), (None, None));
    let newest = all.newest();
    assert_eq!(newest.get(&name("of-well")), Some(&2));
    assert_eq!((newest.get(&name("pay")), newest.get(&name("of-gone"))), (Some(&1), None));
}

/// A node that recorded its intervals, in milliseconds, and was silent for `silence`.
fn timed(timing: Option<(u64, u64)>, silence: i64) -> NodeSeen {
    let mut seen = node("timed", NodeState::Up, Pulse::Unknown, NOW.0 - silence);
    seen.record.timing = timing.and_then(|(beat, most)| Timing::of_millis(Some(beat), Some(most)));
    seen
}

#[test]
fn silence_is_judged_by_the_intervals_of_the_node() {
    let slow = Some((30_000, 150_000));
    let fast = Some((200, 800));
    let older = None;
    for (timing, silence, expected) in [
        (slow, 90_000, None),
        (slow, 149_999, None),
        (slow, 150_000, Some("node timed (host-timed) has not beaten for 150 s")),
        (fast, 799, None),
        (fast, 800, Some("node timed (host-timed) has not beaten for 800 ms")),
        (older, 9_999, None),
        (older, 10_000, Some("node timed (host-timed) has not beaten for 10 s")),
    ] {
        let found = match seen(vec![timed(timing, silence)]).holder("timed", None) {
            Owner::Lost { evidence, proven, .. } => {
                assert!(!proven);
                Some(evidence)
            }
            _ => None,
        };
        assert_eq!(found.as_deref(), expected, "{timing:?} {silence}");
    }
    let lived = seen(vec![timed(slow, 80_000)]).lived("timed", Millis(0));
    assert_eq!(lived.most, 80 * SECOND, "two of its beats after the last one");
}

#[test]
fn suspect_is_gone_after_the_grace_and_silence_is_never_a_proof() {
    let thresholds = seen(Vec::new()).thresholds;
    let judge = |pulse, silence: u32, suspect: Option<u32>| {
        let observed = Observed { silence: SECOND * silence, suspect: suspect.map(|ms| SECOND * ms / 1_000) };
        thresholds.judge(&node("n", NodeState::Up, pulse, 0), observed)
    };
    assert_eq!(judge(Pulse::Suspect, 0, Some(499)), Verdict::Alive);
    assert_eq!(judge(Pulse::Suspect, 0, Some(500)), Verdict::Gone(Sign::Dropped));
    assert_eq!(judge(Pulse::Suspect, 10, Some(499)), Verdict::Silent(Sign::Silent(10 * SECOND)));
    assert_eq!(judge(Pulse::Held, 10, None), Verdict::Silent(Sign::Silent(10 * SECOND)));
    assert_eq!(judge(Pulse::Dropped, 10, None), Verdict::Gone(Sign::Dropped));
}

#[test]
fn a_takeover_needs_a_proof_or_a_watcher() {
    let all = all_nodes();
    let since = Some(Millis(50_000));
    let judge = |name: &str, watched| match all.watched(&NodeId::new(name).unwrap(), since, watched) {
        Owner::Lost { proven, evidence, .. } => Some((proven, evidence)),
        _ => None,
    };
    let silent = Verdict::Silent(Sign::Silent(11 * SECOND));
    let words = |name: &str| format!("node {name} (host-{name}) has not beaten for 11 s");
    assert_eq!(judge("silent", Verdict::Alive), None, "the store's clock alone");
    assert_eq!(judge("silent", silent), Some((true, words("silent"))), "nothing can ever prove its death");
    assert_eq!(judge("suspect", silent), Some((false, words("suspect"))));
    let gone = "the process of node suspect (host-suspect) is gone".to_owned();
    assert_eq!(judge("suspect", Verdict::Gone(Sign::Dropped)), Some((true, gone)));
    let left = "node left (host-left) has left".to_owned();
    assert_eq!(judge("left", silent), Some((true, left)), "the record proves more");
    assert_eq!(judge("well", Verdict::Alive), None);
}
