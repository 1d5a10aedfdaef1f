//! Backups: a snapshot of a database in use, and the manifest that makes a file a backup.
//!
//! Invariant: the manifest is written last. A file without one is not a backup, whatever else is in it.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use goldseam_store::StoreError;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use crate::fault::{SqliteErrorKind, refused};
use crate::files::{cannot_open, preflight, size};
use crate::url::SqliteOptions;
use crate::{migrate, open, permissions};

/// The table of the manifest. Only backups have it.
const TABLE: &str = "goldseam_backup";
/// Most attempts to leave WAL, and the pause between two.
const ATTEMPTS_MAX: u32 = 1_000;
const PAUSE: Duration = Duration::from_millis(5);

/// Copies the database at `path` to the new file `to`, as of one moment. Writers are not blocked: the copy reads in one
/// transaction, during which the write-ahead log grows.
///
/// `VACUUM INTO` and not the backup interface of SQLite: that one starts again whenever another process commits between
/// two steps, so a busy store would never be finished, and in one step it differs only in that it also copies unused
/// pages, which may hold removed data.
pub fn snapshot(path: &Path, options: &SqliteOptions, to: &Path) -> Result<(), StoreError> {
    if !matches!(size(path), Ok(Some(1..))) {
        return Err(refused(
            "GS0205",
            format!("database {} does not exist", path.display()),
            "pass the path of the database that your engine uses",
        ));
    }
    preflight(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(|error| cannot_open(path, &error))?;
    conn.busy_timeout(options.busy_timeout).map_err(|error| cannot_open(path, &error))?;
    migrate::identify(&conn, path)?;
    // SQLite itself would let other users read the file. It may be empty.
    permissions::create(to).map_err(|error| cannot_write(to, &error.to_string()))?;
    let target = to.to_str().ok_or_else(|| cannot_write(to, "its path is not UTF-8"))?;
    conn.execute("VACUUM INTO ?1", [target]).map(drop).map_err(|error| match SqliteErrorKind::of(&error) {
        SqliteErrorKind::Busy => StoreError::Busy { doing: "reading the database", source: Box::new(error) },
        SqliteErrorKind::Corrupt => StoreError::Damaged { detail: error.to_string() },
        _ => cannot_write(to, &error.to_string()),
    })
}

/// Makes a database that no process uses a backup: writes the manifest, turns it into a single file, and syncs it.
pub fn seal(path: &Path, manifest: &str) -> Result<(), StoreError> {
    let write = || -> rusqlite::Result<()> {
        let conn = Connection::open(path)?;
        conn.execute_batch("DELETE FROM nodes")?;
        conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        leave_wal(&conn)?;
        conn.execute_batch(
            "PRAGMA synchronous = full; BEGIN; DROP TABLE IF EXISTS goldseam_backup; \
             CREATE TABLE goldseam_backup (manifest TEXT NOT NULL)",
        )?;
        conn.execute("INSERT INTO goldseam_backup (manifest) VALUES (?1)", [manifest])?;
        conn.execute_batch("COMMIT")
    };
    write().map_err(|error| cannot_write(path, &error.to_string()))?;
    let synced = File::open(path).and_then(|file| file.sync_all());
    synced.map_err(|error| cannot_write(path, &error.to_string()))
}

/// Leaves WAL: then the database is one file. Waits until the last connection of the store is closed.
fn leave_wal(conn: &Connection) -> rusqlite::Result<()> {
    for _ in 0..ATTEMPTS_MAX {
        let mode =
            conn.pragma_update_and_check(None, "journal_mode", "delete", |row| row.get::<_, String>(0));
        match mode {
            Ok(mode) if mode == "delete" => return Ok(()),
            Ok(_) => {}
            Err(error) if SqliteErrorKind::of(&error) == SqliteErrorKind::Busy => {}
            Err(error) => return Err(error),
        }
        std::thread::park_timeout(PAUSE);
    }
    conn.pragma_update(None, "journal_mode", "delete")
}

/// Returns the manifest of a file; none if it is not a backup. Changes nothing.
pub fn manifest(path: &Path) -> Result<Option<String>, StoreError> {
    if !matches!(size(path), Ok(Some(_))) {
        return Err(refused(
            "GS0232",
            format!("{} does not exist", path.display()),
            "pass the file that a backup wrote",
        ));
    }
    preflight(path)?;
    let conn = open::frozen(path)?;
    migrate::identify(&conn, path)?;
    let read = || -> rusqlite::Result<Option<String>> {
        let named = conn.query_row("SELECT count(*) FROM sqlite_schema WHERE name = ?1", [TABLE], |row| {
            row.get::<_, i64>(0)
        })?;
        match named {
            0 => Ok(None),
            _ => conn.query_row("SELECT manifest FROM goldseam_backup", [], |row| row.get(0)).optional(),
        }
    };
    read().map_err(|error| cannot_open(path, &error))
}

/// Checks the pages and indexes of a file. Returns complaints.
pub fn integrity(path: &Path) -> Result<Vec<String>, StoreError> {
    let conn = open::frozen(path)?;
    let check = || -> rusqlite::Result<Vec<String>> {
        let mut check = conn.prepare("PRAGMA integrity_check(100)")?;
        let lines = check.query_map([], |row| row.get::<_, String>(0))?;
        let lines: Vec<String> = lines.collect::<rusqlite::Result<_>>()?;
        Ok(lines.into_iter().filter(|line| line != "ok").collect())
    };
    match check() {
        Ok(complaints) => Ok(complaints),
        Err(error) if SqliteErrorKind::of(&error) == SqliteErrorKind::Corrupt => Ok(vec![error.to_string()]),
        Err(error) => Err(cannot_open(path, &error)),
    }
}

/// The refusal of a backup that cannot be written.
pub fn cannot_write(path: &Path, why: &str) -> StoreError {
    refused(
        "GS0231",
        format!("cannot write the backup {}: {why}", path.display()),
        "check the free space and the permissions of the folder; the incomplete file was removed",
    )
}
