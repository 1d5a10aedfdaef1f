//! Opens a database: the connection of the writer, and those of the readers.

use std::ffi::c_int;
use std::path::Path;
use std::time::Duration;

use goldseam_store::{OpenMode, StoreError};
use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;
use rusqlite::{Connection, OpenFlags};

use crate::fault::SqliteErrorKind;
use crate::files::{cannot_open, no_access, preflight};
use crate::migrate;
use crate::permissions;
use crate::url::{Durability, SqliteOptions};

/// Prepared statements that each connection caches.
const STATEMENTS_MAX: usize = 96;
/// Most attempts to switch to WAL while other processes start too.
const WAL_ATTEMPTS_MAX: u32 = 200;
/// The pause between two attempts.
const WAL_PAUSE: Duration = Duration::from_millis(5);
/// Pages of the write-ahead log from which on a commit checkpoints.
const CHECKPOINT_PAGES: c_int = 1_000;

/// Checks the file, migrates its schema, and returns the connection of the writer.
pub(crate) fn writer(path: &Path, options: &SqliteOptions, mode: OpenMode) -> Result<Connection, StoreError> {
    preflight(path)?;
    permissions::create(path).map_err(|error| no_access(path, &error))?;
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut conn = Connection::open_with_flags(path, flags).map_err(|error| cannot_open(path, &error))?;
    prepare(&conn, options).map_err(|error| cannot_open(path, &error))?;
    migrate::identify(&conn, path)?;
    if mode == OpenMode::RequireCurrent {
        migrate::refuse_older(&conn, path)?;
    }
    switch_to_wal(&conn).map_err(|error| cannot_open(path, &error))?;
    migrate::apply(&mut conn, path, (options.clock)())?;
    tune(&mut conn, options.durability).map_err(|error| cannot_open(path, &error))?;
    Ok(conn)
}

/// Returns a connection that can only read.
pub(crate) fn reader(path: &Path, options: &SqliteOptions) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || -> rusqlite::Result<Connection> {
        let conn = Connection::open_with_flags(path, flags)?;
        prepare(&conn, options)?;
        conn.pragma_update(None, "query_only", true)?;
        Ok(conn)
    };
    open().map_err(|error| cannot_open(path, &error))
}

/// Returns a connection to a file that nothing changes: a backup, which may be on a medium that cannot be written.
pub(crate) fn frozen(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || -> rusqlite::Result<Connection> {
        let conn = Connection::open_with_flags(path, flags)?;
        prepare(&conn, &SqliteOptions::default())?;
        Ok(conn)
    };
    open().map_err(|error| cannot_open(path, &error))
}

fn prepare(conn: &Connection, options: &SqliteOptions) -> rusqlite::Result<()> {
    conn.busy_timeout(options.busy_timeout)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Plans ignore bound values: otherwise SQLite prepares a statement with a bound limit again for each value.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.pragma_update(None, "temp_store", "memory")
}

fn tune(conn: &mut Connection, durability: Durability) -> rusqlite::Result<()> {
    let synchronous = match durability {
        Durability::Power => "full",
        Durability::Process => "normal",
    };
    // The writer has its own loop that waits for other processes.
    conn.busy_timeout(Duration::ZERO)?;
    conn.pragma_update(None, "synchronous", synchronous)?;
    conn.pragma_update(None, "cache_size", -16_384)?;
    conn.pragma_update(None, "journal_size_limit", 64 << 20)?;
    conn.wal_hook(Some(checkpoint))
}

/// Checkpoints like SQLite's own hook, but reports a failing disk: SQLite ignores it, and the log would grow beside a
/// database that cannot be written. The commit is done by then; its outcome is still reported as unknown, because a
/// failing disk may not be readable.
fn checkpoint(wal: &mut Wal, pages: c_int) -> rusqlite::Result<()> {
    if pages < CHECKPOINT_PAGES {
        return Ok(());
    }
    match wal.checkpoint() {
        Err(error)
            if matches!(SqliteErrorKind::of(&error), SqliteErrorKind::Disk | SqliteErrorKind::Corrupt) =>
        {
            Err(error)
        }
        // The next commit tries again.
        _ => Ok(()),
    }
}

/// Switches to WAL. The switch needs exclusive access, for which SQLite does not wait.
fn switch_to_wal(conn: &Connection) -> rusqlite::Result<()> {
    for _ in 0..WAL_ATTEMPTS_MAX {
        let mode = conn.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0));
        match mode {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(_) => {}
            Err(error) if SqliteErrorKind::of(&error) == SqliteErrorKind::Busy => {}
            Err(error) => return Err(error),
        }
        std::thread::park_timeout(WAL_PAUSE);
    }
    conn.pragma_update(None, "journal_mode", "wal")
}
