//! Which commits reach the disk at once: a beat does not wait for the disk, an append does.

use std::path::{Path, PathBuf};
use std::process::Command;

use goldseam_core::{Millis, NodeId};
use goldseam_store::{NodeRecord, NodeState, Store};
use goldseam_testbed::disk::{Disk, DiskJournal, File, FileChange};
use rusqlite::Connection;

use super::{append, open};
use crate::fault::SqliteFault;
use crate::writer::{JobContext, WriteMode};

/// The database of a test binary that writes under a journalling disk.
const CHILD: &str = "GOLDSEAM_TEST_SYNC_DB";

const UNSYNCED: WriteMode = WriteMode { synced: false, ..WriteMode::DEFAULT };

/// SQLite's number of `synchronous=NORMAL`.
const NORMAL: i64 = 1;
/// SQLite's number of `synchronous=FULL`.
const FULL: i64 = 2;

/// The setting of the writer's connection, read inside a transaction.
fn synchronous(work: &mut JobContext<'_>) -> Result<i64, SqliteFault> {
    Ok(work.conn.pragma_query_value(None, "synchronous", |row| row.get(0))?)
}

fn node(id: &str) -> NodeRecord {
    NodeRecord {
        id: NodeId::new(id).unwrap(),
        name: "here".to_owned(),
        started_at: Millis(1),
        workflows: Vec::new(),
        slots: 1,
        timing: None,
        state: NodeState::Up,
    }
}

#[tokio::test]
async fn only_unsynced_writes_run_with_synchronous_normal() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("gold.db"));
    assert_eq!(store.writer().write(WriteMode::DEFAULT, synchronous).await.unwrap(), FULL);
    assert_eq!(store.writer().write(UNSYNCED, synchronous).await.unwrap(), NORMAL);
    store.beat(&node("n")).await.unwrap();
    assert_eq!(store.writer().write(WriteMode::DEFAULT, synchronous).await.unwrap(), FULL);
}

#[tokio::test]
async fn another_connection_sees_an_unsynced_beat_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    let store = open(&path);
    let other = Connection::open(&path).unwrap();
    for beats in 1..=3 {
        store.beat(&node("n")).await.unwrap();
        let seen: i64 = other.query_row("SELECT beats FROM nodes", [], |row| row.get(0)).unwrap();
        assert_eq!(seen, beats);
    }
}

fn journal_of(database: &Path) -> PathBuf {
    database.with_extension("journal")
}

/// The code of the child process; does nothing without [`CHILD`].
#[tokio::test]
async fn play_the_journalled_child() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let database = Path::new(&path);
    let mark = |word| DiskJournal::mark(&journal_of(database), word).unwrap();
    let store = open(database);
    // The first frames of a write-ahead log are synced with its header.
    store.append(append("a", 0, &["1"])).await.unwrap();
    mark("beat");
    store.beat(&node("n")).await.unwrap();
    mark("append");
    store.append(append("a", 1, &["2"])).await.unwrap();
    mark("end");
}

/// Whether the write-ahead log was synced after its last write.
fn is_synced(changes: &[FileChange]) -> bool {
    let written =
        changes.iter().rposition(|change| matches!(change, FileChange::Written { file: File::Wal, .. }));
    let written = written.expect("the write-ahead log was written");
    changes[written..].contains(&FileChange::Synced(File::Wal))
}

#[test]
fn an_append_after_an_unsynced_beat_is_synced() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("gold.db");
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "tests::sync::play_the_journalled_child"]).env(CHILD, &database);
    Disk::under(&database).journalling_to(&journal_of(&database)).put_under(&mut child).unwrap();
    let output = child.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let changes = DiskJournal::read(&journal_of(&database)).unwrap().changes;
    let mark =
        |word: &str| changes.iter().position(|change| *change == FileChange::Mark(word.to_owned())).unwrap();
    let beat = &changes[mark("beat")..mark("append")];
    let append = &changes[mark("append")..mark("end")];
    assert!(!is_synced(beat), "a beat does not wait for the disk");
    assert!(is_synced(append), "an append does, and syncs the beat before it");
}
