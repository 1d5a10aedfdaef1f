//! Several processes on one file: they see each other, and notice when one dies.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use goldseam_core::{Millis, NodeId, Seq};
use goldseam_store::{NodeRecord, NodeState, Pulse, Store, StoreError};

use super::{TIMEOUT, append, open, run_id};
use crate::check::check;
use crate::{SqliteOptions, SqliteStore};

/// The database of a test binary that plays another process.
const CHILD: &str = "GOLDSEAM_TEST_CHILD_DB";

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

async fn pulse(store: &SqliteStore, id: &str) -> Option<Pulse> {
    let nodes = store.nodes().await.unwrap();
    nodes.into_iter().find(|node| node.record.id.as_str() == id).map(|node| node.pulse)
}

/// The code of the child process; does nothing without [`CHILD`].
#[tokio::test]
async fn play_the_child() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let store = open(Path::new(&path));
    store.beat(&node("child")).await.unwrap();
    println!("\nbeaten");
    let mut end = store.head(&run_id("a")).await.unwrap().map_or(0, |head| head.end.0);
    loop {
        match store.append(append("a", end, &["child", "child"])).await {
            Ok(new) => end = new.0,
            Err(StoreError::Conflict { end: new }) => end = new.0,
            Err(other) => panic!("{other:?}"),
        }
        println!("acknowledged {end}");
    }
}

/// Starts a child that has beaten, and returns its further output.
fn start_child(database: &Path) -> (Child, impl Iterator<Item = String>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::processes::play_the_child", "--nocapture"])
        .env(CHILD, database)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "beaten"), "the child did not beat");
    (child, lines)
}

#[tokio::test]
async fn a_killed_process_drops_its_pulse_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    let store = open(&path);
    store.beat(&node("self")).await.unwrap();
    let (mut child, _lines) = start_child(&path);
    assert_eq!(pulse(&store, "child").await, Some(Pulse::Held));
    assert_eq!(pulse(&store, "self").await, Some(Pulse::Held));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(pulse(&store, "child").await, Some(Pulse::Dropped));
    let gone = NodeId::new("child").unwrap();
    store.forget(&gone).await.unwrap();
    assert_eq!(pulse(&store, "child").await, None);
    assert!(!folder.path().join("gold.db-nodes/child.lock").exists());
}

/// etcd-io/etcd#14370: a single node acknowledged writes that a crash then lost.
#[tokio::test]
async fn ack_after_durable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    let mut acknowledged = 0;
    for _ in 0..3 {
        let (mut child, lines) = start_child(&path);
        let mut ends = lines.filter_map(|line| line.strip_prefix("acknowledged ")?.parse::<u64>().ok());
        acknowledged = ends.nth(40).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged = ends.last().unwrap_or(acknowledged);
    }
    let store = open(&path);
    let records = store.read(&run_id("a"), Seq(0), u32::MAX).await.unwrap();
    assert!(
        records.len() as u64 >= acknowledged && records.len() % 2 == 0,
        "{acknowledged} {}",
        records.len()
    );
    assert!(records.iter().zip(1..).all(|(record, seq)| record.seq == Seq(seq)));
    assert!(check(&path, &SqliteOptions::default()).unwrap().is_sound());
}

