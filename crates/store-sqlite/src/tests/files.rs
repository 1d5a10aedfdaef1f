//! Which files a store opens, which it refuses, and that it changes no file of another program.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Barrier};

use goldseam_core::Seq;
use goldseam_store::check::{Fact, Migrated};
use goldseam_store::{Store, StoreError};
use rusqlite::Connection;

use super::{append, code, open, run_id};
use crate::check::{check, migrate};
use crate::{SqliteOptions, SqliteStore, schema_latest};

fn refusal(path: &Path) -> &'static str {
    code(&SqliteStore::open(path, SqliteOptions::default()).unwrap_err())
}

#[test]
fn refuses_a_file_that_is_not_sqlite_and_keeps_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    fs::write(&path, "remember the milk, and much more than sixteen bytes").unwrap();
    assert_eq!(refusal(&path), "GS0201");
    fs::write(&path, "short").unwrap();
    assert_eq!(refusal(&path), "GS0201");
    assert_eq!(fs::read_to_string(&path).unwrap(), "short");
}

#[test]
fn refuses_a_database_of_another_program_and_keeps_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("theirs.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE theirs (a)").unwrap();
    let before = fs::read(&path).unwrap();
    assert_eq!(refusal(&path), "GS0201");
    assert_eq!(fs::read(&path).unwrap(), before);
    let other = folder.path().join("other.db");
    Connection::open(&other).unwrap().execute_batch("PRAGMA application_id = 77; VACUUM").unwrap();
    assert_eq!(refusal(&other), "GS0201");
}

#[test]
fn refuses_a_newer_schema() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    drop(open(&path));
    Connection::open(&path).unwrap().pragma_update(None, "user_version", schema_latest() + 1).unwrap();
    assert_eq!(refusal(&path), "GS0202");
    assert_eq!(code(&SqliteStore::open_current(&path, SqliteOptions::default()).unwrap_err()), "GS0202");
    assert_eq!(code(&check(&path, &SqliteOptions::default()).unwrap_err()), "GS0202");
    assert_eq!(code(&migrate(&path, &SqliteOptions::default()).unwrap_err()), "GS0202");
}

#[test]
fn refuses_a_wal_without_its_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    fs::write(folder.path().join("gold.db-wal"), "the only copy of something").unwrap();
    assert_eq!(refusal(&path), "GS0203");
    fs::write(&path, "").unwrap();
    assert_eq!(refusal(&path), "GS0203");
    assert_eq!(fs::read_to_string(folder.path().join("gold.db-wal")).unwrap(), "the only copy of something");
}

/// SQLite 3.7.0 to 3.51.2: two connections that checkpoint and commit at once could corrupt a database in WAL mode.
#[test]
fn sqlite_version_gate() {
    assert!(rusqlite::version_number() >= 3_051_003, "{}", rusqlite::version());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    drop(open(&path));
    // The linked library is the bundled one, not the machine's.
    let conn = Connection::open(&path).unwrap();
    let used: String = conn.query_row("SELECT sqlite_version()", [], |row| row.get(0)).unwrap();
    assert_eq!(used, rusqlite::version());
}

/// tursodatabase/turso#8103, codebase-memory#897: an empty file beside its log counted as a new database, and the log
/// was lost.
#[tokio::test]
async fn db_file_preflight() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    let wal = folder.path().join("gold.db-wal");
    let copy = folder.path().join("copy.db");
    let store = open(&path);
    store.append(append("a", 0, &["acknowledged"])).await.unwrap();
    // The files of a machine that lost the database but not its log.
    let database = fs::read(&path).unwrap();
    let log = fs::read(&wal).unwrap();
    drop(store);
    assert!(!log.is_empty());
    let copied_log = folder.path().join("copy.db-wal");
    for lost in [None, Some(Vec::new())] {
        fs::write(&copied_log, &log).unwrap();
        if let Some(lost) = lost {
            fs::write(&copy, lost).unwrap();
        }
        assert_eq!(refusal(&copy), "GS0203");
        assert_eq!(fs::read(&copied_log).unwrap(), log, "the log is unchanged");
    }
    // A header that is not SQLite's: both files are unchanged.
    let mut broken = database.clone();
    broken[..4].copy_from_slice(b"XXXX");
    fs::write(&copy, &broken).unwrap();
    assert_eq!(refusal(&copy), "GS0201");
    assert_eq!((fs::read(&copy).unwrap(), fs::read(&copied_log).unwrap()), (broken, log.clone()));
    // Both files together hold the acknowledged event.
    fs::write(&copy, &database).unwrap();
    let records = open(&copy).read(&run_id("a"), Seq(0), 9).await.unwrap();
    assert_eq!(records.len(), 1);
}

#[test]
fn refuses_a_changed_migration() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    drop(open(&path));
    Connection::open(&path).unwrap().execute_batch("UPDATE goldseam_migrations SET hash = 'x'").unwrap();
    assert_eq!(refusal(&path), "GS0204");
}

