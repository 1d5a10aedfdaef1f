//! Nodes: their latest records and the number of their beats.

use std::time::Duration;

use goldseam_core::NodeId;
use goldseam_store::Timing;
use goldseam_store::api::{NodeRecord, NodeSeen, NodeState, Pulse};

use super::Fixture;
use super::make::T;

/// Returns a node that works.
pub fn node(name: &str) -> NodeRecord {
    NodeRecord {
        id: NodeId::new(name).unwrap(),
        name: format!("{name} on häst"),
        started_at: T,
        workflows: vec!["checkout@1".to_owned(), "refund@2".to_owned()],
        slots: 4,
        timing: Some(Timing { beat: Duration::from_millis(1_500), silence_max: Duration::from_secs(6) }),
        state: NodeState::Up,
    }
}

async fn seen(fixture: &Fixture, name: &str) -> NodeSeen {
    let nodes = fixture.store.nodes().await.unwrap();
    nodes.into_iter().find(|seen| seen.record.id.as_str() == name).unwrap()
}

/// Each beat counts one, for that node only, and sets the time of its last beat.
pub async fn beats_are_counted(fixture: &Fixture) {
    fixture.store.beat(&node("n2")).await.unwrap();
    let mut last = None;
    for beats in 1..=3 {
        let now = fixture.store.beat(&node("n1")).await.unwrap();
        let n1 = seen(fixture, "n1").await;
        assert_eq!((n1.beats, n1.beat_at), (beats, now));
        assert!(Some(now) > last || !fixture.capabilities.manual_clock);
        last = Some(now);
        fixture.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(seen(fixture, "n2").await.beats, 1);
}

/// Other nodes see the latest record of a node.
pub async fn a_beat_updates_the_record(fixture: &Fixture) {
    fixture.store.beat(&node("n1")).await.unwrap();
    assert_eq!(seen(fixture, "n1").await.record, node("n1"));
    for state in [NodeState::Leaving, NodeState::Left, NodeState::Gone, NodeState::Up] {
        let changed = NodeRecord { state, slots: 0, workflows: vec![], ..node("n1") };
        fixture.store.beat(&changed).await.unwrap();
        assert_eq!(seen(fixture, "n1").await.record, changed);
    }
    let older = NodeRecord { timing: None, ..node("n1") };
    fixture.store.beat(&older).await.unwrap();
    assert_eq!(seen(fixture, "n1").await.record, older);
}

/// A beat returns the store's clock.
pub async fn a_beat_returns_the_stores_clock(fixture: &Fixture) {
    let before = fixture.store.now().await.unwrap();
    let beat = fixture.store.beat(&node("n1")).await.unwrap();
    let after = fixture.store.now().await.unwrap();
    assert!(before <= beat && beat <= after);
}

/// A node that beats holds its lock, if the store has such locks.
pub async fn a_beating_node_holds_its_lock(fixture: &Fixture) {
    let expected = if fixture.capabilities.pulse { Pulse::Held } else { Pulse::Unknown };
    for _ in 0..2 {
        fixture.store.beat(&node("n1")).await.unwrap();
        assert_eq!(seen(fixture, "n1").await.pulse, expected);
    }
}

/// A node that reports its end releases its lock at once, and stays listed so that others see its end.
pub async fn an_ended_node_releases_its_lock(fixture: &Fixture) {
    let (held, free) = match fixture.capabilities.pulse {
        true => (Pulse::Held, Pulse::Dropped),
        false => (Pulse::Unknown, Pulse::Unknown),
    };
    for (name, state) in [("n1", NodeState::Gone), ("n2", NodeState::Left)] {
        fixture.store.beat(&node(name)).await.unwrap();
        fixture.store.beat(&node("other")).await.unwrap();
        let over = NodeRecord { state, ..node(name) };
        fixture.store.beat(&over).await.unwrap();
        let ended = seen(fixture, name).await;
        assert_eq!((ended.record, ended.pulse, ended.beats), (over.clone(), free, 2));
        assert_eq!(
            seen(fixture, "other").await.pulse,
            held,
            "another node in the same process is still alive"
        );
        fixture.store.beat(&over).await.unwrap();
        assert_eq!(seen(fixture, name).await.pulse, free, "a second report takes no lock");
        fixture.store.forget(&over.id).await.unwrap();
    }
}

/// The final report of a node that never lived takes no lock.
pub async fn a_final_report_takes_no_lock(fixture: &Fixture) {
    fixture.store.beat(&NodeRecord { state: NodeState::Gone, ..node("n1") }).await.unwrap();
    let ended = seen(fixture, "n1").await;
    assert!(ended.is_gone() && ended.pulse != Pulse::Held, "{ended:?}");
}

/// Nodes are listed once each, and gone once forgotten; forgetting twice is harmless.
pub async fn nodes_are_listed_until_forgotten(fixture: &Fixture) {
    assert_eq!(fixture.store.nodes().await.unwrap(), []);
    for name in ["n2", "n1", "n3", "n1"] {
        fixture.store.beat(&node(name)).await.unwrap();
    }
    for _ in 0..2 {
        fixture.store.forget(&NodeId::new("n2").unwrap()).await.unwrap();
        let nodes = fixture.store.nodes().await.unwrap();
        let mut ids: Vec<&str> = nodes.iter().map(|seen| seen.record.id.as_str()).collect();
        ids.sort_unstable();
        assert_eq!(ids, ["n1", "n3"]);
    }
}

/// A forgotten node that beats again joins again.
pub async fn a_forgotten_node_may_join_again(fixture: &Fixture) {
    fixture.store.beat(&node("n1")).await.unwrap();
    fixture.store.beat(&node("n1")).await.unwrap();
    fixture.store.forget(&node("n1").id).await.unwrap();
    fixture.store.beat(&node("n1")).await.unwrap();
    assert_eq!(seen(fixture, "n1").await.beats, 1);
}