#[tokio::test]
async fn two_processes_share_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    let store = open(&path);
    let (mut child, _lines) = start_child(&path);
    let mut end = 0;
    let mut won = 0;
    while won < 40 {
        match store.append(append("a", end, &["parent"])).await {
            Ok(new) => {
                end = new.0;
                won += 1;
            }
            Err(StoreError::Conflict { end: new }) => end = new.0,
            Err(other) => panic!("{other:?}"),
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let records = store.read(&run_id("a"), Seq(0), u32::MAX).await.unwrap();
    assert_eq!(records.iter().filter(|record| record.body == "parent").count(), 40);
    assert!(check(&path, &SqliteOptions::default()).unwrap().is_sound());
}

#[tokio::test]
async fn a_forgotten_node_comes_back_with_its_next_beat() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    let store = open(&path);
    let other = open(&path);
    store.beat(&node("a")).await.unwrap();
    store.beat(&node("a")).await.unwrap();
    assert_eq!(store.nodes().await.unwrap()[0].beats, 2);
    other.forget(&NodeId::new("a").unwrap()).await.unwrap();
    assert_eq!(pulse(&store, "a").await, None);
    store.beat(&node("a")).await.unwrap();
    assert_eq!(pulse(&other, "a").await, Some(Pulse::Held));
    store.forget(&NodeId::new("a").unwrap()).await.unwrap();
    store.beat(&node("a")).await.unwrap();
    assert_eq!(pulse(&other, "a").await, Some(Pulse::Held));
    drop(store);
    assert_eq!(pulse(&other, "a").await, Some(Pulse::Dropped));
}

#[tokio::test]
async fn marking_a_node_gone_does_not_take_its_lock() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    let dead = open(&path);
    let healer = open(&path);
    dead.beat(&node("a")).await.unwrap();
    drop(dead);
    healer.beat(&NodeRecord { state: NodeState::Gone, ..node("a") }).await.unwrap();
    let seen = healer.nodes().await.unwrap();
    assert_eq!((seen[0].record.state, seen[0].pulse), (NodeState::Gone, Pulse::Dropped));
}

#[tokio::test]
async fn of_two_stores_one_wins_each_position() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    let stores = [Arc::new(open(&path)), Arc::new(open(&path))];
    let writers = stores.clone().map(|store| {
        tokio::spawn(async move {
            let mut end = 0;
            let mut won = 0;
            while end < 60 {
                match store.append(append("a", end, &["x"])).await {
                    Ok(new) => {
                        end = new.0;
                        won += 1;
                    }
                    Err(StoreError::Conflict { end: new }) => end = new.0,
                    Err(StoreError::Busy { .. }) => {}
                    Err(other) => panic!("{other:?}"),
                }
            }
            won
        })
    });
    let mut won = 0;
    for writer in writers {
        won += writer.await.unwrap();
    }
    let end = stores[0].head(&run_id("a")).await.unwrap().unwrap().end;
    assert_eq!(Seq(won), end);
    assert_eq!(stores[1].read(&run_id("a"), Seq(0), 1000).await.unwrap().len() as u64, end.0);
}

#[tokio::test]
async fn a_change_wakes_waiters_of_both_processes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    let here = open(&path);
    let there = open(&path);
    let mark_here = here.changed(0).await.unwrap();
    let mark_there = there.changed(0).await.unwrap();
    // A change before the waits begin must not be missed.
    here.append(append("a", 0, &["1"])).await.unwrap();
    let both = async { tokio::join!(here.changed(mark_here), there.changed(mark_there)) };
    let (mark_here, mark_there) = tokio::time::timeout(TIMEOUT, both).await.unwrap();
    let mark_here = mark_here.unwrap();
    let mark_there = mark_there.unwrap();
    // A change while several waiters wait.
    let wait = async {
        tokio::join!(here.changed(mark_here), there.changed(mark_there), there.changed(mark_there), async {
            there.append(append("a", 1, &["2"])).await.unwrap();
        })
    };
    let (one, two, three, ()) = tokio::time::timeout(TIMEOUT, wait).await.unwrap();
    assert!(one.unwrap() > mark_here && two.unwrap() > mark_there && three.unwrap() > mark_there);
}

#[tokio::test]
async fn a_locked_out_writer_is_busy_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    let options =
        SqliteOptions { busy_timeout: std::time::Duration::from_millis(5), ..SqliteOptions::default() };
    let store = SqliteStore::open(&path, options).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let busy = store.append(append("a", 0, &["1"])).await.unwrap_err();
    assert!(busy.is_transient(), "{busy:?}");
    assert!(store.head(&run_id("a")).await.unwrap().is_none());
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(store.append(append("a", 0, &["1"])).await.unwrap(), Seq(1));
}
