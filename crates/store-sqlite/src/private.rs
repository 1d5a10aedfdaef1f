//! The files of a store belong to one user: its logs hold payloads, its locks what passes are signed with.
//!
//! Invariant: a file is private from the moment that it exists. SQLite gives `-wal` and `-shm` the mode of the database.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::open::{beside, check_magic};

/// How files of a store are made: only their owner may read and write them.
pub(crate) fn options() -> OpenOptions {
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes the database if it is not there: SQLite alone would let other users read it.
pub(crate) fn create(path: &Path) -> io::Result<()> {
    match options().write(true).create_new(true).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Makes a folder that only its owner may look into, if it is not there.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// The files of a database that users other than their owner may read or write. What is no database has none.
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

/// There are no such modes elsewhere.
#[cfg(not(unix))]
fn is_exposed(_: &Path) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use goldseam_core::NodeId;

    use super::*;
    use crate::nodes::Liveness;
    use crate::{Options, SqliteStore};

    /// The mode of a file; none if there is no such file.
    fn mode(path: &Path) -> Option<u32> {
        fs::metadata(path).ok().map(|about| about.permissions().mode() & 0o777)
    }

    #[test]
    fn only_the_owner_may_read_the_files_of_a_store() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let store = SqliteStore::open(&path, Options::default()).unwrap();
        for suffix in ["", "-wal", "-shm"] {
            assert_eq!(mode(&beside(&path, suffix)), Some(0o600), "{suffix}");
        }
        let liveness = Liveness::beside(&path);
        liveness.hold(&NodeId::new("n-1").unwrap()).unwrap();
        assert_eq!(mode(&beside(&path, "-nodes")), Some(0o700));
        assert_eq!(mode(&beside(&path, "-nodes").join("n-1.lock")), Some(0o600));
        assert_eq!(exposed(&path), Vec::<PathBuf>::new());
        drop(store);
    }

    #[test]
    fn files_that_others_may_read_are_found_and_left_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        drop(SqliteStore::open(&path, Options::default()).unwrap());
        for open in [0o640, 0o604, 0o602, 0o620] {
            fs::set_permissions(&path, Permissions::from_mode(open)).unwrap();
            drop(SqliteStore::open(&path, Options::default()).unwrap());
            assert_eq!((mode(&path), exposed(&path).first()), (Some(open), Some(&path)));
        }
    }
}