#[test]
fn refuses_a_missing_folder_and_a_folder_as_file() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(refusal(&folder.path().join("no/gold.db")), "GS0205");
    assert_eq!(refusal(folder.path()), "GS0205");
}

#[test]
fn an_empty_file_becomes_a_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    fs::write(&path, "").unwrap();
    drop(open(&path));
    let report = check(&path, &SqliteOptions::default()).unwrap();
    assert_eq!(report.schema, schema_latest());
    assert_eq!(report.facts[0], ("journal_mode", Fact::Text("wal".to_owned())));
}

#[test]
fn many_processes_may_create_a_database_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    let gate = Arc::new(Barrier::new(8));
    let starters: Vec<_> = (0..8)
        .map(|_| {
            let path = path.clone();
            let gate = Arc::clone(&gate);
            std::thread::Builder::new()
                .spawn(move || {
                    gate.wait();
                    SqliteStore::open(&path, SqliteOptions::default()).map(drop)
                })
                .unwrap()
        })
        .collect();
    for starter in starters {
        starter.join().unwrap().unwrap();
    }
    let applied: i64 = Connection::open(&path)
        .unwrap()
        .query_row("SELECT count(*) FROM goldseam_migrations", [], |row| row.get(0))
        .unwrap();
    assert_eq!(applied, schema_latest());
}

#[test]
fn migrate_reports_both_schemas() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    let to = schema_latest();
    assert_eq!(migrate(&path, &SqliteOptions::default()).unwrap(), Migrated { from: 0, to });
    assert_eq!(migrate(&path, &SqliteOptions::default()).unwrap(), Migrated { from: to, to });
    assert_eq!(code(&check(&folder.path().join("no.db"), &SqliteOptions::default()).unwrap_err()), "GS0205");
}

#[tokio::test]
async fn check_counts_records_and_finds_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    let store = open(&path);
    store.append(append("a", 0, &["1", "2", "3"])).await.unwrap();
    let report = check(&path, &SqliteOptions::default()).unwrap();
    assert_eq!((report.runs, report.events), (1, 3));
    assert!(report.is_sound(), "{report:?}");
    Connection::open(&path).unwrap().execute_batch("DELETE FROM events WHERE seq = 2").unwrap();
    assert!(!check(&path, &SqliteOptions::default()).unwrap().is_sound());
}

#[tokio::test]
async fn the_history_view_shows_events() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    let store = open(&path);
    let body = r#"{"v":1,"at":1700000000123,"branch":1,"write":"w","prev":"p",
        "event":{"type":"step.completed","data":{"path":"a"}}}"#;
    store.append(append("a", 0, &[body, "not json"])).await.unwrap();
    let conn = Connection::open(&path).unwrap();
    let line: (String, i64, String, i64, String, String) = conn
        .query_row("SELECT run, seq, at, branch, type, data FROM history WHERE seq = 1", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
        })
        .unwrap();
    let expected = ("a", 1, "2023-11-14T22:13:20.123Z", 1, "step.completed", r#"{"path":"a"}"#);
    assert_eq!(
        (line.0.as_str(), line.1, line.2.as_str(), line.3, line.4.as_str(), line.5.as_str()),
        expected
    );
    let odd: String = conn.query_row("SELECT data FROM history WHERE seq = 2", [], |row| row.get(0)).unwrap();
    assert_eq!(odd, "not json");
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    open(&path).append(append("a", 0, &["1", "2"])).await.unwrap();
    let records = open(&path).read(&run_id("a"), Seq(1), 10).await.unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!((records[0].seq, records[0].body.as_str()), (Seq(2), "2"));
}

#[cfg(unix)]
#[tokio::test]
async fn refuses_writes_after_the_file_was_removed_or_replaced() {
    for replace in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gold.db");
        let store = open(&path);
        store.append(append("r", 0, &["a"])).await.unwrap();
        if replace {
            fs::copy(&path, folder.path().join("copy.db")).unwrap();
            fs::rename(folder.path().join("copy.db"), &path).unwrap();
        } else {
            fs::remove_file(&path).unwrap();
        }
        let first = store.append(append("r", 1, &["b"])).await.unwrap_err();
        assert!(
            matches!(first, StoreError::Unknown { .. }),
            "the event may be in the write-ahead log: {first:?}"
        );
        assert_eq!(code(&store.append(append("r", 1, &["b"])).await.unwrap_err()), "GS0226");
        assert_eq!(code(&store.head(&run_id("r")).await.unwrap_err()), "GS0226", "reads are refused too");
        drop(store);
        if replace {
            let end = open(&path).head(&run_id("r")).await.unwrap().map(|head| head.end);
            assert!([Some(Seq(1)), Some(Seq(2))].contains(&end), "{end:?}");
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn notices_a_removed_file_without_a_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    let store = open(&path);
    let seen = store.changed(0).await.unwrap();
    fs::remove_file(&path).unwrap();
    let changed = tokio::time::timeout(super::TIMEOUT, store.changed(seen)).await.unwrap();
    assert_eq!(code(&changed.unwrap_err()), "GS0226");
}
