//! Permissions of the files of a store: only their owner may read them. Logs hold payloads, locks hold signing keys of
//! passes.
//!
//! Invariant: a file is created private. SQLite gives `-wal` and `-shm` the mode of the database.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::files::{beside, check_magic};

/// Options to create a file that only its owner may read and write.
pub(crate) fn options() -> OpenOptions {
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates the database file if it does not exist: SQLite itself would let other users read it.
pub(crate) fn create(path: &Path) -> io::Result<()> {
    match options().write(true).create_new(true).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Creates a folder that only its owner may read, if it does not exist.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// Returns the files of a database that users other than their owner may read or write. Returns none for a file that is
/// not a database.
pub fn exposed(path: &Path) -> Vec<PathBuf> {
    if check_magic(path).is_err() {
        return Vec::new();
    }
    let files = ["", "-wal", "-shm", "-nodes"].map(|suffix| beside(path, suffix));
    files.into_iter().filter(|file| is_exposed(file)).collect()
}

#[cfg(unix)]
fn is_exposed(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o066 != 0)
}

/// Other systems have no such modes.
#[cfg(not(unix))]
fn is_exposed(_: &Path) -> bool {
    false
}
