//! Features of the memory store only: processes that die on command, damage on demand.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use goldseam_conformance::Fixture;
use goldseam_conformance::make::{advance, append_with_row, create, run, task, task_id};
use goldseam_core::{NodeId, RunId, Seq};
use goldseam_store::{Append, MemoryStore, NodeRecord, NodeState, Pulse, Store, StorePace, TaskChange};
use std::sync::Arc;

fn node() -> NodeRecord {
    NodeRecord {
        id: NodeId::new("n1").unwrap(),
        name: "n1".to_owned(),
        started_at: goldseam_core::Millis(0),
        workflows: vec![],
        slots: 1,
        timing: None,
        state: NodeState::Up,
    }
}

async fn pulse(store: &MemoryStore) -> Pulse {
    store.nodes().await.unwrap()[0].pulse
}

#[tokio::test]
async fn a_killed_node_stays_dead_after_a_delayed_beat() {
    let store = MemoryStore::default();
    store.beat(&node()).await.unwrap();
    store.kill(&node().id);
    assert_eq!(pulse(&store).await, Pulse::Dropped);
    store.beat(&node()).await.unwrap();
    assert_eq!(pulse(&store).await, Pulse::Dropped);
    assert_eq!(store.nodes().await.unwrap()[0].beats, 2);
}

#[tokio::test]
async fn a_suspect_retakes_its_lock_and_a_silenced_node_stays_unknown() {
    let store = MemoryStore::default();
    store.beat(&node()).await.unwrap();
    store.suspect(&node().id);
    assert_eq!(pulse(&store).await, Pulse::Suspect);
    store.beat(&node()).await.unwrap();
    assert_eq!(pulse(&store).await, Pulse::Held);
    store.silence(&node().id);
    store.beat(&node()).await.unwrap();
    assert_eq!(pulse(&store).await, Pulse::Unknown);
}

#[tokio::test]
async fn hints_are_lost_and_truths_stay() {
    let (memory, clock) = MemoryStore::manual();
    let memory = Arc::new(memory);
    let fixture = Fixture::new(memory.clone(), clock);
    fixture.append(Append { tasks: vec![create(advance("r", "own"))], ..append_with_row("r", 0) }).await;
    fixture.submit(task("mine")).await;
    memory.lose_hints();
    assert_eq!(fixture.head("r").await.row, None);
    assert_eq!(fixture.find("own").await, None);
    assert_eq!(fixture.log("r").await.len(), 1);
    memory.lose_task(&task_id("mine"));
    assert_eq!(fixture.find("mine").await, None);
    fixture.append(append_with_row("r", 1)).await;
    memory.lose_row(&run("r"));
    assert_eq!(fixture.head("r").await.row, None);
}

#[tokio::test]
async fn only_existing_events_are_corrupted() {
    let (memory, clock) = MemoryStore::manual();
    let memory = Arc::new(memory);
    let fixture = Fixture::new(memory.clone(), clock);
    fixture.append(append_with_row("r", 0)).await;
    for (name, seq, expected) in [("r", 0, false), ("r", 2, false), ("other", 1, false), ("r", 1, true)] {
        assert_eq!(memory.corrupt(&RunId::new(name).unwrap(), Seq(seq), "x"), expected, "{name} {seq}");
    }
    assert_eq!(fixture.log("r").await[0].body, "x");
}

#[tokio::test]
async fn a_wake_that_changes_nothing_writes_nothing() {
    let fixture = Fixture::memory();
    let own = goldseam_core::task::Task { run_at: goldseam_core::Millis(9), ..advance("r", "own") };
    fixture.append(Append { tasks: vec![create(own)], ..append_with_row("r", 0) }).await;
    let wake = |after, at| {
        let tasks = vec![TaskChange::Wake { at: goldseam_core::Millis(at) }];
        Append { tasks, row: None, ..append_with_row("r", after) }
    };
    let mut versions = vec![];
    for (after, at) in [(1, 9), (2, 10), (3, 8)] {
        fixture.append(wake(after, at)).await;
        let task = fixture.find("own").await.unwrap();
        versions.push((task.version, task.run_at.0));
    }
    assert_eq!(versions, [(1, 9), (1, 9), (2, 8)], "only an earlier time is a change");
}

#[tokio::test]
async fn a_store_without_events_has_no_latest_place() {
    let store = MemoryStore::default();
    let feed = store.feed().unwrap();
    assert_eq!(feed.latest().await.unwrap(), None);
    store.append(append_with_row("r", 0)).await.unwrap();
    assert_eq!(feed.latest().await.unwrap().as_deref(), Some("1"));
}

#[tokio::test]
async fn a_store_returns_its_configured_pace() {
    let pace = StorePace::remote(std::time::Duration::ZERO);
    let store = MemoryStore::default().at_pace(pace);
    assert_eq!((store.pace(), MemoryStore::default().pace()), (pace, StorePace::default()));
    assert_eq!(format!("{store:?}"), "MemoryStore { mark: 1, .. }");
}

#[tokio::test]
async fn only_existing_events_are_lost() {
    let (memory, clock) = MemoryStore::manual();
    let memory = Arc::new(memory);
    let fixture = Fixture::new(memory.clone(), clock);
    fixture.append(append_with_row("r", 0)).await;
    fixture.append(append_with_row("r", 1)).await;
    assert!(!memory.lose_event(&run("r"), Seq(3)) && !memory.lose_event(&run("other"), Seq(1)));
    assert!(memory.lose_event(&run("r"), Seq(1)));
    let left: Vec<_> = fixture.log("r").await.iter().map(|record| record.seq).collect();
    assert_eq!(left, [Seq(2)]);
}
