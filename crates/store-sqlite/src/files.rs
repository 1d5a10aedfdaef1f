//! The files of a database: where they are, and whether they are ours. Looks at them without SQLite, which would create
//! an empty database where one is missing.
//!
//! Invariant: an existing file never counts as missing. A file that is neither certainly a Goldseam database nor
//! certainly empty is refused, and is not changed.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use goldseam_store::StoreError;

use crate::fault::refused;

/// How every SQLite file begins.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Refuses a missing folder, a write-ahead log without its database, and a file that is not a SQLite database.
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

/// Refuses a file that is not a SQLite database.
pub(crate) fn check_magic(path: &Path) -> Result<(), StoreError> {
    let mut start = [0; MAGIC.len()];
    let mut file = File::open(path).map_err(|error| no_access(path, &error))?;
    match file.read_exact(&mut start) {
        Ok(()) if start == *MAGIC => Ok(()),
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(no_access(path, &error)),
        _ => Err(not_ours(path, "the file is not a SQLite database")),
    }
}

/// The size of a file; none if it does not exist.
pub(crate) fn size(path: &Path) -> io::Result<Option<u64>> {
    match fs::metadata(path) {
        Ok(about) if about.is_file() => Ok(Some(about.len())),
        Ok(_) => Err(io::Error::new(io::ErrorKind::IsADirectory, "not a file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The path of a file that belongs to the database.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// The refusal of a file that is not a Goldseam database.
pub(crate) fn not_ours(path: &Path, why: &str) -> StoreError {
    refused(
        "GS0201",
        format!("{} is not a Goldseam database: {why}", path.display()),
        "pass another path; this file was not changed",
    )
}

/// The refusal of a file that this user cannot use.
pub(crate) fn no_access(path: &Path, error: &io::Error) -> StoreError {
    refused(
        "GS0205",
        format!("cannot open {}: {error}", path.display()),
        "check that the path is a file, and that this user may read and write the file and its folder",
    )
}

/// The error of a file that SQLite cannot open.
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
