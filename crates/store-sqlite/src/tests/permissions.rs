//! Which files other users may read.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use goldseam_core::NodeId;

use crate::files::beside;
use crate::liveness::LivenessLocks;
use crate::permissions::exposed;
use crate::{SqliteOptions, SqliteStore};

/// The mode of a file; none if it does not exist.
fn mode(path: &Path) -> Option<u32> {
    fs::metadata(path).ok().map(|about| about.permissions().mode() & 0o777)
}

#[test]
fn only_the_owner_may_read_the_files_of_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    for suffix in ["", "-wal", "-shm"] {
        assert_eq!(mode(&beside(&path, suffix)), Some(0o600), "{suffix}");
    }
    let liveness = LivenessLocks::beside(&path);
    liveness.hold(&NodeId::new("n-1").unwrap()).unwrap();
    assert_eq!(mode(&beside(&path, "-nodes")), Some(0o700));
    assert_eq!(mode(&beside(&path, "-nodes").join("n-1.lock")), Some(0o600));
    assert_eq!(exposed(&path), Vec::<PathBuf>::new());
    drop(store);
}

#[test]
fn reports_exposed_files_and_keeps_their_modes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    drop(SqliteStore::open(&path, SqliteOptions::default()).unwrap());
    for open in [0o640, 0o604, 0o602, 0o620] {
        fs::set_permissions(&path, Permissions::from_mode(open)).unwrap();
        drop(SqliteStore::open(&path, SqliteOptions::default()).unwrap());
        assert_eq!((mode(&path), exposed(&path).first()), (Some(open), Some(&path)));
    }
}
