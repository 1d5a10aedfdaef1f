//! Broken connections do not make live nodes look dead, and nodes use few connections.

use std::sync::Arc;

use goldseam_core::{Millis, NodeId};
use goldseam_store::{NodeRecord, NodeState, Pulse, RunFilter, Store};
use goldseam_store_postgres::PostgresStore;
use goldseam_testbed::pgbouncer::Pooler;
use goldseam_testbed::postgres::Shutdown;
use tokio::task::{JoinSet, block_in_place};

use crate::support::{TIMEOUT, Writers, busy, cluster, open};

const COUNT: &str = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'goldseam';";

fn node(id: &str) -> NodeRecord {
    NodeRecord {
        id: NodeId::new(id).unwrap(),
        name: "here".to_owned(),
        started_at: Millis(1),
        workflows: vec!["order@1".to_owned()],
        slots: 4,
        timing: None,
        state: NodeState::Up,
    }
}

/// The pulse of a node as `observer` sees it.
async fn pulse(observer: &PostgresStore, id: &str) -> Option<Pulse> {
    match observer.nodes().await {
        Ok(nodes) => Some(nodes.iter().find(|node| node.record.id.as_str() == id).unwrap().pulse),
        Err(error) => {
            busy(error);
            None
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_restart_of_the_server_makes_no_node_suspect() {
    let cluster = cluster();
    let store = open(&cluster.url()).await;
    let observer = open(&cluster.url()).await;
    store.beat(&node("lives")).await.unwrap();
    observer.beat(&node("looks")).await.unwrap();
    for shutdown in [Shutdown::Fast, Shutdown::Immediate] {
        block_in_place(|| cluster.restart(shutdown)).unwrap();
        // The node does not beat meanwhile: its session takes the lock again automatically.
        let seen_again = async {
            loop {
                match pulse(&observer, "lives").await {
                    Some(Pulse::Held) => return,
                    Some(Pulse::Unknown) | None => {}
                    Some(other) => panic!("{other:?}"),
                }
            }
        };
        tokio::time::timeout(TIMEOUT, seen_again).await.expect("the session takes its lock again");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_liveness_session_bypasses_a_pooler() {
    let cluster = cluster();
    let pooler = Pooler::start(&cluster.url()).unwrap();
    let direct = cluster.url().rsplit(['@', '/']).nth(1).unwrap().to_owned();
    let pooled = format!("{}?pooler=transaction", pooler.url());
    let held = open(&format!("{pooled}&direct={direct}")).await;
    let beats = open(&pooled).await;
    held.beat(&node("held")).await.unwrap();
    beats.beat(&node("beats")).await.unwrap();
    let observer = open(&cluster.url()).await;
    for _ in 0..3 {
        assert_eq!(pulse(&observer, "held").await, Some(Pulse::Held));
        assert_eq!(pulse(&observer, "beats").await, Some(Pulse::Unknown), "it has no liveness session");
        block_in_place(|| pooler.restart()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_node_under_load_has_at_most_six_connections() {
    let cluster = cluster();
    let store = open(&cluster.url()).await;
    store.beat(&node("busy")).await.unwrap();
    let writers = Writers::start(&[Arc::clone(&store)]);
    let mut readers = JoinSet::new();
    for _ in 0..50 {
        let store = Arc::clone(&store);
        readers.spawn(async move { store.runs(RunFilter::default()).await.unwrap() });
    }
    writers.wait_for_more(200).await;
    let count = block_in_place(|| cluster.sql(COUNT)).unwrap();
    assert!((4..=6).contains(&count.parse().unwrap()), "{count}");
    readers.join_all().await;
    writers.check(&store).await;
}
