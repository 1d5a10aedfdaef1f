//! Liveness locks: one file per node, with an OS lock that ends with the process or with the node.
//!
//! Invariant: only the holder of a lock removes its file, so a lock on a removed file never counts.

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use goldseam_core::NodeId;
use goldseam_store::{Pulse, StoreError};

use crate::fault::refused;
use crate::files::beside;
use crate::permissions;

/// Most attempts to lock a file that other processes replace or test.
const LOCK_ATTEMPTS_MAX: u32 = 64;

/// The folder of all liveness locks, and the locks of this process.
#[derive(Debug)]
pub(crate) struct LivenessLocks {
    folder: PathBuf,
    held: Mutex<HashMap<NodeId, File>>,
}

impl LivenessLocks {
    /// The liveness locks beside this database.
    pub(crate) fn beside(database: &Path) -> Self {
        Self { folder: beside(database, "-nodes"), held: Mutex::default() }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<NodeId, File>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, node: &NodeId) -> PathBuf {
        self.folder.join(format!("{node}.lock"))
    }

    /// Takes the node's lock, unless this process holds it.
    pub(crate) fn hold(&self, node: &NodeId) -> Result<(), StoreError> {
        let mut held = self.held();
        let path = self.path(node);
        if held.get(node).is_some_and(|file| is_at(file, &path)) {
            return Ok(());
        }
        held.remove(node);
        let file = self.lock(&path).map_err(|error| cannot_lock(&path, &error))?;
        held.insert(node.clone(), file);
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<File> {
        permissions::create_folder(&self.folder)?;
        for _ in 0..LOCK_ATTEMPTS_MAX {
            let file = permissions::options().create(true).truncate(false).write(true).open(path)?;
            match file.try_lock() {
                // Between the two calls, a process that forgets the node may have removed the file.
                Ok(()) if is_at(&file, path) => return Ok(file),
                // An observer tests the lock for a moment.
                Ok(()) | Err(TryLockError::WouldBlock) => std::thread::yield_now(),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::WouldBlock, "another process holds the lock"))
    }

    /// Releases the node's lock, if this process holds it. Keeps the file, so that observers see a free lock.
    pub(crate) fn release(&self, node: &NodeId) {
        drop(self.held().remove(node));
    }

    /// What the system knows about the node's process.
    pub(crate) fn pulse(&self, node: &NodeId) -> Pulse {
        if self.held().contains_key(node) {
            return Pulse::Held;
        }
        match File::open(self.path(node)) {
            Ok(file) => match file.try_lock_shared() {
                Ok(()) => Pulse::Dropped,
                Err(TryLockError::WouldBlock) => Pulse::Held,
                Err(TryLockError::Error(_)) => Pulse::Unknown,
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Pulse::Dropped,
            Err(_) => Pulse::Unknown,
        }
    }

    /// Removes the lock file, unless another process holds the lock.
    pub(crate) fn forget(&self, node: &NodeId) {
        let path = self.path(node);
        match self.held().remove(node) {
            Some(_held_until_removed) => remove(&path),
            None => {
                if let Ok(file) = File::open(&path)
                    && file.try_lock().is_ok()
                {
                    remove(&path);
                }
            }
        }
    }
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        tracing::debug!(%error, path = %path.display(), "failed to remove a liveness lock file");
    }
}

/// Whether the path names this open file.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_at(_file: &File, path: &Path) -> bool {
    path.exists()
}

fn cannot_lock(path: &Path, error: &io::Error) -> StoreError {
    refused(
        "GS0205",
        format!("cannot take the liveness lock {}: {error}", path.display()),
        "check the permissions of this folder, and that no two nodes have the same id",
    )
}
