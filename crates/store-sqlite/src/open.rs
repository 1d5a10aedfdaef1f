//! Before a database is used: is it ours, is it whole, may we write it?
//!
//! Invariant: nothing that exists is ever mistaken for nothing. What is not certainly a Goldseam
//! database or certainly empty is refused, untouched.

use std::ffi::{OsString, c_int};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use goldseam_store::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;
use rusqlite::{Connection, OpenFlags};

use crate::fault::Nature;
use crate::migrate;
use crate::private;
use crate::url::{Durability, Options};

/// Written into the file's header: "Gold".
pub(crate) const APPLICATION_ID: i32 = 0x476F_6C64;
/// How every SQLite file begins.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Statements kept ready on each connection.
const STATEMENTS_MAX: usize = 96;
/// How often the switch to WAL is tried while other processes start too.
const WAL_ATTEMPTS_MAX: u32 = 200;
/// The pause between two tries.
const WAL_PAUSE: Duration = Duration::from_millis(5);
/// Pages in the write-ahead log from which on a commit brings them into the database.
const CHECKPOINT_PAGES: c_int = 1_000;

/// What becomes of a database with an older schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Older {
    /// It is brought up to date.
    Migrate,
    /// It is refused, untouched.
    Refuse,
}

/// Checks the file, sees to its schema and returns the connection for writing.
pub(crate) fn writer(path: &Path, options: &Options, older: Older) -> Result<Connection, StoreError> {
    preflight(path)?;
    private::create(path).map_err(|error| no_access(path, &error))?;
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut conn = Connection::open_with_flags(path, flags).map_err(|error| cannot_open(path, &error))?;
    prepare(&conn, options).map_err(|error| cannot_open(path, &error))?;
    migrate::identify(&conn, path)?;
    if older == Older::Refuse {
        migrate::refuse_older(&conn, path)?;
    }
    switch_to_wal(&conn).map_err(|error| cannot_open(path, &error))?;
    migrate::apply(&mut conn, path, (options.clock)())?;
    tune(&mut conn, options.durability).map_err(|error| cannot_open(path, &error))?;
    Ok(conn)
}

/// A connection that can only read.
pub(crate) fn reader(path: &Path, options: &Options) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || -> rusqlite::Result<Connection> {
        let conn = Connection::open_with_flags(path, flags)?;
        prepare(&conn, options)?;
        conn.pragma_update(None, "query_only", true)?;
        Ok(conn)
    };
    open().map_err(|error| cannot_open(path, &error))
}

fn prepare(conn: &Connection, options: &Options) -> rusqlite::Result<()> {
    conn.busy_timeout(options.busy_timeout)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Plans do not go by bound values: else SQLite would prepare every statement with a bound limit anew, each time.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.pragma_update(None, "temp_store", "memory")
}

fn tune(conn: &mut Connection, durability: Durability) -> rusqlite::Result<()> {
    let synchronous = match durability {
        Durability::Power => "full",
        Durability::Process => "normal",
    };
    // The writer waits by itself.
    conn.busy_timeout(Duration::ZERO)?;
    conn.pragma_update(None, "synchronous", synchronous)?;
    conn.pragma_update(None, "cache_size", -16_384)?;
    conn.pragma_update(None, "journal_size_limit", 64 << 20)?;
    conn.wal_hook(Some(checkpoint))
}

/// SQLite's own checkpoint, but one that meets a failing disk is told: left to itself, SQLite forgets about it, and the
/// log would grow beside a database that cannot be written. The commit that is told is done by then; that its outcome
/// is called unknown is true for whoever cannot read the disk.
fn checkpoint(wal: &mut Wal, pages: c_int) -> rusqlite::Result<()> {
    if pages < CHECKPOINT_PAGES {
        return Ok(());
    }
    match wal.checkpoint() {
        Err(error) if matches!(Nature::of(&error), Nature::Disk | Nature::Corrupt) => Err(error),
        // It is tried again after the next commit.
        _ => Ok(()),
    }
}

/// The switch needs the file for itself, and SQLite does not wait for that by itself.
fn switch_to_wal(conn: &Connection) -> rusqlite::Result<()> {
    for _ in 0..WAL_ATTEMPTS_MAX {
        let mode = conn.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0));
        match mode {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(_) => {}
            Err(error) if Nature::of(&error) == Nature::Busy => {}
            Err(error) => return Err(error),
        }
        std::thread::park_timeout(WAL_PAUSE);
    }
    conn.pragma_update(None, "journal_mode", "wal")
}

/// Looks at the files without SQLite, which would begin afresh where something is missing.
pub(crate) fn preflight(path: &Path) -> Result<(), StoreError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder
        && !folder.is_dir()
    {
        return Err(refused(
            "GS0205",
            format!("cannot open {}: the folder {} does not exist", path.display(), folder.display()),
            "create the folder, or pass another path",
        ));
    }
    // The WAL first: a database that is just being created gets its first page before its WAL.
    let wal_bytes = size(&beside(path, "-wal")).map_err(|error| no_access(path, &error))?;
    let bytes = size(path).map_err(|error| no_access(path, &error))?;
    match (bytes, wal_bytes) {
        (None | Some(0), Some(1..)) => Err(refused(
            "GS0203",
            format!("{} is empty or missing, but its write-ahead log is not", path.display()),
            "restore the database together with its -wal file; to start with an empty store, move both files away",
        )),
        (None | Some(0), _) => Ok(()),
        (Some(_), _) => check_magic(path),
    }
}

/// Refuses a file that SQLite did not make.
pub(crate) fn check_magic(path: &Path) -> Result<(), StoreError> {
    let mut start = [0; MAGIC.len()];
    let mut file = File::open(path).map_err(|error| no_access(path, &error))?;
    match file.read_exact(&mut start) {
        Ok(()) if start == *MAGIC => Ok(()),
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(no_access(path, &error)),
        _ => Err(not_ours(path, "the file is not a SQLite database")),
    }
}

/// The size of a file; none if there is no such file.
pub(crate) fn size(path: &Path) -> io::Result<Option<u64>> {
    match fs::metadata(path) {
        Ok(about) if about.is_file() => Ok(Some(about.len())),
        Ok(_) => Err(io::Error::new(io::ErrorKind::IsADirectory, "not a file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A file that belongs to the database.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// Why a file is not a Goldseam database.
pub(crate) fn not_ours(path: &Path, why: &str) -> StoreError {
    refused(
        "GS0201",
        format!("{} is not a Goldseam database: {why}", path.display()),
        "pass another path; this file was not changed",
    )
}

fn no_access(path: &Path, error: &io::Error) -> StoreError {
    refused(
        "GS0205",
        format!("cannot open {}: {error}", path.display()),
        "check that the path is a file, and that this user may read and write the file and its folder",
    )
}

/// What SQLite's failure to open a file means.
pub(crate) fn cannot_open(path: &Path, error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => not_ours(path, "SQLite cannot read it"),
        Some(rusqlite::ErrorCode::DatabaseCorrupt) => StoreError::Damaged { detail: error.to_string() },
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => {
            StoreError::Busy { doing: "opening the database", source: error.to_string().into() }
        }
        _ => refused(
            "GS0205",
            format!("cannot open {}: {error}", path.display()),
            "check that this user may read and write the file and its folder",
        ),
    }
}

/// A refusal with its code.
pub(crate) fn refused(code: &'static str, what: String, hint: &str) -> StoreError {
    StoreError::Refused { code, what, hint: hint.to_owned() }
}
